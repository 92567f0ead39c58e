package load

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"syscall"
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
		{l.P50.d, 500 * time.Millisecond}, {l.P90.d, 900 * time.Millisecond}, {l.P99.d, 990 * time.Millisecond}, {l.P999.d, 999 * time.Millisecond},
	} {
		if diff := (c.got - c.want).Abs(); diff > c.want/1000+time.Microsecond {
			t.Errorf("quantile %v, want %v", c.got, c.want)
		}
	}
	if l.Max.d != time.Second || l.Mean.d != 500500*time.Microsecond || !y.last.Equal(start.Add(time.Hour)) {
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
	if r.Latency.Max.d != 10*time.Hour || r.Latency.P999.d < maxLatency || r.OK != 2 {
		t.Errorf("%+v", r)
	}
}

// A request that timed out counts with the time until it was given up, in the
// quantiles too; one that failed at once does not make them shorter.
func TestTallyTimeouts(t *testing.T) {
	start := time.Now()
	y := newTally(start)
	for range 98 {
		y.add(reply{status: 200}, start, start.Add(time.Millisecond), false)
	}
	for range 2 {
		y.add(reply{err: os.ErrDeadlineExceeded}, start, start.Add(10*time.Second), false)
	}
	for range 100 {
		y.add(reply{err: syscall.ECONNREFUSED}, start, start.Add(time.Microsecond), false)
	}
	r := y.finish(200, time.Minute)
	checkSums(t, r)
	if r.Latency.P99.d < 9990*time.Millisecond || r.Latency.Max.d != 10*time.Second || r.Latency.P90.d > 2*time.Millisecond || r.Latency.P50.d < 900*time.Microsecond {
		t.Errorf("%+v", r.Latency)
	}
	if r := newTally(start).finish(0, time.Second); r.Latency != (Latency{}) {
		t.Errorf("of nothing: %+v", r.Latency)
	}
}

// A result keeps what was not measured apart from 0, and reads what an earlier
// version stored.
func TestResultJSON(t *testing.T) {
	for text, want := range map[string]Result{
		`{"Due":1,"OK":1,"Latency":{"Mean":0,"P50":5,"P90":0,"P99":7,"P999":0,"Max":0}}`: {Due: 1, OK: 1, Latency: Latency{P50: TimeOf(5), P99: TimeOf(7)}},
		`{"Latency":{"Mean":0,"P50":0,"P90":0,"P99":0,"P999":0,"Max":0}}`:                {},
		`{"Latency":{},"NoRequests":true}`:                                               {NoRequests: true},
	} {
		var r Result
		if err := json.Unmarshal([]byte(text), &r); err != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	text, err := json.Marshal(Result{Latency: Latency{P99: TimeOf(7)}})
	if err != nil || !strings.Contains(string(text), `"Latency":{"P99":7}`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"Latency":{"P99":-1}}`), &Result{}); err == nil {
		t.Error("a negative time was read")
	}
}
