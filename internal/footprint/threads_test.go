package footprint

import (
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// In a container the JVM knows its threads by ids of another namespace: the
// stack pointers tell their names.
func TestThreadsOfContainer(t *testing.T) {
	proc := t.TempDir()
	task := filepath.Join(proc, "4000", "task", "4007")
	if err := os.MkdirAll(task, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(task, "comm"), []byte("http-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vmas := []linux.VMA{mapping(16*mib, 17*mib, "rw-p"), mapping(20*mib, 21*mib, "rw-p")}
	s := guessing(vmas, hotspot.VM{Threads: []hotspot.JavaThread{
		{TID: 17, Stack: hotspot.Region{Start: 16 * mib, End: 17 * mib}},
		{TID: 18, Stack: hotspot.Region{Start: 20 * mib, End: 21 * mib}}, // running
	}}, closed{})
	s.proc = linux.NewFS(proc)
	s.target = &process.Target{PID: 4000, Status: linux.Status{NSpid: []int{4000, 10}}}
	s.sps = []stackPointer{{4007, 17*mib - 4096}}
	f := s.footprint(attributed(t, s))
	largest, ok := part(f.row(ThreadStacks).Children, PartLargestThreads)
	if !ok || len(largest.Children) != 1 || largest.Children[0].Name != "http-1" || largest.Children[0].ID != "thread:4007" {
		t.Errorf("%+v", f.row(ThreadStacks).Children)
	}
}
