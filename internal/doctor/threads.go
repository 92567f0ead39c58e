package doctor

import (
	"fmt"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

const (
	// ordinaryStack is what the stack of a thread in a pool has resident:
	// some 100 KiB were measured on JDK 8 to 27.
	ordinaryStack = 128 * kib
	// pagedIn is the part of a stack's size that only huge pages make
	// resident in the average thread: a half.
	pagedIn = 2
	// fewThreads is how many threads no average is taken of.
	fewThreads = 10
	// manyThreads is more than a server's default pool of 200 and the JVM's
	// own threads.
	manyThreads = 300
	// deepStack is what a thread has resident that was deep in calls:
	// thousands of frames.
	deepStack = 512 * kib
)

const sourceTHP = "https://bugs.openjdk.org/browse/JDK-8312182"

// stacks is what is known of the thread stacks.
type stacks struct {
	resident, huge int64
	threads        int64
}

func (p *patient) stacks() stacks {
	r := p.row(footprint.ThreadStacks)
	return stacks{resident: r.ResidentBytes, huge: r.HugeBytes, threads: int64(p.Threads)}
}

// average is the resident part of a stack.
func (s stacks) average() int64 { return s.resident / max(s.threads, 1) }

// hugeStacks is how much of the stacks huge pages paged in, and how sure that
// is; 0 when they are not to blame. Once guard pages split them the huge pages
// are gone, but what they paged in stays.
func (p *patient) hugeStacks() (int64, Certainty) {
	s := p.stacks()
	if s.huge >= p.hugePage() && p.worth(s.huge) {
		return min(s.huge, s.resident), Certain
	}
	stackKiB, ok := p.number("ThreadStackSize")
	if !ok || stackKiB <= 0 || s.threads < fewThreads || s.average() < stackKiB*kib/pagedIn {
		return 0, ""
	}
	if p.Host == nil || p.Host.THP != "always" || p.stacksSpared() {
		return 0, ""
	}
	if extra := s.resident - s.threads*ordinaryStack; p.worth(extra) {
		return extra, Likely
	}
	return 0, ""
}

// stacksSpared says that the kernel makes no huge pages of stacks: Linux 6.7
// maps MAP_STACK without (commit c4608d1bf7c6).
func (p *patient) stacksSpared() bool { return p.kernelAtLeast(6, 7) }

// stacksHugePages: huge pages made whole stacks resident.
func stacksHugePages(p *patient) *Finding {
	stake, certainty := p.hugeStacks()
	if stake == 0 {
		return nil
	}
	s := p.stacks()
	seen := "in no huge page any more: guard pages split them"
	if s.huge > 0 {
		seen = size(s.huge) + " of it in huge pages"
	}
	evidence := []string{fmt.Sprintf("%s resident in the stacks of %d threads, %d KiB each, %s",
		size(s.resident), s.threads, s.average()/kib, seen)}
	if p.Host != nil {
		evidence = append(evidence, fmt.Sprintf("Linux %s takes huge pages: %s", p.Host.Kernel, p.Host.THP))
	}
	do := []string{}
	switch {
	case p.has("THPStackMitigation") && p.Host != nil && p.Host.THP == "always" && p.is("THPStackMitigation", "false"):
		evidence = append(evidence, "THPStackMitigation is switched off")
		do = append(do, "remove -XX:-THPStackMitigation")
	case len(p.Flags) > 0 && !p.has("THPStackMitigation"):
		evidence = append(evidence, "JDK "+p.JDK+" has no THPStackMitigation")
		do = append(do, "a JDK with THPStackMitigation (JDK-8312182): 17.0.9, 21.0.1, 22 or later")
	}
	if stackKiB, ok := p.number("ThreadStackSize"); ok && stackKiB > 0 && stackKiB*kib%p.hugePage() == 0 {
		do = append(do, fmt.Sprintf("-Xss%dk: a size that is no multiple of %d MiB", stackKiB-16, p.hugePage()/mib))
	}
	do = append(do,
		"start it under prctl(PR_SET_THP_DISABLE), which a JVM inherits",
		"for the whole machine: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	return &Finding{
		Title:        "Huge pages made thread stacks resident that nobody uses.",
		BytesAtStake: stake, Certainty: certainty, Evidence: evidence, Do: do,
		Source: sourceTHP,
	}
}

// threadsMany: many threads, each with a stack.
func threadsMany(p *patient) *Finding {
	s := p.stacks()
	if huge, _ := p.hugeStacks(); huge > 0 || s.threads < manyThreads || !p.worth(s.resident) {
		return nil
	}
	do := []string{"bound the pools, such as server.tomcat.threads.max, and see who starts threads: jcmd " +
		fmt.Sprint(p.PID) + " Thread.print"}
	if p.major >= 21 {
		do = append(do, "virtual threads for what waits: their stacks lie in the heap and grow as needed (JEP 444)")
	}
	return &Finding{
		Title:        fmt.Sprintf("%d threads have stacks.", s.threads),
		BytesAtStake: s.resident, Certainty: Likely,
		Evidence: []string{
			fmt.Sprintf("%s resident, %d KiB each", size(s.resident), s.average()/kib),
			"each has 16 KiB of kernel memory on top, which the limit sees as well",
			"a smaller -Xss would not help: it reserves addresses, which are not resident",
		},
		Do:     do,
		Cost:   "requests wait in the queue of a pool that is too small",
		Source: "https://openjdk.org/jeps/444",
	}
}

// threadsDeep: some threads were deep in calls once, and keep the pages.
func threadsDeep(p *patient) *Finding {
	largest := p.Part(footprint.ThreadStacks, footprint.PartLargestThreads)
	if huge, _ := p.hugeStacks(); huge > 0 || largest == nil {
		return nil
	}
	var stake int64
	var deep []footprint.Child
	for _, t := range largest.Children {
		if t.ResidentBytes >= deepStack {
			stake += t.ResidentBytes - ordinaryStack
			deep = append(deep, t)
		}
	}
	// More than are listed may be as deep.
	s := p.stacks()
	if s.average() >= deepStack {
		stake = max(stake, s.resident-s.threads*ordinaryStack)
	}
	if !p.worth(stake) {
		return nil
	}
	return &Finding{
		Title:        "Threads were deep in calls, and their stacks stay resident.",
		BytesAtStake: stake, Certainty: Likely,
		Evidence: append([]string{fmt.Sprintf("%s resident in %d stacks, %d KiB each on average",
			size(s.resident), s.threads, s.average()/kib)}, largestOf(deep)...),
		Do: []string{
			fmt.Sprintf("look for recursion in these threads: jcmd %d Thread.print", p.PID),
			"let pools end idle threads: pages that a stack touched are given back only when its thread ends",
		},
		Source: "https://berksoftware.com/23/12/JVM-Stack-Memory",
	}
}

// largestOf names the largest threads, each with its stack.
func largestOf(deep []footprint.Child) []string {
	const most = 5
	var out []string
	for _, t := range deep[:min(len(deep), most)] {
		out = append(out, fmt.Sprintf("%s %s", linux.PrintableName(t.Name), size(t.ResidentBytes)))
	}
	if n := len(deep) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more of the largest", n))
	}
	if len(out) == 0 {
		return nil
	}
	return []string{"largest: " + strings.Join(out, ", ")}
}
