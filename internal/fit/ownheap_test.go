package fit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
)

// filling is an application the heap of which is full after ten times the load.
type filling struct{ *model }

func (f filling) Try(ctx context.Context, a Attempt) (Outcome, error) {
	m := *f.model
	if a.Phase == PhaseLong {
		m.heap = m.heapMax(a.Setup, a.LimitBytes)
	}
	o, err := m.Try(ctx, a)
	f.now, f.trials = m.now, m.trials
	return o, err
}

// A heap that the user has sized counts as full, as given too: the limit holds for a long load,
// and what runs did not touch of it is told. Where it is larger than trials have memory, that is
// told instead.
func TestOwnHeapIsFull(t *testing.T) {
	for seed := range uint64(60) {
		for _, own := range []int64{0, 4096 * mib} {
			m := newModel(rand.New(rand.NewPCG(seed, 11)))
			m.squeezes = true
			if own == 0 {
				own = m.heap + 300*mib
			}
			given, err := jvmopts.Read(jvmopts.Input{Args: []string{fmt.Sprintf("-Xmx%dm", own/mib), "Main"}})
			if err != nil {
				t.Fatal(err)
			}
			m.given = given
			tr := Trier(m)
			if own < 4096*mib {
				tr = filling{m}
			}
			s := &Search{Trier: tr, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: DefaultConfirmations, Margin: MarginByBound, ShowFailure: true,
				Stress: true, FullHeap: true, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15"), Given: given}}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d, -Xmx%dm: %v", seed, own/mib, err)
			}
			if f.LimitBytes > f.AsGiven.LimitBytes {
				t.Errorf("seed %d, -Xmx%dm: %d MiB, as given %d", seed, own/mib, f.LimitBytes/mib, f.AsGiven.LimitBytes/mib)
			}
			if own == 4096*mib {
				if !strings.Contains(f.OwnHeap, "the heap may become 4096 MiB by -Xmx4096m") || f.LimitBytes > 2048*mib {
					t.Errorf("seed %d: %d MiB: %q", seed, f.LimitBytes/mib, f.OwnHeap)
				}
				continue
			}
			if full, _, _ := (filling{m}).full(f.Setup, f.LimitBytes); f.RaisedFrom != 0 || f.LimitBytes < full {
				t.Errorf("seed %d, -Xmx%dm: raised from %d MiB to %d, and with a full heap it needs %d", seed, own/mib, f.RaisedFrom/mib, f.LimitBytes/mib, full/mib)
			}
			if !strings.Contains(f.OwnHeap, "heap that runs did not touch: -Xmx") {
				t.Errorf("seed %d: %q", seed, f.OwnHeap)
			}
			if n := f.Need; n == nil || n.UntouchedBytes <= 299*mib || n.UntouchedBytes > 300*mib || n.BoundBytes > f.LimitBytes && f.LimitBytes < f.AsGiven.LimitBytes-mib {
				t.Errorf("seed %d, -Xmx%dm: %+v, for %d MiB", seed, own/mib, n, f.LimitBytes/mib)
			}
			if f.FailBelow == nil {
				t.Errorf("seed %d: no run failed below %d MiB", seed, f.LimitBytes/mib)
			}
		}
	}
}

// full is what is needed with a full heap.
func (f filling) full(s Setup, limit int64) (need, files, working int64) {
	m := *f.model
	m.heap = m.heapMax(s, limit)
	return m.need(s, limit)
}
