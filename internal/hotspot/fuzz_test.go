package hotspot

import (
	"encoding/binary"
	"errors"
	"testing"
)

// flat is a memory that lies at base, of anything.
type flat struct {
	base uint64
	data []byte
}

func (m flat) ReadMem(p []byte, addr uint64) error {
	off := addr - m.base
	if off > uint64(len(m.data)) || uint64(len(p)) > uint64(len(m.data))-off {
		return errors.New("not there")
	}
	copy(p, m.data[off:])
	return nil
}

// Whatever a library's image holds, looking for its end and for symbols ends,
// and the end lies behind the beginning.
func FuzzLibrary(f *testing.F) {
	const base = 0x7f0000000000
	h := make([]byte, 1024)
	copy(h, "\x7fELF\x02\x01")
	binary.LittleEndian.PutUint64(h[32:], 64)
	binary.LittleEndian.PutUint16(h[54:], 56)
	binary.LittleEndian.PutUint16(h[56:], 2)
	binary.LittleEndian.PutUint32(h[64:], 1)         // PT_LOAD
	binary.LittleEndian.PutUint64(h[64+40:], 4096)   // memory size
	binary.LittleEndian.PutUint32(h[64+56:], 2)      // PT_DYNAMIC
	binary.LittleEndian.PutUint64(h[64+56+16:], 512) // address
	binary.LittleEndian.PutUint64(h[64+56+40:], 64)
	for i, tag := range []uint64{6, 5, 0x6ffffef5} { // symbols, strings, GNU hash
		binary.LittleEndian.PutUint64(h[512+16*i:], tag)
		binary.LittleEndian.PutUint64(h[512+16*i+8:], uint64(600+100*i))
	}
	binary.LittleEndian.PutUint32(h[800:], 1)
	f.Add(h)
	f.Add(h[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		mem := flat{base, data}
		if end, err := LoadEnd(mem, base); err == nil && (end < base || end-base > 1<<40) {
			t.Fatalf("end %#x", end)
		}
		lib, err := openLibrary(mem, base)
		if err != nil {
			return
		}
		if addr, err := lib.symbol("gHotSpotVMStructs"); err != nil && addr != 0 {
			t.Fatalf("symbol at %#x with error %v", addr, err)
		}
	})
}

// Whatever the counters say, the sizes are believable.
func FuzzOutsideVM(f *testing.F) {
	f.Add("GarbageFirst", "G1 young collection pauses", "-Xss512k -XX:+DisableAttachMechanism", "17.0.12", int64(64<<20), int64(1<<30))
	f.Add("", "ZGC minor", "-Xss9223372036854775807g -XX:ThreadStackSize=-1 -Xss", "x", int64(-1), int64(1)<<62)
	f.Fuzz(func(t *testing.T, policy, name, args, version string, heap, space int64) {
		d := &PerfData{Longs: map[string]int64{
			"sun.gc.generation.0.maxCapacity": heap, "sun.gc.generation.1.maxCapacity": space,
			"sun.gc.compressedclassspace.maxCapacity": space,
		}, Texts: map[string]string{
			"sun.gc.policy.name": policy, "sun.gc.collector.0.name": name, "java.rt.vmArgs": args, "java.property.java.version": version,
		}}
		vm := OutsideVM(d)
		for _, n := range append(vm.StackBytes, d.HeapBytes()...) {
			if n < 0 || n > maxHeap {
				t.Fatalf("size %d", n)
			}
		}
		if vm.ClassSpaceBytes < 0 || vm.Major < 0 {
			t.Fatalf("%+v", vm)
		}
	})
}
