// Command fresh measures how long make test takes on a fresh clone with empty
// caches, and again with those that it filled.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/testkit/results"
)

// The bounds of one run of make test.
const (
	coldGoal = 25 * time.Minute
	warmGoal = 15 * time.Minute
)

// settings are files in the home folder that say how to reach registries; all
// else in it is left behind.
var settings = []string{".m2/settings.xml", ".config/go/env", ".npmrc", ".gitconfig"}

// caches are variables that would lead out of the new home folder.
var caches = []string{"HOME", "TARE_CACHE", "GOPATH", "GOCACHE", "GOMODCACHE", "GOBIN", "GOENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}

func main() {
	warm := flag.Bool("warm", true, "run make test a second time, with the caches that the first one filled")
	keep := flag.String("keep", "", "an empty `folder` for the clone and its caches, which then stay")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *warm, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "fresh:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, warm bool, dir string) error {
	if dir == "" {
		made, err := os.MkdirTemp("", "tare-fresh-")
		if err != nil {
			return err
		}
		defer removeAll(made)
		dir = made
	}
	home, tree := filepath.Join(dir, "home"), filepath.Join(dir, "tare")
	if err := copySettings(home); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "--no-hardlinks", ".", tree).CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w: %s", err, out)
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(caches, name)
	})
	env = append(env, "HOME="+home, "TARE_CACHE="+filepath.Join(dir, "cache"))
	runs := []string{"empty caches"}
	if warm {
		runs = append(runs, "warm caches")
	}
	var all []testRun
	for _, name := range runs {
		r, err := makeTest(ctx, tree, env, name)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return results.Write("fresh", "A fresh clone", "make bench-fresh", text(all))
}

// testRun is one run of make test.
type testRun struct {
	caches string
	took   time.Duration
	// packages are the times that go test tells, the longest first.
	packages []packageTime
}

type packageTime struct {
	name    string
	seconds float64
}

// makeTest runs make test; its output goes to bin/fresh.log and to stderr.
func makeTest(ctx context.Context, tree string, env []string, caches string) (testRun, error) {
	if err := os.MkdirAll("bin", 0o755); err != nil {
		return testRun{}, err
	}
	name := filepath.Join("bin", "fresh-"+strings.Fields(caches)[0]+".log")
	log, err := os.Create(name)
	if err != nil {
		return testRun{}, err
	}
	defer log.Close()
	cmd := exec.Command("make", "test")
	cmd.Dir, cmd.Env = tree, env
	cmd.Stdout = io.MultiWriter(log, os.Stderr)
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := time.Now()
	if err := deathsig.Start(cmd, syscall.SIGTERM); err != nil {
		return testRun{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
	defer stop()
	if err := errors.Join(cmd.Wait(), ctx.Err()); err != nil {
		return testRun{}, fmt.Errorf("make test with %s: %w: see %s", caches, err, name)
	}
	r := testRun{caches: caches, took: time.Since(start)}
	output, err := os.ReadFile(name)
	r.packages = packageTimes(string(output))
	fmt.Printf("make test with %s: %s\n", caches, r.took.Round(time.Second))
	return r, err
}

var passed = regexp.MustCompile(`(?m)^ok\s+(\S+)\s+([0-9.]+)s`)

// packageTimes reads the output of go test.
func packageTimes(output string) []packageTime {
	var all []packageTime
	for _, m := range passed.FindAllStringSubmatch(output, -1) {
		if s, err := strconv.ParseFloat(m[2], 64); err == nil {
			all = append(all, packageTime{m[1], s})
		}
	}
	slices.SortFunc(all, func(a, b packageTime) int { return int(b.seconds*1000) - int(a.seconds*1000) })
	return all
}

// text is the body of the result.
func text(runs []testRun) string {
	var b strings.Builder
	b.WriteString("`make test` on a clone, with a home folder and a cache of its own: sets up, builds, lints, and tests against real JVMs, " +
		"control groups, containers and virtual machines. Packages that apt had installed before stay installed.\n\n" +
		"| caches | time | goal | |\n|---|---|---|---|\n")
	for i, r := range runs {
		goal := []time.Duration{coldGoal, warmGoal}[min(i, 1)]
		reached := "reached"
		if r.took > goal {
			reached = "missed"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.TrimSuffix(r.caches, " caches"), r.took.Round(time.Second), goal, reached)
	}
	if len(runs) == 1 {
		b.WriteString("\nWith warm caches it was not run.\n")
	}
	last := runs[len(runs)-1]
	fmt.Fprintf(&b, "\nThe packages whose tests take longest, with %s; two run side by side, but for tests that measure:\n\n| package | seconds |\n|---|---|\n", last.caches)
	for _, p := range last.packages[:min(10, len(last.packages))] {
		fmt.Fprintf(&b, "| %s | %.0f |\n", p.name, p.seconds)
	}
	return b.String()
}

// copySettings makes a home folder that knows where registries are, no more.
func copySettings(home string) error {
	old, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	for _, name := range settings {
		data, err := os.ReadFile(filepath.Join(old, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes also what the Go tool made read-only.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "fresh:", err)
	}
}
