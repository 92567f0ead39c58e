package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"tare/internal/footprint"
)

func size(mib float64) *int64 { n := int64(mib * MiB); return &n }

func example() *footprint.Footprint {
	reason := "open /proc/8913/smaps_rollup: no such file or directory"
	return &footprint.Footprint{
		PID: 8913, Name: "app.jar", JDK: "25.0.3", Collector: "G1", Threads: 51, RSSBytes: *size(242.1),
		Heap: &footprint.Heap{AfterGCBytes: *size(41.2)},
		Cgroup: &footprint.Cgroup{Version: 2, Path: "/app", LimitBytes: size(300), UsageBytes: *size(261.4), HeadroomBytes: size(69.6), ReclaimableBytes: *size(31),
			Parts: []footprint.Part{{Name: "this process: heap, stacks and other anonymous memory", Bytes: *size(220.4)}, {Name: "page cache not used lately (inactive)", Bytes: *size(31)},
				{Name: "kernel: sockets", Bytes: 4096}, {Name: "charged ahead, or counted late", Bytes: *size(10)}}},
		Rows: []footprint.Row{
			{Owner: footprint.JavaHeap, ResidentBytes: *size(78), CommittedBytes: size(80), ReservedBytes: size(150), How: footprint.Exact,
				Children: []footprint.Child{{Name: "old", ResidentBytes: *size(47)}, {Name: "young", ResidentBytes: *size(31)}, {Name: "free"}}},
			{Owner: footprint.ThreadStacks, ResidentBytes: *size(12.2), CommittedBytes: size(52), ReservedBytes: size(52), How: footprint.Layout},
			{Owner: footprint.CDS, ResidentBytes: *size(43.9), CommittedBytes: size(43.9), ReservedBytes: size(128), How: footprint.Exact, AnonymousBytes: *size(38.1)},
			{Owner: footprint.Malloc, ResidentBytes: *size(84.1), How: footprint.Layout, Arenas: 9,
				Children: []footprint.Child{{Name: "arenas", ResidentBytes: *size(60)}, {Name: "free, kept by glibc", ResidentBytes: *size(15.4)}}},
			{Owner: footprint.MappedFiles, ResidentBytes: *size(23.6), How: footprint.Exact,
				Children: []footprint.Child{{Name: "libjvm.so", ResidentBytes: *size(14.6)}, {Name: "app.jar", ResidentBytes: 5}}},
			{Owner: footprint.Unattributed, ResidentBytes: *size(0.3), How: footprint.Heuristic},
		},
		Sources:  []footprint.Source{{Name: "smaps", Millis: 19}, {Name: "smaps_rollup", Error: &reason}},
		Warnings: []string{"the JVM is starting"},
	}
}

func TestFootprint(t *testing.T) {
	var got bytes.Buffer
	if err := Footprint(&got, example()); err != nil {
		t.Fatal(err)
	}
	golden(t, "footprint.txt", got.Bytes())
	for line := range strings.Lines(got.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestFootprintWithoutALimit(t *testing.T) {
	f := example()
	f.Cgroup.LimitBytes, f.Cgroup.HeadroomBytes = nil, nil
	var got bytes.Buffer
	if err := Footprint(&got, f); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), "has no memory limit") {
		t.Errorf("got\n%s", &got)
	}
}
