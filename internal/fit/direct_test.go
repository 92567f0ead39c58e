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

// fuseki is a trial of options that bound the heap and direct buffers, in MiB: what it needed, and
// what malloc and direct buffers had near the worst moment and at the end.
func fuseki(needed, peakMalloc, peak, endMalloc, end int64) Trial {
	look := func(malloc, direct int64) *footprint.Footprint {
		return &footprint.Footprint{Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: 53 * mib}, {Owner: footprint.Malloc, ResidentBytes: malloc * mib,
			Children: []footprint.Child{{ID: footprint.PartDirectBuffers, ResidentBytes: direct * mib}}}}}
	}
	setup := Setup{Options: []string{"-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m", "-Xmx60m", "-Xmn20m"}}
	return Trial{Attempt{Phase: PhaseLever, Setup: setup, LimitBytes: 2048 * mib}, Outcome{Passed: true, Verdict: trial.Passed, NeededBytes: needed * mib,
		Result: &trial.Result{Peak: look(peakMalloc, peak), End: look(endMalloc, end)}}}
}

// Direct buffers that wait for collections take up to their bound in some run, whatever they took
// in one (a Fuseki server with TDB2 on JDK 25: killed with 505 of 512 MiB at a limit of 624).
func TestDirectIsCountedFull(t *testing.T) {
	s := &Search{found: Found{Trials: []Trial{fuseki(540, 419, 245, 369, 140), fuseki(570, 464, 320, 384, 235), fuseki(546, 434, 265, 379, 200), fuseki(621, 515, 505, 359, 165)}}}
	setup := s.found.Trials[0].Setup
	n, known := s.needOf(setup)
	if mean := n.MeanBytes / mib; !known || mean < 621 || mean > 660 {
		t.Errorf("%d MiB are needed, %v", mean, known)
	}
}

// Those that are held take what they take.
func TestHeldDirectIsNotCountedFull(t *testing.T) {
	s := &Search{found: Found{Trials: []Trial{fuseki(240, 119, 90, 119, 90), fuseki(244, 121, 92, 120, 91)}}}
	if s.leavesDirect() {
		t.Error("nothing is left to collections")
	}
	if n, _ := s.needOf(s.found.Trials[0].Setup); n.MeanBytes > 255*mib {
		t.Errorf("%d MiB are needed", n.MeanBytes/mib)
	}
}

// As given their bound follows the heap, and that the limit: with less than they take between two
// collections of the young generation, the whole heap is collected each time.
func TestLimitAsGivenLeavesDirectItsBound(t *testing.T) {
	given, err := jvmopts.Read(jvmopts.Input{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		end   int64
		flags map[string]string
		least int64
	}{{40, nil, 4 * 385}, {385, nil, 0}, {40, map[string]string{"MaxDirectMemorySize": "536870912"}, 0}} {
		b := withDirect(PhaseBaseline, 385, 512, c.flags)
		b.NeededBytes = 900 * mib
		b.Result.End = withDirect(PhaseBaseline, c.end, 512, c.flags).Result.Peak
		s := &Search{AmpleBytes: 2048 * mib, Facts: Facts{Given: given}, found: Found{Baseline: b, Trials: []Trial{b}}}
		got := s.foreseeAsGiven(s.found.Baseline) / mib
		if c.least > 0 && (got < c.least || got > c.least+8) || c.least == 0 && got > 1000 {
			t.Errorf("%+v: %d MiB", c, got)
		}
	}
}

// The bound of direct buffers goes by the curve of collections, and the young generation by the
// room that it leaves: its collections free the buffers before the whole heap must be collected.
func TestNextDirect(t *testing.T) {
	given, err := jvmopts.Read(jvmopts.Input{})
	if err != nil {
		t.Fatal(err)
	}
	at := fuseki(540, 419, 245, 369, 140)
	at.LiveBytes = 31 * mib
	gc := 0.0137
	at.Result.GCShare = &gc
	s := &Search{MaxTrials: 12, Facts: Facts{Given: given}, found: Found{Trials: []Trial{at}}, best: point{setup: at.Setup, at: at}}
	next, reason := s.nextDirect(0)
	if reason != "" || next.direct < 200*mib || next.direct > 280*mib {
		t.Fatalf("%d MiB, %q", next.direct/mib, reason)
	}
	// 140 MiB are held at most: of the room of 372 MiB about a third is left, and of 20 MiB.
	if next.young < 3*mib || next.young > 7*mib || next.heap < 44*mib || next.heap > 60*mib-(20*mib-next.young) {
		t.Errorf("a heap of %d MiB, %d of them young", next.heap/mib, next.young/mib)
	}
	if larger, _ := s.nextDirect(next.direct); larger.direct != (next.direct+512*mib)/2/mib*mib {
		t.Errorf("after one of %d MiB that was too small %d MiB", next.direct/mib, larger.direct/mib)
	}
	gc = 0.6
	if _, reason := s.nextDirect(0); !strings.Contains(reason, "are right") {
		t.Errorf("with most of the time in collections: %q", reason)
	}
}
