// Command cost measures what weighing a JVM costs: how long it takes beside
// jcmd and pmap on the same JVM, whether the JVM grows by it, and what share of
// a processor tare watch needs.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/testkit/results"
)

// options are what can be chosen of the measurement.
type options struct {
	cache   string
	jdks    []string
	repeats int
	watched int
	parts   []string
	// base is an earlier tare to weigh with in the same rounds; "" is none.
	base string
}

func main() {
	var opts options
	flag.StringVar(&opts.cache, "cache", os.Getenv("TARE_CACHE"), "folder that holds jdks")
	jdks := flag.String("jdks", "17,25", "JDKs to measure times on")
	flag.IntVar(&opts.repeats, "repeats", 15, "rounds of times")
	flag.IntVar(&opts.watched, "watched", 30, "seconds of each tare watch")
	parts := flag.String("parts", "time,growth,watch", "what to measure; only all of it is written to docs/results")
	flag.StringVar(&opts.base, "base", "", "an earlier tare, to be timed in pairs with bin/tare")
	flag.Parse()
	opts.jdks, opts.parts = strings.Split(*jdks, ","), strings.Split(*parts, ",")
	if err := run(opts); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(opts options) error {
	start := time.Now()
	measures := []struct {
		name    string
		measure func(options) (string, error)
	}{
		{"time", times}, {"growth", growth}, {"watch", watches},
	}
	var b strings.Builder
	for _, m := range measures {
		if !slices.Contains(opts.parts, m.name) {
			continue
		}
		text, err := m.measure(opts)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintln(os.Stderr, text)
		b.WriteString(text)
	}
	if len(opts.parts) < len(measures) {
		return nil
	}
	fmt.Fprintf(&b, "Load of the machine (1, 5, 15 minutes) at the end: %s; the whole took %s.\n", load(), time.Since(start).Round(time.Second))
	return results.Write("cost", "What weighing a JVM costs", "make bench-cost", b.String())
}

// load is the load average of the machine, so that a reader can judge how
// quiet it was.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

func (o options) home(jdk string) string { return filepath.Join(o.cache, "jdks", jdk) }
