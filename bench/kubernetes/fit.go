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
	"strings"
	"time"
)

// fitCell is what is fitted on each runner.
type fitCell struct {
	Service string `json:"service"`
	JDK     string `json:"jdk"`
}

// fitRun is a fit that came to its end.
type fitRun struct {
	fitCell
	Runner     string   `json:"runner"`
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

var fitCells = []fitCell{{"sysinfo", "25"}, {"wiremock", "25"}, {"sysinfo", "17"}, {"wiremock", "17"}}

// service is an application of a fit.
type service struct {
	name string // for people
	// jar is a path in the tree, or below the cache; inImage is where the image has it.
	jar, inImage string
	cached       bool
	args         []string // {port} is a free one
	files        string   // a folder of the tree that args name; the image has it, too
	target       string
	ample        string
}

var services = map[string]service{
	"sysinfo":  {name: "the demo service", jar: "bin/sysinfo.jar", inImage: "/sysinfo.jar", args: []string{"--port", "{port}"}, target: "/health", ample: "256m"},
	"wiremock": {name: "WireMock 3.13.1", jar: "jars/wiremock-standalone-3.13.1.jar", inImage: "/wiremock.jar", cached: true, args: []string{"--port", "{port}", "--no-request-journal", "--root-dir", "{files}"}, files: "bench/peers/wiremock", target: "/hello/world", ample: "768m"},
}

// here is the jar on this machine.
func (s service) here(cache string) string {
	if s.cached {
		return filepath.Join(cache, s.jar)
	}
	return s.jar
}

// command is java with the service: on this machine, or in the image.
func (s service) command(java, jar, files, port string) []string {
	out := []string{java, "-jar", jar}
	for _, a := range s.args {
		out = append(out, strings.NewReplacer("{port}", port, "{files}", files).Replace(a))
	}
	return out
}

// fitsOf are those of a cell on a runner so far.
func fitsOf(all []record, c fitCell, runner string) []fitRun {
	var out []fitRun
	for _, r := range all {
		if r.Fit != nil && r.Fit.fitCell == c && r.Fit.Runner == runner {
			out = append(out, *r.Fit)
		}
	}
	return out
}

// turn is a fit that is left.
type turn struct {
	fitCell
	runner string
}

func (b *bench) fitsLeft() bool { return len(b.nextFits()) > 0 }

// nextFits are the fits that are left: one of each cell on each runner, by turns, before
// the second of any.
func (b *bench) nextFits() []turn {
	var out []turn
	for i := range b.o.fits {
		for _, c := range fitCells {
			for _, runner := range runners {
				if len(fitsOf(b.all, c, runner)) <= i {
					out = append(out, turn{c, runner})
				}
			}
		}
	}
	return out[:min(len(out), b.o.now)]
}

// fits makes the same fits on this machine and in the cluster.
func (b *bench) fits(ctx context.Context) error {
	for _, t := range b.nextFits() {
		f, err := b.fit(ctx, t)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s on JDK %s, %-10s %d MiB, %d trials in %.0f s\n", t.Service, t.JDK, t.runner, f.LimitBytes>>20, f.Trials, f.Seconds)
		if err := b.keep(record{Fit: f}); err != nil {
			return err
		}
	}
	return nil
}

// search are the flags of both: no file is made for trials, for pods share none.
var search = []string{"--levers", "-archive,-jars", "--proof", "short", "--warmup", "1s", "--duration", "3s", "--slo", "errors=0", "--store", "none", "--json"}

func (b *bench) fit(ctx context.Context, t turn) (*fitRun, error) {
	s := services[t.Service]
	args := append([]string{"fit", "--runner", t.runner, "--ample", s.ample}, search...)
	switch t.runner {
	case "cgroup":
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		args = append(args, "--load", "http://127.0.0.1:"+port+s.target, "--")
		args = append(args, s.command(filepath.Join(b.o.cache, "jdks", t.JDK, "bin", "java"), s.here(b.o.cache), s.files, port)...)
	default:
		args = append(append(args, b.clusterFlags()...), "--load", "http://127.0.0.1:8080"+s.target, "--")
		args = append(args, s.command(javaHome(t.JDK)+"/bin/java", s.inImage, "/"+s.files, "8080")...)
	}
	cmd := exec.CommandContext(ctx, "bin/tare", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s on JDK %s: tare fit --runner %s: %w: %s", t.Service, t.JDK, t.runner, err, &errs)
	}
	f, err := readFit(t.runner, text)
	if f != nil {
		f.fitCell = t.fitCell
	}
	return f, err
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
	f := &fitRun{Runner: runner, LimitBytes: got.LimitBytes, Options: got.Options, Seconds: got.TookSeconds}
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
