package footprint

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// TestJVMs checks the contract of jvm on every kind of JVM, each a real process:
// of OpenJ9, which cannot be had here, a program that maps a library of its name.
func TestJVMs(t *testing.T) {
	covered := map[process.Kind]bool{}
	for _, c := range []struct {
		name  string
		kind  process.Kind
		start func(t *testing.T) (pid int)
		read  func(reading) jvm // unless it is that of the kind
		// owners are some of those that the claims must name.
		owners []Owner
	}{
		{"HotSpot", process.HotSpot, startHotSpot, nil, []Owner{JavaHeap, CodeCache, ThreadStacks, CDS, GC}},
		{"HotSpot by its counters", process.HotSpot, startHotSpot, readCounted, []Owner{JavaHeap, CodeCache, ThreadStacks, Malloc}},
		{"OpenJ9", process.OpenJ9, startLikeOpenJ9, nil, nil},
		{"native image", process.NativeImage, startNativeImage, nil, []Owner{JavaHeap}},
	} {
		covered[c.kind] = true
		t.Run(c.name, func(t *testing.T) {
			proc := linux.NewFS("/proc")
			target, err := process.Find(proc, c.start(t))
			if err != nil || target.Kind != c.kind {
				t.Fatalf("found %+v, %v", target, err)
			}
			s := newScan(proc, target)
			mem := s.readJVM(t.Context(), proc)
			defer mem.Close()
			if c.read != nil {
				s.jvm = c.read(reading{proc: proc, target: target, timed: s.timed})
			}
			checkJVM(t, s.jvm, newLayout(target.VMAs, mem, uint64(os.Getpagesize())), c.owners)
			for _, source := range s.sources {
				if source.Error != nil {
					t.Errorf("%s: %s", source.Name, *source.Error)
				}
			}
		})
	}
	for _, kind := range process.Kinds() {
		if kinds[kind] == nil || !covered[kind] {
			t.Errorf("%s is found, and not read or not tested", kind)
		}
	}
}

// checkJVM checks what every jvm promises.
func checkJVM(t *testing.T, j jvm, l *layout, owners []Owner) {
	t.Helper()
	facts, threads, claims := *j.facts(l), j.threads(), j.claims(l, []int64{1 << 20})
	if !reflect.DeepEqual(j.claims(l, []int64{1 << 20}), claims) || !reflect.DeepEqual(*j.facts(l), facts) || !reflect.DeepEqual(j.threads(), threads) {
		t.Error("what is known changes with being asked for")
	}
	for _, note := range j.notes() {
		if note == "" || strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("note %q", note)
		}
	}
	claimed := map[Owner]bool{}
	for _, c := range claims {
		claimed[c.owner] = true
		if c.end <= c.start || c.owner == Unattributed || c.owner == "" || c.how == "" {
			t.Errorf("claim %+v", c)
		}
	}
	for _, o := range owners {
		if !claimed[o] {
			t.Errorf("nothing is known of %s", o)
		}
	}
	for _, th := range threads {
		if th.Stack.Empty() {
			t.Errorf("thread %+v has no stack", th)
		}
	}
	if claimed[JavaHeap] && facts.Counters != nil && facts.Heap.Empty() {
		t.Error("the heap is claimed, and no fact")
	}
}

func startHotSpot(t *testing.T) int {
	return jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-Xss512k", "-XX:+UseSerialGC"}, 5, 10, 10).PID()
}

func startNativeImage(t *testing.T) int {
	return startWaiting(t, exec.Command(jvmtest.NativeImage(t)), "waiting for input")
}

// startLikeOpenJ9 starts a shell whose interpreter maps a library named as
// OpenJ9's: the dynamic linker maps what LD_PRELOAD names.
func startLikeOpenJ9(t *testing.T) int {
	found, err := filepath.Glob("/lib/*-linux-gnu/libm.so.6")
	if err != nil || len(found) == 0 {
		t.Fatalf("no library to take: %v", err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "libj9vm29.so")
	if err := os.WriteFile(library, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "echo ready; read line")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library)
	return startWaiting(t, cmd, "ready")
}

// startWaiting starts a program that waits for its input, and waits until it
// has said so.
func startWaiting(t *testing.T, cmd *exec.Cmd, says string) int {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains(said.String(), says) {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after %q", err, said.String())
		}
	}
	return cmd.Process.Pid
}

// The claims of a JVM whose memory is closed do not become facts of its own: a
// second attribution of the same scan knows no more than the first.
func TestAttributeTwice(t *testing.T) {
	const heap = 0x7f0000000000
	vmas := []linux.VMA{mapping(heap, heap+8*mib, "rw-p")}
	s := madeUp(countedHotSpot{hotspot.VM{Major: 17, Counters: &hotspot.PerfCounters{HeapCapacity: 8 * mib}}, []int64{8 * mib}}, vmas)
	s.layOut(closed{}, page)
	first := attributed(t, s)
	if second := attributed(t, s); len(first) != 1 || first[0].how != Layout || !reflect.DeepEqual(first, second) {
		t.Errorf("first %+v, then %+v", first, second)
	}
}
