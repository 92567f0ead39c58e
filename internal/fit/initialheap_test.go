package fit

import (
	"slices"
	"testing"
)

// The heap that a JVM begins with does not go by the limit where a class archive has
// objects of it, and is no larger than the heap may be.
func TestInitialHeap(t *testing.T) {
	archive := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.Name == "AOT cache" })]
	for _, c := range []struct {
		heap string // of the setup before
		live int64
		want string
	}{
		{"-Xmx62m", 44, "-XX:InitialHeapSize=44m"},
		{"-Xmx62m", 3, "-XX:InitialHeapSize=8m"},
		{"-Xmx6m", 3, "-XX:InitialHeapSize=6m"},
		{"-Xss512k", 44, "-XX:InitialHeapSize=44m"},
	} {
		s := &Search{best: point{setup: Setup{Options: []string{c.heap}}}}
		s.best.at.LiveBytes = c.live * mib
		got := s.best.setup.plus(archive.setup(s.sizes(Ledger{}, firstHeap)))
		if !slices.Contains(got.Options, c.want) {
			t.Errorf("%+v: %q", c, got.Options)
		}
	}
	tight := Setup{Options: []string{"-Xmx62m", "-XX:InitialHeapSize=44m"}}.plus(Setup{Options: []string{"-Xmx40m"}})
	if want := []string{"-Xmx40m", "-XX:InitialHeapSize=40m"}; !slices.Equal(tight.Options, want) {
		t.Errorf("%q, want %q", tight.Options, want)
	}
}
