package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"tare.dev/tare/internal/footprint"
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
			{Owner: footprint.MappedFiles, ResidentBytes: *size(23.6), How: footprint.Exact, RepeatedBytes: *size(2.5),
				Children: []footprint.Child{{Name: "libjvm.so", ResidentBytes: *size(14.6)}, {Name: "app.jar", ResidentBytes: 5}}},
			{Owner: footprint.Unattributed, ResidentBytes: *size(0.3), How: footprint.Heuristic},
		},
		Millis:   19,
		Sources:  []footprint.Source{{Name: "smaps", Millis: 12}, {Name: "smaps_rollup", Error: &reason}},
		Warnings: []string{"the JVM is starting"},
	}
}

func TestFootprint(t *testing.T) {
	checkScreen(t, "footprint.txt", example())
}

// hostile is of a JVM that chose names which a terminal would obey.
func hostile() *footprint.Footprint {
	const escape = "\x1b]0;title\a\x1b[2J\u202e"
	f := example()
	f.Name, f.JDK, f.Collector, f.Sources[1].Error = escape, escape, escape, new(string)
	*f.Sources[1].Error = escape
	f.Warnings = []string{escape}
	f.Cgroup.Parts[0].Name, f.Rows[0].Children[0].Name = escape, escape
	f.Asked = &footprint.Asked{
		Tracking: &footprint.Tracking{Level: escape, Categories: []footprint.TrackedCategory{{Name: escape, CommittedBytes: MiB}}},
		Classes:  &footprint.ClassHistogram{Largest: []footprint.ClassObject{{Name: escape, Bytes: MiB}}},
		Loaders:  &footprint.LoaderUse{Largest: []footprint.LoaderType{{Type: escape, MetaspaceBytes: MiB}}},
	}
	return f
}

// A JVM chooses the names that a footprint shows: a terminal must not obey them.
func TestFootprintIsPrintable(t *testing.T) {
	for _, r := range string(terminal(t, Footprint(hostile()))) {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q is shown", r)
		}
	}
}

// What the JVM was asked for stands beside what is resident, and apart from it.
func TestFootprintAsked(t *testing.T) {
	f := example()
	f.Warnings, f.Sources, f.Millis = nil, nil, 412
	malloc := &f.Rows[3]
	malloc.Allocator = "jemalloc"
	malloc.Children = []footprint.Child{
		{Name: "jemalloc", ResidentBytes: *size(84.1)},
		{Name: "direct buffers", ResidentBytes: *size(16), How: footprint.Counted},
		{ID: footprint.PartTracked, ResidentBytes: *size(20), How: footprint.Counted, Children: []footprint.Child{
			{Name: "Other", ResidentBytes: *size(16), How: footprint.Counted}, {Name: "Symbol", ResidentBytes: *size(4), How: footprint.Counted}, {Name: "JNI", ResidentBytes: 8, How: footprint.Counted}}},
	}
	f.Rows[1].HugeBytes, f.Rows[1].SwapBytes = *size(8), *size(0.5)
	f.Rows[1].Children = []footprint.Child{{Name: "Java and compiler threads", ResidentBytes: *size(12)}, {ID: footprint.PartLargestThreads, Children: []footprint.Child{
		{Name: "http-8080-exec-3", ResidentBytes: *size(2)}, {Name: "main", ResidentBytes: *size(0.9)}}}}
	f.Asked = &footprint.Asked{
		HeapUsedBytes: size(61.5), CodeUsedBytes: size(20),
		Tracking: &footprint.Tracking{Level: "summary", Categories: []footprint.TrackedCategory{
			{Name: "Other", ReservedBytes: *size(16), CommittedBytes: *size(16), MallocBytes: *size(16)},
			{Name: "Java Heap", ReservedBytes: *size(150), CommittedBytes: *size(80)},
			{Name: "JNI", ReservedBytes: 8, CommittedBytes: 8, MallocBytes: 8},
		}},
		Classes: &footprint.ClassHistogram{Instances: 123456, Bytes: *size(61.5), Largest: []footprint.ClassObject{
			{Name: "[B", Instances: 90000, Bytes: *size(40)}, {Name: "[[Ljava.lang.String;", Instances: 5, Bytes: *size(3)},
			{Name: "com.example.a.very.long.name.of.a.package.AndAClassWithAName$AndAnInnerOne", Instances: 7, Bytes: *size(1)},
			{Name: "java.lang.Byte", Instances: 256, Bytes: 4096}}},
		Metaspace: &footprint.MetaspaceUse{CommittedBytes: *size(15), WasteBytes: *size(1.5)},
		Loaders: &footprint.LoaderUse{Loaders: 70, Classes: 10480, Largest: []footprint.LoaderType{
			{Type: "<boot class loader>", Loaders: 1, Classes: 4000, MetaspaceBytes: *size(9), UsedBytes: *size(8.8)}}},
	}
	checkScreen(t, "footprint-asked.txt", f)
}

func checkScreen(t *testing.T, name string, f *footprint.Footprint) {
	t.Helper()
	got := bytes.NewBuffer(terminal(t, Footprint(f)))
	golden(t, name, got.Bytes())
	for line := range strings.Lines(got.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestFootprintWithoutALimit(t *testing.T) {
	f := example()
	f.Cgroup.LimitBytes, f.Cgroup.HeadroomBytes = nil, nil
	got := bytes.NewBuffer(terminal(t, Footprint(f)))
	if !strings.Contains(got.String(), "has no memory limit") {
		t.Errorf("got\n%s", got)
	}
}

func TestClassName(t *testing.T) {
	for name, want := range map[string]string{
		"java.lang.String": "java.lang.String", "[B": "byte[]", "[[I": "int[][]", "[Ljava.util.Map$Entry;": "java.util.Map$Entry[]", "": "", "[": "[]",
	} {
		if got := className(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
