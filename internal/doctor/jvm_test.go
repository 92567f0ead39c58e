package doctor_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
)

const mib = 1 << 20

func weigh(t *testing.T, pid int) *footprint.Footprint {
	t.Helper()
	f, err := footprint.Weigh(context.Background(), pid, footprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// byRule is all that is found.
func byRule(f *footprint.Footprint) map[string]doctor.Finding {
	out := map[string]doctor.Finding{}
	for _, x := range doctor.Examine(f) {
		out[x.ID] = x
	}
	return out
}

// ofTheMachine are findings that depend on where the test runs.
var ofTheMachine = []string{
	"limit-below-heap", "headroom-small", "high-reached", "cpu-threads", "cache-squeezed", "swap", "host-memory", "code-cache-reserved",
	"stacks-huge-pages",
}

// found is what is found in a JVM itself, by rule.
func found(t *testing.T, f *footprint.Footprint) map[string]doctor.Finding {
	t.Helper()
	out := byRule(f)
	for _, id := range ofTheMachine {
		delete(out, id)
	}
	t.Logf("%+v", out)
	return out
}

func filler(t *testing.T, major, threads, frames int, options ...string) *footprint.Footprint {
	t.Helper()
	p := jvmtest.StartFiller(t, jvmtest.Java(t, major), options, threads, 10, frames)
	return weigh(t, p.PID())
}

func resident(f *footprint.Footprint, o footprint.Owner) int64 {
	r, _ := f.Row(o)
	return r.ResidentBytes
}

// only checks that nothing else is found.
func only(t *testing.T, got map[string]doctor.Finding, ids ...string) {
	t.Helper()
	for id := range got {
		if !slices.Contains(ids, id) {
			t.Errorf("found %s: %+v", id, got[id])
		}
	}
	for _, id := range ids {
		if _, ok := got[id]; !ok {
			t.Errorf("%s is not found", id)
		}
	}
}

// A small JVM whose archive is not relocated has nothing to be found.
func TestHealthyJVM(t *testing.T) {
	for _, major := range []int{11, 17, 21, 25, 27} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			options := []string{"-Xmx64m"}
			if major >= 17 {
				options = append(options, "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
			}
			only(t, found(t, filler(t, major, 5, 10, options...)))
		})
	}
}

// By default the archive is relocated, which makes it private.
func TestRelocatedArchive(t *testing.T) {
	for _, major := range []int{17, 25, 27} {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			f := filler(t, major, 5, 10, "-Xmx64m")
			got := found(t, f)
			only(t, got, "archive-relocated")
			cds, _ := f.Row(footprint.CDS)
			if x := got["archive-relocated"]; x.Certainty != doctor.Certain || x.BytesAtStake != cds.AnonymousBytes || x.BytesAtStake < 8*mib {
				t.Errorf("%+v, %d private bytes", x, cds.AnonymousBytes)
			}
		})
	}
}

func TestNoArchive(t *testing.T) {
	for _, c := range []struct {
		major int
		do    string
	}{{8, "-Xshare:auto"}, {11, "java -Xshare:dump"}, {17, "remove -Xshare:off"}, {27, "remove -Xshare:off"}} {
		t.Run(strconv.Itoa(c.major), func(t *testing.T) {
			f := filler(t, c.major, 5, 10, "-Xmx64m", "-Xshare:off")
			got := found(t, f)
			only(t, got, "archive-absent")
			x := got["archive-absent"]
			if x.BytesAtStake != resident(f, footprint.Metaspace)+resident(f, footprint.ClassSpace) || x.Certainty != doctor.Certain {
				t.Errorf("%+v", x)
			}
			if !strings.Contains(strings.Join(x.Do, " "), c.do) {
				t.Errorf("%q", x.Do)
			}
		})
	}
}

// An archive that the JVM is told to use, and does not; one that it does is none.
func TestUnusedArchive(t *testing.T) {
	made := filepath.Join(t.TempDir(), "app.jsa")
	for _, c := range []struct {
		major  int
		option string
		unused bool
	}{
		{17, "-XX:SharedArchiveFile=" + filepath.Join(t.TempDir(), "no.jsa"), true},
		{25, "-XX:AOTCache=" + filepath.Join(t.TempDir(), "no.aot"), true},
		{25, "-XX:SharedArchiveFile=" + made, false},
	} {
		t.Run(strconv.Itoa(c.major)+c.option[:8], func(t *testing.T) {
			if !c.unused {
				if out, err := exec.Command(jvmtest.Java(t, c.major), "-Xshare:dump", c.option).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			x, found := found(t, filler(t, c.major, 5, 10, "-Xmx64m", c.option))["archive-unused"]
			if found != c.unused || found && x.Certainty != doctor.Certain {
				t.Errorf("found: %v, %+v", found, x)
			}
		})
	}
}

func TestTouchedHeap(t *testing.T) {
	for _, gc := range []string{"G1", "Serial"} {
		t.Run(gc, func(t *testing.T) {
			f := filler(t, 17, 5, 10, "-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch", "-XX:+Use"+gc+"GC", "-Xshare:off")
			got := found(t, f)
			only(t, got, "heap-pretouched", "archive-absent")
			if x := got["heap-pretouched"]; x.Certainty != doctor.Certain || x.BytesAtStake < 240*mib || x.BytesAtStake > 256*mib {
				t.Errorf("%+v", x)
			}
		})
	}
}

// Hundreds of threads, deep in calls or not.
func TestThreads(t *testing.T) {
	f := filler(t, 21, 400, 200, "-Xmx128m", "-Xshare:off")
	got := found(t, f)
	only(t, got, "threads-many", "archive-absent")
	if x := got["threads-many"]; x.BytesAtStake != resident(f, footprint.ThreadStacks) {
		t.Errorf("%+v", x)
	}
	got = found(t, filler(t, 21, 12, 10_000, "-Xmx128m", "-Xss16m", "-Xint", "-Xshare:off"))
	only(t, got, "threads-deep", "archive-absent")
	if x := got["threads-deep"]; x.BytesAtStake < 8*mib || !strings.Contains(strings.Join(x.Evidence, " "), "filler") {
		t.Errorf("%+v", x)
	}
}

// startVerdict starts a service whose requests cost something.
func startVerdict(t *testing.T, options []string, mode ...string) (*jvmtest.Process, string) {
	t.Helper()
	args := append(append(slices.Clone(options), "-jar", jvmtest.Jar(t, "workloads.jar"), "verdict"), mode...)
	p := jvmtest.Start(t, jvmtest.Java(t, 17), args...)
	line := p.Await(t, "listening on ")
	_, address, _ := strings.Cut(line, "listening on ")
	return p, "http://" + address + "/"
}

func request(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}

// A service that makes garbage fills a heap that it does not need.
func TestGarbage(t *testing.T) {
	options := []string{"-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	p, url := startVerdict(t, options, "thrash", "0", "2", "2048")
	deadline := time.Now().Add(jvmtest.StartTimeout)
	for {
		request(t, url)
		f := weigh(t, p.PID())
		if f.Heap != nil && f.Heap.Collections > 0 {
			// Eden has been full once, and 6 MiB live: all of eden is at stake.
			x, ok := found(t, f)["heap-above-live"]
			if !ok || x.BytesAtStake < 45*mib || x.BytesAtStake > 80*mib {
				t.Errorf("%+v, heap %+v", x, f.Heap)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("heap %+v", f.Heap)
		}
	}
}

// A leak of native memory that malloc has in use.
func TestNativeLeak(t *testing.T) {
	p, url := startVerdict(t, []string{"-Xmx64m"}, "native-leak", "0", "4096")
	for range 20 {
		request(t, url)
	}
	x, ok := found(t, weigh(t, p.PID()))["malloc-in-use"]
	if !ok || x.BytesAtStake < 80*mib {
		t.Errorf("%+v", x)
	}
}

const directBuffers = `
class Direct {
    public static void main(String[] args) throws Exception {
        java.nio.ByteBuffer[] kept = new java.nio.ByteBuffer[20];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = java.nio.ByteBuffer.allocateDirect(2 << 20); // zeroed, and so resident
        }
        System.out.println("ready");
        Thread.sleep(Long.MAX_VALUE);
    }
}
`

func TestDirectBuffers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Direct.java")
	if err := os.WriteFile(file, []byte(directBuffers), 0o600); err != nil {
		t.Fatal(err)
	}
	p := jvmtest.Start(t, jvmtest.Java(t, 17), "-Xmx128m", "-XX:TieredStopAtLevel=1", file)
	p.Await(t, "ready")
	x, ok := found(t, weigh(t, p.PID()))["malloc-large"]
	if !ok || x.BytesAtStake < 40*mib || x.BytesAtStake > 44*mib || x.Certainty != doctor.Likely {
		t.Errorf("%+v", x)
	}
}

// In a group, a heap that may exceed its limit, and collector threads that
// exceed its quota.
func TestLimits(t *testing.T) {
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := newLog()
	p, err := r.Start(context.Background(), runner.Spec{
		Args: []string{jvmtest.Java(t, 17), "-Xmx200m", "-XX:+UseParallelGC", "-XX:ParallelGCThreads=6",
			"-jar", jvmtest.Jar(t, "workloads.jar"), "memory-filler", "3", "10", "10"},
		Env: os.Environ(), Stdout: out, Stderr: out,
		Limits: runner.Limits{MemoryBytes: 192 * mib, CPUs: 1.5},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !out.await("ready", jvmtest.StartTimeout) {
		t.Fatal("not ready")
	}
	f, err := p.Footprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := byRule(f)
	if x := got["cpu-threads"]; !strings.Contains(strings.Join(x.Do, " "), "-XX:ParallelGCThreads=2") {
		t.Errorf("%+v", x)
	}
	x, c := got["limit-below-heap"], f.Cgroup
	rest := c.UsageBytes - c.ReclaimableBytes - resident(f, footprint.JavaHeap)
	if x.BytesAtStake != 8*mib+rest || rest <= 0 {
		t.Errorf("%+v, rest %d, %+v", x, rest, c)
	}
}

// log collects output.
type log struct{ lines chan string }

func newLog() *log { return &log{make(chan string, 1000)} }

func (l *log) Write(p []byte) (int, error) {
	select {
	case l.lines <- string(p):
	default:
	}
	return len(p), nil
}

func (l *log) await(text string, atMost time.Duration) bool {
	deadline := time.After(atMost)
	all := ""
	for {
		select {
		case s := <-l.lines:
			if all += s; strings.Contains(all, text) {
				return true
			}
		case <-deadline:
			return false
		}
	}
}
