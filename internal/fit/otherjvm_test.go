package fit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

// A JVM that the command starts has its own options and release. Options go to both by
// JAVA_TOOL_OPTIONS; an archive is of one of them.
func TestLeversOfAnotherJVM(t *testing.T) {
	heap := Lever{ID: "heap", Options: []string{"-Xmx64m"}}
	archive := Lever{ID: "cds", Options: []string{"-XX:SharedArchiveFile={archive}"}, TrainOption: "-XX:ArchiveClassesAtExit={archive}"}
	arenas := Lever{ID: "arenas", Env: []string{"MALLOC_ARENA_MAX=1"}}
	for _, c := range []struct {
		name       string
		byVariable bool
		program    *runner.Program
		trained    bool
		release    int
		maxHeap    int64
	}{
		{"the command's own", false, nil, true, 25, 250},
		{"a child's", false, &runner.Program{Child: true, Options: []string{"-XX:MaxRAMPercentage=50"}}, false, 17, 500},
		{"a script's", true, &runner.Program{Child: true, Options: []string{"-XX:MaxRAMPercentage=50"}}, true, 17, 500},
		{"of a script that became it", true, &runner.Program{Options: []string{"-Xmx300m"}}, true, 25, 300},
	} {
		f := Facts{Release: jvmopts.Release{Feature: 25}, ByVariable: c.byVariable}
		f.readFrom(c.program, "17.0.15+6-Debian-1")
		if _, ok, reason := archive.open(f); ok != c.trained || !ok && reason == "" {
			t.Errorf("%s: the archive is open: %v (%s)", c.name, ok, reason)
		}
		if _, ok, reason := heap.open(f); ok != !f.Given.FixesHeap() || !ok && reason == "" {
			t.Errorf("%s: the heap is open: %v (%s)", c.name, ok, reason)
		}
		if _, ok, reason := arenas.open(f); !ok {
			t.Errorf("%s: arenas are closed: %s", c.name, reason)
		}
		if f.Release.Feature != c.release || f.Given.MaxHeap(1000*mib) != c.maxHeap*mib {
			t.Errorf("%s: release %d, heap %d MiB", c.name, f.Release.Feature, f.Given.MaxHeap(1000*mib)/mib)
		}
	}
}

// forked is a JVM that another one starts, by the model; deaf is one that takes no options from
// JAVA_TOOL_OPTIONS.
type forked struct {
	*model
	deaf bool
}

func (f forked) Try(ctx context.Context, a Attempt) (Outcome, error) {
	options := a.Setup.Options
	if f.deaf {
		a.Setup.Options = nil
	}
	o, err := f.model.Try(ctx, a)
	if err != nil {
		return o, err
	}
	if (len(options) > 0) != a.ByVariable {
		return o, fmt.Errorf("%q goes by variable: %v", options, a.ByVariable)
	}
	o.Result.Program = &runner.Program{Child: true}
	o.Result.Peak.Flags["MaxHeapSize"] = fmt.Sprint(f.heapMax(a.Setup, a.LimitBytes))
	return o, nil
}

// The JVM that another one starts has its options by JAVA_TOOL_OPTIONS. Where it was seen not to
// take them, trials with them count as without, no more are made, and the limit is that of the
// options as given.
func TestSearchOfAnotherJVM(t *testing.T) {
	for seed := range uint64(50) {
		for _, deaf := range []bool{false, true} {
			m := newModel(rand.New(rand.NewPCG(seed, 9)))
			s := &Search{Trier: forked{m, deaf}, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 2, Margin: MarginByBound, Facts: Facts{Release: jvmopts.ParseRelease("25.0.1")}}
			f, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !f.ByVariable || f.OtherJVM == "" || strings.Contains(f.OtherJVM, "takes no options") != deaf {
				t.Errorf("seed %d: by variable %v: %s", seed, f.ByVariable, f.OtherJVM)
			}
			if deaf && len(f.Setup.Options) > 0 {
				t.Errorf("seed %d: %q is recommended, which the JVM does not take", seed, f.Setup.Options)
			}
			tried := 0
			for _, tr := range f.Trials {
				if tr.Phase == PhaseLever && tr.ByVariable {
					tried++
				}
				if deaf && len(tr.Setup.Options) > 0 {
					t.Errorf("seed %d: trial %d counts as one with %q", seed, tr.Number, tr.Setup.Options)
				}
			}
			if tried == 0 || deaf && tried > 1 {
				t.Errorf("seed %d: options were tried %d times", seed, tried)
			}
			for i, tr := range f.Trials {
				if tr.Phase == PhaseLever && tr.Repeat == 0 && slices.ContainsFunc(f.Trials[:i], func(o Trial) bool {
					return o.Phase == PhaseLever && o.Setup.Same(tr.Setup) && o.LimitBytes == tr.LimitBytes && o.ByVariable == tr.ByVariable
				}) {
					t.Errorf("seed %d, deaf %v: trial %d is one that was made, with %q", seed, deaf, tr.Number, tr.Setup.Env)
				}
			}
		}
	}
}

// HotSpot rounds sizes up: the heap to 2 MiB and more, the code cache to a page.
func TestTookNone(t *testing.T) {
	flags := map[string]string{"MaxHeapSize": "18874368", "ReservedCodeCacheSize": "251662336", "TieredStopAtLevel": "4", "UseCompactObjectHeaders": "false"}
	for _, c := range []struct {
		options []string
		none    bool
	}{
		{[]string{"-Xmx17m"}, false},
		{[]string{"-Xmx13m"}, true},
		{[]string{"-Xmx20m"}, true},
		{[]string{"-XX:ReservedCodeCacheSize=240m"}, false},
		{[]string{"-XX:TieredStopAtLevel=1", "-XX:+UseCompactObjectHeaders"}, true},
		{[]string{"-XX:TieredStopAtLevel=1", "-Xmx18m"}, false}, // one is enough: another may have been put right
		{[]string{"-Xss512k", "-Dname=value"}, false},           // nothing tells
		{nil, false},
	} {
		if none := tookNone(flags, c.options); none != c.none {
			t.Errorf("%q: %v", c.options, none)
		}
	}
}
