package report

import (
	"bytes"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"tare/internal/doctor"
	"tare/internal/footprint"
)

func ptr[T any](v T) *T { return &v }

// sick is a service on JDK 25 with several diseases.
func sick() *footprint.Footprint {
	const mib = 1 << 20
	return &footprint.Footprint{
		Schema: footprint.Schema, PID: 8913, Name: "app.jar", JDK: "25.0.3", Collector: "G1", Threads: 51,
		RSSBytes: 242 * mib, PSSBytes: 230 * mib, Classes: 10_480,
		Heap: &footprint.Heap{MaxBytes: 256 * mib, UsedBytes: 75 * mib, AfterGCBytes: 21 * mib, Collections: 140},
		Flags: map[string]string{
			"ArchiveRelocationMode": "1", "MaxHeapSize": "268435456", "TrimNativeHeapInterval": "0", "ThreadStackSize": "1024",
		},
		Cgroup: &footprint.Cgroup{
			Version: 2, Path: "/kubepods/pod1", LimitBytes: ptr[int64](300 * mib), UsageBytes: 261 * mib,
			ReclaimableBytes: 31 * mib, HeadroomBytes: ptr[int64](70 * mib),
		},
		Rows: []footprint.Row{
			{Owner: footprint.JavaHeap, ResidentBytes: 78 * mib},
			{Owner: footprint.Metaspace, ResidentBytes: 15 * mib},
			{Owner: footprint.CDS, ResidentBytes: 44 * mib, AnonymousBytes: 38*mib + 100<<10, ReservedBytes: ptr[int64](128 * mib),
				Children: []footprint.Child{{Name: "app.aot", ResidentBytes: 44 * mib}}},
			{Owner: footprint.Malloc, ResidentBytes: 37 * mib, Arenas: 9,
				Children: []footprint.Child{{Name: "free, kept by glibc", ResidentBytes: 15 * mib}}},
		},
	}
}

func TestFindings(t *testing.T) {
	for name, f := range map[string]*footprint.Footprint{
		"doctor.txt":      sick(),
		"doctor-none.txt": {PID: 7, Name: "app.jar\x1b[2J", JDK: "21.0.2", Collector: "Serial", RSSBytes: 30 << 20},
	} {
		var out bytes.Buffer
		if err := Findings(&out, doctor.Diagnose(f)); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if lipgloss.Width(line) > columns && strings.Contains(strings.TrimSpace(line[14:]), " ") {
				t.Errorf("%d columns: %s", lipgloss.Width(line), line)
			}
			if strings.ContainsRune(line, 0x1b) {
				t.Errorf("a control character: %q", line)
			}
		}
	}
}
