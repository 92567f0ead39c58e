package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/program"
)

// weighings is how often a JVM is weighed to see whether it grows, every so
// often, so that its own drift in the same time can be told.
const (
	weighings = 100
	pause     = 50 * time.Millisecond
	periods   = 3
)

// growth measures the Rss of idle JVMs over some time with and without
// weighings.
func growth(opts options) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "## Growth of the JVM\n\nRss by smaps_rollup of an idle JVM (memory filler of 100 threads, `-Xint`, Serial), before and after %d weighings, one\n"+
		"every %s, and over an equal time without any; %d times in turn. KiB.\n\n| JDK | without | with %d weighings |\n|---|---|---|\n",
		weighings, pause, periods, weighings)
	for _, jdk := range []string{"8", "11", "17", "21", "25", "26", "27"} {
		alone, weighed, err := growthOf(filepath.Join(opts.home(jdk), "bin", "java"))
		if err != nil {
			return "", fmt.Errorf("JDK %s: %w", jdk, err)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", jdk, changes(alone), changes(weighed))
	}
	b.WriteString("\n")
	return b.String(), nil
}

// changes are bytes as KiB with signs.
func changes(bytes []int64) string {
	out := make([]string, len(bytes))
	for i, n := range bytes {
		out[i] = fmt.Sprintf("%+d", n>>10)
	}
	return strings.Join(out, ", ")
}

func growthOf(java string) (alone, weighed []int64, err error) {
	p, err := program.Filler(java, []string{"-Xmx128m", "-Xint", "-XX:+UseSerialGC"}, 100, 10, 10)
	if err != nil {
		return nil, nil, err
	}
	defer p.Stop()
	weigh := func() error {
		_, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{})
		return err
	}
	wait := func() error { return nil }
	for range periods {
		a, err1 := change(p.PID(), wait)
		w, err2 := change(p.PID(), weigh)
		if err1 != nil || err2 != nil {
			return nil, nil, fmt.Errorf("%v, %w", err1, err2)
		}
		alone, weighed = append(alone, a), append(weighed, w)
	}
	return alone, weighed, nil
}

// change is how much the Rss of a process changes while something is done to
// it again and again.
func change(pid int, do func() error) (int64, error) {
	proc := linux.NewFS("/proc")
	before, err := proc.SmapsRollup(pid)
	if err != nil {
		return 0, err
	}
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for range weighings {
		if err := do(); err != nil {
			return 0, err
		}
		<-ticks.C
	}
	after, err := proc.SmapsRollup(pid)
	return after.RSS - before.RSS, err
}
