package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// fitRun is a fit that came to its end.
type fitRun struct {
	Runner     string   `json:"runner"`
	JDK        string   `json:"jdk"`
	LimitBytes int64    `json:"limitBytes"`
	Options    []string `json:"options"`
	Trials     int      `json:"trials"` // with confirmations
	// Seconds is the time of the whole search, InTrials what of it the trials themselves
	// took.
	Seconds  float64 `json:"seconds"`
	InTrials float64 `json:"inTrials"`
}

// runners are those that are compared.
var runners = []string{"cgroup", "kubernetes"}

// fitsOf are those of a runner so far.
func fitsOf(all []record, runner string) []fitRun {
	var out []fitRun
	for _, r := range all {
		if r.Fit != nil && r.Fit.Runner == runner {
			out = append(out, *r.Fit)
		}
	}
	return out
}

func (b *bench) fitsLeft() bool { return len(b.nextFits()) > 0 }

// nextFits are the runners of the fits that are left, by turns.
func (b *bench) nextFits() []string {
	var out []string
	for i := range b.o.fits {
		for _, runner := range runners {
			if len(fitsOf(b.all, runner)) <= i {
				out = append(out, runner)
			}
		}
	}
	return out[:min(len(out), b.o.now)]
}

// fits makes the same fit on this machine and in the cluster, by turns.
func (b *bench) fits(ctx context.Context) error {
	for _, runner := range b.nextFits() {
		f, err := b.fit(ctx, runner)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%-10s %d MiB, %d trials in %.0f s\n", runner, f.LimitBytes>>20, f.Trials, f.Seconds)
		if err := b.keep(record{Fit: f}); err != nil {
			return err
		}
	}
	return nil
}

// search are the flags of both: no file is made for trials, for pods share none.
var search = []string{"--levers", "-archive,-jars", "--proof", "short", "--ample", "256m", "--warmup", "1s", "--duration", "3s", "--slo", "errors=0", "--store", "none", "--json"}

func (b *bench) fit(ctx context.Context, runner string) (*fitRun, error) {
	args := append([]string{"fit", "--runner", runner}, search...)
	switch runner {
	case "cgroup":
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		args = append(args, "--load", "http://127.0.0.1:"+port+"/health", "--", filepath.Join(b.o.cache, "jdks", jdk, "bin", "java"), "-jar", "bin/sysinfo.jar", "--port", port)
	default:
		args = append(append(args, b.clusterFlags()...), "--load", "http://127.0.0.1:8080/health", "--", "/jdk/bin/java", "-jar", "/sysinfo.jar", "--port", "8080")
	}
	cmd := exec.CommandContext(ctx, "bin/tare", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("tare fit --runner %s: %w: %s", runner, err, &errs)
	}
	return readFit(runner, text)
}

// clusterFlags are those of a fit in the cluster.
func (b *bench) clusterFlags() []string {
	return []string{"--kubeconfig", b.Kubeconfig, "-n", "default", "--agent-image", agentImage, "--image", appImage, "--pull-policy", "Never"}
}

// readFit reads the JSON of a fit (schema tare.fit/1).
func readFit(runner string, text []byte) (*fitRun, error) {
	type took struct {
		Trial       int
		TookSeconds float64
	}
	var got struct {
		LimitBytes            int64
		Options               []string
		TookSeconds           float64
		Trials, Confirmations []took
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, err
	}
	f := &fitRun{Runner: runner, JDK: jdk, LimitBytes: got.LimitBytes, Options: got.Options, Seconds: got.TookSeconds}
	counted := map[int]bool{}
	for _, t := range slices.Concat(got.Trials, got.Confirmations) {
		if !counted[t.Trial] {
			counted[t.Trial] = true
			f.InTrials += t.TookSeconds
		}
	}
	f.Trials = len(counted)
	if f.LimitBytes == 0 || f.Trials == 0 {
		return nil, fmt.Errorf("a fit of %d trials without an answer", f.Trials)
	}
	return f, nil
}

// perTrial is the wall time of a search for each trial, and what of it is not the trial
// itself.
func (f fitRun) perTrial() (all, around time.Duration) {
	each := func(seconds float64) time.Duration {
		return time.Duration(seconds / float64(f.Trials) * float64(time.Second))
	}
	return each(f.Seconds), each(f.Seconds - f.InTrials)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
