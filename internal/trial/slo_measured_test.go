package trial

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
)

// A clause holds only for what was measured: where nothing answers, no latency
// is below any bar, and no throughput is nine tenths of anything.
func TestSLOHoldsOnlyForWhatWasMeasured(t *testing.T) {
	nothing := &load.Result{Due: 50, Sent: 50, Failed: 50, Elapsed: time.Second, Errors: map[string]int64{"connection refused": 50}}
	base := &Measured{Load: loadResult(1000, 0, 100*time.Millisecond)}
	for _, c := range []struct {
		slo  string
		load *load.Result
		base *Measured
	}{
		{"p99<200ms", nothing, nil},
		{"p50<200ms", nothing, base},
		{"mean<1h", nothing, nil},
		{"max<=2x", nothing, nil},
		{"p99<=2x", nothing, base},
		{"throughput>=0.9x", nothing, nil},
		{"throughput>=0/s", &load.Result{Elapsed: time.Second}, nil},
		{"errors<1%", &load.Result{Elapsed: time.Second}, nil},
		{"errors=0", &load.Result{Elapsed: time.Second}, nil},
		{"errors=0", &load.Result{Due: 5, Sent: 5, Elapsed: time.Second, NoFailures: true}, nil},
		{"throughput>=0.9x", &load.Result{Due: 5, Sent: 5, Elapsed: time.Second, NoFailures: true}, base},
		{"p99<=2x", loadResult(1000, 0, 10*time.Millisecond), &Measured{Load: loadResult(1000, 0, 0)}},
	} {
		slo, err := ParseSLO(c.slo)
		if err != nil {
			t.Fatal(err)
		}
		broken := slo.Check(Measured{Load: c.load}, c.base)
		if len(broken) != 1 || !strings.Contains(broken[0].Text, "was not measured") {
			t.Errorf("%s of %+v: %+v", c.slo, c.load, broken)
			continue
		}
		e := Evidence{Ready: true, Load: c.load, Broken: broken}
		if v, _ := Judge(e); v != Errors || e.NarrowMiss() {
			t.Errorf("%s: verdict %s, narrow %t", c.slo, v, e.NarrowMiss())
		}
	}
}
