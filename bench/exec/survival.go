package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/footprint"
	"tare/internal/load"
	"tare/internal/runner"
	"tare/internal/trial"
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

// way is how options are chosen for a container.
type way struct {
	name, is string
	command  func(b *bench, c cell, java string) ([]string, error)
}

// errUnfit says that a way itself gives up on a container.
var errUnfit = errors.New("it gives up")

var ways = []way{
	{"tare", "`tare-exec`, without profile", func(b *bench, c cell, java string) ([]string, error) {
		return []string{"bin/tare-exec", "--", java}, nil
	}},
	{"defaults", "the JVM's defaults", func(b *bench, c cell, java string) ([]string, error) { return []string{java}, nil }},
	{"75%", "`-XX:MaxRAMPercentage=75.0`, without whose point JDK 8 does not start", func(b *bench, c cell, java string) ([]string, error) {
		return []string{java, "-XX:MaxRAMPercentage=75.0"}, nil
	}},
	{"run-java.sh", "the options that run-java.sh 1.3.7 prints when it is told the container's memory", runJava},
	{"Paketo", "the formula of Paketo's and Cloud Foundry's memory calculators: 250 threads, 35 % of all classes", paketo},
}

func wayNames() []string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}

func runJava(b *bench, c cell, java string) ([]string, error) {
	cmd := exec.Command("/bin/sh", b.script, "options")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "JAVA_MAJOR_VERSION=" + c.JDK, fmt.Sprintf("CONTAINER_MAX_MEMORY=%d", c.MiB*mib)}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s options: %w", b.script, err)
	}
	return append([]string{java}, strings.Fields(string(out))...), nil
}

// paketo is the calculation of libjvm's helper/memory_calculator.go: the JDK has
// some 30 000 classes, the application as many as its jar.
func paketo(b *bench, c cell, java string) ([]string, error) {
	const direct, code, threads, stack, jdkClasses = 10 * mib, 240 * mib, 250, mib, 30_000
	own, err := jarClasses(jar)
	if err != nil {
		return nil, err
	}
	metaspace := int64(14_000_000 + 5_800*35*(jdkClasses+own)/100)
	heap := c.MiB*mib - direct - metaspace - code - threads*stack
	if heap <= 0 {
		return nil, fmt.Errorf("%w: %d MiB are less than it reckons beside the heap", errUnfit, c.MiB)
	}
	return []string{java, fmt.Sprintf("-Xmx%dK", heap>>10), fmt.Sprintf("-XX:MaxMetaspaceSize=%dK", metaspace>>10),
		"-XX:MaxDirectMemorySize=10M", "-XX:ReservedCodeCacheSize=240M", "-Xss1M", "-XX:+ExitOnOutOfMemoryError"}, nil
}

// measureSurvival runs every cell that is not measured yet.
func (b *bench) measureSurvival(ctx context.Context) (string, error) {
	done, err := readState(b.state)
	if err != nil {
		return "", err
	}
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return "", err
	}
	if _, err := r.Sweep(); err != nil {
		return "", err
	}
	all := b.cells()
	for i, c := range all {
		if _, ok := done[c]; ok {
			continue
		}
		o, err := b.measure(ctx, r, c)
		if err != nil {
			return "", fmt.Errorf("%+v: %w", c, err)
		}
		fmt.Fprintf(os.Stderr, "%d of %d: JDK %s, %d MiB, %s: %s %s (%.0f/s, peak %d MiB)\n", i+1, len(all), c.JDK, c.MiB, c.Way, o.Verdict, o.Why, o.Throughput, o.PeakBytes/mib)
		if err := appendState(b.state, o); err != nil {
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
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == c.Way })
	if i < 0 {
		return o, fmt.Errorf("no such way: one of %s", strings.Join(wayNames(), ", "))
	}
	home := filepath.Join(b.cache, "jdks", c.JDK)
	command, err := ways[i].command(b, c, filepath.Join(home, "bin", "java"))
	if errors.Is(err, errUnfit) {
		o.Verdict, o.Why = "refused", err.Error()
		return o, nil
	}
	if err != nil {
		return o, err
	}
	if c.Way == "tare" {
		if err := b.askPlan(ctx, r, &o, command); err != nil {
			return o, err
		}
	} else {
		o.Options = command[1:]
	}
	return o, b.runCell(ctx, r, &o, command, home)
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
		o.Throughput = res.Load.Throughput()
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
	port, err := freePort()
	if err != nil {
		return trial.Spec{}, err
	}
	base := "http://127.0.0.1:" + strconv.Itoa(port)
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
	command = append(slices.Clone(command), "-jar", jar, "--port", strconv.Itoa(port), "--log-level", "error")
	return trial.Spec{Args: command, Env: os.Environ(), Limits: runner.Limits{MemoryBytes: o.MiB * mib}, Ready: ready, ReadyTimeout: readyTime,
		Loader:  trial.HTTPLoad{Plan: load.Plan{Targets: targets, Concurrency: concurrency, Timeout: 10 * time.Second}},
		Targets: targets, Warmup: warmupTime, Duration: loadTime, JavaHome: home, Files: []string{jar},
		Weigh: func(ctx context.Context, pid int) (*footprint.Footprint, error) {
			return footprint.Weigh(ctx, pid, footprint.Options{})
		}}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// readState reads what was measured; a last line that was cut off is not.
func readState(path string) (map[cell]outcome, error) {
	done := map[cell]outcome{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var o outcome
		if json.Unmarshal(sc.Bytes(), &o) == nil {
			done[o.cell] = o
		}
	}
	return done, sc.Err()
}

func appendState(path string, o outcome) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
