package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

const (
	mib         = 1 << 20
	readyTime   = 60 * time.Second
	warmupTime  = 2 * time.Second
	loadTime    = 4 * time.Second
	concurrency = 16
	jar         = "bin/sysinfo.jar"
)

// cell is one way to choose the options, in one container on one JDK.
type cell struct {
	JDK    string `json:"jdk"`
	MiB    int64  `json:"mib"`
	Way    string `json:"way"`
	Repeat int    `json:"repeat"`
}

// outcome is how one run went. Sizes are bytes.
type outcome struct {
	cell
	// Build is the build of the JDK; empty in outcomes of before it was noted, which
	// count for every build.
	Build       string   `json:"build,omitempty"`
	Survived    bool     `json:"survived"`
	Verdict     string   `json:"verdict"`
	Why         string   `json:"why"`
	Options     []string `json:"options"`
	Throughput  float64  `json:"throughput"`
	PeakBytes   int64    `json:"peakBytes"`
	NeededBytes int64    `json:"neededBytes"`
	HeapBytes   int64    `json:"heapBytes"` // resident near the peak
	// EstimateBytes is what the launcher reckons beside the heap.
	EstimateBytes int64 `json:"estimateBytes"`
}

// wayTare is the way that is measured here; launcherWay describes it. What it
// chooses, the launcher itself says: see askPlan.
const wayTare = "tare"

var launcherWay = ways.Way{Name: wayTare, Is: "`tare-exec`, without profile"}

// wayNames are the ways that are measured unless -ways says otherwise.
var wayNames = []string{wayTare, ways.Defaults, ways.Percent, ways.RunJava, ways.Paketo}

// measureSurvival runs every cell that is not measured yet.
func (b *bench) measureSurvival(ctx context.Context) (string, error) {
	done := map[cell]outcome{}
	kept, err := records.Open(b.state, records.Into(func(o outcome) { done[o.cell] = o }))
	if err != nil {
		return "", err
	}
	defer kept.Close()
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return "", err
	}
	if _, err := r.Sweep(context.Background()); err != nil {
		return "", err
	}
	all := b.cells()
	for i, c := range all {
		java, err := runner.FindJava(ctx, b.java(c))
		if o, ok := done[c]; ok && (err != nil || o.Build == "" || o.Build == java.Build) {
			continue
		}
		if err != nil {
			return "", err
		}
		o, err := b.measure(ctx, r, c)
		if err != nil {
			return "", fmt.Errorf("%+v: %w", c, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d: JDK %s, %d MiB, %s: %s %s (%.0f/s, peak %d MiB)\n", i+1, len(all), c.JDK, c.MiB, c.Way, o.Verdict, o.Why, o.Throughput, o.PeakBytes/mib)
		o.Build = java.Build
		if err := kept.Append(o); err != nil {
			return "", err
		}
		done[c] = o
	}
	return b.survivalText(done), nil
}

func (b *bench) cells() []cell {
	var all []cell
	for _, size := range b.sizes {
		for _, jdk := range b.jdks {
			for repeat := range b.repeats {
				for _, w := range b.ways {
					all = append(all, cell{jdk, size, w, repeat})
				}
			}
		}
	}
	return all
}

func (b *bench) measure(ctx context.Context, r runner.Runner, c cell) (outcome, error) {
	o := outcome{cell: c}
	home := filepath.Join(b.cache, "jdks", c.JDK)
	command, err := b.command(c, b.java(c))
	if errors.Is(err, ways.ErrUnfit) {
		o.Verdict, o.Why = "refused", err.Error()
		return o, nil
	}
	if err != nil {
		return o, err
	}
	if c.Way == wayTare {
		if err := b.askPlan(ctx, r, &o, command); err != nil {
			return o, err
		}
	} else {
		o.Options = command[1:]
	}
	return o, b.runCell(ctx, r, &o, command, home)
}

// java is the launcher of a cell.
func (b *bench) java(c cell) string { return filepath.Join(b.cache, "jdks", c.JDK, "bin", "java") }

// command starts java in the way of a cell, up to the options that it chooses.
func (b *bench) command(c cell, java string) ([]string, error) {
	if c.Way == wayTare {
		return []string{"bin/tare-exec", "--", java}, nil
	}
	w, err := ways.Named(b.all, []string{c.Way})
	if err != nil {
		return nil, err
	}
	classes, err := jarClasses(jar)
	if err != nil {
		return nil, err
	}
	options, err := w[0].Options(ways.Container{JDK: c.JDK, MemoryBytes: c.MiB * mib, Classes: classes})
	return append([]string{java}, options...), err
}

// askPlan asks the launcher in a container of the same size what it will do.
func (b *bench) askPlan(ctx context.Context, r runner.Runner, o *outcome, command []string) error {
	args := append([]string{command[0], "--dry-run", "--json"}, command[1:]...)
	var out, errs bytes.Buffer
	p, err := r.Start(ctx, runner.Spec{Args: append(args, "-jar", jar), Env: os.Environ(), Stdout: &out, Stderr: &errs,
		Limits: runner.Limits{MemoryBytes: o.MiB * mib}})
	if err != nil {
		return err
	}
	<-p.Done()
	code := p.Exit().Code
	if err := p.Close(); err != nil {
		return err
	}
	var plan struct {
		Rest  []struct{ Bytes int64 }
		Added []struct{ Set []string }
	}
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil || code != 0 {
		return fmt.Errorf("%v: exit %d, %v: %s", args, code, err, errs.String())
	}
	for _, a := range plan.Added {
		o.Options = append(o.Options, a.Set...)
	}
	for _, part := range plan.Rest {
		o.EstimateBytes += part.Bytes
	}
	return nil
}

func (b *bench) runCell(ctx context.Context, r runner.Runner, o *outcome, command []string, home string) error {
	spec, err := b.spec(o, command, home)
	if err != nil {
		return err
	}
	res, err := trial.Run(ctx, r, spec)
	if err != nil {
		return err
	}
	o.Verdict, o.Why = string(res.Verdict), strings.Join(res.Evidence, "; ")
	o.Survived = res.ReadyAfter > 0 && !res.Ended && res.Verdict != trial.OOMKilled && res.Verdict != trial.OutOfMemory && res.Verdict != trial.Crashed
	o.PeakBytes, o.NeededBytes = res.PeakBytes, res.NeededBytes
	if res.Load != nil {
		o.Throughput, _ = res.Load.Throughput()
	}
	if f := res.End; f != nil {
		for _, row := range f.Rows {
			if row.Owner == footprint.JavaHeap {
				o.HeapBytes = row.ResidentBytes
			}
		}
	}
	return nil
}

func (b *bench) spec(o *outcome, command []string, home string) (trial.Spec, error) {
	ports, err := runner.ThisHost().FreePorts(context.Background(), 1)
	if err != nil {
		return trial.Spec{}, err
	}
	port := strconv.Itoa(ports[0])
	base := "http://127.0.0.1:" + port
	ready, err := trial.ParseReady(base + "/health")
	if err != nil {
		return trial.Spec{}, err
	}
	var targets []load.Target
	for _, t := range []string{base + "/sys-summary", base + "/sys-stat", "PUT " + base + "/sys-stat"} {
		target, err := load.ParseTarget(t)
		if err != nil {
			return trial.Spec{}, err
		}
		targets = append(targets, target)
	}
	command = append(slices.Clone(command), "-jar", jar, "--port", port, "--log-level", "error")
	return trial.Spec{Args: command, Env: os.Environ(), Limits: runner.Limits{MemoryBytes: o.MiB * mib}, Ready: ready, ReadyTimeout: readyTime,
		Loader: load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: concurrency, Timeout: 10 * time.Second}},
		Warmup: warmupTime, Duration: loadTime, JavaHome: home, Files: []string{jar},
		Weigh: true}, nil
}
