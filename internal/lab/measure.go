package lab

import (
	"strings"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/trial"
)

// Unit is what a measure counts.
type Unit string

// The units.
const (
	Bytes     Unit = "bytes"
	Seconds   Unit = "seconds"
	PerSecond Unit = "per second"
	Share     Unit = "share"
	Count     Unit = "count"
	// Number is a number of a unit that is told elsewhere.
	Number Unit = "number"
	Ratio  Unit = "ratio"
)

// Measure is something that an experiment can measure.
type Measure struct {
	Name string
	Unit Unit
	// Help says what it is.
	Help      string
	needsLoad bool
	value     func(*observation) (float64, bool)
}

// observation is all that was seen of one run.
type observation struct {
	trial  *trial.Result
	end    *footprint.Footprint // at the end of the load, or of the settling
	status *linux.Status
	nmt    map[string]int64 // committed bytes by category
	// objects are those that a full collection left; nil where nobody asked.
	objects *attach.Histogram
	// noObjects is why there are none where somebody asked.
	noObjects error
	jmh       map[string]jmh.Estimate
	found     *float64
	limit     *float64 // what was found, where that is a limit
}

// The families of measures whose name goes on.
const (
	rowPrefix, committedPrefix, nmtPrefix = "row.", "committed.", "nmt."
	heldPrefix                            = "held."
	foundMeasure, limitMeasure            = "found", "limit"
	neededMeasure                         = "cgroup-needed"
	reachableMeasure                      = "heap-reachable"
)

// Measures are the measures with a fixed name.
var Measures = []Measure{
	{Name: "rss", Unit: Bytes, Help: "resident memory at the end, by the page map", value: ofEnd(func(f *footprint.Footprint) int64 { return f.RSSBytes })},
	{Name: "pss", Unit: Bytes, Help: "its proportional share at the end, by smaps_rollup", value: ofEnd(func(f *footprint.Footprint) int64 { return f.PSSBytes })},
	{Name: "vmrss", Unit: Bytes, Help: "VmRSS at the end: what ps and top show; lags by the threads' counters",
		value: ofStatus(func(s *linux.Status) int64 { return s.VmRSS })},
	{Name: "vmhwm", Unit: Bytes, Help: "VmHWM, the highest VmRSS so far", value: ofStatus(func(s *linux.Status) int64 { return s.VmHWM })},
	{Name: "unattributed", Unit: Share, Help: "share of the resident memory that has no owner", value: unattributed},
	{Name: "beside-heap", Unit: Bytes, Help: "resident memory that is not the Java heap", value: besideHeap},
	{Name: "heap-cover", Unit: Bytes, Help: "MemAvailable less what the Java heap does not use yet: below 0 the heap can outgrow the machine", value: heapCover},
	{Name: "mem-available", Unit: Bytes, Help: "MemAvailable of the machine at the end", value: memAvailable},
	{Name: "heap-used", Unit: Bytes, Help: "Java heap in use at the end, garbage included", value: ofHeap(func(h *footprint.Heap) int64 { return h.UsedBytes })},
	{Name: "heap-max", Unit: Bytes, Help: "the most that the Java heap may grow to", value: ofHeap(func(h *footprint.Heap) int64 { return h.MaxBytes })},
	{Name: "classes", Unit: Count, Help: "classes loaded at the end", value: count(func(f *footprint.Footprint) int64 { return f.Classes })},
	{Name: "threads", Unit: Count, Help: "threads at the end", value: count(func(f *footprint.Footprint) int64 { return int64(f.Threads) })},
	{Name: "cgroup-peak", Unit: Bytes, Help: "highest usage of the control group", value: ofTrial(func(r *trial.Result) float64 { return float64(r.PeakBytes) })},
	{Name: neededMeasure, Unit: Bytes, Help: "highest usage of the control group less its page cache", value: ofTrial(func(r *trial.Result) float64 { return float64(r.NeededBytes) })},
	{Name: "heap-live", Unit: Bytes, Help: "least heap that a collection left, of a job the most", value: positive(func(r *trial.Result) float64 { return float64(r.LiveBytes) })},
	{Name: reachableMeasure, Unit: Bytes, Help: "objects that a full collection leaves at the end", value: reachable},
	{Name: "direct", Unit: Bytes, Help: "direct buffers at the end, by the JVM's count; they lie in malloc", value: direct},
	{Name: "start", Unit: Seconds, Help: "time until ready", value: positive(func(r *trial.Result) float64 { return r.ReadyAfter.Seconds() })},
	{Name: "cpu-time", Unit: Seconds, Help: "processor time of the whole run", value: positive(func(r *trial.Result) float64 { return r.CPUTime.Seconds() })},
	{Name: "gc-share", Unit: Share, Help: "share of the load's time for which collections stopped the application", value: gcShare},
	{Name: "collections", Unit: Count, Help: "collections during the load", value: ofTrial(func(r *trial.Result) float64 { return float64(r.Collections) })},
	{Name: "passed", Unit: Share, Help: "1 when the run passed, 0 when not", value: ofTrial(passed)},
	{Name: "throughput", Unit: PerSecond, Help: "successful requests per second", needsLoad: true, value: ofLoad(func(l *load.Result) (float64, bool) { return l.Throughput() })},
	{Name: "p50", Unit: Seconds, Help: "median latency from the intended send time", needsLoad: true, value: latency(func(l *load.Result) load.Time { return l.Latency.P50 })},
	{Name: "p99", Unit: Seconds, Help: "99th percentile of latency", needsLoad: true, value: latency(func(l *load.Result) load.Time { return l.Latency.P99 })},
	{Name: foundMeasure, Unit: Count, Help: "what a search found", value: ofSearch(func(o *observation) *float64 { return o.found })},
	{Name: limitMeasure, Unit: Bytes, Help: "the smallest limit that a search found", value: ofSearch(func(o *observation) *float64 { return o.limit })},
}

// measureHelp names all measures.
var measureHelp = func() string {
	names := make([]string, 0, len(Measures)+3)
	for _, m := range Measures {
		names = append(names, m.Name)
	}
	return strings.Join(append(names, "row.OWNER", "held.OWNER", "committed.OWNER", "nmt.CATEGORY", "jmh.METRIC"), ", ")
}()

// owners are those that a footprint has.
var owners = []footprint.Owner{footprint.JavaHeap, footprint.ClassSpace, footprint.Metaspace, footprint.CodeCache, footprint.ThreadStacks,
	footprint.GC, footprint.CDS, footprint.Malloc, footprint.MappedFiles, footprint.JVMOther, footprint.Unattributed}

// MeasureNamed is the measure of a name: one of Measures, row.OWNER, held.OWNER or
// committed.OWNER of the footprint, nmt.CATEGORY, what native memory tracking
// says is committed, or jmh.METRIC.
func MeasureNamed(name string) (Measure, bool) {
	for _, m := range Measures {
		if m.Name == name {
			return m, true
		}
	}
	for _, o := range owners {
		switch name {
		case rowPrefix + string(o):
			return Measure{Name: name, Unit: Bytes, Help: "resident memory of this owner at the end",
				value: row(o, func(r footprint.Row) *int64 { return &r.ResidentBytes })}, true
		case heldPrefix + string(o):
			return Measure{Name: name, Unit: Bytes, Help: "resident memory of this owner at the end, and what of it is swapped out",
				value: row(o, func(r footprint.Row) *int64 { n := r.ResidentBytes + r.SwapBytes; return &n })}, true
		case committedPrefix + string(o):
			return Measure{Name: name, Unit: Bytes, Help: "what the JVM committed for this owner, resident or not",
				value: row(o, func(r footprint.Row) *int64 { return r.CommittedBytes })}, true
		}
	}
	if category, ok := strings.CutPrefix(name, nmtPrefix); ok && category != "" && len(category) < 40 {
		return Measure{Name: name, Unit: Bytes, Help: "what native memory tracking says is committed", value: func(o *observation) (float64, bool) {
			n, ok := o.nmt[category]
			return float64(n), ok
		}}, true
	}
	return jmhMeasure(name)
}

func ofSearch(found func(*observation) *float64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if v := found(o); v != nil {
			return *v, true
		}
		return 0, false
	}
}

func ofEnd(bytes func(*footprint.Footprint) int64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.end == nil {
			return 0, false
		}
		return float64(bytes(o.end)), true
	}
}

// count is ofEnd for what is 0 when it is not known.
func count(n func(*footprint.Footprint) int64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		v, ok := ofEnd(n)(o)
		return v, ok && v > 0
	}
}

func reachable(o *observation) (float64, bool) {
	if o.objects == nil {
		return 0, false
	}
	return float64(o.objects.Bytes), true
}

func direct(o *observation) (float64, bool) {
	if o.end == nil || o.end.VM != string(process.HotSpot) {
		return 0, false
	}
	return float64(o.end.DirectBytes()), true
}

func ofHeap(bytes func(*footprint.Heap) int64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.end == nil || o.end.Heap == nil {
			return 0, false
		}
		return float64(bytes(o.end.Heap)), true
	}
}

func besideHeap(o *observation) (float64, bool) {
	heap, ok := row(footprint.JavaHeap, func(r footprint.Row) *int64 { return &r.ResidentBytes })(o)
	if !ok {
		return 0, false
	}
	return float64(o.end.RSSBytes) - heap, true
}

func heapCover(o *observation) (float64, bool) {
	available, ok := memAvailable(o)
	if !ok || o.end.Heap == nil {
		return 0, false
	}
	return available - float64(o.end.Heap.MaxBytes-o.end.Heap.UsedBytes), true
}

func memAvailable(o *observation) (float64, bool) {
	if o.end == nil || o.end.Host == nil {
		return 0, false
	}
	return float64(o.end.Host.MemAvailableBytes), true
}

func ofStatus(bytes func(*linux.Status) int64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.status == nil {
			return 0, false
		}
		return float64(bytes(o.status)), true
	}
}

func ofTrial(value func(*trial.Result) float64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.trial == nil {
			return 0, false
		}
		return value(o.trial), true
	}
}

// positive is ofTrial for what is 0 when it is not known.
func positive(value func(*trial.Result) float64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		v, ok := ofTrial(value)(o)
		return v, ok && v > 0
	}
}

func ofLoad(value func(*load.Result) (float64, bool)) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.trial == nil || o.trial.Load == nil {
			return 0, false
		}
		return value(o.trial.Load)
	}
}

func latency(value func(*load.Result) load.Time) func(*observation) (float64, bool) {
	return ofLoad(func(l *load.Result) (float64, bool) {
		d, measured := value(l).Value()
		return d.Seconds(), measured
	})
}

func row(owner footprint.Owner, bytes func(footprint.Row) *int64) func(*observation) (float64, bool) {
	return func(o *observation) (float64, bool) {
		if o.end == nil {
			return 0, false
		}
		r, ok := o.end.Row(owner)
		if n := bytes(r); ok && n != nil {
			return float64(*n), true
		}
		return 0, false
	}
}

func unattributed(o *observation) (float64, bool) {
	if o.end == nil || o.end.RSSBytes <= 0 {
		return 0, false
	}
	r, _ := o.end.Row(footprint.Unattributed)
	return float64(r.ResidentBytes) / float64(o.end.RSSBytes), true
}

func gcShare(o *observation) (float64, bool) {
	if o.trial == nil || o.trial.GCShare == nil {
		return 0, false
	}
	return *o.trial.GCShare, true
}

func passed(r *trial.Result) float64 {
	if r.Passed() {
		return 1
	}
	return 0
}
