// Command check measures how often tare check is wrong: versions of a service that hold a
// known part more memory, or are slower alone, are judged against the unchanged version.
// Every run is one line of docs/results/raw/check.jsonl: it goes on where it was cut off. With
// -noisy it makes the same runs beside a neighbour that takes processor time.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/neighbour"
	"tare.dev/tare/internal/testkit/results"
)

const (
	baseRuns   = 40
	changeRuns = 2 * budget.DefaultRuns // a first set, and a fresh one

	// lanes is how many runs are made at a time: what a version holds does not depend on how
	// fast it runs, and a run waits for most of its time.
	lanes = 2

	source = "bench/check/subject/Subject.java"
)

// record is one run of one version.
type record struct {
	Version string `json:"version"`
	// Noisy says that the neighbour ran beside it.
	Noisy bool `json:"noisy,omitempty"`
	// Subject is the digest of what ran.
	Subject string    `json:"subject"`
	Run     check.Run `json:"run"`
}

// runsOf are the runs of each version, by its name.
type runsOf map[string][]check.Run

// bench is what the command is asked for.
type bench struct {
	cache, records string
	length         time.Duration
	page, noisy    bool

	subject string
	end     time.Time // no run begins after it; the zero time is none

	mu sync.Mutex // guards the rest
	// begun is how many runs of a version are under way.
	begun map[string]int
	// quiet and disturbed are the runs so far.
	quiet, disturbed runsOf
}

func main() {
	if neighbour.Main() {
		return
	}
	b := bench{quiet: runsOf{}, disturbed: runsOf{}, begun: map[string]int{}}
	flag.StringVar(&b.cache, "cache", "", "where the JDKs are")
	flag.DurationVar(&b.length, "for", 0, "make no run after this time; 0 is until all are made, and less than 0 makes none")
	flag.BoolVar(&b.page, "page", true, "write the page")
	flag.BoolVar(&b.noisy, "noisy", false, "make the runs beside a neighbour that takes half a processor for half of the time")
	flag.StringVar(&b.records, "records", "docs/results/raw/check.jsonl", "where the runs are kept, a `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/check:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.subject, err = digest(); err != nil {
		return err
	}
	file, err := records.Open(b.records, func(line []byte) error {
		var r record
		if err := json.Unmarshal(line, &r); err != nil || r.Subject != b.subject {
			return errors.New("a run of another subject: remove the file")
		}
		b.add(r)
		return nil
	})
	if err != nil {
		return err
	}
	defer file.Close()
	if b.length >= 0 {
		if err := b.recordAll(ctx, file); err != nil {
			return err
		}
	}
	if !b.page {
		return nil
	}
	return results.Write("check", "How often tare check is wrong", "make bench-check", "The runs are in "+filepath.Base(b.records)+", beside this page in raw. "+text(b.quiet, b.disturbed, pairsOfPage))
}

// digest is that of the subject, and of how the unchanged version is run.
func digest() (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	how, err := json.Marshal(version{}.run())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, how...))
	return hex.EncodeToString(sum[:6]), nil
}

// now are the runs of the set that is made.
func (b *bench) now(noisy bool) runsOf {
	if noisy {
		return b.disturbed
	}
	return b.quiet
}

func (b *bench) add(r record) {
	have := b.now(r.Noisy)
	have[r.Version] = append(have[r.Version], r.Run)
}

// recordAll makes the runs that are missing: round by round, so that what changes on the
// machine hits all versions alike.
func (b *bench) recordAll(ctx context.Context, file *records.File) error {
	dir, err := os.MkdirTemp("", "tare-bench-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	java, err := compile(ctx, b.cache, dir)
	if err != nil {
		return err
	}
	run, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return err
	}
	if b.noisy {
		end, err := neighbour.Start(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	place := lab.Place{Runner: run, Java: java, Dir: dir, Env: os.Environ()}
	if b.length > 0 {
		b.end = time.Now().Add(b.length)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make([]error, lanes)
	for i := range failed {
		wg.Go(func() {
			if failed[i] = b.recordLane(ctx, place, file); failed[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// recordLane makes one run after the other.
func (b *bench) recordLane(ctx context.Context, place lab.Place, file *records.File) error {
	for {
		v, ok := b.begin()
		if !ok {
			return nil
		}
		r, _, err := check.Program{Run: v.run(), Place: place}.Once(ctx, v.name())
		if err != nil {
			return fmt.Errorf("%s: %w", v.name(), err)
		}
		if err := b.keep(record{v.name(), b.noisy, b.subject, r}, file); err != nil {
			return err
		}
	}
}

// begin is the version whose run is due, while there is time.
func (b *bench) begin() (version, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end.IsZero() && time.Now().After(b.end) {
		return version{}, false
	}
	v, ok := next(b.now(b.noisy), b.begun)
	b.begun[v.name()]++
	return v, ok
}

// keep writes a run down.
func (b *bench) keep(r record, file *records.File) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun[r.Version]--
	if err := file.Append(r); err != nil {
		return err
	}
	b.add(r)
	fmt.Fprintf(os.Stderr, "%s: run %d, %s\n", r.Version, len(b.now(b.noisy)[r.Version]), r.Run.Took.Round(100*time.Millisecond))
	return nil
}

// compile compiles the subject with a JDK 21.
func compile(ctx context.Context, cache, dir string) (runner.Java, error) {
	home := filepath.Join(cache, "jdks", "21")
	cmd := exec.CommandContext(ctx, filepath.Join(home, "bin", "javac"), "-d", dir, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return runner.Java{}, errors.Join(err, errors.New(string(out)))
	}
	return runner.FindJava(ctx, filepath.Join(home, "bin", "java"))
}

// next is the version whose run is due: of a group the one with the smallest share of what
// it needs, those that were begun among them.
func next(have runsOf, begun map[string]int) (version, bool) {
	for _, group := range groups() {
		best, found := version{}, false
		least := 1.0
		for _, v := range group {
			if share := float64(len(have[v.name()])+begun[v.name()]) / float64(v.runs()); share < least {
				best, least, found = v, share, true
			}
		}
		if found {
			return best, true
		}
	}
	return version{}, false
}
