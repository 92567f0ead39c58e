package load

import (
	"sync"
	"sync/atomic"
	"time"
)

// schedule says which request a free worker sends next, and when it is due.
// Workers share one.
type schedule interface {
	// claim is called by a worker that is free now. It returns the index of
	// the next request and when it is due, or false when nothing is left.
	claim(now time.Time) (index int64, due time.Time, ok bool)
	// due counts the requests due before t, of which sent were sent.
	due(t time.Time, sent int64) int64
}

// closedLoop has a request due whenever a worker is free.
type closedLoop struct {
	end   time.Time
	count atomic.Int64
}

func (s *closedLoop) claim(now time.Time) (int64, time.Time, bool) {
	if !now.Before(s.end) {
		return 0, time.Time{}, false
	}
	return s.count.Add(1) - 1, now, true
}

func (s *closedLoop) due(_ time.Time, sent int64) int64 { return sent }

// openLoop has request i due at start + i/rate. A free worker claims the next
// one before it is due, and waits for it: so nothing need be handed from one
// goroutine to another at the moment when it counts.
type openLoop struct {
	start, end time.Time
	rate       float64
	total      int64

	mu   sync.Mutex
	head int64 // the next request
}

func newOpenLoop(start time.Time, rate float64, d time.Duration) *openLoop {
	s := &openLoop{start: start, end: start.Add(d), rate: rate}
	s.total = s.before(s.end)
	return s
}

// dueAt is when request i is due. Computed from i, so that errors of rounding
// do not add up.
func (s *openLoop) dueAt(i int64) time.Time {
	return s.start.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
}

// before counts the requests due before t.
func (s *openLoop) before(t time.Time) int64 {
	n := max(0, int64(t.Sub(s.start).Seconds()*s.rate))
	for n > 0 && !s.dueAt(n-1).Before(t) {
		n--
	}
	for s.dueAt(n).Before(t) {
		n++
	}
	return n
}

func (s *openLoop) claim(now time.Time) (int64, time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.end) {
		// The time is over: what is late by now is dropped. What is not
		// is still sent, or a moment's delay at the end would look like
		// a server too slow.
		s.head = max(s.head, s.before(now.Add(-LateAfter)))
	}
	if s.head >= s.total {
		return 0, time.Time{}, false
	}
	s.head++
	return s.head - 1, s.dueAt(s.head - 1), true
}

func (s *openLoop) due(t time.Time, sent int64) int64 {
	return max(sent, min(s.total, s.before(t)))
}
