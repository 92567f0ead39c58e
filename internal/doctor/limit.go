package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

const (
	// headroomShare is the part of a limit that should be left before a kill:
	// a tenth, for bursts of connections, compilations and class loading.
	headroomShare = 10
	// refaultBytes is how much of files must have been read again to matter,
	// as much as a start reads: libraries, jars and archives.
	refaultBytes = 64 * mib
	// nearLimit is the usage from which on the limit squeezes the page cache.
	nearLimit = 0.9
	// pressed is the share of the last five minutes, in percent, of waiting
	// for memory that is felt.
	pressed = 1.0
	// swapBytes is the least swap that is no chance: a few pages are swapped
	// out on any machine.
	swapBytes = mib
)

const (
	sourceMemory = "https://docs.kernel.org/admin-guide/cgroup-v2.html#memory"
	sourceCPU    = "https://bugs.openjdk.org/browse/JDK-8146115"
)

// needed is what the limit sees and the kernel cannot reclaim.
func needed(c *footprint.Cgroup) int64 { return c.UsageBytes - c.ReclaimableBytes }

// limitBelowHeap: heap and the rest together may exceed the limit.
func limitBelowHeap(p *patient) *Finding {
	largest, ok := p.number("MaxHeapSize")
	if !ok || p.limit() == 0 || p.row(footprint.JavaHeap).HugetlbBytes > 0 {
		return nil // a heap in hugetlbfs is not charged to the limit
	}
	rest := max(0, needed(p.Cgroup)-p.row(footprint.JavaHeap).ResidentBytes)
	over := largest + rest - p.limit()
	if over <= 0 {
		return nil
	}
	do := []string{fmt.Sprintf("a limit of %d MiB", ceilMiB(share(largest+rest, 1+1.0/headroomShare)))}
	fits := share(p.limit(), 1-1.0/headroomShare) - rest
	// A heap that cannot hold what lives is no advice.
	if h := p.heap(); fits > 0 && (h == nil || fits > roomFactor*h.live) {
		do = append(do, fmt.Sprintf("-Xmx%dm", fits/mib))
	}
	return &Finding{
		Title:        "The heap may grow by more than the limit leaves: the kernel kills then, before any OutOfMemoryError.",
		BytesAtStake: over, Certainty: Likely,
		Evidence: []string{
			fmt.Sprintf("largest heap %s + everything else %s = %s", size(largest), size(rest), size(largest+rest)),
			fmt.Sprintf("limit %s (cgroup v%d %s)", size(p.limit()), p.Cgroup.Version, p.Cgroup.Path),
		},
		Do: do, Source: sourceMemory,
	}
}

// headroomSmall: little is left before a kill.
func headroomSmall(p *patient) *Finding {
	if p.limit() == 0 || p.Cgroup.HeadroomBytes == nil {
		return nil
	}
	missing := p.limit()/headroomShare - *p.Cgroup.HeadroomBytes
	if swap := p.Cgroup.SwapLeftBytes; swap != nil {
		missing -= *swap // the kernel swaps out before it kills
	}
	if missing <= 0 {
		return nil
	}
	evidence := []string{fmt.Sprintf("%s of %s are in use and cannot be reclaimed: %s are left",
		size(needed(p.Cgroup)), size(p.limit()), size(*p.Cgroup.HeadroomBytes))}
	if n := p.Cgroup.Events["max"]; n > 0 {
		evidence = append(evidence, fmt.Sprintf("usage ran into the limit %d times", n))
	}
	if n := p.Cgroup.Events["oom_kill"]; n > 0 {
		evidence = append(evidence, fmt.Sprintf("the kernel has killed in this group: oom_kill %d", n))
	}
	return &Finding{
		Title:        "Less than a tenth of the limit is left before a kill.",
		BytesAtStake: missing, Certainty: Certain, Evidence: evidence,
		Do: []string{
			fmt.Sprintf("a limit of %d MiB", ceilMiB(share(needed(p.Cgroup), 1/(1-1.0/headroomShare)))),
			"less memory: see the other findings",
		},
		Source: sourceMemory,
	}
}

// highReached: the group is at memory.high, where the kernel slows it down.
func highReached(p *patient) *Finding {
	if p.Cgroup == nil || p.Cgroup.HighBytes == nil || p.Cgroup.HighHeadroomBytes == nil {
		return nil
	}
	high, left := *p.Cgroup.HighBytes, *p.Cgroup.HighHeadroomBytes
	missing := high/headroomShare - left
	if missing <= 0 {
		return nil
	}
	return &Finding{
		Title:        "Less than a tenth of memory.high is left: above it the kernel slows every thread down.",
		BytesAtStake: missing, Certainty: Certain,
		Evidence: []string{fmt.Sprintf("memory.high is %s, of which %s are in use and cannot be reclaimed", size(high), size(high-left))},
		Do: []string{
			fmt.Sprintf("memory.high of %d MiB, or none", ceilMiB(share(high-left, 1/(1-1.0/headroomShare)))),
			"less memory: see the other findings",
		},
		Source: sourceMemory,
	}
}

// cpuThreads: the JVM has more collector and compiler threads than the quota
// lets run.
func cpuThreads(p *patient) *Finding {
	if p.Cgroup == nil || p.Cgroup.CPUs == nil || *p.Cgroup.CPUs <= 0 {
		return nil
	}
	cpus := int64(math.Ceil(*p.Cgroup.CPUs))
	var evidence, do []string
	for _, x := range []struct {
		flag string
		fits int64
	}{
		{"ParallelGCThreads", gcThreads(cpus)},
		{"ConcGCThreads", max(1, (gcThreads(cpus)+2)/4)},
		{"CICompilerCount", compilerThreads(cpus)},
	} {
		n, ok := p.number(x.flag)
		if p.Collector == "Serial" && x.flag != "CICompilerCount" {
			continue // it does not use them
		}
		if ok && n > x.fits {
			evidence = append(evidence, fmt.Sprintf("%s is %d, where %d processors get %d", x.flag, n, cpus, x.fits))
			do = append(do, fmt.Sprintf("-XX:%s=%d", x.flag, x.fits))
		}
	}
	if len(do) == 0 {
		return nil
	}
	evidence = append([]string{fmt.Sprintf("the CPU quota is %.4g processors (cgroup v%d)", *p.Cgroup.CPUs, p.Cgroup.Version)}, evidence...)
	advice := []string{fmt.Sprintf("-XX:ActiveProcessorCount=%d: sizes collector, compiler and common pools alike", cpus), strings.Join(do, " ")}
	if p.is("UseContainerSupport", "false") {
		advice = append([]string{"remove -XX:-UseContainerSupport"}, advice...)
	}
	return &Finding{
		Title:        "The JVM sees more processors than its quota lets it use.",
		BytesAtStake: p.excessGCStacks(gcThreads(cpus)), Certainty: Likely,
		Evidence: append(evidence, "each thread has a stack, a malloc arena and, as a compiler, memory for its work"),
		Do:       advice,
		Cost:     "bursts that the quota would average out run with fewer threads",
		Source:   sourceCPU,
	}
}

// gcThreads is how many parallel collector threads HotSpot takes on so many
// processors (JDK: src/hotspot/share/gc/shared/workerPolicy.cpp).
func gcThreads(cpus int64) int64 {
	if cpus <= 8 {
		return cpus
	}
	return 8 + (cpus-8)*5/8
}

// compilerThreads is CICompilerCount on so many processors.
func compilerThreads(cpus int64) int64 {
	c1, c2 := jvmopts.CompilerThreads(int(cpus))
	return int64(c1 + c2)
}

// excessGCStacks is the part of the collector threads' stacks that is above a
// number of threads.
func (p *patient) excessGCStacks(fits int64) int64 {
	n, ok := p.number("ParallelGCThreads")
	gc := p.Part(footprint.ThreadStacks, footprint.PartGCThreads)
	if !ok || gc == nil || n <= fits {
		return 0
	}
	return share(gc.ResidentBytes, float64(n-fits)/float64(n))
}

// cacheSqueezed: the limit leaves too little for the pages of files, which are
// dropped and read again.
func cacheSqueezed(p *patient) *Finding {
	if p.limit() == 0 {
		return nil
	}
	pages, counted := p.Cgroup.Events["workingset_refault_file"]
	again := pages > refaultBytes/p.page() && float64(p.Cgroup.UsageBytes) >= nearLimit*float64(p.limit())
	waits := p.Cgroup.PressureSome300 != nil && *p.Cgroup.PressureSome300 >= pressed
	if !again && !waits {
		return nil
	}
	var evidence []string
	if counted {
		evidence = append(evidence, fmt.Sprintf("%d pages of files were dropped and read again", pages))
	}
	if p.Cgroup.PressureSome300 != nil {
		evidence = append(evidence, fmt.Sprintf("tasks waited for memory %.2f %% of the last five minutes", *p.Cgroup.PressureSome300))
	}
	certainty := Possible
	if again && waits {
		certainty = Likely
	}
	files := p.DroppableBytes()
	evidence = append(evidence, fmt.Sprintf("%s of this JVM's pages are clean pages of files: libraries, jars, archives", size(files)))
	return &Finding{
		Title:        "The limit squeezes the page cache: code and jars are read from disk again and again.",
		BytesAtStake: files, Certainty: certainty, Evidence: evidence,
		Do: []string{
			fmt.Sprintf("a limit of %d MiB: as it is, and these pages", ceilMiB(p.limit()+files)),
			"a smaller -Xmx, which leaves them room",
		},
		Source: "https://docs.kernel.org/accounting/psi.html",
	}
}

// swapped: a part of the JVM is on disk.
func swapped(p *patient) *Finding {
	rows := slices.Clone(p.Rows)
	slices.SortStableFunc(rows, func(a, b footprint.Row) int { return cmp.Compare(b.SwapBytes, a.SwapBytes) })
	var sum int64
	var where []string
	for _, r := range rows {
		if sum += r.SwapBytes; r.SwapBytes > 0 {
			where = append(where, fmt.Sprintf("%s %s", r.Owner, size(r.SwapBytes)))
		}
	}
	if sum < swapBytes {
		return nil
	}
	return &Finding{
		Title:        "A part of the JVM is swapped out: a collection must read it back.",
		BytesAtStake: sum, Certainty: Certain,
		Evidence: []string{"swapped out: " + strings.Join(where, ", ")},
		Do: []string{
			"no swap for the group: memory.swap.max=0 (cgroup v2), docker run --memory-swap equal to --memory",
			"less memory: see the other findings",
		},
		Cost:   "without swap the kernel kills where it would have swapped",
		Source: "https://docs.kernel.org/admin-guide/cgroup-v2.html#memory",
	}
}

// hostMemory: the machine has less left than the heap may still take.
func hostMemory(p *patient) *Finding {
	largest, ok := p.number("MaxHeapSize")
	if !ok || p.Host == nil || p.Host.MemTotalBytes <= 0 {
		return nil
	}
	resident := p.heapBytes()
	unused := largest - resident
	missing := unused - p.Host.MemAvailableBytes
	if missing <= 0 {
		return nil
	}
	if p.limit() > 0 && p.Cgroup.HeadroomBytes != nil && *p.Cgroup.HeadroomBytes < p.Host.MemAvailableBytes {
		return nil // the group's limit is reached before
	}
	return &Finding{
		Title:        "The heap may still grow by more than the machine has left.",
		BytesAtStake: missing, Certainty: Likely,
		Evidence: []string{
			fmt.Sprintf("largest heap %s, %s of it resident: it may take %s more", size(largest), size(resident), size(unused)),
			fmt.Sprintf("MemAvailable is %s of %s", size(p.Host.MemAvailableBytes), size(p.Host.MemTotalBytes)),
		},
		Do:     []string{fmt.Sprintf("-Xmx%dm", (resident+share(p.Host.MemAvailableBytes, 1-1.0/headroomShare))/mib), "fewer programs beside it, or a machine with more memory"},
		Cost:   "a heap that is too small is slow first, and then fails with OutOfMemoryError",
		Source: "https://docs.kernel.org/filesystems/proc.html (meminfo)",
	}
}
