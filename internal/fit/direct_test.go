package fit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// withDirect is a trial whose direct buffers and largest heap take so many MiB.
func withDirect(phase Phase, direct, heap int64, flags map[string]string) Trial {
	return Trial{Attempt{Phase: phase}, Outcome{Passed: true, Verdict: trial.Passed, LiveBytes: 38 * mib, Result: &trial.Result{Peak: &footprint.Footprint{
		Heap: &footprint.Heap{MaxBytes: heap * mib}, Flags: flags,
		Rows: []footprint.Row{{Owner: footprint.Malloc, ResidentBytes: 808 * mib, Children: []footprint.Child{{ID: footprint.PartDirectBuffers, ResidentBytes: direct * mib}}}}}}}}
}

// A smaller heap takes nothing from direct buffers, whose bound it would be.
func TestDirectBound(t *testing.T) {
	collector := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "collector" })]
	headers := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "headers" })]
	none := withDirect(PhaseBaseline, 0, 512, nil)
	none.Result.Peak = nil
	for _, c := range []struct {
		name   string
		lever  Lever
		trials []Trial
		given  []string
		want   string
	}{
		{"at their bound", collector, []Trial{withDirect(PhaseBaseline, 490, 512, nil)}, nil, "-XX:MaxDirectMemorySize=512m"},
		{"more than as much heap as lives", collector, []Trial{withDirect(PhaseBaseline, 20, 512, nil), withDirect(PhaseAsGiven, 30, 80, nil)}, nil, "-XX:MaxDirectMemorySize=60m"},
		{"less than any heap", collector, []Trial{withDirect(PhaseBaseline, 20, 512, nil)}, nil, ""},
		{"the bound is the user's", collector, []Trial{withDirect(PhaseBaseline, 490, 512, nil)}, []string{"-XX:MaxDirectMemorySize=600m"}, ""},
		{"the heap is not sized", headers, []Trial{withDirect(PhaseBaseline, 490, 512, nil)}, nil, ""},
		{"no footprint", collector, []Trial{none}, nil, ""},
	} {
		given, err := jvmopts.Read(jvmopts.Input{Args: c.given})
		if err != nil {
			t.Fatal(err)
		}
		s := &Search{Facts: Facts{Given: given}, found: Found{Baseline: c.trials[0], Trials: c.trials}}
		got := slices.DeleteFunc(s.setupOf(c.lever, sizes{heap: 60 * mib}).Options, func(o string) bool { return !strings.HasPrefix(o, directOption) })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDirectWarning(t *testing.T) {
	for _, c := range []struct {
		run  Trial
		want string
	}{
		{withDirect(PhaseConfirm, 490, 512, nil), "took 490.0 MiB of the 512.0 MiB"},
		{withDirect(PhaseConfirm, 490, 60, map[string]string{"MaxDirectMemorySize": "536870912"}), "took 490.0 MiB of the 512.0 MiB"},
		{withDirect(PhaseConfirm, 300, 512, map[string]string{"MaxDirectMemorySize": "0"}), ""},
	} {
		f := &Found{Confirmations: []Trial{{}, c.run}}
		if got := f.directWarning(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Direct buffers are bounded by what speed is left: collections by them come as often as they
// are full.
func TestFewerDirect(t *testing.T) {
	given, c1 := Setup{}, Setup{Options: []string{"-XX:TieredStopAtLevel=1"}}
	at := func(setup Setup, phase Phase, seconds, collecting float64, direct int64) Trial {
		tr := costing(setup, phase, seconds)
		tr.Result.Peak = withDirect(phase, direct, 512, nil).Result.Peak
		tr.Result.Times = &runner.Times{Group: time.Duration(seconds * 1e9), Collector: time.Duration(seconds * collecting * 1e9)}
		return tr
	}
	for _, c := range []struct {
		name string
		best Trial
		want int64
	}{
		// 10 s may become 0.93 x 1.1 x 10 s = 10.23 s, with 3 s beside collections: so 3 s of them become 7.23 s
		{"twice as fast", at(c1, PhaseLever, 6, 0.5, 490), 213},
		{"as fast as given", at(c1, PhaseLever, 10, 0.5, 490), 0},
		{"far faster", at(c1, PhaseLever, 1, 0.5, 490), 103},
		{"slower than it may be without any collection", at(c1, PhaseLever, 30, 0.5, 490), 0},
		{"not at their bound", at(c1, PhaseLever, 6, 0.5, 300), 0},
	} {
		base := at(given, PhaseBaseline, 10, 0.3, 490)
		s := &Search{Spare: 1 - 1/1.1, best: point{setup: c1, at: c.best}, found: Found{Baseline: base, Trials: []Trial{base, c.best}}}
		if got := s.fewerDirect(); got != c.want*mib {
			t.Errorf("%s: %d MiB, want %d", c.name, got/mib, c.want)
		}
	}
}
