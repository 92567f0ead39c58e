package fit

import (
	"context"
	"strings"
	"testing"
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
