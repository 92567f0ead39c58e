package fit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/profile"
)

// everything is an application that has the classes of all frameworks.
func everything() Application {
	a := Application{Classes: map[string]bool{}}
	for _, l := range Levers {
		for _, n := range l.Needs {
			for class := range strings.SplitSeq(n, "|") {
				a.Classes[class] = true
			}
		}
	}
	return a
}

// What a lever is must be told of each.
func TestLeversAreWhole(t *testing.T) {
	for _, l := range Levers {
		if l.ID == "" || l.Name == "" || l.Why == "" || l.bound == nil || len(l.Rows) == 0 || l.Since.Feature < 8 {
			t.Errorf("%s lacks something: %+v", l.ID, l)
		}
		diagnostic := slices.ContainsFunc(l.Options, func(o string) bool { return strings.Contains(o, "UnlockDiagnostic") })
		experimental := slices.ContainsFunc(l.Options, func(o string) bool { return strings.Contains(o, "UnlockExperimental") })
		if diagnostic != (l.Mark == Diagnostic) || experimental != (l.Mark == Experimental) || (len(l.Needs) > 0) != (l.Mark == Framework) {
			t.Errorf("%s is marked %q", l.ID, l.Mark)
		}
		open, ok, reason := l.open(Facts{Release: l.Since, Nested: true, Inherits: true, Application: everything()})
		if wanted := l.Mark == "" || l.Placement; ok != wanted || !wanted && !strings.Contains(reason, "--allow "+string(l.Mark)) {
			t.Errorf("%s on JDK %d: open %v, %s", l.ID, l.Since.Feature, ok, reason)
		}
		open, ok, _ = l.open(Facts{Release: l.Since, Nested: true, Inherits: true, Application: everything(), Allow: []Mark{Diagnostic, Experimental, Framework}, Processors: 2})
		if !ok || len(open.Options) != len(l.Options) || len(open.Env) != len(l.Env) {
			t.Errorf("%s is not open: %+v", l.ID, open)
		}
		setup := open.setup(sizes{heap: 9 * mib, young: 3 * mib, initial: 8 * mib, code: 8 * mib, cpus: 1, scale: 30, archive: "/app.aot"})
		if text := strings.Join(slices.Concat(setup.Options, setup.Env), " "); strings.ContainsAny(text, "{}") {
			t.Errorf("%s adds %s", l.ID, text)
		}
		p := profile.Profile{Schema: profile.Schema, JDK: "25", LimitBytes: mib, PeakBytes: mib, Options: setup.Options, Env: setup.Env,
			Archive: &profile.Archive{File: "/app.aot", Bytes: 1, FNV128a: strings.Repeat("0", 32)}}
		if err := p.Write(filepath.Join(t.TempDir(), profile.FileName)); err != nil {
			t.Errorf("%s does not fit a profile: %v", l.ID, err)
		}
	}
}

// A failed trial may speak against the levers that can do such harm: what a lever does
// elsewhere in the search must agree with what it says that it can do.
func TestHarmsAgree(t *testing.T) {
	known := []Harm{HarmSpeed, HarmStart, HarmLatency, HarmHeap, HarmRun}
	for _, l := range Levers {
		has := func(some ...Harm) bool {
			return slices.ContainsFunc(l.Harms, func(h Harm) bool { return slices.Contains(some, h) })
		}
		for _, h := range l.Harms {
			if !slices.Contains(known, h) {
				t.Errorf("%s: %q is no harm", l.ID, h)
			}
		}
		if l.Waits && !has(HarmLatency) {
			t.Errorf("%s has threads wait, and does no harm to latency", l.ID)
		}
		if len(l.Scales) > 0 && !has(HarmStart) {
			t.Errorf("%s compiles later, and does no harm to the start", l.ID)
		}
		if l.sizesHeap() != has(HarmHeap) && !slices.Contains(l.Options, "-XX:MaxHeapFreeRatio=40") {
			t.Errorf("%s sizes the heap: %v, harms it: %v", l.ID, l.sizesHeap(), has(HarmHeap))
		}
		if (l.Extract || l.TrainOption != "") && !has(HarmRun) {
			t.Errorf("%s starts the application in another way, and does no harm to that", l.ID)
		}
		if has(HarmRun) && l.Breaks == "" && !l.Extract && l.TrainOption == "" {
			t.Errorf("%s may harm how the application runs, and breaks nothing", l.ID)
		}
		if l.Slows && !l.Last && len(l.Harms) == 0 {
			t.Errorf("%s may cost speed, and does no harm", l.ID)
		}
		for _, id := range l.NothingBeside {
			if !slices.ContainsFunc(Levers, func(o Lever) bool { return o.ID == id }) {
				t.Errorf("%s: no lever %s", l.ID, id)
			}
		}
	}
}

// What hides evidence comes after all that is judged by it.
func TestEvidenceComesLast(t *testing.T) {
	perfdata := slices.IndexFunc(Levers, func(l Lever) bool { return slices.Contains(l.Options, "-XX:-UsePerfData") })
	for _, l := range Levers[perfdata+1:] {
		if !l.ByCurve {
			t.Errorf("%s comes after what hides evidence", l.ID)
		}
	}
	if fast, _, _ := bundles(Levers); slices.ContainsFunc(fast, Levers[perfdata].same) {
		t.Error("what hides evidence is tried with others")
	}
}

// Two properties are two settings, though their names begin alike.
func TestPropertiesReplaceTheirOwn(t *testing.T) {
	s := Setup{Options: []string{"-Dshop.cache=1", "-Xmx9m"}}.plus(Setup{Options: []string{"-Dshop.pool=2", "-Dshop.cache=3"}})
	if want := []string{"-Xmx9m", "-Dshop.pool=2", "-Dshop.cache=3"}; !slices.Equal(s.Options, want) {
		t.Errorf("%q, want %q", s.Options, want)
	}
}
