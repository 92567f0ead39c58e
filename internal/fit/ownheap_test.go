package fit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
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

// scripted is an application that a script starts: its own trials alone tell of its heap.
type scripted struct {
	Trier
	options []string
}

func (x scripted) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := x.Trier.Try(ctx, a)
	if o.Result != nil {
		o.Result.Program = &runner.Program{Options: x.options}
	}
	return o, err
}

// Where a script has sized a heap that baselines have no room for, they get it: the one that told of
// it is made anew where it failed.
func TestBaselinesHaveRoomForTheHeapOfAScript(t *testing.T) {
	const own = 2500
	for seed := range uint64(40) {
		for _, c := range []struct{ touched, most, ample int64 }{{300, 8192, own + 1024}, {own, 8192, own + 1024}, {300, 2400, 2400}, {300, 0, 2048}} {
			m := newModel(rand.New(rand.NewPCG(seed, 29)))
			m.squeezes, m.heap = true, c.touched*mib
			options := []string{fmt.Sprintf("-Xmx%dm", own)}
			m.given, _ = jvmopts.Read(jvmopts.Input{Args: append(options, "Main")})
			room := c.ample == own+1024
			tr := Trier(m)
			if room {
				tr = filling{m}
			}
			s := &Search{Trier: scripted{tr, options}, Levers: Levers, AmpleBytes: 2048 * mib, MostAmpleBytes: c.most * mib, Baselines: DefaultBaselines, Confirmations: DefaultConfirmations,
				Margin: MarginByBound, Stress: true, FullHeap: true, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15"), ByVariable: true}}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d, %+v: %v", seed, c, err)
			}
			if s.AmpleBytes != c.ample*mib || f.Trials[1].LimitBytes != c.ample*mib || f.Trials[0].Passed != (c.touched < own) {
				t.Errorf("seed %d, %+v: ample is %d MiB, baselines had %d and %d", seed, c, s.AmpleBytes/mib, f.Trials[0].LimitBytes/mib, f.Trials[1].LimitBytes/mib)
			}
			if room != (f.LimitBytes > own*mib) || room == strings.Contains(f.OwnHeap, "more than --ample leaves room for") || room && f.RaisedFrom != 0 {
				t.Errorf("seed %d, %+v: %d MiB, raised from %d: %q", seed, c, f.LimitBytes/mib, f.RaisedFrom/mib, f.OwnHeap)
			}
		}
	}
}

// Beside a heap of the user's own, a collector that the JVM has as given changes nothing, and what
// leaves less in the heap saves no memory: the limit has room for all of it. A lever of which the
// user has decided a part is named by what is left.
func TestLeversBesideOwnHeap(t *testing.T) {
	collector := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "collector" })]
	const serial, heap, buffers, direct, exit = "-XX:+UseSerialGC", "-Xmx{heap}m", "-XX:TLABWasteTargetPercent=10", "-XX:MaxDirectMemorySize={direct}m", "-XX:+ExitOnOutOfMemoryError"
	for _, c := range []struct {
		args         []string
		has          string
		options      []string
		name, reason string
	}{
		{[]string{"-Xmx64m", "Main"}, "Serial", nil, "serial collector, heap by live set", "yours: -Xmx64m (command line)"},
		{[]string{"-Xmx64m", "Main"}, "G1", []string{serial}, "serial collector", "yours: -Xmx64m (command line)"},
		{[]string{"-Xmx64m", "Main"}, "", []string{serial}, "serial collector", "yours: -Xmx64m (command line)"},
		{[]string{"Main"}, "Serial", []string{serial, heap, buffers, direct, exit}, "serial collector, heap by live set", ""},
		{[]string{"-XX:+UseZGC", "Main"}, "Z", []string{heap, buffers, direct, exit}, "heap by live set", "yours: -XX:+UseZGC (command line)"},
		{[]string{"-XX:TLABSize=32k", "Main"}, "G1", []string{serial, heap, direct, exit}, "serial collector, heap by live set", "yours: -XX:TLABSize=32k (command line)"},
		{[]string{"-XX:+UseZGC", "-Xmx64m", "Main"}, "Z", nil, "serial collector, heap by live set", "yours: -XX:+UseZGC (command line), -Xmx64m (command line)"},
	} {
		given, err := jvmopts.Read(jvmopts.Input{Args: c.args})
		if err != nil {
			t.Fatal(err)
		}
		left, open, reason := collector.open(Facts{Release: feature(25), Given: given, Collector: c.has})
		if open != (c.options != nil) || open && !slices.Equal(left.Options, c.options) || left.Name != c.name || reason != c.reason {
			t.Errorf("%q with %q: open %v, %q, %q, %q", c.args, c.has, open, left.Options, left.Name, reason)
		}
		if pauses := strings.Contains(left.Cost, "pauses"); pauses != strings.Contains(c.name, "serial") || c.options != nil && strings.Contains(left.Cost, "buffers") != slices.Contains(c.options, buffers) {
			t.Errorf("%q: %q costs %q", c.args, left.Name, left.Cost)
		}
	}
	l := Ledger{LiveBytes: 10 * mib, Footprint: &footprint.Footprint{Collector: "G1", Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: 100 * mib}}}}
	for _, bound := range []func(Ledger) int64{boundHeaders, boundRatios, boundPeriodic, boundDedup, boundCollector} {
		if l.FullHeap = false; bound(l) <= mib {
			t.Errorf("of a heap that is as full as it was at most %d bytes are saved", bound(l))
		}
		if l.FullHeap = true; bound(l) != 0 {
			t.Errorf("of a heap that counts as full %d bytes are saved", bound(l))
		}
	}
}

// A user who wants G1, or a goal for pauses, has G1 size the young generation: what a fixed size
// costs is that goal.
func TestTighterHeapLeavesYoungSizeToG1(t *testing.T) {
	heap := Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "heap" })]
	for _, c := range []struct {
		args    []string
		options []string
		reason  string
	}{
		{[]string{"Main"}, []string{"-Xmx{heap}m", "-Xmn{young}m"}, ""},
		{[]string{"-XX:+UseParallelGC", "Main"}, []string{"-Xmx{heap}m", "-Xmn{young}m"}, ""},
		{[]string{"-XX:-UseG1GC", "Main"}, []string{"-Xmx{heap}m", "-Xmn{young}m"}, ""},
		{[]string{"-XX:+UseG1GC", "Main"}, []string{"-Xmx{heap}m"}, "yours: -XX:+UseG1GC (command line)"},
		{[]string{"-XX:MaxGCPauseMillis=20", "Main"}, []string{"-Xmx{heap}m"}, "yours: -XX:MaxGCPauseMillis=20 (command line)"},
	} {
		given, err := jvmopts.Read(jvmopts.Input{Args: c.args})
		if err != nil {
			t.Fatal(err)
		}
		if left, open, reason := heap.open(Facts{Release: feature(25), Given: given}); !open || !slices.Equal(left.Options, c.options) || reason != c.reason {
			t.Errorf("%q: open %v, %q, %q", c.args, open, left.Options, reason)
		}
	}
}

// full is what is needed with a full heap.
func (f filling) full(s Setup, limit int64) (need, files, working int64) {
	m := *f.model
	m.heap = m.heapMax(s, limit)
	return m.need(s, limit)
}
