package load

import (
	"testing"
	"time"
)

func TestTallyQuantiles(t *testing.T) {
	start := time.Now()
	y := newTally(start)
	for i := range 1000 {
		d := time.Duration(i+1) * time.Millisecond
		y.add(reply{status: 200}, start, start.Add(d), false)
	}
	y.add(reply{status: 500}, start, start.Add(time.Hour), true) // not in the quantiles
	r := y.finish(1001, time.Hour)
	checkSums(t, r)
	l := r.Latency
	for _, c := range []struct{ got, want time.Duration }{
		{l.P50, 500 * time.Millisecond}, {l.P90, 900 * time.Millisecond}, {l.P99, 990 * time.Millisecond}, {l.P999, 999 * time.Millisecond},
	} {
		if diff := (c.got - c.want).Abs(); diff > c.want/1000+time.Microsecond {
			t.Errorf("quantile %v, want %v", c.got, c.want)
		}
	}
	if l.Max != time.Second || l.Mean != 500500*time.Microsecond || !y.last.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v", l)
	}
}

func TestTallyBeyondItsRange(t *testing.T) {
	start := time.Now()
	y := newTally(start)
	y.add(reply{status: 200}, start, start.Add(10*time.Hour), true)
	y.add(reply{status: 200}, start, start.Add(1), false)
	r := y.finish(2, 10*time.Hour)
	checkSums(t, r)
	if r.Latency.Max != 10*time.Hour || r.Latency.P999 < maxLatency || r.OK != 2 {
		t.Errorf("%+v", r)
	}
}
