// Command jmh measures the memory profilers for JMH: whether their metrics are
// true and steady, and what they cost; and with them four caches, and whether
// what was published of such metrics holds here. What was measured is kept run by
// run, so that a benchmark that was cut off goes on where it stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/testkit/results"
)

func main() {
	var b bench
	var caches, write bool
	flag.StringVar(&b.cache, "cache", os.Getenv("TARE_CACHE"), "folder that holds jdks")
	flag.BoolVar(&caches, "caches", false, "compare caches, instead of measuring the profilers")
	flag.StringVar(&b.runs, "runs", "bin/runs", "folder of what was measured already")
	flag.IntVar(&b.forks, "forks", 5, "forks of each benchmark")
	flag.IntVar(&b.warmups, "wi", 1, "iterations to warm up")
	flag.IntVar(&b.iterations, "i", 3, "iterations to measure, 2 or more")
	flag.DurationVar(&b.each, "r", 2*time.Second, "time of an iteration")
	matrix := matrixFlags()
	flag.BoolVar(&write, "write", true, "write the file in docs/results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, title, command, measure := "jmh", "How true and how steady memory metrics in JMH are, and what they cost", "make bench-jmh", b.profilers
	if caches {
		name, title, command = "caches", "Four caches by speed and memory", "make bench-caches"
		measure = func(ctx context.Context) (string, error) { return b.caches(ctx, matrix()) }
	}
	text, err := measure(ctx)
	if err == nil {
		fmt.Print(text)
		if write {
			err = results.Write(name, title, command, text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	cache, runs                string
	forks, warmups, iterations int
	each                       time.Duration
}

// iterating are JMH's options for one fork.
func (b bench) iterating() []string {
	return []string{"-f", "1", "-wi", fmt.Sprint(b.warmups), "-w", b.each.String(), "-i", fmt.Sprint(b.iterations), "-r", b.each.String()}
}

// setup says how it was measured.
func (b bench) setup() string {
	return fmt.Sprintf("%d forks, one after the other in rounds, each with %d iteration(s) of %s to warm up and %d measured", b.forks, b.warmups, b.each, b.iterations)
}

func (b bench) java(jdk string) string { return filepath.Join(b.cache, "jdks", jdk, "bin", "java") }

func table(heading ...string) string {
	return "| " + strings.Join(heading, " | ") + " |\n|" + strings.Repeat("---|", len(heading)) + "\n"
}
