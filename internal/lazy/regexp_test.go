package lazy

import "testing"

func TestRegexp(t *testing.T) {
	bad := Regexp(`(`) // not compiled, and so no panic yet
	digits := Regexp(`^\d+$`)
	first := digits()
	if !first.MatchString("42") || first.MatchString("4x") || digits() != first {
		t.Error("the expression is not the one that was given, compiled once")
	}
	defer func() {
		if recover() == nil {
			t.Error("an expression that cannot be parsed was compiled")
		}
	}()
	bad()
}
