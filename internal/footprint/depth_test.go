package footprint_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// startBuffers starts the program in testdata that holds direct buffers and
// virtual threads.
func startBuffers(t *testing.T, major int, options []string, buffers, kib, virtual int) *jvmtest.Process {
	t.Helper()
	classes := t.TempDir()
	javac := filepath.Join(jvmtest.Home(t, 8), "bin", "javac") // what it compiles runs on all
	if out, err := exec.Command(javac, "-d", classes, filepath.Join("testdata", "Buffers.java")).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	args := append(append([]string{}, options...), "-cp", classes, "Buffers", fmt.Sprint(buffers), fmt.Sprint(kib), fmt.Sprint(virtual))
	p := jvmtest.Start(t, jvmtest.Java(t, major), args...)
	p.Await(t, "ready")
	return p
}

// part finds a part of a row by its id at any depth.
func part(children []footprint.Child, id string) (footprint.Child, bool) {
	for _, c := range children {
		if c.ID == id {
			return c, true
		}
		if found, ok := part(c.Children, id); ok {
			return found, true
		}
	}
	return footprint.Child{}, false
}

// What java.nio counts is read without asking, whatever references look like.
func TestDirectBuffersAreCounted(t *testing.T) {
	const buffers, kib = 5, 1024
	for _, c := range []configuration{
		{"Parallel", 8, nil},
		{"no compressed oops", 11, []string{"-XX:-UseCompressedOops"}},
		{"G1", 17, nil},
		{"generational ZGC", 21, []string{"-XX:+UseZGC", "-XX:+ZGenerational"}},
		{"ZGC without generations", 17, []string{"-XX:+UseZGC"}},
		{"compact headers", 25, []string{"-XX:+UseCompactObjectHeaders"}},
		{"Serial", 27, []string{"-XX:+UseSerialGC"}},
	} {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.name), func(t *testing.T) {
			p := startBuffers(t, c.major, append([]string{"-Xmx64m"}, c.options...), buffers, kib, 0)
			malloc := row(t, weigh(t, p.PID(), false), footprint.Malloc)
			got, ok := part(malloc.Children, footprint.PartDirectBuffers)
			// The program's own output has small buffers of its own.
			if want := int64(buffers * kib << 10); !ok || got.How != footprint.Counted || got.ResidentBytes < want || got.ResidentBytes > want+64<<10 {
				t.Errorf("direct buffers %+v, want %d bytes", got, want)
			}
			if malloc.ResidentBytes < got.ResidentBytes {
				t.Errorf("%d bytes of malloc, %d of direct buffers", malloc.ResidentBytes, got.ResidentBytes)
			}
		})
	}
}

// Each kind of class archive, and virtual threads, whose stacks are objects.
func TestWeighArchivesAndVirtualThreads(t *testing.T) {
	jar := jvmtest.Jar(t, "workloads.jar")
	dir := t.TempDir()
	dump := func(major int, option string) {
		// Without a workload the program ends, and the JVM writes its archive.
		if out, err := exec.Command(jvmtest.Java(t, major), option, "-jar", jar).CombinedOutput(); !strings.Contains(string(out), "usage:") {
			t.Fatalf("%s: %v\n%s", option, err, out)
		}
	}
	dynamic, cache := filepath.Join(dir, "app.jsa"), filepath.Join(dir, "app.aot")
	dump(17, "-XX:ArchiveClassesAtExit="+dynamic)
	dump(25, "-XX:AOTCacheOutput="+cache)
	for _, c := range []struct {
		configuration
		archives []string
	}{
		{configuration{"dynamic archive", 17, []string{"-XX:SharedArchiveFile=" + dynamic}}, []string{"classes.jsa", "app.jsa"}},
		{configuration{"AOT cache", 25, []string{"-XX:AOTCache=" + cache}}, []string{"app.aot"}},
		{configuration{"AOT cache, not relocated", 25, []string{"-XX:AOTCache=" + cache, "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"}}, []string{"app.aot"}},
	} {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.name), func(t *testing.T) {
			p := jvmtest.StartFiller(t, jvmtest.Java(t, c.major), append([]string{"-Xmx64m"}, c.options...), 20, 100, 50)
			f := weigh(t, p.PID(), false)
			checkRemainder(t, f, 0.01)
			checkArchives(t, row(t, f, footprint.CDS), c.archives)
		})
	}
	for _, major := range []int{21, 25} {
		t.Run(fmt.Sprintf("jdk%d/virtual threads", major), func(t *testing.T) {
			p := startBuffers(t, major, []string{"-Xmx64m"}, 0, 0, 5000)
			f := weigh(t, p.PID(), false)
			checkRemainder(t, f, 0.01)
			if f.Threads > 200 || row(t, f, footprint.JavaHeap).ResidentBytes < 5000*500 {
				t.Errorf("%d threads, heap %+v", f.Threads, row(t, f, footprint.JavaHeap))
			}
		})
	}
}

// checkArchives checks that each file is there and divided into what was
// written to and what was not.
func checkArchives(t *testing.T, cds footprint.Row, files []string) {
	t.Helper()
	for _, name := range files {
		file, ok := part(cds.Children, footprint.FilePart(name))
		written, ok1 := part(file.Children, "written")
		clean, ok2 := part(file.Children, "clean")
		if !ok || !ok1 || !ok2 || written.ResidentBytes+clean.ResidentBytes != file.ResidentBytes || file.ResidentBytes == 0 {
			t.Errorf("%s in %+v", name, cds.Children)
		}
	}
}

// Memory of another malloc is found, and the collector's tables are not
// mistaken for it: native memory tracking, which knows where those are, says
// much the same.
func TestOtherAllocators(t *testing.T) {
	for name, pattern := range map[string]string{"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"} {
		t.Run(name, func(t *testing.T) {
			libs, err := filepath.Glob("/usr/lib/*/" + pattern)
			if err != nil || len(libs) == 0 {
				t.Fatalf("%s is missing: run scripts/setup.sh test (%v)", pattern, err)
			}
			p := jvmtest.Start(t, "env", "LD_PRELOAD="+libs[0], jvmtest.Java(t, 17), "-Xmx128m", "-XX:NativeMemoryTracking=detail",
				"-jar", jvmtest.Jar(t, "workloads.jar"), "memory-filler", "30", "100", "50")
			p.Await(t, "ready")
			alone := weigh(t, p.PID(), false)
			lean, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{Series: &footprint.Series{}})
			if err != nil {
				t.Fatal(err)
			}
			asked := weigh(t, p.PID(), true)
			checkRemainder(t, alone, 0.01)
			for _, f := range []*footprint.Footprint{alone, lean} {
				malloc := row(t, f, footprint.Malloc)
				own, _ := part(malloc.Children, "allocator:"+name)
				if malloc.Allocator != name || own.ResidentBytes < malloc.ResidentBytes/2 {
					t.Errorf("malloc %+v", malloc)
				}
				for _, o := range []footprint.Owner{footprint.JavaHeap, footprint.ThreadStacks, footprint.Metaspace, footprint.GC, footprint.CodeCache} {
					checkSame(t, o, row(t, f, o).ResidentBytes, row(t, asked, o).ResidentBytes)
				}
			}
		})
	}
}

// What glibc itself counts as free in its arenas is what is read of them.
func TestArenasAgreeWithGlibc(t *testing.T) {
	// No compiler, which would change the arenas in between.
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 25), []string{"-Xmx64m", "-Xint"}, 10, 10, 10)
	proc := linux.NewFS("/proc")
	target, err := process.Find(proc, p.PID())
	if err != nil {
		t.Fatal(err)
	}
	var text string
	err = attach.Ask(context.Background(), proc, target, "System.native_heap_info", func(answer io.Reader) error {
		b, err := io.ReadAll(answer)
		text = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "<malloc")
	text, _, _ = strings.Cut("<malloc"+text, "</malloc>")
	type total struct {
		Type string `xml:"type,attr"`
		Size int64  `xml:"size,attr"`
	}
	var info struct {
		Heaps []struct {
			Total  []total `xml:"total"`
			System []total `xml:"system"`
		} `xml:"heap"`
	}
	if err := xml.Unmarshal([]byte(text+"</malloc>"), &info); err != nil {
		t.Fatal(err)
	}
	var system, free int64
	for _, h := range info.Heaps {
		for _, s := range h.System {
			if s.Type == "current" {
				system += s.Size
			}
		}
		for _, s := range h.Total {
			if s.Type == "rest" { // fast bins count as used
				free += s.Size
			}
		}
	}
	malloc := row(t, weigh(t, p.PID(), false), footprint.Malloc)
	if malloc.Arenas != len(info.Heaps) || len(info.Heaps) < 2 {
		t.Errorf("%d arenas, glibc has %d", malloc.Arenas, len(info.Heaps))
	}
	// The answer itself was in a buffer while glibc counted.
	want := system - free
	if diff := *malloc.UsedBytes - want; diff < -1<<20 || diff > 256<<10 {
		t.Errorf("%d bytes in use, glibc says %d", *malloc.UsedBytes, want)
	}
	var byArena int64
	arenas, _ := part(malloc.Children, footprint.PartArenas)
	main, _ := part(malloc.Children, footprint.PartMainArena)
	for _, c := range append(arenas.Children, main) {
		if c.UsedBytes == nil {
			t.Errorf("%s does not say what is in use", c.Name)
			continue
		}
		byArena += *c.UsedBytes
	}
	if byArena != *malloc.UsedBytes {
		t.Errorf("the arenas have %d bytes in use, the row %d", byArena, *malloc.UsedBytes)
	}
}

// A JVM is asked for what its version can answer.
func TestAsking(t *testing.T) {
	for _, c := range []struct {
		major int
		nmt   string
	}{{8, "summary"}, {17, "detail"}, {25, "summary"}, {27, "off"}} {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.nmt), func(t *testing.T) {
			p := startBuffers(t, c.major, []string{"-Xmx64m", "-XX:NativeMemoryTracking=" + c.nmt}, 8, 1024, 0)
			var cost []footprint.Cost
			f, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{Deep: true, Announce: func(c footprint.Cost) { cost = append(cost, c) }})
			if err != nil {
				t.Fatal(err)
			}
			checkSum(t, f)
			checkRemainder(t, f, 0.01)
			for _, s := range f.Sources {
				if s.Error != nil {
					t.Errorf("source %s: %s", s.Name, *s.Error)
				}
			}
			if len(cost) != 1 || cost[0].HeapUsedBytes <= 0 || cost[0].Classes < 100 || cost[0].Threads < 5 {
				t.Errorf("announced %+v", cost)
			}
			checkAsked(t, c.major, c.nmt, f)
		})
	}
}

func checkAsked(t *testing.T, major int, nmt string, f *footprint.Footprint) {
	t.Helper()
	a := f.Asked
	if a == nil || a.HeapUsedBytes == nil || *a.HeapUsedBytes < 100<<10 || *a.HeapUsedBytes > 64<<20 {
		t.Fatalf("asked %+v", a)
	}
	if (a.CodeUsedBytes != nil) != (major >= 9) || (a.Metaspace != nil) != (major >= 11) || (a.Tracking != nil) != (nmt != "off") {
		t.Errorf("asked %+v", a)
	}
	if h := a.Classes; h == nil || h.Bytes < 100<<10 || len(h.Largest) < 20 || h.Largest[0].Bytes > h.Bytes {
		t.Errorf("classes %+v", h)
	}
	if l := a.Loaders; l == nil || l.Loaders < 2 || l.Classes < 100 || len(l.Largest) == 0 {
		t.Errorf("loaders %+v", l)
	}
	if a.Tracking == nil {
		return
	}
	category := map[int]string{8: "Internal"}[major]
	if category == "" {
		category = "Other"
	}
	malloc := row(t, f, footprint.Malloc)
	if got, ok := part(malloc.Children, "tracked:"+category); !ok || got.ResidentBytes < 8<<20 || got.How != footprint.Counted {
		t.Errorf("%s: %+v", category, got)
	}
	// System.map tells regions where native memory tracking has sums only.
	if how := row(t, f, footprint.Metaspace).How; (how == footprint.Exact) != (major >= 21 || nmt == "detail") {
		t.Errorf("metaspace is known by %s", how)
	}
}

func TestAskingIsRefused(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:+DisableAttachMechanism"}, 1, 1, 1)
	for _, opts := range []footprint.Options{{Attach: true}, {Deep: true}} {
		if _, err := footprint.Weigh(context.Background(), p.PID(), opts); !errors.Is(err, attach.ErrUnsafe) {
			t.Errorf("error %v, want ErrUnsafe", err)
		}
	}
	if strings.Contains(p.Output(), "Full thread dump") {
		t.Error("the JVM was signalled")
	}
	if _, err := os.Stat(fmt.Sprintf("/tmp/.attach_pid%d", p.PID())); err == nil {
		t.Error("a request to attach was left behind")
	}
}

// Tables of the collector are told apart by their sizes. Where the kernel
// merged one with other memory it keeps its owner at best, so that not each is
// named each time; what is named belongs to the collector.
func TestGCTables(t *testing.T) {
	alone.Uses(t, "JVMs")
	named := map[string]bool{}
	for _, c := range []configuration{
		{"G1", 17, []string{"-XX:+UseG1GC"}},
		{"Serial", 25, []string{"-XX:+UseSerialGC"}},
		{"Parallel", 8, []string{"-XX:+UseParallelGC"}},
		{"Shenandoah", 17, []string{"-XX:+UseShenandoahGC"}},
		{"ZGC", 17, []string{"-XX:+UseZGC"}},
	} {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.name), func(t *testing.T) {
			p := jvmtest.StartFiller(t, jvmtest.Java(t, c.major), append([]string{"-Xmx256m", "-XX:NativeMemoryTracking=detail"}, c.options...), 5, 100, 10)
			alone, asked := weigh(t, p.PID(), false), weigh(t, p.PID(), true)
			gc, tracked := row(t, alone, footprint.GC), row(t, asked, footprint.GC)
			checkSame(t, footprint.GC, gc.ResidentBytes, tracked.ResidentBytes)
			for _, table := range gc.Children {
				named[table.Name] = true
				if *table.ReservedBytes > *tracked.ReservedBytes {
					t.Errorf("%+v, the collector has reserved %d bytes in all", table, *tracked.ReservedBytes)
				}
			}
			if _, ok := part(gc.Children, "card-table"); !ok && (c.name == "G1" || c.name == "Serial" || c.name == "Parallel") {
				t.Errorf("no card table in %+v", gc.Children)
			}
		})
	}
	if len(named) < 4 {
		t.Errorf("of all tables only these were named: %v", named)
	}
}

// Huge pages and what was written to of files are those of their owners: the
// sums are what smaps counts.
func TestKindsOfPages(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 21), []string{"-Xms64m", "-Xmx64m", "-Xint", "-XX:+UseSerialGC", "-XX:+UseTransparentHugePages", "-XX:+AlwaysPreTouch"}, 5, 100, 10)
	f := weigh(t, p.PID(), false)
	vmas, err := linux.NewFS("/proc").Smaps(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	var huge, private int64
	for _, v := range vmas {
		huge += v.AnonHuge
		if v.FileBacked() {
			private += v.Anonymous
		}
	}
	var gotHuge, gotPrivate int64
	for _, r := range f.Rows {
		gotHuge += r.HugeBytes
		gotPrivate += r.AnonymousBytes
	}
	if gotHuge != huge || gotPrivate < private-64<<10 || gotPrivate > private+64<<10 {
		t.Errorf("%d bytes in huge pages, %d private of files; smaps has %d and %d", gotHuge, gotPrivate, huge, private)
	}
	if heap := row(t, f, footprint.JavaHeap); f.Host.THP != "never" && (heap.HugeBytes < 48<<20 || heap.HugeBytes > heap.ResidentBytes) {
		t.Errorf("%d bytes of the heap in huge pages of %d", heap.HugeBytes, heap.ResidentBytes)
	}
}
