package trial

import (
	"maps"
	"slices"
	"time"

	"tare.dev/tare/internal/footprint"
)

// Growth is a part of the memory that grew through the load without a sign of
// an end: a leak, or a warm-up that had not ended. In a longer run it needs more.
type Growth struct {
	// Of is an owner in footprints, or LiveSet.
	Of string
	// Bytes is by how much it grew from the begin of the load to its end,
	// PerSecond that by the time.
	Bytes, PerSecond int64
}

// LiveSet is what collections left of the heap.
const LiveSet = "live set"

const (
	// trendSteps is how many parts of the load are compared.
	trendSteps = 4
	// mostTrend is how many points are kept of a load whose end is not known.
	mostTrend = 2*trendSteps + 1
	// trendCost is the share of the load's time that one footprint may take
	// for a trend to be looked for.
	trendCost = 0.02
	// leastGrowth is told of, and leastGrowthShare of all that is resident.
	leastGrowth      = 2 << 20
	leastGrowthShare = 0.02
	// lastingGrowth is the share of its growth that a row has in the second
	// half of the load, unless it comes to an end.
	lastingGrowth = 0.4
)

// trendPoint is what was there at a moment of the load.
type trendPoint struct {
	at time.Time
	// rows are what cannot be dropped, by owner.
	rows map[footprint.Owner]int64
	rss  int64
	// live is the least that a collection left since the point before; 0
	// without one of more than the young generation.
	live int64
	// read is the last reading of the group before.
	read reading
}

func newTrendPoint(f *footprint.Footprint, at time.Time, live int64, read reading) trendPoint {
	p := trendPoint{at: at, rows: make(map[footprint.Owner]int64), rss: f.RSSBytes, live: live, read: read}
	for _, r := range f.Rows {
		p.rows[r.Owner] = r.KeptBytes()
	}
	return p
}

// everySecond leaves out every other point, and keeps the least that collections left.
func everySecond(points []trendPoint) []trendPoint {
	var out []trendPoint
	for i, p := range points {
		if i%2 == 1 {
			continue
		}
		if i > 0 {
			p.live = leastLive(points[i-1 : i+1])
		}
		out = append(out, p)
	}
	return out
}

// leastLive is the least live set of some points; 0 without one.
func leastLive(points []trendPoint) int64 {
	live := int64(0)
	for _, p := range points {
		if p.live > 0 {
			live = least(live, p.live)
		}
	}
	return live
}

// evenly picks the points nearest to the ends of trendSteps equal parts of the time;
// nil where there are too few for that.
func evenly(points []trendPoint) []trendPoint {
	if len(points) <= trendSteps {
		return nil
	}
	first, last := points[0], points[len(points)-1]
	step := last.at.Sub(first.at) / trendSteps
	out := []trendPoint{first}
	i := 0
	for k := 1; k <= trendSteps; k++ {
		due := first.at.Add(time.Duration(k) * step)
		from := i + 1
		for i+1 < len(points) && (i < from || due.Sub(points[i].at) > points[i+1].at.Sub(due)) {
			i++
		}
		if i < from {
			return nil
		}
		p := points[i]
		p.live = leastLive(points[from : i+1])
		out = append(out, p)
	}
	return out
}

// worstReclaim is the largest ReclaimShare of the parts of a load with this limit; nil
// where there are too few points.
func worstReclaim(points []trendPoint, limit int64) *float64 {
	if len(points) < 2 {
		return nil
	}
	worst := 0.0
	for i, p := range points[1:] {
		before := points[i].read
		e := Evidence{LimitBytes: limit, Window: p.read.usage.Age - before.usage.Age, Stalled: stalledSince(before, p.read),
			RefaultBytes: p.read.usage.RefaultBytes - before.usage.RefaultBytes}
		worst = max(worst, e.ReclaimShare())
	}
	return &worst
}

// growths are the parts that grew from each point to the next, and about as much
// in the second half as in the first. The heap is filled and emptied by
// collections; what tells of it is the live set.
func growths(points []trendPoint) []Growth {
	if len(points) <= trendSteps {
		return nil
	}
	first, last := points[0], points[trendSteps]
	seconds := last.at.Sub(first.at).Seconds()
	var out []Growth
	add := func(of string, values []int64) {
		if n := steady(values, max(leastGrowth, int64(leastGrowthShare*float64(last.rss)))); n > 0 && seconds > 0 {
			out = append(out, Growth{Of: of, Bytes: n, PerSecond: int64(float64(n) / seconds)})
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(last.rows)) {
		var values []int64
		for _, p := range points {
			values = append(values, p.rows[owner])
		}
		if owner != footprint.JavaHeap {
			add(string(owner), values)
		}
	}
	var live []int64
	for _, p := range points[1:] {
		if p.live == 0 {
			return out
		}
		live = append(live, p.live)
	}
	add(LiveSet, live)
	return out
}

// steady is by how much values grew if each is larger than the one before, the
// growth is not about to end, and is no less than least; else 0.
func steady(values []int64, least int64) int64 {
	for i := 1; i < len(values); i++ {
		if values[i] <= values[i-1] {
			return 0
		}
	}
	n := len(values) - 1
	grown := values[n] - values[0]
	if grown < least || float64(values[n]-values[n/2]) < lastingGrowth*float64(grown) {
		return 0
	}
	return grown
}
