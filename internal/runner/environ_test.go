package runner_test

import (
	"slices"
	"testing"

	"tare.dev/tare/internal/runner"
)

func TestEnviron(t *testing.T) {
	base := []string{"A=1", "AB=2", "A=3", "C="}
	for _, c := range []struct{ more, want []string }{
		{nil, base},
		{[]string{"A=4"}, []string{"AB=2", "C=", "A=4"}},
		{[]string{"C=5=6", "D=7", "C=8"}, []string{"A=1", "AB=2", "A=3", "D=7", "C=8"}},
		{[]string{"B="}, []string{"A=1", "AB=2", "A=3", "C=", "B="}},
	} {
		before := slices.Clone(base)
		if got := runner.Environ(base, c.more); !slices.Equal(got, c.want) {
			t.Errorf("with %q: %q, want %q", c.more, got, c.want)
		}
		if !slices.Equal(base, before) {
			t.Fatalf("with %q: the environment itself is %q now", c.more, base)
		}
	}
}
