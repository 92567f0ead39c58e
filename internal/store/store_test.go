package store

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

	"tare/internal/fit"
	"tare/internal/footprint"
	"tare/internal/load"
	"tare/internal/trial"
)

func openStore(t *testing.T, file string) *Store {
	t.Helper()
	s, err := Open(t.Context(), file)
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

var plan = fit.Plan{Command: []string{"java", "-jar", "app.jar"}, Ready: "tcp:8080", SLO: trial.DefaultSLO, Runner: "cgroup v2", AmpleBytes: 1 << 30}

// step is a trial with all that a trial has.
func step(number int) fit.Step {
	share := 0.125
	limit := int64(300 << 20)
	l := &load.Result{Due: 11, Sent: 11, OK: 10, Failed: 1, Errors: map[string]int64{"HTTP 503": 1}, Elapsed: 1234567891, Latency: load.Latency{P99: 76543211}}
	f := &footprint.Footprint{Schema: "tare.footprint/1", RSSBytes: 1 << 27, Flags: map[string]string{"MaxHeapSize": "1"},
		Rows: []footprint.Row{{Owner: footprint.JavaHeap, ResidentBytes: 1 << 26, How: footprint.Exact, CommittedBytes: &limit}}}
	r := &trial.Result{Verdict: trial.Errors, Evidence: []string{"errors: 1 × HTTP 503"}, Time: time.Unix(1, 2).UTC(), Load: l, GCShare: &share, Peak: f,
		Broken: []trial.Broken{{Text: "errors"}}, Stat: map[string]int64{"anon": 5}, Log: []string{"a \x1b[1m line \xff"}}
	o := fit.Outcome{Verdict: r.Verdict, Throughput: 10 / 1.234567891, Measured: r.Measured(), PeakBytes: limit - 1, NeededBytes: 7, Took: time.Second, Result: r}
	return fit.Step{LogFile: "/out/trial.log", Trial: &fit.Trial{Outcome: o, Attempt: fit.Attempt{Number: number, Phase: fit.PhaseLever, Lever: "C1 alone", LimitBytes: limit,
		Setup: fit.Setup{Options: []string{"-XX:TieredStopAtLevel=1"}, Env: []string{"MALLOC_ARENA_MAX=1"}}}}}
}

func TestStepsComeBackWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new folder", "a%20b?c#d.db")
	s := openStore(t, file)
	r, err := s.Begin(t.Context(), plan, Invocation{Flags: []Flag{{"load", []string{"a", "b"}}}, Args: []string{"java"}})
	if err != nil {
		t.Fatal(err)
	}
	training := fit.Step{Training: &fit.Training{Option: "-XX:ArchiveClassesAtExit={archive}", File: "/x.jsa", Digest: "d", Took: time.Minute}}
	for _, st := range []fit.Step{step(1), training, step(2)} {
		if err := r.Keep(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	// Another process would see them now.
	other := openStore(t, file)
	got, err := other.Steps(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	want := []fit.Step{step(1), training, step(2)}
	for _, w := range want {
		if w.Trial != nil {
			w.Trial.Result.Broken = nil // told in the evidence
			w.Trial.Result.Log = []string{"a \x1b[1m line \ufffd"}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f, err := other.Fit(t.Context(), r.ID())
	if err != nil || f.State != Running || f.Trials != 2 || !reflect.DeepEqual(f.Plan, plan) || f.Invocation.Flags[0].Values[1] != "b" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, name := range []string{file, file + "-locks", file + "-wal"} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}

func TestOnlyOneGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tare.db")
	s, other := openStore(t, file), openStore(t, file)
	r, err := s.Begin(t.Context(), plan, Invocation{})
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	for _, s := range []*Store{s, other} {
		if _, err := s.Resume(t.Context(), r.ID()); !errors.As(err, &busy) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(r.Keep(t.Context(), step(1)), r.Close()); err != nil {
		t.Fatal(err)
	}
	if f, err := other.Fit(t.Context(), r.ID()); err != nil || f.State != CutOff {
		t.Errorf("%+v, %v", f, err)
	}
	r, err = other.Resume(t.Context(), r.ID())
	if err != nil || len(r.Past()) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := errors.Join(r.Keep(t.Context(), step(2)), r.End(t.Context(), fit.Ending{Failure: "no limit"}), r.Close()); err != nil {
		t.Fatal(err)
	}
	var ended *EndedError
	if _, err := s.Resume(t.Context(), r.ID()); !errors.As(err, &ended) {
		t.Errorf("%v", err)
	}
	if _, err := s.Resume(t.Context(), 99); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	f, err := s.Fit(t.Context(), r.ID())
	if err != nil || f.State != Failed || f.Trials != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	res, err := s.Result(t.Context(), f)
	if err != nil || len(res.Trials) != 2 || res.RunnerName != "cgroup v2" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestListsTheNewestFirst(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "tare.db"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			r, err := s.Begin(t.Context(), plan, Invocation{})
			if err == nil {
				err = errors.Join(r.Keep(t.Context(), step(1)), r.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	fits, err := s.Fits(t.Context())
	if err != nil || len(fits) != 8 || !slices.IsSortedFunc(fits, func(a, b Fit) int { return int(b.ID - a.ID) }) {
		t.Errorf("%+v, %v", fits, err)
	}
}

func TestSweepRemovesWhatWasBeingMade(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "tare.db"))
	begin := func(name string) (*Run, string) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := s.Begin(t.Context(), plan, Invocation{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Making(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		return r, file
	}
	killed, half := begin("killed.aot")
	running, _ := begin("running.aot")
	ended, _ := begin("ended.jsa")
	strange, _ := begin("notes.txt")
	if err := os.WriteFile(half+".config", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	training := fit.Step{Training: &fit.Training{}}
	if err := errors.Join(killed.Close(), ended.Keep(t.Context(), training), ended.Close(), strange.Close()); err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	removed, err := s.Sweep(t.Context())
	if err != nil || !slices.Equal(removed, []string{half, half + ".config"}) {
		t.Errorf("%q, %v", removed, err)
	}
	for _, name := range []string{"running.aot", "ended.jsa", "notes.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if removed, err = s.Sweep(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("again: %q, %v", removed, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	s := openStore(t, newer)
	if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), newer); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{text, dir, filepath.Join(text, "tare.db")} {
		if _, err := Open(t.Context(), file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestDefaultFile(t *testing.T) {
	for state, want := range map[string]string{"/state": "/state/tare/tare.db", "relative": "/home/x/.local/state/tare/tare.db", "": "/home/x/.local/state/tare/tare.db"} {
		t.Setenv("XDG_STATE_HOME", state)
		t.Setenv("HOME", "/home/x")
		if got, err := DefaultFile(); err != nil || got != want {
			t.Errorf("%q: %q, %v", state, got, err)
		}
	}
}

// A step that has ended is stored although the fit is interrupted.
func TestKeepOutlivesAnInterrupt(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "tare.db"))
	r, err := s.Begin(t.Context(), plan, Invocation{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Keep(ctx, step(1)); err != nil {
		t.Error(err)
	}
}
