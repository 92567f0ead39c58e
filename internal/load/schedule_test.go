package load

import (
	"testing"
	"time"
)

// The total of an open loop is rate times duration, rounded up, and each
// request is due within it.
func TestOpenLoopTotal(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		duration time.Duration
		want     int64
	}{
		{10, time.Second, 10},
		{0.1, 30 * time.Second, 3},
		{0.001, time.Second, 1},
		{3, time.Second, 3},
		{1000, 1500 * time.Microsecond, 2},
		{1e6, 24 * time.Hour, 86_400_000_000},
		{MinRate, 24 * time.Hour, 1},
	} {
		start := time.Now()
		s := newOpenLoop(start, c.rate, c.duration)
		if s.total != c.want {
			t.Errorf("%g/s for %v: %d requests, want %d", c.rate, c.duration, s.total, c.want)
		}
		if last := s.dueAt(s.total - 1); !last.Before(s.end) || s.dueAt(s.total).Before(s.end) {
			t.Errorf("%g/s for %v: last of %d due %v after the start", c.rate, c.duration, s.total, last.Sub(start))
		}
	}
}

// At the end only what is late already is dropped.
func TestOpenLoopEnd(t *testing.T) {
	start := time.Now()
	s := newOpenLoop(start, 1000, time.Second)
	if i, due, ok := s.claim(start); i != 0 || !due.Equal(start) || !ok {
		t.Fatal(i, due, ok)
	}
	now := s.end.Add(LateAfter / 2)
	if i, due, ok := s.claim(now); !ok || now.Sub(due) > LateAfter || i < 990 {
		t.Errorf("request %d, due %v before the end", i, s.end.Sub(due))
	}
	if i, _, ok := s.claim(s.end.Add(2 * LateAfter)); ok {
		t.Errorf("request %d sent after the end", i)
	}
	if n := s.due(s.end, 2); n != 1000 {
		t.Errorf("%d due", n)
	}
	if n := s.due(start.Add(100*time.Millisecond), 2); n != 100 {
		t.Errorf("%d due after a tenth", n)
	}
}

func TestAlarm(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	due := time.Now().Add(2 * time.Millisecond)
	if err := a.wait(due); err != nil || time.Now().Before(due) {
		t.Errorf("woke %v early: %v", time.Until(due), err)
	}
	ended := make(chan error)
	go func() { ended <- a.wait(time.Now().Add(time.Hour)) }()
	a.stop()
	if err := <-ended; err == nil {
		t.Error("stopped without an error")
	}
}

// Users of dropped requests waited from when those were due.
func TestOpenLoopDropped(t *testing.T) {
	start := time.Now()
	s := newOpenLoop(start, 1000, 10*time.Second)
	for range 4 {
		s.claim(start)
	}
	now := s.end.Add(2 * time.Second)
	if _, _, ok := s.claim(now); ok {
		t.Fatal("sent after the end")
	}
	waits := s.dropped()
	if len(waits) > 2*maxWaits {
		t.Errorf("%d waits", len(waits))
	}
	var n int64
	for _, w := range waits {
		if most := now.Sub(s.dueAt(4 + n)); w.time > most || w.time < most-time.Duration(w.requests)*time.Millisecond || w.time < 2*time.Second {
			t.Fatalf("request %d waited for %v, counted with %v", 4+n, most, w.time)
		}
		n += w.requests
	}
	if n != s.total-4 {
		t.Errorf("%d dropped of %d", n, s.total-4)
	}
}
