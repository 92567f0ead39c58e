package main

import (
	"context"
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/testkit/results"
)

// Two nodes take two thirds to three quarters of the time of one, with answers that are near; the bounds
// are a little wider than what the search does. The loud bank has no long run, which is what
// most is made beside.
func TestSearchOnTwoNodes(t *testing.T) {
	for _, c := range []struct {
		bank        string
		share, near float64
	}{{briefBank, 0.68, 0.92}, {loudBank, 0.8, 0.8}} {
		const searches = 200
		r := openBankOf(t, c.bank)
		f, err := figuresOf(r, searches)
		if err == nil {
			err = f.replayOnNodes(r, searches, 2)
		}
		if err != nil {
			t.Fatal(err)
		}
		two := f.onNodes[1]
		share, near := results.Median(f.shares(two)), f.near(two)
		t.Logf("%s: %.3f of the time, %.3f of the answers near", c.bank, share, near)
		if !(share > 0.5 && share <= c.share) || near < c.near || above(two) > 0 || len(two) < searches*8/10 {
			t.Errorf("%s: %d answers, %d above as given, in %.3f of the time, %.3f of them near", c.bank, len(two), above(two), share, near)
		}
		again, err := openBankOf(t, c.bank).runOn(2, two[0].seed, nil, nil)
		if err != nil || again.wall != two[0].wall || again.LimitBytes != two[0].LimitBytes {
			t.Errorf("the same seed gives %s and %d MiB, and %s and %d MiB: %v", two[0].wall, two[0].LimitBytes/mib, again.wall, again.LimitBytes/mib, err)
		}
	}
}

// The clock goes on with the trial that ends first; one that was dropped takes no time.
func TestWall(t *testing.T) {
	ctx, drop := context.WithCancel(t.Context())
	took := func(ctx context.Context, ends time.Duration) underWay {
		return underWay{ctx, ends, fit.Outcome{PeakBytes: int64(ends)}}
	}
	w := &wall{at: []underWay{took(t.Context(), 30), took(ctx, 10), took(t.Context(), 20)}}
	drop()
	for _, want := range []struct {
		place int
		now   time.Duration
	}{{1, 0}, {2, 20}, {0, 30}} {
		if e := w.End(); e.Place != want.place || w.now != want.now || (e.Err == nil) != (e.Outcome.PeakBytes == int64(w.now) && w.now > 0) {
			t.Errorf("%+v at %d, want place %d at %d", e, w.now, want.place, want.now)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{{[]float64{1, 2}, []float64{1, 2}, 0}, {[]float64{1, 2}, []float64{3}, 1}, {[]float64{1, 2, 3, 4}, []float64{1, 2, 2, 2}, 0.5}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}
