package hotspot

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
)

var update = flag.Bool("update", false, "record the memory of real JVMs anew into testdata/vm")

// recording is what ReadVM read of one JVM: it can be read again without the
// JVM.
type recording struct {
	Base  uint64
	Reads []read
}

type read struct {
	Addr uint64
	Data []byte
}

// ReadMem serves a read from the recorded one that covers it.
func (r *recording) ReadMem(p []byte, addr uint64) error {
	i := sort.Search(len(r.Reads), func(i int) bool { return r.Reads[i].Addr > addr }) - 1
	if i < 0 || addr-r.Reads[i].Addr > uint64(len(r.Reads[i].Data)) || uint64(len(p)) > uint64(len(r.Reads[i].Data))-(addr-r.Reads[i].Addr) {
		return errors.New("not recorded")
	}
	copy(p, r.Reads[i].Data[addr-r.Reads[i].Addr:])
	return nil
}

// recorder records successful reads.
type recorder struct {
	mem   Memory
	reads map[uint64][]byte
}

func (r *recorder) ReadMem(p []byte, addr uint64) error {
	if err := r.mem.ReadMem(p, addr); err != nil {
		return err
	}
	if len(p) > len(r.reads[addr]) {
		r.reads[addr] = bytes.Clone(p)
	}
	return nil
}

// recording joins neighbouring and overlapping reads.
func (r *recorder) recording(base uint64) *recording {
	out := &recording{Base: base}
	for addr, data := range r.reads {
		out.Reads = append(out.Reads, read{addr, data})
	}
	sort.Slice(out.Reads, func(i, j int) bool { return out.Reads[i].Addr < out.Reads[j].Addr })
	var joined []read
	for _, x := range out.Reads {
		if n := len(joined); n > 0 {
			last := &joined[n-1]
			if end := last.Addr + uint64(len(last.Data)); x.Addr <= end {
				if tail := x.Addr + uint64(len(x.Data)); tail > end {
					last.Data = append(last.Data, x.Data[end-x.Addr:]...)
				}
				continue
			}
		}
		joined = append(joined, x)
	}
	out.Reads = joined
	return out
}

func recordingFile(major int) string {
	return filepath.Join("testdata", "vm", fmt.Sprintf("jdk%d.gob.gz", major))
}

func load(t testing.TB, major int) *recording {
	t.Helper()
	f, err := os.Open(recordingFile(major))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := gob.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func record(t *testing.T, major int) {
	t.Helper()
	p := jvmtest.StartFiller(t, jvmtest.Java(t, major), []string{"-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=summary"}, 3, 10, 10)
	proc := linux.NewFS("/proc")
	target, err := process.Find(proc, p.PID())
	if err != nil {
		t.Fatal(err)
	}
	mem, err := proc.OpenMem(target.PID, target.VMAs)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	rec := &recorder{mem: mem, reads: map[uint64][]byte{}}
	if _, err := ReadVM(rec, target.LibjvmBase); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(gob.NewEncoder(z).Encode(rec.recording(target.LibjvmBase)), z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(recordingFile(major)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordingFile(major), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The recorded JVMs run the memory filler with -Xmx64m -Xss512k, the serial
// collector and NMT at summary.
func TestReadVM(t *testing.T) {
	for _, major := range []int{8, 17, 27} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			if *update {
				record(t, major)
			}
			rec := load(t, major)
			vm, err := ReadVM(rec, rec.Base)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range vm.Problems {
				t.Error(p)
			}
			if vm.Major != major || vm.Collector != "Serial" || vm.NMT != "summary" {
				t.Errorf("JDK %s, %s, NMT %s", vm.Version, vm.Collector, vm.NMT)
			}
			if vm.Heap.Size() != 64<<20 {
				t.Errorf("heap of %d bytes", vm.Heap.Size())
			}
			if vm.CardTable.Size() < 64<<20/512 {
				t.Errorf("card table of %d bytes", vm.CardTable.Size())
			}
			// A JVM that has no direct buffers counts none.
			if vm.Direct == nil || *vm.Direct != (DirectMemory{}) {
				t.Errorf("direct buffers %+v", vm.Direct)
			}
			// Two thirds of the heap are the old generation.
			if old := (GCTable{"block offsets", (64<<20 - vm.Heap.Size()/3&^(64<<10-1)) / 512}); !slices.ContainsFunc(vm.GCTables, func(g GCTable) bool {
				return g.Name == old.Name && g.Bytes > old.Bytes-1024 && g.Bytes < old.Bytes+1024
			}) {
				t.Errorf("tables %+v, want %+v", vm.GCTables, old)
			}
			if vm.PerfData.Size() != 32<<10 {
				t.Errorf("performance data of %d bytes", vm.PerfData.Size())
			}
			if (major == 8) != vm.Archive.Empty() {
				t.Errorf("archive %x", vm.Archive)
			}
			if (major == 8) != (len(vm.CodeHeaps) == 1) {
				t.Errorf("code heaps %+v", vm.CodeHeaps)
			}
			spaces := map[string]bool{}
			for _, sp := range vm.Spaces {
				spaces[sp.Name] = true
			}
			if len(vm.Spaces) != 4 || !spaces["eden"] || !spaces["survivor"] || !spaces["old"] {
				t.Errorf("heap spaces %+v", vm.Spaces)
			}
			if len(vm.Classes) < 10 || len(vm.Metadata) < 20 {
				t.Errorf("%d classes, %d pieces of metadata outside of the archive", len(vm.Classes), len(vm.Metadata))
			}
			fillers := 0
			for _, th := range vm.Threads {
				if th.TID <= 0 || th.Stack.Empty() {
					t.Errorf("thread %+v", th)
				}
				if th.Stack.Size() == 512<<10 {
					fillers++
				}
			}
			for name, want := range map[string]string{
				"ActiveProcessorCount": "-1", "TieredStopAtLevel": "4", "ParallelGCThreads": "0",
				"ArchiveRelocationMode": "1", "TrimNativeHeapInterval": "0",
			} {
				if got, ok := vm.Flags[name]; ok && got != want {
					t.Errorf("%s=%s, want %s", name, got, want)
				}
			}
			if fillers < 4 {
				t.Errorf("%d threads with a stack of 512 KiB: %+v", fillers, vm.Threads)
			}
		})
	}
}

// hostile is a recorded memory in which some bytes were changed.
type hostile struct {
	*recording
	at    uint64
	value []byte
}

func (h *hostile) ReadMem(p []byte, addr uint64) error {
	if err := h.recording.ReadMem(p, addr); err != nil {
		return err
	}
	for i := range p {
		if off := addr + uint64(i) - h.at; off < uint64(len(h.value)) {
			p[i] = h.value[off]
		}
	}
	return nil
}

// Whatever stands in the target's memory, reading it ends, and what is taken
// from it is believable.
func FuzzReadVM(f *testing.F) {
	rec := load(f, 17)
	f.Add(uint32(0), uint32(0), []byte{})
	f.Add(uint32(0), uint32(56), []byte{0xff, 0xff})
	for i := range rec.Reads {
		f.Add(uint32(i), uint32(0), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	}
	f.Fuzz(func(t *testing.T, piece, offset uint32, value []byte) {
		r := rec.Reads[int(piece)%len(rec.Reads)]
		at := r.Addr + uint64(offset)%uint64(len(r.Data))
		vm, err := ReadVM(&hostile{rec, at, value}, rec.Base)
		if err != nil {
			return
		}
		checkBelievable(t, vm)
	})
}

// checkBelievable checks what ReadVM promises of every JVM, whatever its memory
// holds: sizes, and ranges of addresses that there can be.
func checkBelievable(t *testing.T, vm *VM) {
	t.Helper()
	if len(vm.Threads) > maxThreads || len(vm.Classes) > maxClasses || len(vm.Metadata) > 2*maxClasses || len(vm.CodeHeaps) > maxCodeHeaps || len(vm.Spaces) > maxG1Regions {
		t.Fatalf("%d threads, %d classes, %d code heaps, %d spaces", len(vm.Threads), len(vm.Classes), len(vm.CodeHeaps), len(vm.Spaces))
	}
	in := func(what string, r Region, most int64) {
		if r != (Region{}) && (r.Start == 0 || r.End < r.Start || r.End > maxAddress || r.Size() > most) {
			t.Fatalf("%s %x", what, r)
		}
	}
	in("heap", vm.Heap, maxHeap)
	in("archive", vm.Archive, maxArchive)
	in("performance data", vm.PerfData, maxPerfData)
	in("card table", vm.CardTable, maxHeap)
	for _, h := range vm.CodeHeaps {
		in("code heap", h.Memory, maxCode)
		in("segment map", h.Segmap, maxCode)
	}
	for _, sp := range vm.Spaces {
		if sp.Start < vm.Heap.Start || sp.End > vm.Heap.End || sp.End < sp.Start || sp.UsedBytes < -1 || sp.UsedBytes > sp.Size() {
			t.Fatalf("space %+v in the heap %x", sp, vm.Heap)
		}
	}
	for _, th := range vm.Threads {
		if th.Stack.Empty() || th.TID < 0 {
			t.Fatalf("thread %+v", th)
		}
		in("stack", th.Stack, maxStack)
	}
	if d := vm.Direct; d != nil && (d.Bytes < 0 || d.Buffers < 0 || d.Bytes > maxHeap) {
		t.Fatalf("direct buffers %+v", d)
	}
	for _, g := range vm.GCTables {
		if g.Bytes < minTable || g.Bytes > maxHeap {
			t.Fatalf("table %+v", g)
		}
	}
	for _, n := range append(vm.StackBytes, vm.ClassSpaceBytes, vm.MarkStackBytes, vm.ZMarkStackBytes) {
		if n < 0 || n > 8*maxHeap {
			t.Fatalf("size %d: %+v", n, vm)
		}
	}
}

// The numbers that JDK's own unsigned5.hpp names: the largest of each length.
func TestUnsigned5(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		want  uint32
		rest  int
	}{
		{[]byte{1}, 0, 0},
		{[]byte{191, 7}, 190, 1},
		{[]byte{192, 1}, 191, 0},
		{[]byte{255, 191}, 254 + 190<<6, 0},
		{[]byte{193, 1, 9}, 192, 1},
		{nil, 0, 0},
		{[]byte{0, 5}, 0, 0},
		{[]byte{255}, 0, 0},
	} {
		if got, rest := unsigned5(c.bytes); got != c.want || len(rest) != c.rest {
			t.Errorf("%v: got %d and %d bytes, want %d and %d", c.bytes, got, len(rest), c.want, c.rest)
		}
	}
}

// The description holds no address: it is the same for two JVMs of one library,
// which lies elsewhere in each.
func TestStructsHoldNoAddress(t *testing.T) {
	proc := linux.NewFS("/proc")
	var all []*Structs
	bases := map[uint64]bool{}
	for len(all) < 2 {
		p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx16m", "-Xint", "-XX:+UseSerialGC"}, 1, 1, 1)
		target, err := process.Find(proc, p.PID())
		if err != nil {
			t.Fatal(err)
		}
		mem, err := proc.OpenMem(target.PID, target.VMAs)
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		s, err := ReadStructs(mem, target.LibjvmBase)
		if err != nil {
			t.Fatal(err)
		}
		bases[target.LibjvmBase] = true
		all = append(all, s)
	}
	if len(bases) != 2 || !reflect.DeepEqual(all[0], all[1]) {
		t.Errorf("libjvm at %d places: one description is not the other", len(bases))
	}
}
