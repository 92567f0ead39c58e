package fit

import (
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/trial"
)

// withDirect is a trial whose direct buffers and largest heap take so many MiB.
func withDirect(phase Phase, direct, heap int64, flags map[string]string) Trial {
	return Trial{Attempt{Phase: phase}, Outcome{Passed: true, Verdict: trial.Passed, LiveBytes: 38 * mib, Result: &trial.Result{Peak: &footprint.Footprint{
		Heap: &footprint.Heap{MaxBytes: heap * mib}, Flags: flags,
		Rows: []footprint.Row{{Owner: footprint.Malloc, ResidentBytes: 808 * mib, Children: []footprint.Child{{ID: footprint.PartDirectBuffers, ResidentBytes: direct * mib}}}}}}}}
}

// A smaller heap takes nothing from direct buffers, whose bound it would be.
func TestDirectKept(t *testing.T) {
	collector := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "collector" })]
	none := withDirect(PhaseBaseline, 0, 512, nil)
	none.Result.Peak = nil
	full := withDirect(PhaseBaseline, 490, 512, nil)
	for _, c := range []struct {
		name   string
		trials []Trial
		given  []string
		want   string
	}{
		{"at their bound", []Trial{full}, nil, "-XX:MaxDirectMemorySize=512m"},
		{"more than heap that lives", []Trial{withDirect(PhaseBaseline, 20, 512, nil), withDirect(PhaseAsGiven, 30, 80, nil)}, nil, "-XX:MaxDirectMemorySize=60m"},
		{"as much as they could at the smallest limit", []Trial{full, withDirect(PhaseAsGiven, 90, 113, nil)}, nil, "-XX:MaxDirectMemorySize=113m"},
		{"less than any heap", []Trial{withDirect(PhaseBaseline, 20, 512, nil)}, nil, ""},
		{"the bound is the user's", []Trial{full}, []string{"-XX:MaxDirectMemorySize=600m"}, ""},
		{"the heap is the user's", []Trial{full}, []string{"-Xmx600m"}, ""},
		{"no footprint", []Trial{none}, nil, ""},
	} {
		given, err := jvmopts.Read(jvmopts.Input{Args: c.given})
		if err != nil {
			t.Fatal(err)
		}
		s := &Search{Facts: Facts{Release: jvmopts.ParseRelease("25"), Given: given}, given: point{at: c.trials[len(c.trials)-1]}, found: Found{Baseline: c.trials[0], Trials: c.trials}}
		lever, _, _ := collector.open(s.Facts)
		setup := lever.setup(s.sizes(ledgerOf(c.trials[0], 1), firstHeap))
		got := slices.DeleteFunc(setup.Options, func(o string) bool { return !strings.HasPrefix(o, directOption) })
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
