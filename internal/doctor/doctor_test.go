package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
)

func ptr[T any](v T) *T { return &v }

// healthy is a footprint in which nothing is to be found: a service on JDK 21
// with G1 in a group of 512 MiB and two processors.
func healthy() *footprint.Footprint {
	return &footprint.Footprint{
		Schema: footprint.Schema, PID: 4242, Name: "app.jar", JDK: "21.0.4", Collector: "G1", Threads: 40,
		RSSBytes: 240 * mib, PSSBytes: 230 * mib, Classes: 9000,
		Heap: &footprint.Heap{
			MaxBytes: 128 * mib, CapacityBytes: 96 * mib, UsedBytes: 60 * mib, AfterGCBytes: 40 * mib, Collections: 100,
		},
		Flags: map[string]string{
			"AlwaysPreTouch": "false", "ArchiveRelocationMode": "0", "CICompilerCount": "2", "ConcGCThreads": "1",
			"G1PeriodicGCInterval": "0", "InitialHeapSize": "33554432", "MaxDirectMemorySize": "0",
			"MaxHeapSize": "134217728", "NativeMemoryTracking": "off", "ParallelGCThreads": "2",
			"ReservedCodeCacheSize": "100663296", "THPStackMitigation": "true", "ThreadStackSize": "1024",
			"TrimNativeHeapInterval": "0", "UseContainerSupport": "true",
		},
		Cgroup: &footprint.Cgroup{
			Version: 2, Path: "/app", LimitBytes: ptr[int64](512 * mib), UsageBytes: 260 * mib, ReclaimableBytes: 30 * mib,
			HeadroomBytes: ptr[int64](282 * mib), CPUs: ptr(2.0), Events: map[string]int64{"workingset_refault_file": 0},
			PressureSome300: ptr(0.0),
		},
		Host: &footprint.Host{MemTotalBytes: 8 << 30, MemAvailableBytes: 4 << 30, Kernel: "6.1.0-18-amd64", THP: "madvise"},
		Rows: []footprint.Row{
			{Owner: footprint.JavaHeap, ResidentBytes: 70 * mib, CommittedBytes: ptr[int64](96 * mib), ReservedBytes: ptr[int64](128 * mib)},
			{Owner: footprint.ClassSpace, ResidentBytes: 3 * mib},
			{Owner: footprint.Metaspace, ResidentBytes: 9 * mib},
			{Owner: footprint.CodeCache, ResidentBytes: 40 * mib, CommittedBytes: ptr[int64](50 * mib), ReservedBytes: ptr[int64](96 * mib),
				Children: []footprint.Child{
					{ID: footprint.PartJVMCode, Name: "JVM's own code", ResidentBytes: mib, CommittedBytes: ptr[int64](6 * mib), ReservedBytes: ptr[int64](6 * mib)},
					{ID: "profiled-methods", Name: "profiled methods", ResidentBytes: 20 * mib, CommittedBytes: ptr[int64](22 * mib), ReservedBytes: ptr[int64](45 * mib)},
				}},
			{Owner: footprint.ThreadStacks, ResidentBytes: 4 * mib, ReservedBytes: ptr[int64](40 * mib), Children: []footprint.Child{
				{ID: footprint.PartGCThreads, ResidentBytes: 200 * kib},
				{ID: footprint.PartLargestThreads, ResidentBytes: mib, Children: []footprint.Child{{Name: "http-1", ResidentBytes: 100 * kib}}},
			}},
			{Owner: footprint.CDS, ResidentBytes: 40 * mib, ReservedBytes: ptr[int64](44 * mib), AnonymousBytes: 9 * mib,
				Children: []footprint.Child{{ID: footprint.FilePart("app.jsa"), Name: "app.jsa", ResidentBytes: 28 * mib}, {ID: footprint.FilePart("classes.jsa"), Name: "classes.jsa", ResidentBytes: 12 * mib}}},
			{Owner: footprint.Malloc, ResidentBytes: 30 * mib, Arenas: 4, Children: []footprint.Child{
				{ID: footprint.PartLargeChunks, ResidentBytes: 4 * mib}, {ID: footprint.PartFreeMalloc, ResidentBytes: mib},
			}},
			{Owner: footprint.MappedFiles, ResidentBytes: 44 * mib, AnonymousBytes: 2 * mib},
		},
	}
}

// change is a footprint under change.
type change struct{ *footprint.Footprint }

func (c change) row(o footprint.Owner) *footprint.Row {
	for i := range c.Rows {
		if c.Rows[i].Owner == o {
			return &c.Rows[i]
		}
	}
	panic("no row " + o)
}

func (c change) part(o footprint.Owner, id string) *footprint.Child {
	r := c.row(o)
	for i := range r.Children {
		if r.Children[i].ID == id {
			return &r.Children[i]
		}
	}
	r.Children = append(r.Children, footprint.Child{ID: id})
	return &r.Children[len(r.Children)-1]
}

func TestHealthy(t *testing.T) {
	if found := Examine(healthy()); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// none says that the rule must find nothing.
const none = -1

// Each rule on both sides of its thresholds.
func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			f := change{healthy()}
			c.change(f)
			var got *Finding
			for _, found := range Examine(f.Footprint) {
				if found.ID == c.id {
					got = &found
				}
			}
			if c.bytes == none {
				if got != nil {
					t.Fatalf("found %+v", got)
				}
				return
			}
			if got == nil {
				t.Fatal("not found")
			}
			if got.BytesAtStake != c.bytes || got.Certainty != c.certainty {
				t.Errorf("%d bytes, %s; want %d, %s", got.BytesAtStake, got.Certainty, c.bytes, c.certainty)
			}
			if all := strings.Join(append(got.Do, got.Evidence...), "\n"); !strings.Contains(all, c.says) {
				t.Errorf("no %q in\n%s", c.says, all)
			}
		})
	}
}

// Every rule is tested, on both sides.
func TestEveryRuleIsTested(t *testing.T) {
	for _, r := range rules {
		found, nothing := false, false
		for _, c := range ruleCases {
			found = found || c.id == r.id && c.bytes != none
			nothing = nothing || c.id == r.id && c.bytes == none
		}
		if !found || !nothing {
			t.Errorf("%s: found %v, nothing found %v", r.id, found, nothing)
		}
	}
}

// A rule that lacks what it needs says nothing.
func TestUnknown(t *testing.T) {
	r := Diagnose(&footprint.Footprint{Schema: footprint.Schema})
	if len(r.Findings) > 0 || len(r.Unknown) != 4 || r.Schema != Schema {
		t.Errorf("%+v", r)
	}
	// The sickest of all, but nothing of the JVM's own is known.
	for _, c := range ruleCases {
		f := change{healthy()}
		c.change(f)
		f.Flags, f.Heap, f.JDK, f.Collector = nil, nil, "", ""
		for _, found := range Examine(f.Footprint) {
			switch found.ID {
			case "stacks-huge-pages", "threads-many", "threads-deep", "malloc-kept", "malloc-large", "malloc-in-use", "metaspace-waste",
				"classes-many", "code-cache-full", "files-counted-twice", "headroom-small", "high-reached", "cache-squeezed", "swap": // the kernel's view will do
			default:
				t.Errorf("%s/%s: found %s without the JVM's own view", c.id, c.name, found.ID)
			}
		}
	}
}

func checkFindings(t *testing.T, found []Finding) {
	t.Helper()
	seen := map[string]bool{}
	for i, x := range found {
		if x.ID == "" || seen[x.ID] || x.Title == "" || x.BytesAtStake < 0 || len(x.Evidence) == 0 || len(x.Do) == 0 || x.Source == "" {
			t.Errorf("%+v", x)
		}
		seen[x.ID] = true
		if !slices.Contains(certainties, x.Certainty) {
			t.Errorf("%s: %q", x.ID, x.Certainty)
		}
		if !strings.HasSuffix(x.Title, ".") || strings.Contains(strings.Join(append(x.Do, x.Evidence...), ""), "%!") {
			t.Errorf("%+v", x)
		}
		if i > 0 && found[i-1].BytesAtStake < x.BytesAtStake {
			t.Errorf("%s stands before %s", found[i-1].ID, x.ID)
		}
	}
}

func TestFindingsAreWhole(t *testing.T) {
	for _, c := range ruleCases {
		f := change{healthy()}
		c.change(f)
		checkFindings(t, Examine(f.Footprint))
	}
}

// The findings about the heap speak of different bytes of it.
func TestHeapFindingsDoNotOverlap(t *testing.T) {
	for used := int64(0); used <= 400; used += 7 {
		for live := int64(1); live <= 200; live += 13 {
			for _, touched := range []string{"true", "false"} {
				f := change{healthy()}
				f.row(footprint.JavaHeap).ResidentBytes = 300 * mib
				f.Heap.UsedBytes, f.Heap.AfterGCBytes = used*mib, live*mib
				f.Flags["AlwaysPreTouch"] = touched
				var sum int64
				for _, x := range Examine(f.Footprint) {
					if strings.HasPrefix(x.ID, "heap-") {
						sum += x.BytesAtStake
					}
				}
				if sum > 300*mib-min(live, 300)*mib {
					t.Fatalf("%d bytes at stake with %d MiB used and %d live", sum, used, live)
				}
			}
		}
	}
}

func TestKernelAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"6.7.0": true, "6.10-rc1": true, "7.0": true, "6.6.9": false, "5.15.0-1-amd64": false, "": false, "6": false, "x.9": false,
	} {
		p := newPatient(&footprint.Footprint{Host: &footprint.Host{Kernel: release}})
		if got := p.kernelAtLeast(6, 7); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

// HotSpot's own choice, by PrintFlagsFinal with ActiveProcessorCount.
func TestThreadsByProcessors(t *testing.T) {
	for _, c := range []struct{ cpus, gc, compilers int64 }{
		{1, 1, 2}, {2, 2, 2}, {4, 4, 3}, {8, 8, 4}, {16, 13, 12}, {72, 48, 18},
	} {
		if gc, ci := gcThreads(c.cpus), compilerThreads(c.cpus); gc != c.gc || ci != c.compilers {
			t.Errorf("%d processors: %d, %d; want %d, %d", c.cpus, gc, ci, c.gc, c.compilers)
		}
	}
}

// The documentation has one row for each rule, and none for others.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range rules {
		want = append(want, r.id)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllSubmatch(text, -1) {
		got = append(got, string(m[1]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("documented %q\nrules %q", got, want)
	}
}

// Whatever a saved footprint says, the findings about it are whole and sorted.
func FuzzExamine(f *testing.F) {
	for _, c := range ruleCases {
		x := change{healthy()}
		c.change(x)
		text, err := json.Marshal(x.Footprint)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if x, err := footprint.Decode(bytes.NewReader(text)); err == nil {
			checkFindings(t, Examine(x))
		}
	})
}
