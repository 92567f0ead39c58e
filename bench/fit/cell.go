package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

const mib = 1 << 20

// cell is what the trials of one bank have in common.
type cell struct {
	Service, JDK string
	// CPUs is the quota in processors.
	CPUs float64
	// Noisy says that a neighbour takes half a processor for half of the time.
	Noisy bool `json:",omitempty"`
}

// String is the cell's name, and that of its file: "sysinfo-25-1", "shop-17-0.5",
// "sysinfo-25-1-noisy".
func (c cell) String() string {
	name := fmt.Sprintf("%s-%s-%g", c.Service, c.JDK, c.CPUs)
	if c.Noisy {
		name += "-noisy"
	}
	return name
}

func parseCell(name string) (cell, error) {
	words := strings.Split(name, "-")
	noisy := len(words) == 4 && words[3] == "noisy"
	if len(words) != 3 && !noisy {
		return cell{}, fmt.Errorf("%q is no cell such as sysinfo-25-1 or shop-17-0.5-noisy", name)
	}
	cpus, err := strconv.ParseFloat(words[2], 64)
	if err != nil || !(cpus > 0 && cpus <= 64) {
		return cell{}, fmt.Errorf("cell %q: %q are no processors such as 0.5", name, words[2])
	}
	c := cell{words[0], words[1], cpus, noisy}
	if _, ok := services[c.Service]; !ok {
		return c, fmt.Errorf("cell %q: no such service: %s", name, c.Service)
	}
	return c, nil
}

// service is an application to fit.
type service struct {
	// jar is its jar, below the tree for one of tare's own, else in the cache.
	jar string
	own bool
	// options go before -jar, and args after the jar; "{port}" becomes a port.
	args []string
	// ready and targets are below the port.
	ready       string
	targets     []string
	concurrency int
	// warmup and duration are of the load of the first baseline; all trials of the
	// cell do as many requests.
	warmup, duration time.Duration
}

var services = map[string]service{
	"sysinfo": {jar: "bin/sysinfo.jar", own: true, args: []string{"--port", "{port}", "--log-level", "error"},
		ready: "/health", targets: []string{"/sys-summary", "/sys-stat", "PUT /sys-stat"}, concurrency: 8, warmup: 3 * time.Second, duration: 6 * time.Second},
	"shop": {jar: "services/shop.jar", args: []string{"--server.port={port}"},
		ready: "/health", targets: []string{"/products?page=2", "/products/7", "/products?name=1"}, concurrency: 32, warmup: 5 * time.Second, duration: 10 * time.Second},
	"camel": {jar: "services/camel-current.jar", args: []string{"--server.port={port}"},
		ready: "/order", targets: []string{"/health", "/order"}, concurrency: 32, warmup: 5 * time.Second, duration: 10 * time.Second},
	"wiremock": {jar: "jars/wiremock-standalone-3.13.1.jar",
		args:  []string{"--port", "{port}", "--bind-address", "127.0.0.1", "--no-request-journal", "--root-dir", "bench/peers/wiremock"},
		ready: "/__admin/mappings", targets: []string{"/hello/world", "/__admin/mappings"}, concurrency: 8, warmup: 3 * time.Second, duration: 6 * time.Second},
}

const ampleBytes = 2048 * mib

// config is a fit of the cell as tare fit makes it by its defaults, but for the load
// that the service has here.
func (c cell) config(ctx context.Context, cache string, port int) (fit.Config, error) {
	s := services[c.Service]
	jar := filepath.Join(cache, s.jar)
	if s.own {
		jar = s.jar
	}
	if _, err := os.Stat(jar); err != nil {
		return fit.Config{}, fmt.Errorf("jar of %s: %w: make build, scripts/bench-jars.sh or scripts/bench-services.sh makes it", c.Service, err)
	}
	args := []string{filepath.Join(cache, "jdks", c.JDK, "bin", "java"), "-jar", jar}
	for _, a := range s.args {
		args = append(args, strings.ReplaceAll(a, "{port}", strconv.Itoa(port)))
	}
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	conf := fit.Config{CPUs: c.CPUs, ReadyTimeout: trial.DefaultReadyTimeout, Warmup: s.warmup, Duration: s.duration, Weigh: true, AmpleBytes: ampleBytes,
		Levers: fit.Levers, Terms: defaultTerms(), Env: runner.Environ(os.Environ(), nil)}
	var errs [5]error
	conf.Dir, errs[0] = os.Getwd()
	conf.Command, errs[1] = jvmopts.Parse(args)
	conf.Java, errs[2] = runner.FindJava(ctx, args[0])
	conf.Ready, errs[3] = trial.ParseReady(base + s.ready)
	conf.SLO, errs[4] = trial.ParseSLO(trial.DefaultSLO)
	if err := errors.Join(errs[:]...); err != nil {
		return conf, fmt.Errorf("cell %s: %w", c, err)
	}
	var targets []load.Target
	for _, t := range s.targets {
		method, path, ok := strings.Cut(t, " ")
		if !ok {
			method, path = "GET", t
		}
		targets = append(targets, load.Target{Method: method, URL: base + path})
	}
	conf.Load = fit.NewLoad(load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: s.concurrency, Timeout: load.RequestTimeout}})
	var err error
	if conf.Given, err = given(conf.Java.Version, args[1:]); err != nil {
		return conf, fmt.Errorf("cell %s: %w", c, err)
	}
	return conf, nil
}

// defaultTerms are those of tare fit without flags.
func defaultTerms() fit.Terms {
	return fit.Terms{Baselines: fit.DefaultBaselines, Confirmations: fit.DefaultConfirmations, MaxTrials: fit.DefaultTrials, WarmBlocks: fit.DefaultWarmBlocks, Prefer: fit.PreferMemory, Margin: fit.MarginByBound, Stress: true}
}

// given are the options of a launcher's arguments; the environment adds none.
func given(version string, args []string) (jvmopts.Options, error) {
	return jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease(version), Args: slices.Clone(args)})
}
