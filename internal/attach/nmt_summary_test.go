package attach

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseNMTSummary(t *testing.T) {
	files, err := filepath.Glob("testdata/nmt-summary/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseNMTSummary(strings.NewReader(string(b)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var sum int64
		committed := map[string]int64{}
		for _, c := range got.Categories {
			sum += c.CommittedBytes
			committed[c.Name] = c.CommittedBytes
			// The parts are what the whole is made of; stacks are counted apart.
			parts := c.MallocBytes + c.ArenaBytes + c.MappedBytes
			if most := c.CommittedBytes + 3<<10; parts > most {
				t.Errorf("%s: %+v", name, c)
			}
		}
		// Each category is rounded to a whole KB, and from JDK 22 on small
		// ones are left out.
		if d, most := got.CommittedBytes-sum, int64(len(got.Categories)+1)<<10; d < -most || d > most {
			t.Errorf("%s: the categories add up to %d, the total is %d", name, sum, got.CommittedBytes)
		}
		for _, want := range []string{"Java Heap", "Class", "Thread", "Code", "GC", "Symbol"} {
			if committed[want] <= 0 {
				t.Errorf("%s: %s %d", name, want, committed[want])
			}
		}
	}
	for _, text := range []string{"", "Native memory tracking is not enabled", "Total: reserved=1KB, committed=xKB\n", "Total: reserved=1KB, committed=99999999999999999999KB\n"} {
		if got, err := ParseNMTSummary(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseNMTSummary(f *testing.F) {
	f.Add("Total: reserved=10KB, committed=4KB\n-  Java Heap (reserved=1KB, committed=1KB)\n")
	f.Add("-\nTotal: reserved=committed=1KB")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseNMTSummary(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range append(got.Categories, NMTCategory{Name: "Total", CommittedBytes: got.CommittedBytes}) {
			for _, n := range []int64{c.ReservedBytes, c.CommittedBytes, c.MallocBytes, c.ArenaBytes, c.MappedBytes} {
				if c.Name == "" || n < 0 || n > maxBytes || n%1024 != 0 {
					t.Errorf("%+v", c)
				}
			}
		}
	})
}

// The parts of a category, in the forms of the first and the latest version.
func TestParseNMTSummaryParts(t *testing.T) {
	for name, want := range map[string][]NMTCategory{
		"jdk8": {
			{Name: "Class", ReservedBytes: 1059990 << 10, CommittedBytes: 8086 << 10, MallocBytes: 3222 << 10, MappedBytes: 4864 << 10},
			{Name: "Symbol", ReservedBytes: 1424 << 10, CommittedBytes: 1424 << 10, MallocBytes: 936 << 10, ArenaBytes: 488 << 10},
		},
		"jdk27": {
			{Name: "Compiler", ReservedBytes: 213 << 10, CommittedBytes: 213 << 10, MallocBytes: 17 << 10, ArenaBytes: 196 << 10},
			{Name: "Other", ReservedBytes: 16384 << 10, CommittedBytes: 16384 << 10, MallocBytes: 16384 << 10},
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "nmt-summary", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseNMTSummary(strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, w := range want {
			if !slices.Contains(got.Categories, w) {
				t.Errorf("%s: no %+v in %+v", name, w, got.Categories)
			}
		}
	}
}
