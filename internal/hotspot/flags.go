package hotspot

import (
	"fmt"
	"math"
	"strconv"
)

// flagTable finds -XX flags in a JVM's memory (JDK:
// src/hotspot/share/runtime/flags/jvmFlag.hpp; "Flag" on JDK 8).
type flagTable struct {
	s  *reader
	at map[string]uint64 // address of the value by name
}

const maxFlags = 1 << 13

func readFlags(s *reader) (*flagTable, error) {
	kind := "JVMFlag"
	if !s.has("JVMFlag::flags") {
		kind = "Flag"
	}
	array, err := s.staticWord(kind + "::flags")
	if err != nil {
		return nil, err
	}
	n, err := s.staticWord(kind + "::numFlags")
	if err != nil {
		return nil, err
	}
	size := s.types[kind]
	if n > maxFlags || size < 16 || size > 256 {
		return nil, fmt.Errorf("%d flags of %d bytes", n, size)
	}
	name, err := s.offset(kind + "::_name")
	if err != nil {
		return nil, err
	}
	addr, err := s.offset(kind + "::_addr")
	if err != nil {
		return nil, err
	}
	if name+8 > size || addr+8 > size {
		return nil, fmt.Errorf("flag fields lie beyond %d bytes", size)
	}
	table := make([]byte, n*size)
	if err := s.mem.ReadMem(table, array); err != nil {
		return nil, err
	}
	t := &flagTable{s: s, at: map[string]uint64{}}
	for ; len(table) >= int(size); table = table[size:] {
		if u64(table[name:]) == 0 {
			continue // the last entry is empty
		}
		if key, err := s.cstring(u64(table[name:])); err == nil {
			t.at[key] = u64(table[addr:])
		}
	}
	return t, nil
}

// boolean reads a flag of type bool; one that this JVM lacks is false.
func (t *flagTable) boolean(name string) bool {
	var b [1]byte
	at, ok := t.at[name]
	return ok && t.s.mem.ReadMem(b[:], at) == nil && b[0] == 1
}

// size reads a flag of 64 bits; one that this JVM lacks, or that has no
// believable size, is 0.
func (t *flagTable) size(name string) int64 {
	at, ok := t.at[name]
	if !ok {
		return 0
	}
	v, err := t.s.word(at)
	if err != nil || v > maxHeap {
		return 0
	}
	return int64(v)
}

// text reads a flag of type ccstr.
func (t *flagTable) text(name string) (string, error) {
	at, ok := t.at[name]
	if !ok {
		return "", fmt.Errorf("no flag %s", name)
	}
	p, err := t.s.word(at)
	if err != nil || p == 0 {
		return "", err
	}
	return t.s.cstring(p)
}

// flagKind is the type of a flag's value.
type flagKind int

const (
	boolFlag flagKind = iota
	sizeFlag          // 64 bits: size_t, intx, uintx
	// intFlag is int or uint in some versions and of 64 bits in others. Its
	// values fit into 32 bits; the 32 bits behind a small flag are another's.
	intFlag
	textFlag
	realFlag
)

// toldFlags are the flags that decide on memory, by the type that they have in
// all versions (JDK: src/hotspot/share/runtime/globals.hpp and gc/*/), and those that tell where a JVM writes of its end.
var toldFlags = map[string]flagKind{
	"ActiveProcessorCount": intFlag, "AlwaysPreTouch": boolFlag, "AOTCache": textFlag, "ArchiveRelocationMode": intFlag,
	"CICompilerCount": intFlag, "CompilerThreadStackSize": sizeFlag, "CompileThresholdScaling": realFlag, "ConcGCThreads": intFlag,
	"CrashOnOutOfMemoryError": boolFlag, "DisableAttachMechanism": boolFlag, "ErrorFile": textFlag, "ExitOnOutOfMemoryError": boolFlag,
	"HeapDumpOnOutOfMemoryError": boolFlag, "HeapDumpPath": textFlag, "InitialHeapSize": sizeFlag,
	"MaxDirectMemorySize": sizeFlag, "MaxHeapFreeRatio": intFlag, "MaxHeapSize": sizeFlag,
	"MaxMetaspaceSize": sizeFlag, "MaxRAMPercentage": realFlag, "MinHeapFreeRatio": intFlag,
	"NativeMemoryTracking": textFlag, "ParallelGCThreads": intFlag, "ReservedCodeCacheSize": sizeFlag,
	"SharedArchiveFile": textFlag, "THPStackMitigation": boolFlag, "ThreadStackSize": sizeFlag,
	"Tier3InvocationThreshold": intFlag, "TieredCompilation": boolFlag, "TieredStopAtLevel": intFlag, "TrimNativeHeapInterval": intFlag,
	"UseCompactObjectHeaders": boolFlag, "UseCompressedOops": boolFlag, "UseContainerSupport": boolFlag,
	"UseSharedSpaces": boolFlag, "UseStringDeduplication": boolFlag, "UseTransparentHugePages": boolFlag,
	"G1PeriodicGCInterval": sizeFlag, "UsePerfData": boolFlag, "CompressedClassSpaceSize": sizeFlag,
	"VMThreadStackSize": sizeFlag,
}

// values gives the values of the told flags that this JVM has, as -XX options
// write them.
func (t *flagTable) values() map[string]string {
	out := map[string]string{}
	for name, kind := range toldFlags {
		at, ok := t.at[name]
		if !ok {
			continue
		}
		if v, ok := t.value(at, name, kind); ok {
			out[name] = v
		}
	}
	return out
}

func (t *flagTable) value(at uint64, name string, kind flagKind) (string, bool) {
	if kind == boolFlag {
		return strconv.FormatBool(t.boolean(name)), true
	}
	if kind == textFlag {
		text, err := t.text(name)
		return text, err == nil
	}
	if kind == intFlag {
		// Both machines that tare runs on have the low half first.
		var b [4]byte
		err := t.s.mem.ReadMem(b[:], at)
		return strconv.FormatInt(int64(int32(u32(b[:]))), 10), err == nil
	}
	w, err := t.s.word(at)
	if err != nil {
		return "", false
	}
	if kind == realFlag {
		return strconv.FormatFloat(math.Float64frombits(w), 'g', 6, 64), true
	}
	return strconv.FormatUint(w, 10), true
}
