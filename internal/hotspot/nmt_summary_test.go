package hotspot

import (
	"os"
	"path/filepath"
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
		for category, n := range got {
			if category != "Total" {
				sum += n
			}
		}
		// Each category is rounded to a whole KB, and from JDK 22 on small
		// ones are left out.
		if d := got["Total"] - sum; d < -int64(len(got))<<10 || d > int64(len(got))<<10 {
			t.Errorf("%s: the categories add up to %d, the total is %d", name, sum, got["Total"])
		}
		for _, want := range []string{"Java Heap", "Class", "Thread", "Code", "GC", "Symbol"} {
			if got[want] <= 0 {
				t.Errorf("%s: %s %d", name, want, got[want])
			}
		}
	}
	for _, text := range []string{"", "Native memory tracking is not enabled", "Total: reserved=1KB, committed=xKB\n", "Total: reserved=1KB, committed=99999999999999999999KB\n"} {
		if got, err := ParseNMTSummary(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, got)
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
		for name, n := range got {
			if name == "" || n < 0 || n%1024 != 0 {
				t.Errorf("%q: %d", name, n)
			}
		}
	})
}
