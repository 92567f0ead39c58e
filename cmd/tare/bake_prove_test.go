package main

import (
	"errors"
	"strings"
	"testing"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// Fewer than half of the fresh runs may be slower than a share of the image as given, where
// memory is not the reason; nothing else is borne.
func TestSlowRunsThatAreBorne(t *testing.T) {
	slow := fit.Outcome{Verdict: trial.TooSlow, AskedShare: 0.9, Result: &trial.Result{}}
	waits, killed, absolute := slow, slow, slow
	waits.Result = &trial.Result{ReclaimShare: 0.06}
	killed.Verdict = trial.OOMKilled
	absolute.AskedShare = 0
	for name, c := range map[string]struct {
		outcome    fit.Outcome
		slow, runs int
		why        string
		want       bool
	}{
		"few":                  {slow, 9, 20, "", true},
		"half":                 {slow, 10, 20, "", false},
		"the only one":         {slow, 1, 1, "", false},
		"one of three":         {slow, 1, 3, "", true},
		"waits for memory":     {waits, 1, 20, "", false},
		"killed":               {killed, 1, 20, "", false},
		"missed milliseconds":  {absolute, 1, 20, "", false},
		"without its archive":  {slow, 1, 20, "its JVM does not use /tare/app.jsa", false},
		"with one of two slow": {slow, 1, 2, "", false},
	} {
		e := &UnprovenError{Run: c.slow, Runs: c.runs, Slow: c.slow, Trial: fit.Trial{Outcome: c.outcome}, Why: c.why}
		if got := e.bears(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// What fails after the fit tells how to go on from it; a proof that failed says to fit anew.
func TestBakeKeepsFit(t *testing.T) {
	full := &exitError{exitTarget, errors.New("no space left on device")}
	for name, c := range map[string]struct {
		err  error
		made int64
		want bool
	}{
		"after a fit":   {full, 12, true},
		"before it":     {full, 0, false},
		"no fresh runs": {proofError(&UnprovenError{Run: 1, Runs: 2}), 12, false},
	} {
		got := (&bakeOptions{made: c.made}).keepsFit(c.err)
		if strings.HasSuffix(got.Error(), "go on with --from-fit 12") != c.want || exitCode(t.Context(), got) != exitCode(t.Context(), c.err) {
			t.Errorf("%s: %v, exit code %d", name, got, exitCode(t.Context(), got))
		}
	}
	if err := (&bakeOptions{made: 12}).keepsFit(nil); err != nil {
		t.Error(err)
	}
}
