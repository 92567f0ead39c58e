package attach

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"tare.dev/tare/internal/hotspot"
)

func parseNMTFile(t *testing.T, name string) ([]NMTRegion, error) {
	t.Helper()
	f, err := os.Open("testdata/nmt/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The recorded answers begin at the map.
	sums, regions, err := ParseNMTDetail(io.MultiReader(strings.NewReader("Total: reserved=2048KB, committed=1024KB\n"), f))
	if err == nil && sums.CommittedBytes != 1<<20 {
		t.Errorf("%s: no sums", name)
	}
	return regions, err
}

func TestParseNMTDetail(t *testing.T) {
	heap := hotspot.Region{Start: 0xf0000000, End: 0x100000000}
	for name, want := range map[string]map[string]bool{
		"jdk8-serial.txt":  {"Java Heap": true, "Class": true, "Thread Stack": true, "Code": true, "GC": true},
		"jdk27-serial.txt": {"Java Heap": true, "Class": true, "Metaspace": true, "Shared class space": true, "Thread Stack": true},
		// The second map of ZGC lists offsets of its file, not addresses.
		"jdk25-z.txt": {"Java Heap": true, "Metaspace": true},
	} {
		regions, err := parseNMTFile(t, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range regions {
			delete(want, r.Category)
			if r.Category == "Java Heap" && name != "jdk25-z.txt" && r.Region != heap {
				t.Errorf("%s: heap at %x, want %x", name, r.Region, heap)
			}
			if r.Start == 0 || r.Empty() {
				t.Errorf("%s: region %x of %s", name, r.Region, r.Category)
			}
		}
		for c := range want {
			t.Errorf("%s: no region of %s", name, c)
		}
	}
	if _, err := parseNMTFile(t, "jdk17-summary-only.txt"); !errors.Is(err, ErrNMTNoDetail) {
		t.Errorf("summary: %v, want ErrNMTNoDetail", err)
	}
}

func TestParseNMTDetailRejects(t *testing.T) {
	for _, line := range []string{
		"[0x10 - 0x08] reserved 4KB for GC from",
		"[0x10 - 0x20] reserved 4KB",
		"[0xzz - 0x20] reserved 4KB for GC",
		"[0x10 - 0x20] something 4KB for GC",
	} {
		if _, r, err := ParseNMTDetail(strings.NewReader("Total: reserved=8KB, committed=4KB\nVirtual memory map:\n" + line + "\n")); err == nil {
			t.Errorf("accepted %q as %v", line, r)
		}
	}
}

func FuzzParseNMTDetail(f *testing.F) {
	f.Add("Total: reserved=8KB, committed=4KB\n-  GC (reserved=1KB, committed=1KB)\nVirtual memory map:\n\n[0x1000 - 0x2000] reserved and committed 4KB for Thread Stack from\n    [0x1]f()+0x1\n")
	f.Fuzz(func(t *testing.T, text string) {
		sums, regions, err := ParseNMTDetail(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(regions) == 0 || sums == nil {
			t.Fatalf("%d regions, sums %v", len(regions), sums)
		}
		for _, r := range regions {
			if r.End < r.Start || r.Category == "" {
				t.Fatalf("bad region %+v", r)
			}
		}
	})
}
