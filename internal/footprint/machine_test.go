package footprint_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// TestInMachine weighs on Linux 6.1, which has no PAGEMAP_SCAN, and with -truth.all on
// 6.12, which has it; on cgroup v2, with swap and with huge pages of hugetlbfs.
func TestInMachine(t *testing.T) {
	suites := []string{"bookworm"}
	if *truthAll {
		suites = append(suites, "trixie")
	}
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			jvmtest.RunOnKernel(t, suite, "./internal/footprint", "(TestWeighOnThisKernel|TestGently|TestSwappedInside|TestHugePagesInside)", 17)
		})
	}
}

// TestWeighOnThisKernel runs on the host, and in the machine above.
func TestWeighOnThisKernel(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, 20, 100, 50)
	f := weigh(t, p.PID(), false)
	checkRemainder(t, f, 0.01)
	if d := f.RollupRSSBytes - f.RSSBytes; d < -1<<20 || d > 1<<20 {
		t.Errorf("the rows add up to %d, smaps_rollup says %d", f.RSSBytes, f.RollupRSSBytes)
	}
	if heap := row(t, f, footprint.JavaHeap); heap.ResidentBytes < 20*100<<10 || *heap.ReservedBytes != 64<<20 {
		t.Errorf("heap %+v", heap)
	}
	if f.Cgroup == nil || f.Cgroup.UsageBytes <= 0 || f.Cgroup.Version != map[bool]int{true: 2, false: f.Cgroup.Version}[vmtest.Inside()] {
		t.Errorf("control group %+v", f.Cgroup)
	}
}

// TestSwappedInside runs in the machine above, which it gives swap: what a program has
// written is in its row, be it resident or swapped out.
func TestSwappedInside(t *testing.T) {
	if !vmtest.Inside() {
		return // TestInMachine runs it
	}
	// Debian's kernel makes huge pages wherever an aligned one fits, also of a stack that
	// glibc kept of an ended thread: the program has then not written all that is resident.
	if err := os.WriteFile("/sys/kernel/mm/transparent_hugepage/enabled", []byte("never"), 0); err != nil {
		t.Fatal(err)
	}
	swapOn(t, 192<<20)
	group := filepath.Join("/sys/fs/cgroup", "swapped")
	h := jvmtest.StartHolderFrom(t, fmt.Sprintf("mkdir %[1]s; echo $$ >%[1]s/cgroup.procs; ", group), jvmtest.Java(t, 17),
		[]string{"-XX:+UseSerialGC", "-XX:-UseTLAB", "-Xmx128m", "-Xms128m", "-Xmn96m"}, 20)
	for _, order := range []string{"heap 64", "stacks 16", "direct 64", "malloc 1 64000"} {
		h.Take(t, order)
	}
	before := weighDoubting(t, h.PID(), false)
	held := map[footprint.Owner]int64{}
	for _, s := range []step{{"heap 1024", footprint.JavaHeap}, {"stacks 512", footprint.ThreadStacks}, {"direct 16384", footprint.Malloc}, {"malloc 128 64000", footprint.Malloc}} {
		held[s.owner] += h.Take(t, s.order)
	}
	// Little at a time: the kernel goes on until it has reclaimed what was asked for, also
	// from what the JVM has taken back meanwhile. Where there is less, the write fails
	// with EAGAIN (Documentation/admin-guide/cgroup-v2.rst, memory.reclaim).
	polltest.Until(t, "most of what is held to be swapped out", func() bool {
		_ = os.WriteFile(filepath.Join(group, "memory.reclaim"), []byte("8M"), 0)
		after := weighDoubting(t, h.PID(), false)
		for owner, bytes := range held {
			if row(t, after, owner).SwapBytes < bytes/2 {
				return false
			}
		}
		return true
	})
	after := weighDoubting(t, h.PID(), false)
	var swapped int64
	for _, r := range after.Rows {
		was := row(t, before, r.Owner)
		swapped += r.SwapBytes
		want, written := held[r.Owner]
		grew := r.ResidentBytes + r.SwapBytes - was.ResidentBytes - was.SwapBytes
		t.Logf("%s: %d resident, %d swapped out, grew by %d, %d were written", r.Owner, r.ResidentBytes, r.SwapBytes, grew, want)
		if written && max(grew-want, want-grew) > tolerance(want) {
			t.Errorf("%s: %d bytes were written, and it grew by %d", r.Owner, want, grew)
		}
	}
	if kernel := statusBytes(t, h.PID(), "VmSwap:"); max(swapped-kernel, kernel-swapped) > tolerance(kernel) {
		t.Errorf("%d bytes are swapped out by rows, %d as the kernel counts", swapped, kernel)
	}
}

// swapOn gives the machine a file to swap to.
func swapOn(t *testing.T, bytes int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "swap")
	for _, command := range [][]string{
		{"dd", "if=/dev/zero", "of=" + file, "bs=1048576", fmt.Sprint("count=", bytes>>20)}, // with no holes
		{"mkswap", file}, {"swapon", file},
	} {
		if out, err := exec.Command("/bin/busybox", command...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("/bin/busybox", "swapoff", file).Run() }) // the machine is thrown away
}

// statusBytes is a size of /proc/PID/status.
func statusBytes(t *testing.T, pid int, field string) int64 {
	t.Helper()
	return kilobytesOf(t, fmt.Sprintf("/proc/%d/status", pid), field) << 10
}

// kilobytesOf is the number of a line such as "VmSwap:	 12 kB".
func kilobytesOf(t *testing.T, file, field string) (n int64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), field); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatalf("%s: %q: %v", file, lines.Text(), err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", file, field)
	return 0
}

// TestHugePagesInside runs in the machine above, which it gives pages for hugetlbfs: a
// heap in them is in its row in whole pages, as many as the kernel has given away.
func TestHugePagesInside(t *testing.T) {
	if !vmtest.Inside() {
		return // TestInMachine runs it
	}
	const page, pages, held, heap = 2 << 20, 40, 20 << 20, 64 << 20
	// The kernel gives as many as it finds, which may be none where page cache lies in
	// between (Documentation/admin-guide/mm/hugetlbpage.rst).
	polltest.UntilNil(t, func() error {
		for _, s := range []struct {
			file  string
			value int
		}{{"drop_caches", 3}, {"compact_memory", 1}, {"nr_hugepages", pages}} {
			if err := os.WriteFile("/proc/sys/vm/"+s.file, fmt.Append(nil, s.value), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if n := kilobytesOf(t, "/proc/meminfo", "HugePages_Free:"); n != pages {
			return fmt.Errorf("the machine has %d huge pages to give, want %d, and %d bytes free", n, pages, kilobytesOf(t, "/proc/meminfo", "MemFree:")<<10)
		}
		return nil
	})
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-XX:+UseLargePages", "-Xms64m", "-Xmx64m", "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=8m"}, 10, 2<<10, 10)
	f := weighDoubting(t, p.PID(), false) // a warning says that Rss lacks them
	if !slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.Contains(w, "in pages of hugetlbfs") }) {
		t.Errorf("warnings %q", f.Warnings)
	}
	var rows int64
	for _, r := range f.Rows {
		rows += r.HugetlbBytes
		if r.HugetlbBytes%page != 0 {
			t.Errorf("%s has %d bytes in huge pages, which are no whole ones", r.Owner, r.HugetlbBytes)
		}
	}
	given := (pages - kilobytesOf(t, "/proc/meminfo", "HugePages_Free:")) * page
	if r := row(t, f, footprint.JavaHeap); r.HugetlbBytes < held || r.HugetlbBytes > heap || r.ResidentBytes != 0 || rows != given {
		t.Errorf("the heap has %d bytes in huge pages and %d in others, all rows have %d, and the kernel gave %d of which the program holds %d", r.HugetlbBytes, r.ResidentBytes, rows, given, held)
	}
}
