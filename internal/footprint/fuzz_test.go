package footprint

import (
	"context"
	"encoding/binary"
	"testing"

	"tare.dev/tare/internal/elffile"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// anything is a memory in which every page holds the same bytes, which the
// process chose.
type anything []byte

func (m anything) ReadMem(p []byte, addr uint64) error {
	if len(m) == 0 {
		return linux.ErrNotResident
	}
	for i := range p {
		p[i] = m[(addr+uint64(i))%uint64(len(m))]
	}
	return nil
}

// hostileMappings makes mappings, in order, out of bytes: what a process may
// map where, and name how it likes.
func hostileMappings(b []byte) []linux.VMA {
	names := []string{"", "", "", "[heap]", "[stack]", "/jdk/lib/server/libjvm.so", "/jdk/lib/server/classes.jsa", "/memfd:java_heap (deleted)", "/app.jar"}
	perms := []string{"rw-p", "---p", "rwxp", "r--p", "r-xp", "rw-s"}
	at := uint64(64 << 10)
	var out []linux.VMA
	for ; len(b) >= 5 && len(out) < 200; b = b[5:] {
		at += uint64(b[0]) << (12 + b[1]%20)
		if b[0]%3 == 0 { // at a place that arenas and metaspace like
			at = alignUp(at, 64<<20)
		}
		size := uint64(b[2]+1) << (12 + b[3]%16)
		if at+size >= 1<<47 {
			break
		}
		v := linux.VMA{Start: at, End: at + size, Perms: perms[int(b[4])%len(perms)], Path: names[int(b[4]>>3)%len(names)]}
		if v.Path != "" && v.Path[0] == '/' {
			v.Inode, v.Offset = 7, uint64(b[1])<<(b[0]%64)
		}
		v.RSS = int64(size)
		out = append(out, v)
		at += size
	}
	return out
}

// Whatever a process maps, whatever stands in its memory and whatever its JVM
// says of itself, every resident page has one owner and the rows add up.
func FuzzAttribute(f *testing.F) {
	f.Add([]byte("\x00\x00\xff\x0a\x00\x01\x00\x10\x08\x01\x03\x09\x20\x04\x02"), []byte{2, 0, 0, 0, 0, 0, 0, 0}, uint64(64<<10), uint64(128<<20), uint8(1))
	f.Add([]byte{3, 9, 255, 6, 0, 0, 0, 255, 6, 1, 0, 0, 15, 9, 48}, []byte("\x7fELF\x02\x01"), uint64(1)<<40, uint64(1)<<45, uint8(0))
	f.Fuzz(func(t *testing.T, maps, content []byte, start, size uint64, kind uint8) {
		vmas := hostileMappings(maps)
		if len(vmas) == 0 {
			return
		}
		vm := &hotspot.VM{Major: 8 + int(size%20), Counters: &hotspot.PerfCounters{HeapCapacity: int64(size >> 20)}}
		vm.Heap = hotspot.Region{Start: start, End: start + size}
		vm.ClassSpaceBytes, vm.StackBytes = int64(size>>1), []int64{int64(size % (1 << 30))}
		vm.Classes, vm.Metadata = []uint64{start}, []uint64{start, start + size}
		target := &process.Target{PID: 1, LibjvmPath: vmas[0].Path, ImageHeap: elffile.Section{Start: 0, End: 1}}
		// Each kind of JVM in its turn.
		s := madeUp([]jvm{
			describedHotSpot{vm}, countedHotSpot{*vm, []int64{int64(size % (1 << 46))}}, openJ9{}, nativeImage{target},
		}[kind%4], vmas)
		s.target = target
		s.layOut(anything(content), 4096)
		for i := range vmas {
			s.runs = append(s.runs, linux.PageRun{Start: vmas[i].Start, End: vmas[i].Start + 4096})
			if i%2 == 0 {
				s.sps = append(s.sps, stackPointer{i + 1, vmas[i].Start + binary.LittleEndian.Uint64(append(content, make([]byte, 8)...))%4096})
			}
		}
		segs := attributed(t, s)
		at := uint64(0)
		for _, g := range segs {
			if g.start < at || g.end <= g.start || g.start < g.vma.Start || g.end > g.vma.End {
				t.Fatalf("segment %x after %x in %x-%x", g.span, at, g.vma.Start, g.vma.End)
			}
			at = g.end
		}
		checkRows(t, s.footprint(segs), int64(len(vmas))*4096)
	})
}

func checkRows(t *testing.T, f *Footprint, want int64) {
	t.Helper()
	var sum int64
	for _, r := range f.Rows {
		sum += r.ResidentBytes
		if r.RepeatedBytes < 0 || r.RepeatedBytes > r.ResidentBytes {
			t.Fatalf("%s: of %d bytes %d are repeated", r.Owner, r.ResidentBytes, r.RepeatedBytes)
		}
	}
	if sum != f.RSSBytes || sum != want {
		t.Fatalf("rows add up to %d, Rss is %d, %d bytes are resident", sum, f.RSSBytes, want)
	}
}

// attributed gives every segment its owner.
func attributed(t testing.TB, s *scan) []segment {
	t.Helper()
	segs, err := s.attribute(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return segs
}
