package fit

import (
	"context"
	"testing"

	"tare.dev/tare/internal/trial"
)

// cliff is an application whose speed falls off below a heap.
type cliff struct {
	*simulated
	at int64
}

func (a cliff) Try(ctx context.Context, at Attempt) (Outcome, error) {
	o, err := a.simulated.Try(ctx, at)
	if h := at.Setup.heapBytes(); h > 0 && h < a.at {
		share := float64(h-a.live) / float64(a.at-a.live)
		o.Throughput *= share * share
		if share < 0.5 {
			o.Passed, o.Verdict = false, trial.Thrashing
		}
	}
	return o, err
}

func TestHeapSweepFindsTheCliff(t *testing.T) {
	app := application()
	app.minHeap = 0
	s := app.search()
	s.Trier, s.HeapCurve = cliff{app, 18 * mib}, true
	f, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, s, f)
	swept := 0
	for i, tr := range f.Trials {
		if tr.Phase != PhaseHeap {
			continue
		}
		swept++
		if tr.LimitBytes < f.LimitBytes || i < len(f.Trials)-swept && f.Trials[i+1].Setup.heapBytes() >= tr.Setup.heapBytes() {
			t.Errorf("trial %d: %v", i, tr.Attempt)
		}
	}
	c := NewHeapCurve(f.Trials, nil)
	if swept < 4 || swept > len(sweepFactors)+1 || c == nil || len(c.Points) != swept {
		t.Fatalf("%d trials, %+v", swept, c)
	}
	if knee := c.KneeBytes / mib; knee < 16 || knee > 20 {
		t.Errorf("knee at %d MiB", knee)
	}
}
