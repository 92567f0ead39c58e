package jvmopts

import "strconv"

const mib = 1 << 20

// defaultMaxHeap is HotSpot's default of MaxHeapSize on 64 bits.
const defaultMaxHeap = 126 * mib

// aggressiveSpare is what -XX:+AggressiveHeap leaves beside the heap.
const aggressiveSpare = 160 * mib

// FixesHeap says that the user has set the size of the heap. Percentages do not:
// with them the heap follows the memory limit.
func (o Options) FixesHeap() bool {
	_, _, set := o.Value("MaxHeapSize")
	return set
}

// MaxHeap is the largest heap, in bytes, that HotSpot takes with a memory limit: what
// the user has set, else a share of the limit, by default half of little memory and a
// quarter of much, with the default of MaxHeapSize between them (JDK:
// Arguments::set_heap_size and set_aggressive_heap_flags in
// src/hotspot/share/runtime/arguments.cpp).
func (o Options) MaxHeap(limit int64) int64 {
	if heap, ok := o.bytes("MaxHeapSize"); ok {
		return heap
	}
	if ram, ok := o.bytes("MaxRAM"); ok {
		limit = min(limit, ram)
	}
	if value, _, _ := o.Value("AggressiveHeap"); value == "true" {
		return max(0, min(limit/2, limit-aggressiveSpare))
	}
	heap := o.share(limit, "MaxRAM", 25)
	if small := o.share(limit, "MinRAM", 50); small < defaultMaxHeap {
		heap = small
	} else {
		heap = max(heap, defaultMaxHeap)
	}
	if most, ok := o.bytes("ErgoHeapSizeLimit"); ok && most > 0 {
		heap = min(heap, most)
	}
	if initial, ok := o.bytes("InitialHeapSize"); ok {
		heap = max(heap, initial)
	}
	return heap
}

// bytes is the size that a flag has by the options.
func (o Options) bytes(flag string) (int64, bool) {
	value, _, ok := o.Value(flag)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil && n >= 0
}

// share is the part of a limit by the flags NamePercentage or, older, NameFraction.
func (o Options) share(limit int64, name string, percent float64) int64 {
	if value, _, ok := o.Value(name + "Percentage"); ok {
		if p, err := strconv.ParseFloat(value, 64); err == nil && p >= 0 && p <= 100 {
			percent = p
		}
	} else if n, ok := o.bytes(name + "Fraction"); ok && n > 0 {
		percent = 100 / float64(n)
	}
	return int64(float64(limit) / 100 * percent)
}
