package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// TestGenerator is set in the environment of a process that the tests start as
// an external generator: to "line" or "status", for what it tells.
const TestGenerator = "TARE_LOAD_TEST_GENERATOR"

// generate is that process: its last argument is the URL.
func generate() {
	seconds, err := strconv.ParseFloat(os.Getenv("TARE_DURATION"), 64)
	var target Target
	if err == nil {
		target, err = ParseTarget(os.Args[len(os.Args)-1])
	}
	var r Result
	if err == nil {
		r, err = Run(context.Background(), Plan{Targets: []Target{target}, Concurrency: 4, Timeout: time.Second, Duration: time.Duration(seconds * float64(time.Second))})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println("some other output")
	l := r.Latency
	line := fmt.Sprintf(`{"requests":%d,"failed":%d`, r.Sent, r.Failed)
	for name, t := range map[string]Time{"mean": l.Mean, "p50": l.P50, "p90": l.P90, "p99": l.P99, "p999": l.P999, "max": l.Max} {
		if d, ok := t.Value(); ok {
			line += fmt.Sprintf(`,"%sMillis":%g`, name, d.Seconds()*1000)
		}
	}
	if os.Getenv(TestGenerator) == "line" {
		fmt.Println(line + "}")
	} else if r.Failed > 0 {
		os.Exit(1)
	}
}
