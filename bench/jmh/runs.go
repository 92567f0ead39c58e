package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/jmh"
)

// profilers that every run has; the caches' own comes with them.
var profilers = []string{"-prof", "dev.tare.jmh.RetainedMemory", "-prof", "dev.tare.jmh.PeakMemory", "-prof", "dev.tare.jmh.ProcessMemory"}

// run runs benchmarks of caches.jar and reads their results, unless they were
// measured before.
func (b bench) run(ctx context.Context, name, jdk, options string, args ...string) ([]jmh.Result, error) {
	file := filepath.Join(b.runs, name+".json")
	if results, err := read(file); err == nil {
		return results, nil
	}
	if err := os.MkdirAll(b.runs, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "bench:", name)
	log, err := os.Create(file + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	java := b.java(jdk)
	args = slices.Concat([]string{"-Djmh.ignoreLock=true", "-jar", "bin/caches.jar", "-foe", "true", "-jvm", java, "-jvmArgs", options,
		"-rf", "json", "-rff", file + ".part"}, b.iterating(), args)
	cmd := exec.CommandContext(ctx, java, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w, see %s", name, err, log.Name())
	}
	if err := os.Rename(file+".part", file); err != nil {
		return nil, err
	}
	return read(file)
}

func read(name string) ([]jmh.Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return jmh.Read(f, filepath.Base(name))
}

// rounds runs the same benchmarks once for each fork, and makes one result of
// the forks of each.
func (b bench) rounds(ctx context.Context, name, jdk, options string, args ...string) ([]jmh.Result, error) {
	var all []jmh.Result
	for fork := range b.forks {
		one, err := b.run(ctx, fmt.Sprintf("%s-%d", name, fork+1), jdk, options, args...)
		if err != nil {
			return nil, err
		}
		all = merge(all, one)
	}
	return all, nil
}

// merge adds the forks of more results to those of the same benchmarks.
func merge(all, more []jmh.Result) []jmh.Result {
	for _, r := range more {
		i := slices.IndexFunc(all, func(a jmh.Result) bool { return key(a) == key(r) })
		if i < 0 {
			r.File = ""
			all = append(all, r)
			continue
		}
		for name, m := range r.Metrics {
			before := all[i].Metrics[name]
			all[i].Metrics[name] = jmh.Metric{Unit: m.Unit, Forks: append(before.Forks, m.Forks...), Peak: before.Peak || m.Peak}
		}
	}
	return all
}

func key(r jmh.Result) string {
	return fmt.Sprintf("%s %s %d %s %q %v", r.Benchmark, r.Mode, r.Threads, r.JDK, r.Options, r.Params) // a map prints in order
}

// forks are the values of a metric by fork.
func forks(r jmh.Result, metric string) []float64 {
	m := r.Metrics[metric]
	var values []float64
	for _, f := range m.Forks {
		if m.Peak {
			values = append(values, slices.Max(f))
		} else {
			values = append(values, mean(f))
		}
	}
	return values
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// variation is the coefficient of variation: the standard deviation as a share
// of the mean.
func variation(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum/float64(len(values)-1)) / m
}

// precision is half the 99.9 % interval of the mean of the first n values, as a
// share of the mean.
func precision(values []float64, n int) float64 {
	each := make([][]float64, 0, n)
	for _, v := range values[:min(n, len(values))] {
		each = append(each, []float64{v})
	}
	e := jmh.Metric{Forks: each}.Estimate()
	return e.Margin() / e.Center
}

// collector is the one that a result's options name.
func collector(r jmh.Result) string {
	for _, o := range r.Options {
		if name, ok := strings.CutPrefix(o, "-XX:+Use"); ok {
			return strings.TrimSuffix(name, "GC")
		}
	}
	return "default"
}

// extremes are the smallest and the largest.
func extremes[T cmp.Ordered](values []T) (low, high T) { return slices.Min(values), slices.Max(values) }
