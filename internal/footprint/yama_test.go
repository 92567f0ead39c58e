package footprint_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// closedPID names, for a second run of the test as another user, the JVM.
const closedPID = "TARE_TEST_CLOSED_PID"

// With Yama's ptrace_scope at 1 the memory of a JVM of one's own is closed: its
// pages still have owners, by layout, and one line says what was lost and what
// would open it. It can still be asked. Root sees all.
func TestYama(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(closedPID)); err == nil {
		weighClosed(t, pid)
		return
	}
	if !vmtest.Inside() {
		jvmtest.RunInMachine(t, "./internal/footprint", "TestYama", 17)
		return
	}
	const nobody = 65534
	if err := os.WriteFile("/proc/sys/kernel/yama/ptrace_scope", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	// Only for a user with a name the JVM makes its performance data file.
	if err := os.WriteFile("/etc/passwd", []byte("nobody:x:65534:65534::/:/bin/false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	p := startAs(t, user, jvmtest.Java(t, 17), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-XX:NativeMemoryTracking=detail", "-jar", jvmtest.Jar(t, "workloads.jar"), "memory-filler", "20", "100", "50")
	weigh(t, p, false) // as root, nothing is lost
	again := exec.Command("/proc/self/exe", "-test.run=^TestYama$", "-test.v")
	again.Env = append(os.Environ(), closedPID+"="+strconv.Itoa(p))
	again.SysProcAttr = user
	out, err := again.CombinedOutput()
	t.Logf("as uid %d:\n%s", nobody, out)
	if err != nil {
		t.Error(err)
	}
}

// startAs starts the memory filler as another user.
func startAs(t *testing.T, user *syscall.SysProcAttr, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = user
	cmd.Dir = "/tmp"
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var text strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(text.String(), "ready") {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("the JVM ended: %v\n%s", err, text.String())
		}
		text.Write(buf[:n])
	}
	return cmd.Process.Pid
}

func weighClosed(t *testing.T, pid int) {
	f, err := footprint.Weigh(t.Context(), pid, footprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkSum(t, f)
	checkRemainder(t, f, 0.05)
	if !strings.HasPrefix(f.JDK, "17.") || f.Collector != "Serial" || f.Heap == nil || f.Heap.UsedBytes == 0 {
		t.Errorf("JDK %q, %q, heap %+v", f.JDK, f.Collector, f.Heap)
	}
	// The counters leave out what alignment adds.
	heap := row(t, f, footprint.JavaHeap)
	if heap.ResidentBytes < 20*100<<10 || *heap.ReservedBytes < 63<<20 || *heap.ReservedBytes > 64<<20 || heap.How != footprint.Layout {
		t.Errorf("heap %+v of %d bytes", heap, *heap.ReservedBytes)
	}
	var lines []string
	for _, s := range f.Sources {
		if s.Error != nil {
			lines = append(lines, *s.Error)
		}
	}
	// What malloc has cannot be told from other anonymous memory here.
	guessed := func(w string) bool { return strings.HasPrefix(w, "malloc: ") && strings.Contains(w, "are guessed") }
	if len(lines) != 1 || len(slices.DeleteFunc(slices.Clone(f.Warnings), guessed)) > 0 {
		t.Fatalf("%d lines instead of one: %q, %q", len(lines), lines, f.Warnings)
	}
	for _, want := range []string{"ptrace_scope is 1", "CAP_SYS_PTRACE", "lost:"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("no %q in %q", want, lines[0])
		}
	}
	asked, err := footprint.Weigh(t.Context(), pid, footprint.Options{Attach: true})
	if err != nil {
		t.Fatal(err)
	}
	checkRemainder(t, asked, 0.05)
	if meta := row(t, asked, footprint.Metaspace); meta.ResidentBytes == 0 || meta.How != footprint.Exact {
		t.Errorf("metaspace, asked for: %+v", meta)
	}
	if _, err := footprint.Weigh(t.Context(), 1, footprint.Options{}); !errors.Is(err, process.ErrNoPermission) {
		t.Errorf("another user's process: %v", err)
	}
}
