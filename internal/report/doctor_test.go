package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/testkit/documenttest"
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
				Children: []footprint.Child{{ID: footprint.FilePart("app.aot"), Name: "app.aot", ResidentBytes: 44 * mib}}},
			{Owner: footprint.Malloc, ResidentBytes: 37 * mib, Arenas: 9,
				Children: []footprint.Child{{ID: footprint.PartFreeMalloc, Name: "free, kept by glibc", ResidentBytes: 15 * mib}}},
		},
	}
}

func TestFindings(t *testing.T) {
	for name, f := range map[string]*footprint.Footprint{
		"doctor.txt":      sick(),
		"doctor-none.txt": {PID: 7, Name: "app.jar\x1b[2J", JDK: "21.0.2", Collector: "Serial", RSSBytes: 30 << 20},
	} {
		out := bytes.NewBuffer(terminal(t, Findings(doctor.Diagnose(f))))
		golden(t, name, out.Bytes())
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if lipgloss.Width(line) > document.Width && strings.Contains(strings.TrimSpace(line[14:]), " ") {
				t.Errorf("%d columns: %s", lipgloss.Width(line), line)
			}
			if strings.ContainsRune(line, 0x1b) {
				t.Errorf("a control character: %q", line)
			}
		}
	}
}

// What terminals show can be pasted into an issue too.
func TestMarkdown(t *testing.T) {
	a, b := grown()
	for name, d := range map[string]*document.Document{
		"footprint.md": Footprint(example()), "doctor.md": Findings(doctor.Diagnose(sick())), "diff.md": Compare("before.json", a, "app.jar", b).Document(),
	} {
		golden(t, name, rendered(t, d, document.WriteMarkdown))
	}
}

// Every report is whole in every form.
func TestEveryFormOfEveryReport(t *testing.T) {
	a, b := grown()
	set := labSet(t, 0)
	for name, d := range map[string]*document.Document{
		"footprint": Footprint(example()), "hostile footprint": Footprint(hostile()), "findings": Findings(doctor.Diagnose(sick())), "no findings": Findings(doctor.Diagnose(&footprint.Footprint{})),
		"diff": Compare("a", a, "b", b).Document(), "lab": Lab(set, "tare lab run x.yaml"), "lab compared": LabDifferences(lab.Compare(labResults(t, 0), labResults(t, 5))),
		"fit": Fit(richResult(t)), "fit's page": FitPage(richResult(t), nil), "fit without answer": FitPage(failedResult(t), errors.New("no limit passed")), "fit without load": FitPage(withoutLoad(t), nil),
	} {
		t.Run(name, func(t *testing.T) { documenttest.Check(t, d) })
	}
}
