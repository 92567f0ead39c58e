package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/pgtest"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/testkit/storetest"
	"tare.dev/tare/internal/trial"
)

// runAsFit makes the test binary a fit of a simulated application; the value
// is the database.
const runAsFit = "TARE_TEST_AS_FIT"

func TestMain(m *testing.M) {
	if file := os.Getenv(runAsFit); file != "" {
		if err := fitSimulated(file); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// simulated is an application whose outcomes depend on the attempt alone. Its
// trials take no time, so that kills fall into the storing.
type simulated struct{ made func(number int) }

func (s simulated) Try(_ context.Context, a fit.Attempt) (fit.Outcome, error) {
	s.made(a.Number)
	o := fit.Outcome{Passed: true, Verdict: trial.Passed, Throughput: 100 + float64(a.Number%3), PeakBytes: 290 << 20, NeededBytes: 260 << 20, LiveBytes: 9 << 20, Took: time.Second}
	need := int64(280-20*len(a.Setup.Options)) << 20
	if a.LimitBytes < need {
		o.Passed, o.Verdict = false, trial.OOMKilled
	}
	o.Result = storetest.Step(a.Number).Trial.Result // of real size
	return o, nil
}

func (s simulated) Train(context.Context, fit.Attempt, string) (string, error) {
	return "", fmt.Errorf("%w: simulated", fit.ErrNoArchive)
}

// fitSimulated begins the fit, or goes on with it, and writes a line for each
// trial that is made, that is stored, and its result.
func fitSimulated(file string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, file)
	if err != nil {
		return err
	}
	defer s.Close()
	fits, err := s.Fits(ctx)
	if err != nil {
		return err
	}
	var r *store.Run
	switch {
	case len(fits) > 0 && fits[0].State == store.Done: // killed before it could say so
		e := fits[0].Ending
		fmt.Println("found", e.LimitBytes, e.Setup.Options, fits[0].Trials)
		return nil
	case len(fits) == 0:
		r, err = s.Begin(ctx, storetest.Plan(), store.Invocation{})
	default:
		r, err = s.Resume(ctx, fits[0].ID)
	}
	if err != nil {
		return err
	}
	search := fit.Search{Trier: fit.NewRecorder(simulated{func(n int) { fmt.Println("made", n) }}, fit.Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Journal: r}), Levers: fit.Levers, AmpleBytes: storetest.Plan().AmpleBytes,
		Baselines: 3, Confirmations: 3, Facts: fit.Facts{Release: jvmopts.ParseRelease("17.0.15")},
		Observe: func(e fit.Event) {
			if e.Outcome != nil {
				fmt.Println("stored", e.Attempt.Number)
			}
		}}
	found, err := search.Run(ctx)
	if err != nil {
		return err
	}
	if err := r.End(ctx, fit.NewEnding(&fit.Result{Found: *found}, nil)); err != nil {
		return err
	}
	fmt.Println("found", found.LimitBytes, found.Setup.Options, len(found.Trials))
	return nil
}

const kills = 20

// Killed again and again at random moments, a fit loses no trial that was
// stored, makes none twice beyond the one under way, and finds what it would
// have found undisturbed.
func TestKilledFitsLoseNothing(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { killedFitsLoseNothing(t, newFile) })
	t.Run("PostgreSQL", func(t *testing.T) {
		server := pgtest.Start(t)
		killedFitsLoseNothing(t, func(t *testing.T) string { return server.Database(t) })
	})
}

func killedFitsLoseNothing(t *testing.T, fresh storetest.Maker) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	calm := runFit(t, fresh(t), nil)
	for killed := 0; killed < kills; {
		location, stored := fresh(t), 0
		for ended := false; !ended; {
			until := func(number int) bool { return killed < kills && number-stored >= 1+rng.IntN(8) }
			out := runFit(t, location, until)
			ended = out.result != ""
			if !ended {
				killed++
			}
			stored = check(t, location, out, stored)
			if ended && out.result != calm.result {
				t.Errorf("found %q, undisturbed %q", out.result, calm.result)
			}
		}
	}
}

// check compares the database with what a fit said that it had stored, and
// returns how many trials the database has.
func check(t *testing.T, location string, out output, before int) int {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fits, err := s.Fits(t.Context())
	if errors.Is(err, os.ErrNotExist) || err == nil && len(fits) == 0 && out.stored == 0 {
		return 0
	}
	if err != nil || len(fits) != 1 {
		t.Fatalf("%+v, %v", fits, err)
	}
	res, err := store.Result(t.Context(), s, fits[0])
	if err != nil {
		t.Fatal(err)
	}
	n := len(res.Trials)
	for i, tr := range res.Trials {
		if tr.Number != i+1 || tr.Result == nil || tr.Result.Peak == nil {
			t.Errorf("trial %d is stored as %+v", i+1, tr)
		}
	}
	if n < out.stored || n > out.made && out.made > 0 {
		t.Errorf("%d trials in the store, %d made, %d said to be stored", n, out.made, out.stored)
	}
	if out.first > 0 && out.first != before+1 {
		t.Errorf("went on with trial %d after %d", out.first, before)
	}
	if out.result != "" && fits[0].State != store.Done {
		t.Errorf("state %s", fits[0].State)
	}
	return n
}

// output is what a fit wrote: the last trials it made and stored, the first it
// made, and its result.
type output struct {
	made, stored, first int
	result              string
}

// runFit runs a fit as a process, and kills it when kill says so of a line.
func runFit(t *testing.T, location string, kill func(number int) bool) output {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), runAsFit+"="+location)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out output
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.Atoi(rest)
		switch what {
		case "made":
			out.made = number
			if out.first == 0 {
				out.first = number
			}
		case "stored":
			out.stored = number
		case "found":
			out.result = rest
		default:
			t.Errorf("the fit says: %s", lines.Text())
		}
		if kill != nil && kill(number) {
			_ = cmd.Process.Kill() // it may have ended
			kill = nil
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		t.Fatalf("fit: %v", err)
	}
	return out
}
