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
	// dropped is how long the users of requests that were due and never sent
	// had waited when these were given up.
	dropped() []wait
}

// wait is that the users of some requests waited for some time.
type wait struct {
	time     time.Duration
	requests int64
}

// maxWaits bounds how finely the waits of dropped requests are told apart.
const maxWaits = 1000

// closedLoop has a request due whenever a worker is free.
type closedLoop struct {
	end   time.Time
	total int64 // requests, at most
	count atomic.Int64
}

func (s *closedLoop) claim(now time.Time) (int64, time.Time, bool) {
	if !now.Before(s.end) {
		return 0, time.Time{}, false
	}
	index := s.count.Add(1) - 1
	return index, now, index < s.total
}

func (s *closedLoop) due(_ time.Time, sent int64) int64 { return sent }

func (s *closedLoop) dropped() []wait { return nil }

// openLoop has request i due at start + i/rate. A free worker claims the next
// one before it is due, and waits for it: so nothing need be handed from one
// goroutine to another at the moment when it counts.
type openLoop struct {
	start, end time.Time
	rate       float64
	total      int64

	mu    sync.Mutex
	head  int64 // the next request
	waits []wait
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
		s.drop(min(s.total, s.before(now.Add(-LateAfter))), now)
	}
	if s.head >= s.total {
		return 0, time.Time{}, false
	}
	s.head++
	return s.head - 1, s.dueAt(s.head - 1), true
}

// drop gives up the requests before head. Of many at once the shorter waits
// stand for some longer ones.
func (s *openLoop) drop(head int64, now time.Time) {
	step := max(1, (head-s.head)/maxWaits)
	for s.head < head {
		n := min(step, head-s.head)
		s.head += n
		s.waits = append(s.waits, wait{now.Sub(s.dueAt(s.head - 1)), n})
	}
}

func (s *openLoop) dropped() []wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits
}

func (s *openLoop) due(t time.Time, sent int64) int64 {
	return max(sent, min(s.total, s.before(t)))
}
