// Command check measures how often tare check is wrong: versions of a service that hold a
// known part more memory, or are slower alone, are judged against the unchanged version.
// Every run is one line of docs/results/raw/check.jsonl: it goes on where it was cut off.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/results"
)

const (
	baseRuns   = 40
	changeRuns = 2 * budget.DefaultRuns // a first set, and a fresh one
)

// record is one run of one version.
type record struct {
	Version string    `json:"version"`
	Run     check.Run `json:"run"`
}

func main() {
	cache := flag.String("cache", "", "where the JDKs are")
	length := flag.Duration("for", 0, "make no run after this time; 0 is until all are made, and less than 0 makes none")
	page := flag.Bool("page", true, "write the page")
	name := flag.String("records", "docs/results/raw/check.jsonl", "where the runs are kept, a `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *name, *cache, *length, *page); err != nil {
		fmt.Fprintln(os.Stderr, "bench/check:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, cache string, length time.Duration, page bool) error {
	have := map[string][]check.Run{}
	file, err := records.Open(name, records.Into(func(r record) { have[r.Version] = append(have[r.Version], r.Run) }))
	if err != nil {
		return err
	}
	defer file.Close()
	if length >= 0 {
		if err := recordAll(ctx, cache, length, have, file); err != nil {
			return err
		}
	}
	if !page {
		return nil
	}
	return results.Write("check", "How often tare check is wrong", "make bench-check", "The runs are in "+filepath.Base(name)+", beside this page in raw. "+text(have))
}

// recordAll makes the runs that are missing: round by round, so that what changes on the
// machine hits all versions alike.
func recordAll(ctx context.Context, cache string, length time.Duration, have map[string][]check.Run, file *records.File) error {
	dir, err := os.MkdirTemp("", "tare-bench-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	java, err := compile(ctx, cache, dir)
	if err != nil {
		return err
	}
	run, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return err
	}
	place := lab.Place{Runner: run, Java: java, Dir: dir, Env: os.Environ()}
	end := time.Now().Add(length)
	for {
		v, ok := next(have)
		if !ok || length > 0 && time.Now().After(end) {
			return nil
		}
		r, _, err := check.Once(ctx, check.Subject{Name: v.name(), Run: v.run(), Place: place})
		if err != nil {
			return fmt.Errorf("%s: %w", v.name(), err)
		}
		if err := file.Append(record{v.name(), r}); err != nil {
			return err
		}
		have[v.name()] = append(have[v.name()], r)
		fmt.Fprintf(os.Stderr, "%s: run %d, %s\n", v.name(), len(have[v.name()]), r.Took.Round(100*time.Millisecond))
	}
}

// compile compiles the subject with a JDK 21.
func compile(ctx context.Context, cache, dir string) (runner.Java, error) {
	home := filepath.Join(cache, "jdks", "21")
	cmd := exec.CommandContext(ctx, filepath.Join(home, "bin", "javac"), "-d", dir, "bench/check/subject/Subject.java")
	if out, err := cmd.CombinedOutput(); err != nil {
		return runner.Java{}, errors.Join(err, errors.New(string(out)))
	}
	return runner.FindJava(ctx, filepath.Join(home, "bin", "java"))
}

// next is the version whose run is due: of those that are to be run now the one with the
// fewest runs for what it needs.
func next(have map[string][]check.Run) (version, bool) {
	for _, group := range order() {
		best, found := version{}, false
		least := 1.0
		for _, v := range group {
			if share := float64(len(have[v.name()])) / float64(v.runs()); share < least {
				best, least, found = v, share, true
			}
		}
		if found {
			return best, true
		}
	}
	return version{}, false
}
