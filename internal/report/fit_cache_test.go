package report

import (
	"strings"
	"testing"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// An application that waits for memory a little more with each bit of page cache that it
// lacks is told of; one that does from a certain limit on is not.
func TestNoKnee(t *testing.T) {
	squeeze := func(waited ...float64) *fit.Result {
		r := &trial.Result{}
		for i, w := range waited {
			r.Squeezed = append(r.Squeezed, trial.SqueezeStep{LimitBytes: int64(200-8*i) * MiB, CacheBytes: int64(100-8*i) * MiB, Waited: w})
		}
		return &fit.Result{Found: fit.Found{Trials: []fit.Trial{{Outcome: fit.Outcome{Result: r}}}}}
	}
	for _, c := range []struct {
		name  string
		r     *fit.Result
		holds string
	}{
		{"from one limit on", squeeze(0, 0, 0, 0.001, 0.08), ""},
		{"steep", squeeze(0, 0, 0.01, 0.07), ""},
		{"as steep as the demo service", squeeze(0.002, 0.006, 0.01, 0.02, 0.03, 0.06), ""},
		{"ever more", squeeze(0.002, 0.006, 0.008, 0.01, 0.012, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05), "0.6 % at 192 MiB and 5.0 % at 120 MiB"},
		{"nothing was taken", squeeze(0), ""},
	} {
		text := noKnee(c.r)
		if c.holds == "" && text != "" || !strings.Contains(text, c.holds) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	if got := fitCache(squeeze(0, 0.1)); len(got) != 2 {
		t.Errorf("%d blocks of two steps", len(got))
	}
}

// Of several squeezes the last one of the recommended options counts.
func TestSqueezedOf(t *testing.T) {
	of := func(option string, limit int64) fit.Trial {
		steps := []trial.SqueezeStep{{LimitBytes: limit}}
		return fit.Trial{Attempt: fit.Attempt{Setup: fit.Setup{Options: []string{option}}}, Outcome: fit.Outcome{Result: &trial.Result{Squeezed: steps}}}
	}
	r := &fit.Result{Found: fit.Found{Setup: fit.Setup{Options: []string{"-a"}}, Trials: []fit.Trial{of("-b", 3), of("-a", 1), of("-a", 2), of("-b", 4)}}}
	if got := squeezed(r); len(got) != 1 || got[0].LimitBytes != 2 {
		t.Errorf("%v", got)
	}
}
