package trial

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// Of the page cache an application needs a part, and the trial is judged as if
// nothing had happened to it. That part beside what cannot be dropped, and a
// little more, is enough for a fresh start.
func TestSqueeze(t *testing.T) {
	r := testRunner(t)
	l := labelled{mode: "thrash", args: []string{"20", "128"}, options: []string{"-Xmx48m", "-XX:+UseSerialGC"}, limit: 512}
	spec := l.spec(t, jvmtest.Home(t, 17), jvmtest.Jar(t, "workloads.jar"))
	spec.Squeeze, spec.Duration = true, 5*time.Second
	var stages []Stage
	spec.Stage = func(s Stage) { stages = append(stages, s) }
	res, err := Run(t.Context(), r, spec)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Passed() || res.Exit.Signal != 0 || len(stages) != 4 || stages[2] != Squeezing {
		t.Errorf("%s %+v %q, %v", res.Verdict, res.Exit, res.Evidence, stages)
	}
	// The code of a JVM that serves requests is some MiB, and not all it read.
	if res.CacheBytes < 1<<20 || res.CacheBytes > (res.PeakBytes-res.NeededBytes)*3/4 {
		t.Fatalf("cache %d: peak %d, needed %d", res.CacheBytes, res.PeakBytes, res.NeededBytes)
	}
	t.Logf("peak %d MiB, needed %d, page cache needed %d", res.PeakBytes>>20, res.NeededBytes>>20, res.CacheBytes>>20)

	spec.Squeeze, spec.Stage = false, nil
	spec.Limits.MemoryBytes = (res.NeededBytes + res.CacheBytes) * 5 / 4
	if res, err = Run(t.Context(), r, spec); err != nil || !res.Passed() {
		t.Errorf("with %d MiB: %+v, %v", spec.Limits.MemoryBytes>>20, res, err)
	}
}

// An application without load, or of which the load cannot be had in moments,
// is left alone.
func TestNoSqueeze(t *testing.T) {
	x := &run{spec: Spec{Squeeze: true}}
	if n := x.squeeze(t.Context(), runner.Usage{UsageBytes: 1 << 30}); n != 0 {
		t.Errorf("squeezed to %d without load", n)
	}
	x.load, x.spec.Squeeze = &load.Result{OK: 100, Elapsed: time.Second}, false
	if n := x.squeeze(t.Context(), runner.Usage{UsageBytes: 1 << 30}); n != 0 {
		t.Errorf("squeezed to %d unasked", n)
	}
}

// What a start needs of files is what is mapped as it is in the file, once, less what
// other groups pay for.
func TestMappedFiles(t *testing.T) {
	const libraries, private, again, archive, heap = 20 << 20, 1 << 20, 4 << 20, 12 << 20, 30 << 20
	s := &sampler{peak: &footprint.Footprint{RSSBytes: libraries + archive + heap, Rows: []footprint.Row{
		{Owner: footprint.MappedFiles, ResidentBytes: libraries, AnonymousBytes: private, RepeatedBytes: again},
		{Owner: footprint.CDS, ResidentBytes: archive, AnonymousBytes: archive},
		{Owner: footprint.JavaHeap, ResidentBytes: heap},
	}}}
	s.peakMap = s.peak.RSSBytes - again - 3<<20
	if got, want := s.mappedFiles(), int64(libraries-private-again-3<<20); got != want || s.unpaid() != 3<<20 {
		t.Errorf("%d, want %d, and others pay for %d", got, want, s.unpaid())
	}
	if got := new(sampler).mappedFiles(); got != 0 {
		t.Errorf("%d without a footprint", got)
	}
}

// The page cache that is needed is between the last step that kept up and the first that did
// not, as the logarithm of the waiting rises.
func TestCacheNeeded(t *testing.T) {
	const mib = 1 << 20
	at := func(cache int64, waited float64) SqueezeStep {
		return SqueezeStep{100 * mib, cache * mib, waited, false}
	}
	broken := at(6, 0.001)
	broken.Failed = true
	for name, c := range map[string]struct {
		steps []SqueezeStep
		want  float64 // MiB
	}{
		"no step":              {nil, 0},
		"half way":             {[]SqueezeStep{at(40, 0), at(20, 0.005), at(10, 0.5)}, 15},
		"at the line":          {[]SqueezeStep{at(40, 0), at(20, 0.002), at(10, innocentStall)}, 10},
		"no wait at all":       {[]SqueezeStep{at(20, 0), at(10, 1.25)}, 15},
		"never kept up":        {[]SqueezeStep{at(20, 0.2)}, 0},
		"always, and it waits": {[]SqueezeStep{at(20, 0), at(3, 0.03)}, 3},
		"always, and does not": {[]SqueezeStep{at(20, 0), at(3, 0.001)}, 0},
		"requests failed":      {[]SqueezeStep{at(20, 0), broken}, 20},
	} {
		if got := float64(CacheNeeded(c.steps)) / mib; math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %.2f MiB, want %.2f", name, got, c.want)
		}
	}
}

// The limits fall and come to an end, and are never below what cannot be dropped.
func TestSqueezeNext(t *testing.T) {
	const mib = 1 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		need := rng.Int64N(900 * mib)
		holds := func(limit int64) reading {
			return reading{usage: runner.Usage{UsageBytes: limit, Stat: map[string]int64{"active_file": limit - need}}}
		}
		limit := max(need+rng.Int64N(400*mib), runner.MinMemoryBytes)
		first, steps := limit, 0
		for next, worth := squeezeNext(limit, holds(limit)); worth; next, worth = squeezeNext(limit, holds(limit)) {
			if steps++; steps > 80 || next < need || next >= limit || next < runner.MinMemoryBytes {
				t.Fatalf("step %d from %d is %d, of which %d cannot be dropped", steps, limit, next, need)
			}
			limit = next
		}
		if left := limit - max(need, runner.MinMemoryBytes); float64(left) > squeezeStep*float64(limit)+2 {
			t.Fatalf("from %d it ended at %d, with %d left", first, limit, left)
		}
	}
}
