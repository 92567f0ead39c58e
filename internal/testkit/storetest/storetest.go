// Package storetest holds what each store of fits must do.
package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/trial"
)

// Maker makes an empty database and returns its location.
type Maker func(t *testing.T) (location string)

// Run tests the stores of a Maker. Each test has a database of its own.
func Run(t *testing.T, fresh Maker) {
	for name, test := range map[string]func(*testing.T, Maker){
		"StepsComeBackWhole":          stepsComeBackWhole,
		"OnlyOneGoesOn":               onlyOneGoesOn,
		"ListsTheNewestFirst":         listsTheNewestFirst,
		"SweepRemovesWhatWasMade":     sweepRemovesWhatWasMade,
		"KeepOutlivesAnInterrupt":     keepOutlivesAnInterrupt,
		"DeleteRemovesAllOrNone":      deleteRemovesAllOrNone,
		"PruneRemovesTheOldest":       pruneRemovesTheOldest,
		"ManyOpenAtOnce":              manyOpenAtOnce,
		"AFitEndsOnce":                aFitEndsOnce,
		"OpenAgainChangesNothing":     openAgainChangesNothing,
		"HostileTextComesBackAsItWas": hostileText,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh) })
	}
}

// Open opens a store, and closes it with the test.
func Open(t *testing.T, location string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Plan is the plan of a fit.
func Plan() fit.Plan {
	return fit.Plan{Command: []string{"java", "-jar", "app.jar"}, Ready: "tcp:8080", SLO: trial.DefaultSLO, Runner: "cgroup v2", AmpleBytes: 1 << 30}
}

// Step is a trial with all that a trial has.
func Step(number int) fit.Step {
	share := 0.125
	limit := int64(300 << 20)
	l := &load.Result{Due: 11, Sent: 11, OK: 10, Failed: 1, Errors: map[string]int64{"HTTP 503": 1}, Elapsed: 1234567891, Latency: load.Latency{P99: load.TimeOf(76543211)}}
	f := &footprint.Footprint{Schema: "tare.footprint/1", RSSBytes: 1 << 27, Flags: map[string]string{"MaxHeapSize": "1"},
		Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: 1 << 26, How: footprint.Exact, CommittedBytes: &limit}}}
	r := &trial.Result{Verdict: trial.Errors, Evidence: []string{"errors: 1 × HTTP 503"}, Time: time.Unix(1, 2).UTC(), Load: l, GCShare: &share, Peak: f,
		Broken: []trial.Broken{{Text: "errors"}}, Stat: map[string]int64{"anon": 5}, Log: []string{"a \x1b[1m line \xff \x00"}}
	o := fit.Outcome{Verdict: r.Verdict, Throughput: 10 / 1.234567891, Measured: r.Measured(), PeakBytes: limit - 1, NeededBytes: 7, Took: time.Second, Result: r}
	return fit.Step{LogFile: "/out/trial.log", Trial: &fit.Trial{Outcome: o, Attempt: fit.Attempt{Number: number, Phase: fit.PhaseLever, Lever: "C1 alone", LimitBytes: limit,
		Setup: fit.Setup{Options: []string{"-XX:TieredStopAtLevel=1"}, Env: []string{"MALLOC_ARENA_MAX=1"}}}}}
}

func begin(t *testing.T, s store.Store) *store.Run {
	t.Helper()
	r, err := s.Begin(t.Context(), Plan(), store.Invocation{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ended stores a fit that has ended, with a number of trials.
func ended(t *testing.T, s store.Store, trials int) int64 {
	t.Helper()
	r := begin(t, s)
	for n := range trials {
		if err := r.Keep(t.Context(), Step(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.End(t.Context(), fit.Ending{LimitBytes: 1}), r.Close()); err != nil {
		t.Fatal(err)
	}
	return r.ID()
}

func idsOf(t *testing.T, s store.Store) []int64 {
	t.Helper()
	fits, err := s.Fits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []int64{}
	for _, f := range fits {
		ids = append(ids, f.ID)
	}
	return ids
}

func stepsComeBackWhole(t *testing.T, fresh Maker) {
	location := fresh(t)
	s := Open(t, location)
	r, err := s.Begin(t.Context(), Plan(), store.Invocation{Flags: []store.Flag{{Name: "load", Values: []string{"a", "b"}}}, Args: []string{"java"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	training := fit.Step{Training: &fit.Training{Option: "-XX:ArchiveClassesAtExit={archive}", File: "/x.jsa", Digest: "d", Took: time.Minute}}
	for _, st := range []fit.Step{Step(1), training, Step(2)} {
		if err := r.Keep(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	// Another process would see them now.
	other := Open(t, location)
	got, err := other.Steps(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	want := []fit.Step{Step(1), training, Step(2)}
	for _, w := range want {
		if w.Trial != nil {
			w.Trial.Result.Broken = nil // told in the evidence
			w.Trial.Result.Log = []string{"a \x1b[1m line \ufffd \x00"}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	f, err := other.Fit(t.Context(), r.ID())
	if err != nil || f.State != store.Running || f.Trials != 2 || !reflect.DeepEqual(f.Plan, Plan()) || f.Invocation.Flags[0].Values[1] != "b" || f.Host != host || !f.Here {
		t.Errorf("%+v, %v", f, err)
	}
}

func onlyOneGoesOn(t *testing.T, fresh Maker) {
	location := fresh(t)
	s, other := Open(t, location), Open(t, location)
	r := begin(t, s)
	var busy *store.BusyError
	for _, s := range []store.Store{s, other} {
		if _, err := s.Resume(t.Context(), r.ID()); !errors.As(err, &busy) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(r.Keep(t.Context(), Step(1)), r.Close()); err != nil {
		t.Fatal(err)
	}
	if f, err := other.Fit(t.Context(), r.ID()); err != nil || f.State != store.CutOff {
		t.Errorf("%+v, %v", f, err)
	}
	r, err := other.Resume(t.Context(), r.ID())
	if err != nil || len(r.Past()) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := errors.Join(r.Keep(t.Context(), Step(2)), r.End(t.Context(), fit.Ending{Failure: "no limit"}), r.Close()); err != nil {
		t.Fatal(err)
	}
	var over *store.EndedError
	if _, err := s.Resume(t.Context(), r.ID()); !errors.As(err, &over) {
		t.Errorf("%v", err)
	}
	if _, err := s.Resume(t.Context(), 99); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	f, err := s.Fit(t.Context(), r.ID())
	if err != nil || f.State != store.Failed || f.Trials != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	res, err := store.Result(t.Context(), s, f)
	if err != nil || len(res.Trials) != 2 || res.RunnerName != "cgroup v2" {
		t.Errorf("%+v, %v", res, err)
	}
}

func listsTheNewestFirst(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			r, err := s.Begin(t.Context(), Plan(), store.Invocation{})
			if err == nil {
				err = errors.Join(r.Keep(t.Context(), Step(1)), r.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	ids := idsOf(t, s)
	if len(ids) != 8 || !slices.IsSortedFunc(ids, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("%v", ids)
	}
}

func sweepRemovesWhatWasMade(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	archives, err := runner.ThisHost().MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer archives.Close()
	dir, outside := archives.Dir(), t.TempDir()
	making := func(name string) (*store.Run, string) {
		file := filepath.Join(dir, name)
		if filepath.Ext(name) == ".txt" {
			file = filepath.Join(outside, name)
		}
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := begin(t, s)
		if err := r.Making(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		return r, file
	}
	killed, half := making("killed.aot")
	running, _ := making("running.aot")
	trained, _ := making("ended.jsa")
	strange, _ := making("notes.txt")
	if err := os.WriteFile(half+".config", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	training := fit.Step{Training: &fit.Training{}}
	if err := errors.Join(killed.Close(), trained.Keep(t.Context(), training), trained.Close(), strange.Close()); err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	removed, err := s.Sweep(t.Context(), runner.ThisHost().RemoveMade)
	if err != nil || !slices.Equal(removed, []string{half, half + ".config"}) {
		t.Errorf("%q, %v", removed, err)
	}
	for _, name := range []string{filepath.Join(dir, "running.aot"), filepath.Join(dir, "ended.jsa"), filepath.Join(outside, "notes.txt")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if removed, err = s.Sweep(t.Context(), runner.ThisHost().RemoveMade); err != nil || len(removed) > 0 {
		t.Errorf("again: %q, %v", removed, err)
	}
}

// A step that has ended is stored although the fit is interrupted.
func keepOutlivesAnInterrupt(t *testing.T, fresh Maker) {
	r := begin(t, Open(t, fresh(t)))
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Keep(ctx, Step(1)); err != nil {
		t.Error(err)
	}
}

func deleteRemovesAllOrNone(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	first, second := ended(t, s, 1), ended(t, s, 1)
	running := begin(t, s)
	defer running.Close()
	if err := s.Delete(t.Context(), first, 99); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	var busy *store.BusyError
	if err := s.Delete(t.Context(), first, running.ID()); !errors.As(err, &busy) || busy.ID != running.ID() {
		t.Errorf("%v", err)
	}
	if ids := idsOf(t, s); len(ids) != 3 {
		t.Errorf("%v", ids)
	}
	if err := s.Delete(t.Context(), first); err != nil {
		t.Error(err)
	}
	if ids := idsOf(t, s); !slices.Equal(ids, []int64{running.ID(), second}) {
		t.Errorf("%v", ids)
	}
	if steps, err := s.Steps(t.Context(), first); err != nil || len(steps) != 0 {
		t.Errorf("%d steps are left, %v", len(steps), err)
	}
	// Its number is not given again: an answer that names it stays unambiguous.
	if next := ended(t, s, 0); next <= running.ID() {
		t.Errorf("the next is %d", next)
	}
}

func pruneRemovesTheOldest(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	running := begin(t, s) // the oldest, and under way
	defer running.Close()
	var ids []int64
	for range 4 {
		ids = append(ids, ended(t, s, 3))
	}
	steps, err := s.Steps(t.Context(), ids[0])
	if err != nil || len(steps) != 3 {
		t.Fatalf("%v, %v", steps, err)
	}
	for _, c := range []struct {
		bound store.Bound
		gone  []int64
	}{
		{store.Bound{}, nil},
		{store.DefaultBound, nil},
		{store.Bound{Fits: 3}, ids[:1]},
		{store.Bound{Bytes: 1 << 30}, nil},
		{store.Bound{Bytes: 1}, ids[1:]},
	} {
		gone, err := s.Prune(t.Context(), c.bound)
		if err != nil || !slices.Equal(gone, c.gone) {
			t.Errorf("%+v: %v, %v, want %v", c.bound, gone, err, c.gone)
		}
	}
	if left := idsOf(t, s); !slices.Equal(left, []int64{running.ID()}) {
		t.Errorf("%v", left)
	}
}

func manyOpenAtOnce(t *testing.T, fresh Maker) {
	location := fresh(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			s, err := store.Open(t.Context(), location)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := s.Begin(t.Context(), Plan(), store.Invocation{})
			if err == nil {
				err = r.Close()
			}
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if ids := idsOf(t, Open(t, location)); len(ids) != 6 {
		t.Errorf("%v", ids)
	}
}

func aFitEndsOnce(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	id := ended(t, s, 2)
	f, err := s.Fit(t.Context(), id)
	if err != nil || f.State != store.Done || f.Ending.LimitBytes != 1 || f.Trials != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := s.Fit(t.Context(), id+1); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), s.Location()) {
		t.Errorf("%v", err)
	}
}

func openAgainChangesNothing(t *testing.T, fresh Maker) {
	location := fresh(t)
	id := ended(t, Open(t, location), 1)
	for range 3 {
		if ids := idsOf(t, Open(t, location)); !slices.Equal(ids, []int64{id}) {
			t.Errorf("%v", ids)
		}
	}
}

func hostileText(t *testing.T, fresh Maker) {
	s := Open(t, fresh(t))
	i := store.Invocation{Args: []string{"'; DROP TABLE fits; --", "$1 ? %s", "\x00", "\u2028", strings.Repeat("x", 1<<20)}}
	r, err := s.Begin(t.Context(), Plan(), i)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err := s.Fit(t.Context(), r.ID()); err != nil || !reflect.DeepEqual(f.Invocation, i) {
		t.Errorf("%v, %v", f.Invocation.Args[:4], err)
	}
}
