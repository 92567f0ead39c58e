package footprint_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// weigh weighs a JVM that nothing is guessed of.
func weigh(t *testing.T, pid int, attach bool) *footprint.Footprint {
	t.Helper()
	f := weighDoubting(t, pid, attach)
	if jvmtest.Warned(f.Warnings) {
		t.Errorf("warnings: %q", f.Warnings)
	}
	return f
}

// weighDoubting weighs a JVM that something may be guessed of.
func weighDoubting(t *testing.T, pid int, attach bool) *footprint.Footprint {
	t.Helper()
	f, err := footprint.Weigh(context.Background(), pid, footprint.Options{Attach: attach})
	if err != nil {
		t.Fatal(err)
	}
	checkSum(t, f)
	for _, r := range f.Rows {
		checkIDs(t, r.Children)
	}
	for _, s := range f.Sources {
		if s.Error != nil {
			t.Errorf("source %s: %s", s.Name, *s.Error)
		}
	}
	return f
}

func checkSum(t *testing.T, f *footprint.Footprint) {
	t.Helper()
	var sum int64
	for _, r := range f.Rows {
		sum += r.ResidentBytes
		if r.CommittedBytes != nil && *r.CommittedBytes > *r.ReservedBytes {
			t.Errorf("%s: committed %d exceeds reserved %d", r.Owner, *r.CommittedBytes, *r.ReservedBytes)
		}
	}
	if sum != f.RSSBytes {
		t.Errorf("rows add up to %d, Rss is %d", sum, f.RSSBytes)
	}
	// Pss has each page once or, where other processes map it, in part.
	if once := f.RSSBytes - f.RepeatedBytes(); once < f.PSSBytes-1<<20 {
		t.Errorf("%d of %d bytes are counted again, and Pss is %d", f.RepeatedBytes(), f.RSSBytes, f.PSSBytes)
	}
}

// checkIDs checks that each part has an id of its own among its neighbours, and
// that none has a name which this package does not know.
func checkIDs(t *testing.T, children []footprint.Child) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range children {
		if c.ID == "" || seen[c.ID] || strings.HasPrefix(c.ID, "other:") {
			t.Errorf("part %q has the id %q", c.Name, c.ID)
		}
		seen[c.ID] = true
		checkIDs(t, c.Children)
	}
}

func row(t *testing.T, f *footprint.Footprint, o footprint.Owner) footprint.Row {
	t.Helper()
	r, ok := f.Row(o)
	if !ok {
		t.Fatalf("no row %s", o)
	}
	return r
}

// On every JDK and collector: the parts add up, next to nothing is left over
// without touching the JVM, and the parts are those that the JVM's own
// tracking names.
func TestWeighAgreesWithNativeMemoryTracking(t *testing.T) {
	for _, major := range jvmtest.Majors(t) {
		for _, gc := range []string{"G1", "Serial", "Parallel"} {
			t.Run(fmt.Sprintf("jdk%d/%s", major, gc), func(t *testing.T) {
				p := jvmtest.StartFiller(t, jvmtest.Java(t, major), []string{
					"-Xmx128m", "-XX:+Use" + gc + "GC", "-XX:NativeMemoryTracking=detail",
				}, 100, 100, 100)
				alone := weigh(t, p.PID(), false)
				asked := weigh(t, p.PID(), true)
				if alone.Collector != gc {
					t.Errorf("collector %q, want %s", alone.Collector, gc)
				}
				if m, err := hotspot.Major(alone.JDK); err != nil || m != major {
					t.Errorf("JDK %q, want %d", alone.JDK, major)
				}
				checkParts(t, major, gc, alone)
				checkRemainder(t, alone, 0.01)
				checkRemainder(t, asked, 0.005)
				for _, o := range []footprint.Owner{
					footprint.JavaHeap, footprint.ClassSpace, footprint.Metaspace,
					footprint.CodeCache, footprint.ThreadStacks, footprint.CDS,
				} {
					checkSame(t, o, row(t, alone, o).ResidentBytes, row(t, asked, o).ResidentBytes)
				}
			})
		}
	}
}

// checkParts checks that rows name their parts, and that no part is larger
// than its row.
func checkParts(t *testing.T, major int, gc string, f *footprint.Footprint) {
	t.Helper()
	parts := map[footprint.Owner]map[string]int64{}
	for _, r := range f.Rows {
		parts[r.Owner] = map[string]int64{}
		for _, c := range r.Children {
			parts[r.Owner][c.ID] = c.ResidentBytes
			if c.ResidentBytes > r.ResidentBytes {
				t.Errorf("%s: %s has %d of %d bytes", r.Owner, c.Name, c.ResidentBytes, r.ResidentBytes)
			}
		}
	}
	want := map[footprint.Owner][]string{
		footprint.ThreadStacks: {"java-threads", "vm-threads", footprint.PartLargestThreads},
		footprint.Malloc:       {footprint.PartArenas, footprint.PartFreeMalloc},
		footprint.MappedFiles:  {footprint.FilePart("libjvm.so")},
		footprint.CodeCache:    {footprint.PartJVMCode},
		footprint.JavaHeap:     {"young"},
	}
	switch {
	case gc != "G1":
		want[footprint.JavaHeap] = []string{footprint.PartEden}
	case major == 8: // which does not describe G1's regions
		delete(want, footprint.JavaHeap)
	}
	if major == 8 {
		want[footprint.CodeCache] = []string{"all-code"}
	}
	for owner, names := range want {
		for _, name := range names {
			if _, ok := parts[owner][name]; !ok {
				t.Errorf("%s has no part %q: %v", owner, name, parts[owner])
			}
		}
	}
	if f.Heap == nil || f.Heap.MaxBytes != 128<<20 || f.Flags["MaxHeapSize"] != fmt.Sprint(128<<20) {
		t.Errorf("heap %+v, flags %v", f.Heap, f.Flags)
	}
	var seen int64
	for _, p := range f.Cgroup.Parts {
		seen += p.Bytes
	}
	if seen != f.Cgroup.UsageBytes {
		t.Errorf("parts of the group add up to %d of %d", seen, f.Cgroup.UsageBytes)
	}
}

func checkRemainder(t *testing.T, f *footprint.Footprint, most float64) {
	t.Helper()
	rest := row(t, f, footprint.Unattributed).ResidentBytes
	if float64(rest) > most*float64(f.RSSBytes) {
		t.Errorf("%d of %d bytes unattributed, more than %.1f %%", rest, f.RSSBytes, 100*most)
	}
}

// checkSame allows what the JVM touches between two weighings.
func checkSame(t *testing.T, o footprint.Owner, alone, asked int64) {
	t.Helper()
	diff := alone - asked
	if diff < 0 {
		diff = -diff
	}
	if diff > max(asked/100, 256<<10) {
		t.Errorf("%s: %d bytes without asking, %d by native memory tracking", o, alone, asked)
	}
}

// configuration is a way to run a JVM that decides on its layout.
type configuration struct {
	name    string
	major   int
	options []string
}

var configurations = []configuration{
	{"CMS", 8, []string{"-XX:+UseConcMarkSweepGC"}},
	{"CMS", 11, []string{"-XX:+UseConcMarkSweepGC"}},
	{"Epsilon", 17, []string{"-XX:+UnlockExperimentalVMOptions", "-XX:+UseEpsilonGC"}},
	{"Shenandoah", 17, []string{"-XX:+UseShenandoahGC"}},
	{"Shenandoah", 25, []string{"-XX:+UseShenandoahGC"}},
	{"ZGC", 17, []string{"-XX:+UseZGC"}}, // maps its heap three times
	{"ZGC", 25, []string{"-XX:+UseZGC"}},
	{"ZGC", 27, []string{"-XX:+UseZGC"}},
	{"compact headers", 25, []string{"-XX:+UseCompactObjectHeaders"}},
	{"no compressed pointers", 17, []string{"-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"}},
	{"no archive", 17, []string{"-Xshare:off"}},
	{"no archive", 8, []string{"-Xshare:off"}},
}

// Every collector and layout: next to nothing is left over.
func TestWeighConfigurations(t *testing.T) {
	for _, c := range configurations {
		t.Run(fmt.Sprintf("jdk%d/%s", c.major, c.name), func(t *testing.T) {
			p := jvmtest.StartFiller(t, jvmtest.Java(t, c.major), append([]string{"-Xmx128m"}, c.options...), 50, 100, 50)
			f := weigh(t, p.PID(), false)
			checkRemainder(t, f, 0.01)
			// 50 threads hold 100 KiB each.
			if heap := row(t, f, footprint.JavaHeap); heap.ResidentBytes < 5<<20 {
				t.Errorf("heap of %d bytes", heap.ResidentBytes)
			}
		})
	}
}

// The JVM's memory must not grow by being weighed.
func TestWeighLeavesTheJVMAlone(t *testing.T) {
	for _, major := range []int{8, 17, 25} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			p := jvmtest.StartFiller(t, jvmtest.Java(t, major), []string{"-Xmx64m", "-Xint", "-XX:+UseSerialGC"}, 10, 10, 10)
			proc := linux.NewFS("/proc")
			// Pages that were read once are resident from then on, if reading
			// touches any: the first weighing would show it.
			before, err := proc.SmapsRollup(p.PID())
			if err != nil {
				t.Fatal(err)
			}
			var f *footprint.Footprint
			for range 20 {
				f = weigh(t, p.PID(), false)
			}
			// An idle JVM's own timers touch a page now and then.
			if grown := f.RSSBytes - before.RSS; grown > 64<<10 {
				t.Errorf("Rss grew by %d bytes", grown)
			}
			if strings.Contains(p.Output(), "Full thread dump") {
				t.Error("the JVM was signalled")
			}
		})
	}
}

// A JVM that SIGQUIT would kill is refused an attach, and goes on.
func TestAttachIsRefusedWhereItWouldKill(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-Xrs", "-XX:NativeMemoryTracking=detail"}, 1, 1, 1)
	_, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{Attach: true})
	// With -Xrs a JVM listens from the start, so that the attach succeeds
	// without a signal; either way the JVM lives.
	if err != nil && !errors.Is(err, attach.ErrUnsafe) {
		t.Errorf("error %v", err)
	}
	weigh(t, p.PID(), false)
}

func TestAttachIsRefusedWhenStopped(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:NativeMemoryTracking=detail"}, 1, 1, 1)
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Signal(syscall.SIGCONT) })
	polltest.UntilState(t, p.PID(), 'T')
	if _, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{Attach: true}); !errors.Is(err, attach.ErrUnsafe) {
		t.Errorf("error %v, want ErrUnsafe", err)
	}
	weigh(t, p.PID(), false)
}

func TestWhatIsNoJVM(t *testing.T) {
	_, err := footprint.Weigh(context.Background(), 1<<22+1, footprint.Options{})
	if !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("no process: %v", err)
	}
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := footprint.Weigh(context.Background(), cat.Process.Pid, footprint.Options{}); !errors.Is(err, process.ErrNotJVM) {
		t.Errorf("cat: %v", err)
	}
	in.Close()
	polltest.UntilState(t, cat.Process.Pid, 'Z') // ended, and not yet waited for
	if _, err := footprint.Weigh(context.Background(), cat.Process.Pid, footprint.Options{Attach: true}); !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("zombie: %v", err)
	}
	if err := cat.Wait(); err != nil {
		t.Errorf("cat was disturbed: %v", err)
	}
}

// A JVM that dies at any moment of a weighing, asked or not, gives an error, or
// a footprint that adds up.
func TestWeighADyingJVM(t *testing.T) {
	for i := range 10 {
		p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:NativeMemoryTracking=detail"}, 10, 10, 10)
		go func() {
			for range i * 2 {
				_, _ = linux.NewFS("/proc").Smaps(p.PID()) // some time passes
			}
			_ = p.Process.Kill()
		}()
		for range 1000 {
			f, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{Attach: i%2 == 1})
			if err != nil {
				// One whose memory has gone while its process is still listed
				// does not look like a JVM that may be asked.
				if !errors.Is(err, process.ErrNoProcess) && !errors.Is(err, process.ErrNotJVM) && !errors.Is(err, attach.ErrUnsafe) {
					t.Errorf("error %v", err)
				}
				break
			}
			checkSum(t, f)
		}
	}
}

// The machine and what befell the group are read along.
func TestWeighReadsTheMachine(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 21), []string{"-Xmx32m", "-Xint"}, 1, 1, 1)
	f := weigh(t, p.PID(), false)
	if h := f.Host; h == nil || h.MemTotalBytes < h.MemAvailableBytes || h.MemAvailableBytes <= 0 || h.Kernel == "" {
		t.Errorf("machine %+v", h)
	}
	if f.Cgroup == nil || f.Cgroup.Events == nil {
		t.Errorf("control group %+v", f.Cgroup)
	}
}
