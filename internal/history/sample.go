package history

import (
	"strings"

	"tare.dev/tare/internal/ledger"
)

// column is a column of samples.
type column struct {
	name string
	// last says that of an interval the last value is kept, and not the largest.
	last  bool
	value func(c *ledger.Counters) int64
}

// columns are those of samples behind the key, in their order.
var columns = []column{
	{"usage", false, func(c *ledger.Counters) int64 { return c.Usage }},
	{"needed", false, func(c *ledger.Counters) int64 { return max(0, c.Usage-c.Reclaimable) }},
	{"resident", false, func(c *ledger.Counters) int64 { return c.Resident }},
	{"swap", false, func(c *ledger.Counters) int64 { return c.Swap }},
	{"heap_used", false, func(c *ledger.Counters) int64 { return c.HeapUsed }},
	{"heap_committed", false, func(c *ledger.Counters) int64 { return c.HeapCommitted }},
	{"after_gc", false, func(c *ledger.Counters) int64 { return c.HeapAfterGC }},
	{"threads", false, func(c *ledger.Counters) int64 { return int64(c.Threads) }},
	{"classes", false, func(c *ledger.Counters) int64 { return c.Classes }},
	{"bound", true, func(c *ledger.Counters) int64 { return c.Limit }},
	{"high", true, func(c *ledger.Counters) int64 { return c.High }},
	{"collections", true, func(c *ledger.Counters) int64 { return c.Collections }},
	{"gc_time", true, func(c *ledger.Counters) int64 { return int64(c.GCTime) }},
	{"at_limit", true, func(c *ledger.Counters) int64 { return c.AtLimit }},
	{"oom_kills", true, func(c *ledger.Counters) int64 { return c.OOMKills }},
	{"pressure", true, func(c *ledger.Counters) int64 { return int64(c.PressureSome) }},
}

// sample is the columns of one interval.
type sample []int64

func sampleOf(c *ledger.Counters) sample {
	s := make(sample, len(columns))
	for i, col := range columns {
		s[i] = col.value(c)
	}
	return s
}

// merge adds what was seen later in the interval.
func (s *sample) merge(later sample) {
	merged := make(sample, len(columns))
	for i, col := range columns {
		if merged[i] = later[i]; !col.last {
			merged[i] = max((*s)[i], later[i])
		}
	}
	*s = merged
}

func (s *sample) values() []any {
	out := make([]any, len(*s))
	for i, v := range *s {
		out[i] = v
	}
	return out
}

// insertSamples and mergeSamples are the statement that writes samples; selectPeaks
// is what a longer interval has of those in it.
var insertSamples, mergeSamples, selectPeaks = func() (string, string, string) {
	var names, sets, peaks []string
	for _, c := range columns {
		names = append(names, c.name)
		// Of a longer interval the largest limit and count is near enough the last:
		// counts rise, and limits rarely change.
		peaks = append(peaks, "max("+c.name+")")
		set := c.name + " = excluded." + c.name
		if !c.last {
			set = c.name + " = greatest(samples." + c.name + ", excluded." + c.name + ")"
		}
		sets = append(sets, set)
	}
	return "INSERT INTO samples (jvm, tier, t, " + strings.Join(names, ", ") + ")",
		"ON CONFLICT (jvm, tier, t) DO UPDATE SET " + strings.Join(sets, ", "),
		strings.Join(peaks, ", ")
}()
