// Command demo runs the demo several times and measures how small a limit tare
// fit finds for the demo service, against what it needs with the JVM's
// defaults, and how long that takes.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/testkit/results"
)

// fitted is the part of schema tare.fit/1 that the figures are made from.
type fitted struct {
	LimitBytes    int64
	Options, Env  []string
	JDK           string
	Trials        []any
	Baseline      measured
	AsGiven       measured
	Recommended   measured
	Confirmations []struct{ Verdict string }
}

type measured struct {
	LimitBytes  int64
	Throughput  float64
	P99Millis   float64
	ReadyMillis float64
}

// The goals.
const (
	goalShare      = 0.65 // of the smallest limit as given
	goalThroughput = 0.90 // of the throughput there
	goalTime       = 10 * time.Minute
)

func main() {
	repeats := flag.Int("repeats", 3, "runs of the demo")
	flag.Parse()
	if err := run(*repeats); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(repeats int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs of `make demo`: the demo service under a closed loop of 8 requests at a time, one processor.\n\n", repeats)
	b.WriteString("| run | JDK | as given MiB | recommended MiB | share | req/s as given → recommended | confirmed | trials | time | options |\n|---|---|---|---|---|---|---|---|---|---|\n")
	var shares, rates, minutes []float64
	confirmed := true
	for i := range repeats {
		start := time.Now()
		f, err := demo()
		if err != nil {
			return err
		}
		took := time.Since(start)
		// Where no limit below the ample one passed as given, a share says nothing.
		share := "–"
		if f.AsGiven.LimitBytes < f.Baseline.LimitBytes {
			shares = append(shares, float64(f.LimitBytes)/float64(f.AsGiven.LimitBytes))
			share = fmt.Sprintf("%.2f", shares[len(shares)-1])
		}
		rate := f.Recommended.Throughput / f.AsGiven.Throughput
		passed := 0
		for _, c := range f.Confirmations {
			if c.Verdict == "passed" {
				passed++
			}
		}
		confirmed = confirmed && passed == len(f.Confirmations) && passed >= 3
		rates, minutes = append(rates, rate), append(minutes, took.Minutes())
		line := fmt.Sprintf("| %d | %s | %d | %d | %s | %.0f → %.0f | %d of %d | %d | %s | `%s` |", i+1, f.JDK,
			f.AsGiven.LimitBytes>>20, f.LimitBytes>>20, share, f.AsGiven.Throughput, f.Recommended.Throughput,
			passed, len(f.Confirmations), len(f.Trials), took.Round(time.Second), withoutHome(append(f.Env, f.Options...)))
		fmt.Println(line)
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "\nMedian (minimum … maximum):\n\n")
	fmt.Fprintf(&b, "- share of the smallest limit as given, of the %d of %d runs where one below the ample passed: %s; goal at most %.2f in each run: %s\n", len(shares), repeats,
		results.Spread(shares, "%.2f"), goalShare, results.Reached(len(shares) == repeats && slices.Max(shares) <= goalShare))
	fmt.Fprintf(&b, "- throughput against as given: %s; goal at least %.2f in each run: %s\n", results.Spread(rates, "%.2f"), goalThroughput, results.Reached(slices.Min(rates) >= goalThroughput))
	fmt.Fprintf(&b, "- minutes: %s; goal at most %.0f: %s\n", results.Spread(minutes, "%.1f"), goalTime.Minutes(), results.Reached(slices.Max(minutes) <= goalTime.Minutes()))
	fmt.Fprintf(&b, "- all confirming runs passed: %s\n", results.Reached(confirmed))
	return results.Write("demo", "What tare fit finds for the demo service", "make bench-demo", b.String())
}

func demo() (*fitted, error) {
	cmd := exec.Command("scripts/demo.sh", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the demo: %w", err)
	}
	var f fitted
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("the demo's result: %w", err)
	}
	return &f, nil
}

// withoutHome joins options, with the user's folder written as ~.
func withoutHome(options []string) string {
	text := strings.Join(options, " ")
	if home, err := os.UserHomeDir(); err == nil {
		text = strings.ReplaceAll(text, home, "~")
	}
	return text
}
