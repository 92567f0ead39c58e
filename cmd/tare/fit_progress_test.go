package main

import (
	"bytes"
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// The line of a trial says what its result means, and of one that waited for memory never that
// it was not for want of it.
func TestProgressOfATrial(t *testing.T) {
	for _, c := range []struct {
		outcome fit.Outcome
		want    string
	}{
		{fit.Outcome{Passed: true, Verdict: trial.Passed}, "  7     64 MiB  refine: passed, ready in 2.00 s\n"},
		{fit.Outcome{Passed: true, Verdict: trial.Passed, Judged: fit.Judged{Pressed: true}}, "  7     64 MiB  refine: passed, ready in 2.00 s (waits for memory)\n"},
		{fit.Outcome{Verdict: trial.TooSlow, Judged: fit.Judged{SlowElsewhere: true}}, "  7     64 MiB  refine: too-slow, ready in 2.00 s (not for want of memory)\n"},
		{fit.Outcome{Verdict: trial.TooSlow, Judged: fit.Judged{SlowElsewhere: true, Pressed: true}}, "  7     64 MiB  refine: too-slow, ready in 2.00 s (waits for memory)\n"},
		{fit.Outcome{Verdict: trial.TooSlow, Narrow: true}, "  7     64 MiB  refine: too-slow, ready in 2.00 s (narrowly)\n"},
		{fit.Outcome{Verdict: trial.Stalled, Judged: fit.Judged{Pressed: true}}, "  7     64 MiB  refine: stalled, ready in 2.00 s\n"},
	} {
		var out bytes.Buffer
		c.outcome.Measured.Start = 2 * time.Second
		newProgress(&out).event(fit.Event{Attempt: fit.Attempt{Number: 7, Phase: fit.PhaseRefine, LimitBytes: 64 << 20}, Outcome: &c.outcome})
		if got := out.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.outcome.Judged, got, c.want)
		}
	}
}
