package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of the histogram. A latency beyond it counts as its end, in the
// quantiles, not in Mean and Max.
const (
	minLatency = time.Microsecond
	maxLatency = 2 * time.Hour
)

// tally counts outcomes. All workers share one: a lock held for a tenth of a
// microsecond per request is cheaper than a histogram of 200 KiB for each.
type tally struct {
	start     time.Time
	requests  int64 // of the plan; 0: not bounded
	mu        sync.Mutex
	result    Result
	last      time.Time
	histogram *hdrhistogram.Histogram
	waits     int64 // that are in the histogram
	sum       float64
	max       time.Duration
}

func newTally(start time.Time) *tally {
	return &tally{
		result:    Result{Errors: make(map[string]int64)},
		start:     start,
		last:      start,
		histogram: hdrhistogram.New(int64(minLatency), int64(maxLatency), 3),
	}
}

// add counts one request; done is when its answer ended, or it failed.
func (t *tally) add(r reply, due, done time.Time, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Sent++
	if late {
		t.result.Late++
	}
	if r.retried {
		t.result.Retried++
	}
	if done.After(t.last) {
		t.last = done
	}
	t.addBlock()
	if r.err != nil || r.status >= 400 {
		t.result.Failed++
		t.addError(errorKind(r.status, r.err))
		if r.err != nil && isTimeout(r.err) {
			t.addWait(done.Sub(due), 1)
		}
		return
	}
	t.result.OK++
	t.addWait(done.Sub(due), 1)
}

// blocks is how many Blocks a load of that many requests or more has.
const blocks = 10

// addBlock notes the time where the request counted last ended a block.
func (t *tally) addBlock() {
	n := t.result.Sent
	if t.requests > 0 && n*blocks/t.requests > (n-1)*blocks/t.requests {
		t.result.Blocks = append(t.result.Blocks, Block{n, t.last.Sub(t.start)})
	}
}

// addWait counts n requests of which the user waited for d.
func (t *tally) addWait(d time.Duration, n int64) {
	t.waits += n
	t.sum += float64(n) * float64(d)
	t.max = max(t.max, d)
	// In range, so there is no error.
	_ = t.histogram.RecordValues(int64(min(max(d, minLatency), maxLatency)), n)
}

// addDropped counts the wait of requests that were due and never sent.
func (t *tally) addDropped(waits []wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range waits {
		t.addWait(w.time, w.requests)
	}
}

func (t *tally) addError(kind string) {
	_, known := t.result.Errors[kind]
	if !known && len(t.result.Errors) >= MaxErrorKinds-1 {
		kind = otherKind
	}
	t.result.Errors[kind]++
}

// finish completes the result, once all workers have ended.
func (t *tally) finish(due int64, elapsed time.Duration) Result {
	r := t.result
	r.Due, r.Dropped, r.Elapsed = due, due-r.Sent, elapsed
	if t.waits > 0 {
		r.Latency = Latency{Mean: TimeOf(time.Duration(t.sum / float64(t.waits))), Max: TimeOf(t.max),
			P50: t.quantile(50), P90: t.quantile(90), P99: t.quantile(99), P999: t.quantile(99.9)}
	}
	return r
}

// quantile is bounded by the maximum: the histogram answers with the end of a
// bucket.
func (t *tally) quantile(percent float64) Time {
	return TimeOf(min(time.Duration(t.histogram.ValueAtPercentile(percent)), t.max))
}
