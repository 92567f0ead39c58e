package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
)

// costly is an application of which C1 costs speed.
type costly struct {
	*simulated
	cost float64
}

func (a costly) Try(ctx context.Context, at Attempt) (Outcome, error) {
	o, err := a.simulated.Try(ctx, at)
	if strings.Contains(strings.Join(at.Setup.Options, " "), "TieredStopAtLevel") {
		o.Throughput *= 1 - a.cost
	}
	return o, err
}

func TestPrefer(t *testing.T) {
	tests := map[Prefer]map[float64]bool{ // by what C1 costs, where it saves 40 of about 240 MiB
		"":               {0.3: true},
		PreferMemory:     {0.3: true},
		PreferBalanced:   {0.02: true, 0.08: true, 0.3: false},
		PreferThroughput: {0.02: true, 0.08: false, 0.3: false},
	}
	for prefer, costs := range tests {
		for cost, kept := range costs {
			s := application().search()
			s.Trier, s.Prefer = costly{application(), cost}, prefer
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkFound(t, s, f)
			for _, l := range f.Levers {
				if l.Lever.Name == "C1 alone" && (l.Kept != kept || !kept && !strings.Contains(l.Reason, "of the speed to save")) {
					t.Errorf("prefer %q, cost %g: kept %v, %q", prefer, cost, l.Kept, l.Reason)
				}
			}
			if uses := strings.Contains(strings.Join(f.Setup.Options, " "), "TieredStopAtLevel"); uses != kept {
				t.Errorf("prefer %q, cost %g: recommends %q", prefer, cost, f.Setup.Options)
			}
		}
	}
}

// Whatever the application, what is preferred is got: less memory at a higher cost or the
// other way round, in as many trials.
func TestPreferencesOnModels(t *testing.T) {
	const runs = 150
	limit, cost := map[Prefer]float64{}, map[Prefer]float64{}
	for _, prefer := range Preferences {
		var limits, costs []float64
		for seed := range uint64(runs) {
			m := newModel(rand.New(rand.NewPCG(seed, 9)))
			m.counts, m.jitter, m.noise = true, 0.03, 0.01
			m.c1 = 0.92 + 0.3*m.rng.Float64() // the objective leaves a tenth
			s := &Search{Trier: m, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: 2, Confirmations: 3, Prefer: prefer, Facts: Facts{Release: jvmopts.ParseRelease("25.0.3")}}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			before := slices.IndexFunc(f.Trials, func(tr Trial) bool { return tr.Phase == PhaseConfirm || tr.Phase == PhaseLong })
			if before > DefaultTrials {
				t.Errorf("seed %d: %d trials before the proof", seed, before)
			}
			if f.LimitBytes > f.AsGiven.LimitBytes {
				t.Errorf("seed %d: %s: %d MiB, and as given %d", seed, prefer, f.LimitBytes/mib, f.AsGiven.LimitBytes/mib)
			}
			speed := func(s Setup, limit int64) float64 {
				return m.quickness(s) * (1 - gcCost{m.gcCost, float64(m.live)}.share(m.heapMax(s, limit)))
			}
			costs = append(costs, speed(Setup{}, 2048*mib)/speed(f.Setup, f.LimitBytes))
			limits = append(limits, math.Log(float64(f.LimitBytes)/float64(m.grid(t, Setup{}, 2048*mib))))
		}
		limit[prefer], cost[prefer] = math.Exp(mean(limits)), mean(costs)
		slices.Sort(costs)
		t.Logf("%s: %.2f of the limit as given, cost %.3f (median %.3f, 95 %% %.3f)", prefer, limit[prefer], cost[prefer], costs[runs/2], costs[runs*95/100])
	}
	if limit[PreferMemory] > limit[PreferBalanced] || limit[PreferBalanced] > limit[PreferThroughput] || limit[PreferThroughput] > 0.8 {
		t.Errorf("limits over those as given: %v", limit)
	}
	if cost[PreferThroughput] > cost[PreferBalanced] || cost[PreferBalanced] > cost[PreferMemory] || cost[PreferThroughput] > 1+noSpeed {
		t.Errorf("costs over those as given: %v", cost)
	}
}
