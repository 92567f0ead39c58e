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

	"tare.dev/tare/bench/applications"
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
	if _, ok := loads[c.Service]; !ok {
		return c, fmt.Errorf("cell %q: no such service: %s", name, c.Service)
	}
	return c, nil
}

// loading is the load of an application.
type loading struct {
	concurrency int
	// warmup and duration are of the load of the first baseline; all trials of the
	// cell do as many requests.
	warmup, duration time.Duration
}

var (
	light = loading{8, 3 * time.Second, 6 * time.Second}
	heavy = loading{32, 5 * time.Second, 10 * time.Second}
	// loads are those of the applications, by their names in cells.
	loads = map[string]loading{"sysinfo": light, "wiremock": light, "shop": heavy, "camel": heavy, "keycloak": heavy}
)

const ampleBytes = 2048 * mib

// config is a fit of the cell as tare fit makes it by its defaults, but for the load
// that the service has here.
func (c cell) config(ctx context.Context, cache string, port int) (fit.Config, error) {
	app, place := applications.Named(c.Service)[0], applications.Place{JDK: c.JDK, Cache: cache, Port: port, Second: port + 1}
	for _, jar := range app.Jars(place) {
		if _, err := os.Stat(jar); err != nil {
			return fit.Config{}, fmt.Errorf("jar of %s: %w: make build, scripts/bench-jars.sh or scripts/bench-services.sh makes it", c.Service, err)
		}
	}
	args := append([]string{filepath.Join(cache, "jdks", c.JDK, "bin", "java")}, app.Command(place)...)
	l := loads[c.Service]
	conf := fit.Config{CPUs: c.CPUs, ReadyTimeout: trial.DefaultReadyTimeout, Warmup: l.warmup, Duration: l.duration, Weigh: true, AmpleBytes: ampleBytes,
		Levers: fit.Levers, Terms: defaultTerms(), Env: runner.Environ(os.Environ(), nil)}
	var targets []load.Target
	var errs [5]error
	conf.Dir, errs[0] = os.Getwd()
	conf.Command, errs[1] = jvmopts.Parse(args)
	conf.Java, errs[2] = runner.FindJava(ctx, args[0])
	conf.Ready, targets, errs[3] = app.Loading(place)
	conf.SLO, errs[4] = trial.ParseSLO(trial.DefaultSLO)
	if err := errors.Join(errs[:]...); err != nil {
		return conf, fmt.Errorf("cell %s: %w", c, err)
	}
	conf.Load = fit.NewLoad(load.HTTP{Plan: load.Plan{Targets: targets, Concurrency: l.concurrency, Timeout: load.RequestTimeout}})
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
