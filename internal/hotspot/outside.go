package hotspot

import (
	"strconv"
	"strings"
)

// OutsideVM is a VM of which only the performance counters are known: its memory
// is closed, or does not describe it. It has no addresses.
func OutsideVM(d *PerfData) *VM {
	c := d.Counters()
	vm := &VM{Version: c.JavaVersion, Collector: collectorByCounters(d), Counters: &c, Flags: map[string]string{}}
	vm.Major, _ = Major(c.JavaVersion) // 0, unknown, when there is none
	vm.ClassSpaceBytes = d.long("sun.gc.compressedclassspace.maxCapacity")
	vm.StackBytes = []int64{1 << 20} // of all threads on Linux, unless set
	if vm.Collector == "G1" {
		vm.MarkStackBytes = defaultMarkStack
	}
	for arg := range strings.FieldsSeq(d.Texts["java.rt.vmArgs"]) {
		vm.takeOption(arg)
	}
	return vm
}

// defaultMarkStack is what G1 reserves for its mark stack unless MarkStackSize
// is set: 4 Mi entries (JDK: src/hotspot/share/gc/shared/gc_globals.hpp).
const defaultMarkStack = 4 << 20 * 8

// takeOption takes what an option says about the layout, or about whether and
// what the JVM may be asked.
func (vm *VM) takeOption(arg string) {
	if arg == "-XX:+DisableAttachMechanism" {
		vm.Flags["DisableAttachMechanism"] = "true"
	}
	if level, ok := strings.CutPrefix(arg, "-XX:NativeMemoryTracking="); ok {
		vm.NMT = level
	}
	for _, prefix := range []string{"-Xss", "-XX:ThreadStackSize="} {
		if n, ok := strings.CutPrefix(arg, prefix); ok {
			unit := int64(1)
			if prefix != "-Xss" {
				unit = 1 << 10
			}
			if size := sizeOf(n) * unit; size > 0 && size < maxStack {
				vm.StackBytes = append(vm.StackBytes, size)
			}
		}
	}
}

// sizeOf reads a size as options write it, such as "512k"; 0 is none.
func sizeOf(text string) int64 {
	shift := 0
	if i := len(text) - 1; i >= 0 {
		switch text[i] {
		case 'k', 'K':
			shift = 10
		case 'm', 'M':
			shift = 20
		case 'g', 'G':
			shift = 30
		}
	}
	if shift > 0 {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return min(n<<shift, maxHeap)
}

// collectorByCounters names the collector by its policy, or the name that it gives its
// pauses; "" is unknown.
func collectorByCounters(d *PerfData) string {
	switch policy := d.Texts["sun.gc.policy.name"]; {
	case policy == "GarbageFirst":
		return "G1"
	case policy == "Copy:MSC":
		return "Serial"
	case strings.HasPrefix(policy, "ParScav:"):
		return "Parallel"
	case strings.HasSuffix(policy, ":CMS"):
		return "CMS"
	}
	switch name := d.Texts["sun.gc.collector.0.name"]; {
	case strings.HasPrefix(name, "ZGC"):
		return "ZGC"
	case strings.HasPrefix(name, "Shenandoah"):
		return "Shenandoah"
	}
	return ""
}

// HeapBytes are the sizes that the heap's reservation may have, the larger first:
// the sum of the generations, or the largest generation where each may grow to the
// whole heap. G1 adds some bytes to each generation, so that none is empty (JDK:
// src/hotspot/share/gc/g1/g1MonitoringSupport.hpp); a reservation is a multiple of
// heapGrain.
func (d *PerfData) HeapBytes() []int64 {
	var sum, most int64
	for g := range perfMaxGenerations {
		n := d.long("sun.gc.generation." + strconv.Itoa(g) + ".maxCapacity")
		sum, most = addBytes(sum, n), max(most, n)
	}
	if sum == 0 || sum > maxHeap {
		return nil
	}
	return []int64{sum &^ (heapGrain - 1), most &^ (heapGrain - 1)}
}

const heapGrain = 64 << 10
