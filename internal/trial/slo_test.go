package trial

import (
	"math"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
)

func TestParseSLO(t *testing.T) {
	for _, s := range []string{
		"errors=0 throughput>=0.9x", "p99<200ms", "start<30s", "errors<=0.1%", "errors<5", "throughput>100/s", "throughput>=100",
		"p50<=1.2x p90<1s p999<2s mean<10ms max<3s start<=2x",
	} {
		slo, err := ParseSLO(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
		} else if slo.String() != s {
			t.Errorf("%q became %q", s, slo)
		}
	}
	if slo, err := ParseSLO("p99<200ms,errors=0"); err != nil || slo.String() != "p99<200ms errors=0" {
		t.Errorf("commas: %v, %v", slo, err)
	}
	for _, s := range []string{
		"", " , ", "p99", "p99<", "p99<200", "p99>200ms", "p99=200ms", "p95<200ms", "errors>=1", "errors=-1", "errors=0.9x", "errors<=101%",
		"throughput<=5", "throughput>=0x", "throughput>=1e300", "throughput>=Inf", "throughput>=NaN", "start<-3s", "start<0s", "start<48h",
		"errors=0 errors=0", "p99<<2s", "p99<2sx", "throughput>=.", "P99<2s", strings.Repeat("errors=0 ", 200),
	} {
		if slo, err := ParseSLO(s); err == nil {
			t.Errorf("%q accepted as %+v", s, slo)
		} else if !strings.Contains(err.Error(), "write clauses such as") {
			t.Errorf("%q: no next step in %v", s, err)
		}
	}
}

func TestSLOCheck(t *testing.T) {
	base := &Measured{Load: loadResult(1000, 0, 100*time.Millisecond), Start: 2 * time.Second, Cost: 5 * time.Millisecond, Pace: 600 * time.Microsecond}
	at := func(pace, cost time.Duration) Measured {
		return Measured{Load: loadResult(1, 0, 0), Cost: cost, Pace: pace}
	}
	tests := []struct {
		slo  string
		got  Measured
		base *Measured
		want []string
	}{
		{"errors=0 throughput>=0.9x", Measured{Load: loadResult(901, 0, 0)}, base, nil},
		{"errors=0 throughput>=0.9x", Measured{Load: loadResult(850, 2, 0)}, base,
			[]string{"errors is 2, wanted = 0 (errors=0)", "throughput is 85.0/s, wanted >= 90.0/s (throughput>=0.9x)"}},
		{"throughput>=0.9x", Measured{Load: loadResult(1, 0, 0)}, nil, nil},
		{"errors<1%", Measured{Load: loadResult(99, 1, 0)}, nil, []string{"errors is 1.00 %, wanted < 1.00 % (errors<1%)"}},
		{"p99<200ms start<=1x", Measured{Load: loadResult(1, 0, 250*time.Millisecond), Start: 3 * time.Second}, base,
			[]string{"p99 is 250ms, wanted < 200ms (p99<200ms)", "start is 3s, wanted <= 2s (start<=1x)"}},
		{"p99<200ms", Measured{}, nil, nil},
		{"errors=0 cost<=1.1x", Measured{Load: loadResult(1, 0, 0), Cost: 5500 * time.Microsecond}, base, nil},
		{"errors=0 cost<=1.1x", Measured{Load: loadResult(1, 0, 0), Cost: 6 * time.Millisecond}, base, []string{"cost is 6ms, wanted <= 5.5ms (cost<=1.1x)"}},
		{"cost<=1.1x", at(660*time.Microsecond, 6*time.Millisecond), base, nil},
		{"cost<=1.1x", at(660*time.Microsecond, 6100*time.Microsecond), base, []string{"cost is 6.1ms, wanted <= 6.05ms (cost<=1.1x)"}},
		{"cost<=1.1x", at(540*time.Microsecond, 5500*time.Microsecond), base, nil},
		{"cost<=1.1x", at(540*time.Microsecond, 5600*time.Microsecond), base, []string{"cost is 5.6ms, wanted <= 5.5ms (cost<=1.1x)"}},
		{"cost<20us", Measured{Load: loadResult(1, 0, 0), Cost: 20440 * time.Nanosecond}, base, []string{"cost is 20.4µs, wanted < 20µs (cost<20us)"}},
		{"cost<2ms", Measured{Load: loadResult(1, 0, 0), Cost: 3 * time.Millisecond}, nil, []string{"cost is 3ms, wanted < 2ms (cost<2ms)"}},
		{"cost<=1.1x", Measured{Load: loadResult(0, 3, 0)}, base, []string{"cost was not measured (cost<=1.1x): no request was answered well"}},
	}
	for _, tt := range tests {
		slo, err := ParseSLO(tt.slo)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range slo.Check(tt.got, tt.base) {
			got = append(got, b.Text)
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got %q, want %q", tt.slo, got, tt.want)
		}
	}
}

func TestSpareAndByTime(t *testing.T) {
	for _, c := range []struct {
		slo, byTime string
		spare       float64
	}{
		{DefaultSLO, "errors=0 throughput>=0.91x", 1 - 1/1.1},
		{"throughput>=0.9x cost<=1.25x", "throughput>=0.9x cost<=1.25x", 0.1},
		{"time<=1.25x", "time<=1.25x", 0.2},
		{"cost<5ms", "cost<5ms", 0},
		{"p99<200ms throughput>100/s", "p99<200ms throughput>100/s", 0},
	} {
		slo, err := ParseSLO(c.slo)
		if err != nil {
			t.Fatal(err)
		}
		if got := slo.Spare(); math.Abs(got-c.spare) > 1e-9 {
			t.Errorf("%s leaves %g, want %g", c.slo, got, c.spare)
		}
		if got := slo.ByTime().String(); got != c.byTime || slo.String() != c.slo {
			t.Errorf("%s by time: %s, want %s", c.slo, got, c.byTime)
		}
	}
}

// What waited for memory counts in the cost of an answer.
func TestWorkCost(t *testing.T) {
	share := 0.2
	r := &Result{Load: loadResult(1000, 0, 0), LoadCPUTime: 4 * time.Second, ReclaimShare: 0.1, AwaitShare: &share}
	if got := r.Measured().Cost; got != 5*time.Millisecond {
		t.Errorf("%s", got)
	}
	if got := (&Result{JobTime: 9 * time.Second, CPUTime: 8 * time.Second, ReclaimShare: 0.5}).Measured().Cost; got != 16*time.Second {
		t.Errorf("of a job: %s", got)
	}
	if got := (&Result{Load: loadResult(0, 9, 0), LoadCPUTime: time.Second}).Measured().Cost; got != 0 {
		t.Errorf("of no answer: %s", got)
	}
}

func FuzzParseSLO(f *testing.F) {
	f.Add("p99<200ms errors=0 throughput>=0.9x start<30s")
	f.Add("errors<=1%,mean<1h")
	f.Fuzz(func(t *testing.T, s string) {
		slo, err := ParseSLO(s)
		if err != nil {
			return
		}
		again, err := ParseSLO(slo.String())
		if err != nil || again.String() != slo.String() {
			t.Errorf("%q became %q, %v", slo, again, err)
		}
		for _, c := range slo {
			if !(c.Value >= 0 && c.Value <= maxSLOValue) {
				t.Errorf("%q has value %v", c, c.Value)
			}
		}
	})
}

// loadResult is ten seconds of load.
func loadResult(ok, failed int64, p99 time.Duration) *load.Result {
	return &load.Result{Due: ok + failed, Sent: ok + failed, OK: ok, Failed: failed, Elapsed: 10 * time.Second, Latency: load.Latency{P99: load.TimeOf(p99)},
		Errors: map[string]int64{"HTTP 503": failed}}
}
