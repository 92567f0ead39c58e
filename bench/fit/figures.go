package main

type figures struct{ cell cell }

func figuresOf(r *replayed, n int) (figures, error) { return figures{}, nil }
func pageOf(all []figures) string                   { return "" }
