package fit

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// tried is a trial of a setup with room that did 4000 requests in so many seconds of
// processor time, and needed so many MiB without page cache.
func tried(setup Setup, phase Phase, needed, seconds float64) Trial {
	t := costing(setup, phase, seconds)
	t.LimitBytes, t.NeededBytes = 400*mib, int64(needed*mib)
	t.PeakBytes = t.NeededBytes
	return t
}

// carrying is a search after a baseline of 100 seconds and as given at 200 MiB, that carries
// a point for each trial on top of that.
func carrying(prefer Prefer, trials ...Trial) *Search {
	given := tried(Setup{}, PhaseAsGiven, 200, 100)
	given.LimitBytes = 200 * mib
	s := &Search{Prefer: prefer, AmpleBytes: 2048 * mib}
	s.found.Trials = []Trial{tried(Setup{}, PhaseBaseline, 200, 100), tried(Setup{}, PhaseBaseline, 200, 100), given}
	s.found.Baseline = s.found.Trials[0]
	s.given = point{at: given}
	s.best, s.carried = s.given, []point{s.given}
	for _, t := range trials {
		t.Number = len(s.found.Trials) + 1
		s.found.Trials = append(s.found.Trials, t)
		s.carry(s.on(s.best, []LeverResult{{Lever: Lever{ID: fmt.Sprint(t.Number), Name: t.Setup.Options[0], bound: boundHeap}, Setup: t.Setup}}, t))
	}
	return s
}

func options(points []point) []string {
	var out []string
	for _, p := range points {
		out = append(out, strings.Join(p.setup.Options, " "))
	}
	return out
}

// A point is dropped where another one is sure to need less and to cost less, and only there:
// with one trial each the same work must differ by a seventh, and what is needed by a twentieth.
func TestDominated(t *testing.T) {
	a, b := adds("-a"), adds("-b")
	for _, c := range []struct {
		name    string
		trials  []Trial
		carried []string
	}{
		{"both surely better", []Trial{tried(a, PhaseLever, 100, 60)}, []string{"-a"}},
		{"less memory, no cheaper for sure", []Trial{tried(a, PhaseLever, 100, 95)}, []string{"", "-a"}},
		{"cheaper, no less memory for sure", []Trial{tried(a, PhaseLever, 196, 60)}, []string{"", "-a"}},
		{"cheaper for more memory", []Trial{tried(a, PhaseLever, 250, 60)}, []string{"", "-a"}},
		{"less memory for more cost", []Trial{tried(a, PhaseLever, 100, 140)}, []string{"", "-a"}},
		{"worse in both", []Trial{tried(a, PhaseLever, 250, 160)}, []string{""}},
		{"worse in both, not for sure", []Trial{tried(a, PhaseLever, 203, 104)}, []string{"", "-a"}},
		{"the second one beats the first and as given", []Trial{tried(a, PhaseLever, 150, 95), tried(b, PhaseLever, 100, 60)}, []string{"-b"}},
		{"one each way", []Trial{tried(a, PhaseLever, 150, 50), tried(b, PhaseLever, 100, 70)}, []string{"-a", "-b"}},
		{"alike", []Trial{tried(a, PhaseLever, 100, 60), tried(b, PhaseLever, 100, 60)}, []string{"-a", "-b"}},
	} {
		s := carrying(PreferMemory, c.trials...)
		if got := options(s.carried); !slices.Equal(got, c.carried) {
			t.Errorf("%s: carries %q, want %q", c.name, got, c.carried)
		}
		if !slices.ContainsFunc(s.carried, func(p point) bool { return p.setup.Same(s.best.setup) }) {
			t.Errorf("%s: the best point is not carried", c.name)
		}
	}
}

// Two sizes of one heap differ in what they need by that, however few trials tell.
func TestHeapSizesDominate(t *testing.T) {
	big, small := adds("-a", "-Xmx14m"), adds("-a", "-Xmx13m")
	if s := carrying(PreferMemory, tried(big, PhaseLever, 100, 60), tried(small, PhaseLever, 101, 40)); !slices.Equal(options(s.carried), []string{"-a -Xmx13m"}) {
		t.Errorf("carries %q", options(s.carried))
	}
	if s := carrying(PreferMemory, tried(big, PhaseLever, 100, 40), tried(small, PhaseLever, 101, 60)); len(s.carried) != 2 || !s.best.setup.Same(small) {
		t.Errorf("carries %q, best %q", options(s.carried), s.best.setup.Options)
	}
}

// More trials of the same make sure what one left open.
func TestMoreTrialsDominate(t *testing.T) {
	a := adds("-a")
	trials := []Trial{tried(a, PhaseLever, 100, 90)}
	if s := carrying(PreferMemory, trials...); len(s.carried) != 2 {
		t.Errorf("one trial: %q", options(s.carried))
	}
	for range 4 {
		trials = append(trials, tried(a, PhaseLever, 100, 90))
	}
	if s := carrying(PreferMemory, trials...); len(s.carried) != 1 {
		t.Errorf("five trials: %q", options(s.carried))
	}
}

// Where the application burns processors when it has nothing to do, or did other work, cost is
// not known: nothing is dropped, and speed decides.
func TestCarriedBySpeed(t *testing.T) {
	a, b := adds("-a"), adds("-b")
	fast, slow := tried(a, PhaseLever, 150, 60), tried(b, PhaseLever, 100, 60)
	fast.Throughput, slow.Throughput = 110, 90
	for prefer, want := range map[Prefer]string{PreferMemory: "-b", PreferBalanced: "-b", PreferThroughput: "-a"} {
		s := carrying(prefer)
		burnt := 0.5
		s.found.Baseline.Result.IdleCPUs = &burnt
		s.given.at.Throughput, s.found.Trials[2].Throughput = 100, 100
		for _, t := range []Trial{fast, slow} {
			s.found.Trials = append(s.found.Trials, t)
			s.carry(s.on(s.best, []LeverResult{{Lever: Lever{ID: t.Setup.Options[0], bound: boundHeap}}}, t))
		}
		if got := strings.Join(s.best.setup.Options, " "); got != want || len(s.carried) != 3 {
			t.Errorf("%s picks %q of %q, want %q", prefer, got, options(s.carried), want)
		}
		if f := s.frontier(); f[0].CostRatio != 0 || f[2].SpeedRatio != 0.9 {
			t.Errorf("%+v", f)
		}
	}
}

func TestPicks(t *testing.T) {
	a, b, c := adds("-a"), adds("-b"), adds("-c")
	for _, test := range []struct {
		name                         string
		trials                       []Trial
		memory, balanced, throughput string
	}{
		{"each its own", []Trial{tried(a, PhaseLever, 180, 80), tried(b, PhaseLever, 120, 88), tried(c, PhaseLever, 110, 108)}, "-c", "-b", "-a"},
		{"a lever that wins both", []Trial{tried(a, PhaseLever, 120, 60)}, "-a", "-a", "-a"},
		{"one that wins speed alone, for sure", []Trial{tried(a, PhaseLever, 201, 60)}, "-a", "-a", "-a"},
		{"one that wins speed for memory", []Trial{tried(a, PhaseLever, 230, 60)}, "", "-a", "-a"},
		{"one that wins speed by chance", []Trial{tried(a, PhaseLever, 200, 96)}, "", "", ""},
		{"one that saves memory, and speed as little as counts as none", []Trial{tried(a, PhaseLever, 150, 102)}, "-a", "-a", "-a"},
		{"a share of the memory larger than that of the speed", []Trial{tried(a, PhaseLever, 150, 108)}, "-a", "-a", ""},
		{"a smaller one", []Trial{tried(a, PhaseLever, 192, 108)}, "-a", "", ""},
		{"little losses do not add up", []Trial{tried(a, PhaseLever, 180, 102.5), tried(b, PhaseLever, 160, 105), tried(c, PhaseLever, 140, 107.5)}, "-c", "-c", "-a"},
		{"ties: the first", []Trial{tried(a, PhaseLever, 120, 80), tried(b, PhaseLever, 120, 80)}, "-a", "-a", "-a"},
		{"less than counts", []Trial{tried(a, PhaseLever, 120, 80), tried(b, PhaseLever, 119.5, 80)}, "-a", "-a", "-a"},
	} {
		for prefer, want := range map[Prefer]string{PreferMemory: test.memory, PreferBalanced: test.balanced, PreferThroughput: test.throughput} {
			s := carrying(prefer, test.trials...)
			if err := s.choose(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.best.setup.Options, " "); got != want {
				t.Errorf("%s: %s picks %q of %q, want %q", test.name, prefer, got, options(s.carried), want)
			}
			for _, f := range s.found.Frontier {
				if slices.Contains(f.PickedBy, prefer) != f.Setup.Same(s.best.setup) {
					t.Errorf("%s: %s: %+v", test.name, prefer, f)
				}
			}
			for _, l := range s.found.Levers {
				if l.Kept != (l.Setup.Options != nil && l.Reason == "") || l.Kept != l.Lever.same(Lever{ID: fmt.Sprint(s.best.at.Number)}) && len(s.best.levers) < 2 {
					t.Errorf("%s: %s: %+v", test.name, prefer, l)
				}
			}
		}
	}
}

// A search goes back to what it carried when later trials tell that it was the better.
func TestGoesBack(t *testing.T) {
	a, b := adds("-a"), adds("-b")
	s := carrying(PreferThroughput, tried(a, PhaseLever, 150, 80), tried(b, PhaseLever, 120, 78))
	if !s.best.setup.Same(b) {
		t.Fatalf("best %q", s.best.setup.Options)
	}
	s.found.Trials = append(s.found.Trials, tried(b, PhaseLever, 120, 100), tried(a, PhaseLever, 150, 80))
	var said string
	s.Observe = func(e Event) { said = e.Note }
	if err := s.choose(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.best.setup.Same(a) || len(s.found.Levers) != 2 || !s.found.Levers[0].Kept || s.found.Levers[0].Lever.Name != "-a" {
		t.Errorf("best %q, %+v", s.best.setup.Options, s.found.Levers)
	}
	if l := s.found.Levers[1]; l.Kept || l.Reason != "options without it are preferred by all trials (throughput)" {
		t.Errorf("%+v", l)
	}
	if said != "by all trials the options of trial 4 are preferred to those of trial 5" {
		t.Errorf("%q", said)
	}
}

// Options that save no memory may need more than as given only where they were picked for
// their speed.
func TestMostLimit(t *testing.T) {
	fast := tried(adds("-a"), PhaseLever, 230, 60)
	if s := carrying(PreferThroughput, fast); s.mostLimit() != s.AmpleBytes+1 {
		t.Errorf("%d MiB", s.mostLimit()/mib)
	}
	if s := carrying(PreferMemory, fast); s.mostLimit() != 200*mib {
		t.Errorf("%d MiB", s.mostLimit()/mib)
	}
}

// Whatever trials say, the carried points are some, each preference picks one of them, and none
// of those that are carried is sure to be better in both than the one that is picked.
func FuzzPick(f *testing.F) {
	f.Add([]byte{100, 0, 60, 0, 1, 80, 0, 70, 0, 2, 80, 0, 90, 0, 1})
	f.Add([]byte{200, 0, 100, 0, 1, 200, 0, 100, 0, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		const each = 5
		setups := []Setup{adds("-a"), adds("-b"), adds("-a", "-b"), adds("-a", "-Xmx9m"), adds("-a", "-Xmx12m"), adds("-a", "-Xmx9m", "-Xmn2m")}
		var trials []Trial
		for ; len(data) >= each && len(trials) < 12; data = data[each:] {
			needed, seconds := binary.LittleEndian.Uint16(data), binary.LittleEndian.Uint16(data[2:])
			tr := tried(setups[int(data[4])%len(setups)], PhaseLever, float64(needed%1000)/4+1, float64(seconds)/16+1)
			tr.HeapBytes = int64(data[4]) * mib
			if data[4]&0x80 != 0 { // it did other work
				tr.Result = &trial.Result{Load: &load.Result{Sent: 10, OK: 10, Elapsed: time.Second}}
			}
			trials = append(trials, tr)
		}
		for _, prefer := range Preferences {
			s := carrying(prefer, trials...)
			if err := s.choose(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.carried) == 0 || len(s.found.Frontier) != len(s.carried) {
				t.Fatalf("%d carried, %d shown", len(s.carried), len(s.found.Frontier))
			}
			for _, other := range Preferences {
				p := s.pick(s.carried, other)
				carried := false
				for _, o := range s.carried {
					carried = carried || o.setup.Same(p.setup)
					if s.dominates(o, p) {
						t.Errorf("%s picks %q, which %q is sure to beat", other, p.setup.Options, o.setup.Options)
					}
				}
				if !carried {
					t.Errorf("%s picks %q, which is not carried", other, p.setup.Options)
				}
			}
			for _, p := range s.found.Frontier {
				if p.BoundBytes < p.NeededBytes || p.CostRatio < 0 || math.IsNaN(p.CostRatio) || p.CostLow > p.CostRatio || p.CostRatio > p.CostHigh {
					t.Errorf("%+v", p)
				}
			}
			seen := map[string]bool{}
			for _, l := range s.found.Levers {
				if seen[l.Lever.ID] || l.Kept == (l.Reason != "") {
					t.Errorf("%+v", l)
				}
				seen[l.Lever.ID] = true
			}
		}
	})
}

// The options that were picked are the recommendation, also with a larger heap that the proof gave them.
func TestRecommends(t *testing.T) {
	setup := func(options ...string) Setup { return Setup{Options: options} }
	picked := FrontierPoint{Setup: setup("-Xmx7m", "-XX:+UseSerialGC"), PickedBy: []Prefer{PreferMemory}}
	for _, c := range []struct {
		name                string
		limit               int64
		setup               Setup
		prefer              Prefer
		recommended, raised bool
	}{
		{"as picked", 100 * mib, picked.Setup, "", true, false},
		{"its heap raised", 100 * mib, setup("-XX:+UseSerialGC", "-Xmx11m"), PreferMemory, true, true},
		{"a larger heap of what another preference picks", 100 * mib, setup("-XX:+UseSerialGC", "-Xmx11m"), PreferBalanced, false, false},
		{"a smaller heap", 100 * mib, setup("-XX:+UseSerialGC", "-Xmx6m"), "", false, false},
		{"other options", 100 * mib, setup("-Xmx11m"), "", false, false},
		{"no answer", 0, picked.Setup, "", false, false},
	} {
		r := &Result{Found: Found{LimitBytes: c.limit, Setup: c.setup}, Config: Record{Terms: Terms{Prefer: c.prefer}}}
		if recommended, raised := r.Recommends(picked); recommended != c.recommended || raised != c.raised {
			t.Errorf("%s: %v, raised %v", c.name, recommended, raised)
		}
	}
}
