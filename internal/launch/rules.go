package launch

import (
	"fmt"
	"strings"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/jvmopts"
)

// facts is all that the rules know.
type facts struct {
	budget  Budget
	java    *jdkfiles.Runtime
	release jvmopts.Release
	env     []string
	shape   shape
	hints   hints
}

// Where the lines between the rules are.
const (
	// serverBytes and two processors make HotSpot's server-class machine (JDK:
	// os::is_server_class_machine; 2 GiB less a quarter of GiB).
	serverBytes = 1792 * mib
	// smallBytes is where options that trade a little speed for memory end.
	smallBytes = 1 << 30
	// largeSerial is where full collections by one thread take seconds.
	largeSerial = 4 << 30
	// tinyBytes is where the pages of the class archive are a matter of a
	// twentieth.
	tinyBytes = 256 * mib
)

// rule adds what it advises, or nothing.
type rule func(*plan, *facts)

// rules are in an order in which each may rely on those before it: the heap is
// what the collector and the compilers leave.
var rules = []rule{
	collectorRule, compilersRule, heapRule, exitRule, returnRule, shareRule, relocationRule, headersRule,
	arenasRule, trimRule, processorsRule,
}

// unmeasured are the rules for what a profile says nothing of.
var unmeasured = []rule{exitRule, processorsRule}

// sized says that the memory bound is known and that this JVM is the one it is
// meant for: a control group's, or a machine too small to hold much else.
func (f *facts) sized() bool {
	return f.budget.MemoryBytes > 0 && (f.budget.Limited || f.budget.MemoryBytes < serverBytes)
}

func (f *facts) small() bool { return f.sized() && f.budget.MemoryBytes < smallBytes }

func collectorRule(p *plan, f *facts) {
	if p.settled(jvmopts.Collector) || !f.sized() {
		return
	}
	single, small := f.budget.CPUs == 1, f.budget.MemoryBytes < serverBytes
	// With one processor HotSpot chooses it however large the heap is; beyond
	// some size that is not worth insisting on in 27, which no longer does.
	if !small && (!single || f.budget.MemoryBytes >= largeSerial) {
		f.shape.collector = defaultCollector(f.release)
		return
	}
	why := "less than 1792 MiB: HotSpot until 26 chooses it too"
	if single {
		why = "one processor: HotSpot until 26 chooses it too"
	}
	f.shape.collector = "Serial"
	p.add(Advice{Set: []string{"-XX:+UseSerialGC"}, Why: why,
		Effect: "no remembered sets, no collector threads", Source: "JDK: GCConfig::select_gc_ergonomically"})
}

// defaultCollector is HotSpot's choice on a server-class machine (JEP 248).
func defaultCollector(r jvmopts.Release) string {
	if r.Feature == 8 {
		return "Parallel"
	}
	return "G1"
}

func compilersRule(p *plan, f *facts) {
	if p.settled(jvmopts.Compiler) || !f.small() {
		return
	}
	if heap, ok := f.heap(); ok && heap*3 >= f.budget.MemoryBytes {
		return
	}
	f.shape.compilers = c1Only
	p.add(Advice{Set: []string{"-XX:TieredStopAtLevel=1"}, Why: "with C2 less than a third of the memory would be left for the heap",
		Effect: "saves C2's working memory and profiles; hot code runs slower once warm", Source: "run-java.sh, TUNING.md"})
}

// heap is the largest one that fits.
func (f *facts) heap() (int64, bool) {
	return f.shape.heapFor(f.budget.MemoryBytes, f.hints.headroom)
}

func heapRule(p *plan, f *facts) {
	if p.settled(jvmopts.HeapMax) || !f.sized() {
		return
	}
	heap, ok := f.heap()
	why := f.sum(heap)
	if !ok {
		p.warn("%d MiB are too few for what this JVM is reckoned to need beside its heap, %d MiB: raise the limit; it starts with a quarter for the heap",
			f.budget.MemoryBytes/mib, total(f.shape.rest())/mib)
		heap, why = f.budget.MemoryBytes/4/heapStep*heapStep, "a quarter: what is reckoned beside it leaves too little"
	}
	if p.add(Advice{Set: []string{fmt.Sprintf("-Xmx%dm", heap/mib)}, Why: why, Effect: "the heap and the rest stay below the limit", Source: "docs/exec.md"}) {
		p.heap, p.rest = heap, f.shape.rest()
	}
}

// sum shows the calculation, in MiB.
func (f *facts) sum(heap int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", f.budget.MemoryBytes/mib)
	for _, part := range f.shape.rest() {
		if n := (part.Bytes + mib/2) / mib; n > 0 {
			fmt.Fprintf(&b, " − %s %d", part.What, n)
		}
	}
	fmt.Fprintf(&b, " − reserve %d", reserve(f.budget.MemoryBytes, f.hints.headroom)/mib)
	if heap >= f.budget.MemoryBytes/100*heapShare/heapStep*heapStep {
		fmt.Fprintf(&b, ", at most %d %%", heapShare)
	}
	return b.String()
}

func exitRule(p *plan, f *facts) {
	if f.release.AtLeast(jvmopts.Release{Feature: 8, Update: 92}) {
		p.add(Advice{Set: []string{"-XX:+ExitOnOutOfMemoryError"},
			Why: "a restart beats a service that lost a thread to OutOfMemoryError", Source: "JDK-8138745"})
	}
}

// returnRule makes the JVM give back what the heap does not need.
func returnRule(p *plan, f *facts) {
	if f.small() && f.shape.collector == "Serial" {
		p.add(Advice{Set: []string{"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"},
			Why:    "after a full collection the heap shrinks to what lives and two thirds more",
			Effect: "less resident heap; some more collections", Source: "run-java.sh, TUNING.md"})
	}
}

// shareRule: before 11 the server VM uses the default archive only when told to.
func shareRule(p *plan, f *facts) {
	if f.release.Feature < 11 && f.shape.archiveBytes > 0 {
		p.add(Advice{Set: []string{"-Xshare:auto"}, Why: "the JDK has a class archive, and uses it by itself only from 11 on",
			Effect: "starts faster; its pages are shared between JVMs", Source: "JDK-8197967"})
	}
}

func relocationRule(p *plan, f *facts) {
	if !f.sized() || f.budget.MemoryBytes > tinyBytes || f.shape.archiveBytes == 0 || !f.java.Has("ArchiveRelocationMode") {
		return
	}
	moved := f.shape.archiveDirty()
	still := f.shape
	still.relocated = false
	p.add(Advice{Set: []string{unlockDiagnostic, "-XX:ArchiveRelocationMode=0"},
		Why:    "the class archive stays where it was made for, so that its pages stay clean",
		Effect: fmt.Sprintf("saves %d MiB; the archive's address is predictable", (moved-still.archiveDirty())/mib), Source: "JDK-8294323"})
}

func headersRule(p *plan, f *facts) {
	if f.release.Feature < 25 || f.release.Feature > 26 || jdkfiles.CompactArchive(f.java.Home) == "" {
		return
	}
	// An archive is made for one kind of headers, and not all collectors know both.
	if p.settled(jvmopts.Archive) || p.settled(jvmopts.Collector) {
		return
	}
	p.add(Advice{Set: []string{"-XX:+UseCompactObjectHeaders"},
		Why: "8 bytes less for each object; the JDK has an archive for it", Effect: "saves about a tenth of what lives in the heap", Source: "JEP 519"})
}

func arenasRule(p *plan, f *facts) {
	if f.budget.MemoryBytes == 0 || !f.budget.Limited || f.java.Libc == "musl" || p.settled(jvmopts.Arenas) {
		return
	}
	arenas := 2
	if f.budget.MemoryBytes <= tinyBytes {
		arenas = 1
	}
	p.add(Advice{Set: []string{fmt.Sprintf("MALLOC_ARENA_MAX=%d", arenas)},
		Why:    "glibc keeps freed memory per arena, and makes up to 8 for each processor of the machine, whatever the quota",
		Effect: "threads that call malloc at the same time wait for each other", Source: "mallopt(3)"})
}

func trimRule(p *plan, f *facts) {
	if !f.small() || f.java.Libc == "musl" || !f.java.Has("TrimNativeHeapInterval") || f.release.Feature == 17 && f.release.Update < 12 {
		return
	}
	p.add(Advice{Set: []string{"-XX:TrimNativeHeapInterval=5000"},
		Why:    "gives what glibc keeps of freed memory back every 5 s, such as the compilers' after the start",
		Effect: "saves up to 20 MiB; a few milliseconds of a thread of its own", Source: "JDK-8293114"})
}

func processorsRule(p *plan, f *facts) {
	if f.budget.SetCPUs && f.java.Has("ActiveProcessorCount") {
		p.add(Advice{Set: []string{fmt.Sprintf("-XX:ActiveProcessorCount=%d", f.budget.CPUs)},
			Why:    f.budget.CPUsFrom + ", which this JVM does not read from this version of control groups",
			Effect: "threads and pools for the processors that there are", Source: "JDK-8230305"})
	}
}
