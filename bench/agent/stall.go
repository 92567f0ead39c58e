package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/results"
)

// faults is a JVM that touches fresh pages and tells how long each took.
type faults struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// span is what it tells of some time.
type span struct {
	touches             float64
	longest, p999, mmap time.Duration
}

func startFaults(jdk, heap string) (*faults, error) {
	f := &faults{Cmd: exec.Command(filepath.Join(jdk, "bin", "java"), "-Xms"+heap, "-Xmx"+heap, "-XX:+UseParallelGC", "-XX:+AlwaysPreTouch",
		"--enable-native-access=ALL-UNNAMED", "bench/agent/Faults.java")}
	f.Stderr = os.Stderr
	in, err1 := f.StdinPipe()
	out, err2 := f.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	f.in, f.out = in, bufio.NewScanner(out)
	if err := f.Start(); err != nil {
		return nil, err
	}
	if !f.out.Scan() {
		return nil, errors.Join(errors.New("the JVM with a large heap did not start"), f.Wait())
	}
	return f, nil
}

func (f *faults) run(d time.Duration) (s span, err error) {
	if _, err := fmt.Fprintf(f.in, "%d\n", d.Milliseconds()); err != nil {
		return s, err
	}
	if !f.out.Scan() {
		return s, errors.New("the JVM with a large heap has ended")
	}
	var longest, p999, mmap int64
	_, err = fmt.Sscanf(f.out.Text(), "touches %g longest %d p999 %d mmap %d", &s.touches, &longest, &p999, &mmap)
	s.longest, s.p999, s.mmap = time.Duration(longest), time.Duration(p999), time.Duration(mmap)
	return s, err
}

const (
	spanTime   = 3 * time.Second
	weighAgain = 300 * time.Millisecond
)

// stalls lets a JVM touch pages with and without being weighed, in pairs.
func stalls(o options) (string, error) {
	f, err := startFaults(o.newest, o.heap)
	if err != nil {
		return "", err
	}
	defer func() {
		_ = f.Process.Kill()
		_ = f.Wait()
	}()
	if _, err := f.run(spanTime); err != nil { // its compiler is done then
		return "", err
	}
	proc := linux.NewFS("/proc")
	target, err := process.Find(proc, f.Process.Pid)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## The stall of a JVM that is weighed\n\nA JVM of JDK 25 with %s of heap, all of it resident, maps 64 MiB, touches each page (4 KiB) and unmaps it, over and over, for %s; %d pairs of such spans, one with a weighing every %s, one without, in turns. A touch is a page fault, as long as its thread waited. Goal: weighing adds at most 5 ms to the longest touch and the longest mmap, throughput and tail within noise.\n\n", o.heap, spanTime, o.pairs, weighAgain)
	b.WriteString("| weighing | a weighing took, median | longest touch: without, median (all) | with, median (all) | 99.9 % of touches within: without, with | longest mmap: without, median (all) | with, median (all) | touches a second, with ÷ without, median (least, most) | goal |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, k := range []weighing{
		{"lean, as most of the agent's", true, footprint.Options{Proc: proc, Series: &footprint.Series{}, Gentle: true}},
		{"full, as the agent's first of a JVM", true, footprint.Options{Proc: proc, Series: &footprint.Series{Full: true}, Gentle: true}},
		{"`tare weigh`, which also reads `smaps_rollup`", false, footprint.Options{Proc: proc}},
	} {
		row, err := stallRow(o, f, proc, target, k)
		if err != nil {
			return "", err
		}
		b.WriteString(row)
	}
	return b.String(), nil
}

// weighing is one kind of weighing.
type weighing struct {
	name    string
	bound   bool // the goal is its
	options footprint.Options
}

func stallRow(o options, f *faults, proc linux.FS, target *process.Target, k weighing) (string, error) {
	var both [2][]span
	var took, ratios []float64
	for pair := range o.pairs {
		var two [2]span
		for i := range 2 {
			weighed := (i + pair) % 2
			var err error
			if weighed == 0 {
				two[0], err = f.run(spanTime)
			} else {
				two[1], err = beside(func() (span, error) { return f.run(spanTime) }, func() error {
					start := time.Now()
					now, err := target.Anew(proc)
					if err == nil {
						_, err = footprint.WeighTarget(context.Background(), now, k.options)
					}
					took = append(took, float64(time.Since(start).Microseconds())/1000)
					return err
				})
			}
			if err != nil {
				return "", err
			}
		}
		ratios = append(ratios, two[1].touches/two[0].touches)
		for i := range two {
			both[i] = append(both[i], two[i])
		}
	}
	values := func(i int, of func(span) time.Duration) []float64 {
		var out []float64
		for _, s := range both[i] {
			out = append(out, float64(of(s).Nanoseconds())/1e6)
		}
		return out
	}
	longest := func(s span) time.Duration { return s.longest }
	tail := func(s span) time.Duration { return s.p999 }
	mmap := func(s span) time.Duration { return s.mmap }
	a, b := values(0, longest), values(1, longest)
	m, n := values(0, mmap), values(1, mmap)
	goal := "none"
	if k.bound {
		goal = judged(results.Median(a), results.Median(b), results.Median(m), results.Median(n))
	}
	return fmt.Sprintf("| %s | %.0f ms | %.2f ms (%s) | %.2f ms (%s) | %.3f, %.3f ms | %.2f ms (%s) | %.2f ms (%s) | %.3f (%.3f, %.3f) | %s |\n", k.name, results.Median(took), results.Median(a), each(a, "%.1f"), results.Median(b), each(b, "%.1f"),
		results.Median(values(0, tail)), results.Median(values(1, tail)), results.Median(m), each(m, "%.1f"), results.Median(n), each(n, "%.1f"), results.Median(ratios), slices.Min(ratios), slices.Max(ratios), goal), nil
}

// mostStall is what weighing may add to the longest stall, in milliseconds.
const mostStall = 5

// judged says whether the goal is reached, or that the machine stalls too long by itself.
func judged(touch, touchWeighed, mmap, mmapWeighed float64) string {
	switch {
	case mmapWeighed-mmap > mostStall && mmap <= mostStall, touchWeighed-touch > mostStall && touch <= mostStall:
		return results.Reached(false)
	case touch > mostStall || mmap > mostStall:
		return "not to be told: the machine stalls it longer by itself"
	}
	return results.Reached(true)
}

// beside weighs again and again while something is measured.
func beside(measure func() (span, error), weigh func() error) (span, error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(weighAgain)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-tick.C:
				if err := weigh(); err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	s, err := measure()
	close(stop)
	return s, errors.Join(err, <-ended)
}
