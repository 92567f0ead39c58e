package fit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

// memory is a journal that stores JSON in memory.
type memory struct {
	steps  []string
	making []string
}

func (m *memory) Began() time.Time { return time.Time{} }

func (m *memory) Past() []Step {
	var out []Step
	for _, text := range m.steps {
		var s Step
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		out = append(out, s)
	}
	return out
}

func (m *memory) Keep(_ context.Context, s Step) error {
	text, err := json.Marshal(s)
	m.steps = append(m.steps, string(text))
	return err
}

func (m *memory) Making(_ context.Context, file string) error {
	m.making = append(m.making, file)
	return nil
}

// application is a simulated one whose outcomes depend on the attempt alone.
func application() *simulated {
	return &simulated{rng: rand.New(rand.NewPCG(1, 1)), needs: 300 * mib, live: 10 * mib, minHeap: 30 * mib, fixed: 20 * mib,
		saves: map[string]int64{"-XX:TieredStopAtLevel=1": 40 * mib, "-XX:SharedArchiveFile=/archive/app.jsa": 12 * mib}}
}

// cutting ends the search at one call.
type cutting struct {
	Trier
	left int
}

var errCut = errors.New("cut off")

func (c *cutting) Try(ctx context.Context, a Attempt) (Outcome, error) {
	if c.left--; c.left < 0 {
		return Outcome{}, errCut
	}
	return c.Trier.Try(ctx, a)
}

func (c *cutting) Train(ctx context.Context, a Attempt, option string) (string, error) {
	if c.left--; c.left < 0 {
		return "", errCut
	}
	return c.Trier.Train(ctx, a, option)
}

// However often a search is cut off, it goes on and finds the same.
func TestSearchGoesOnAnywhere(t *testing.T) {
	want, err := application().search().Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(want.Trials) {
		m := &memory{}
		var got *Found
		made := 0
		for err = errCut; errors.Is(err, errCut); {
			app := application()
			s := app.search()
			s.Trier = NewRecorder(&cutting{app, cut + 1}, Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Journal: m, ArchiveDir: "/archive", ArchivesInside: "/archive"})
			got, err = s.Run(t.Context())
			made += app.trials
		}
		if err != nil || got.LimitBytes != want.LimitBytes || !got.Setup.Same(want.Setup) {
			t.Fatalf("cut at %d: %v, %+v, want %+v", cut, err, got, want)
		}
		if made != len(want.Trials) || len(got.Trials) != made {
			t.Errorf("cut at %d: %d trials made and %d reported, want %d", cut, made, len(got.Trials), len(want.Trials))
		}
		if !slices.Equal(slices.Compact(m.making), []string{"/archive/app.jsa"}) || len(m.making) > 2 { // two: cut before the training

			t.Errorf("cut at %d: made %q", cut, m.making)
		}
	}
}

func TestRecorderTellsDivergence(t *testing.T) {
	a := Attempt{Number: 1, Phase: PhaseBaseline, LimitBytes: 512 * mib}
	r := &Recorder{past: []Step{{Trial: &Trial{Attempt: a}}}}
	a.LimitBytes = 256 * mib
	_, err := r.Try(t.Context(), a)
	var diverged *DivergedError
	if !errors.As(err, &diverged) || !strings.Contains(err.Error(), "at 512 MiB") || !strings.Contains(err.Error(), "at 256 MiB") {
		t.Errorf("%v", err)
	}
	if _, err = r.Train(t.Context(), Attempt{}, "-XX:X"); !errors.As(err, &diverged) {
		t.Errorf("%v", err)
	}
}

func TestRecorderTakesArchives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.jsa")
	if err := os.WriteFile(file, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := fileDigest(t.Context(), runner.ThisHost(), file)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{config: Config{Runner: runnertest.OnlyHost(runner.ThisHost())}, past: []Step{
		{Training: &Training{Option: "-XX:X={archive}", File: file, Digest: sum}},
		{Training: &Training{Option: "-XX:X={archive}", Failure: "it wrote none"}}}}
	if got, err := r.Train(t.Context(), Attempt{}, "-XX:X={archive}"); err != nil || got != file || len(r.archives) != 1 {
		t.Errorf("%q, %v, %v", got, r.archives, err)
	}
	if _, err := r.Train(t.Context(), Attempt{}, "-XX:X={archive}"); !errors.Is(err, ErrNoArchive) || !strings.HasSuffix(err.Error(), ": it wrote none") {
		t.Errorf("%v", err)
	}
}

// post is a load of one request.
func post(body string, rate float64) Load {
	return NewLoad(load.HTTP{Plan: load.Plan{Targets: []load.Target{{Method: "POST", URL: "http://127.0.0.1:8080/", Body: []byte(body)}}, Concurrency: 8, Rate: rate}})
}

// A load that an earlier version stored reads as it was, and goes on with the
// same one of now.
func TestEarlierPlannedLoad(t *testing.T) {
	now := PlannedLoad{Description: post("x", 0).Description, Digest: post("x", 0).Loader.Digest()}
	earlier := `{"Targets":["POST http://127.0.0.1:8080/"],"Digest":"` + now.Digest + `","Command":null,"Concurrency":8,"Rate":0}`
	var was PlannedLoad
	if err := json.Unmarshal([]byte(earlier), &was); err != nil {
		t.Fatal(err)
	}
	if diff := (Plan{Load: was}).Differences(Plan{Load: now}); len(diff) > 0 || was.Concurrency != 8 {
		t.Errorf("%+v: %q", was, diff)
	}
}

func TestPlanDifferences(t *testing.T) {
	dir := t.TempDir()
	jar := filepath.Join(dir, "app.jar")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(jar, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	slo, err := trial.ParseSLO(trial.DefaultSLO)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := trial.ParseReady("tcp:8080")
	if err != nil {
		t.Fatal(err)
	}
	config := func() Config {
		return Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Command: jvmopts.Command{Java: "java", Main: []string{"-jar", "app.jar"}}, Java: Java{Version: "17.0.15", Home: "/jdk"}, Dir: dir,
			Env: []string{"SHELL=/bin/sh", "TOKEN=secret", "JAVA_TOOL_OPTIONS=-Xss1m"}, SLO: slo, Ready: ready, Levers: Levers, AmpleBytes: 512 * mib,
			Load: post("x", 0), Duration: time.Second}
	}
	base, err := NewPlan(t.Context(), config())
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(base); strings.Contains(text, "secret") {
		t.Errorf("a secret is stored: %s", text)
	}
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"nothing":     {func(*Config) {}, ""},
		"other shell": {func(c *Config) { c.Env[0] = "SHELL=/bin/bash" }, ""},
		"JDK":         {func(c *Config) { c.Java.Version = "21.0.3" }, "the JDK was 17.0.15 in /jdk, and is 21.0.3 in /jdk"},
		"options":     {func(c *Config) { c.Command.Options = []string{"-Xmx64m"} }, "the command was java -jar app.jar, and is java -Xmx64m -jar app.jar"},
		"environment": {func(c *Config) { c.Env[2] = "JAVA_TOOL_OPTIONS=-Xss2m" }, "the environment was JAVA_TOOL_OPTIONS=-Xss1m, and is JAVA_TOOL_OPTIONS=-Xss2m"},
		"added":       {func(c *Config) { c.Env = append(c.Env, "MODE=x"); c.AddedEnv = []string{"MODE=x"} }, "and is JAVA_TOOL_OPTIONS=-Xss1m MODE=x"},
		"rate":        {func(c *Config) { c.Load = post("x", 10) }, "the load was POST http://127.0.0.1:8080/, 8 at a time, and is POST http://127.0.0.1:8080/, 10 per second"},
		"body":        {func(c *Config) { c.Load = post("y", 0) }, "the load POST http://127.0.0.1:8080/, 8 at a time changed"},
		"lever":       {func(c *Config) { c.Levers = Levers[1:] }, "the list of levers was"},
		"SLO":         {func(c *Config) { c.SLO = nil }, "the objective was errors=0 cost<=1.1x, and is "},
		"jar":         {func(*Config) { write("two") }, "the application in app.jar changed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			write("one")
			c := config()
			tt.change(&c)
			now, err := NewPlan(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(base.Differences(now), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// What a plan stores is what a report of the fit needs.
func TestEndingIsTheResult(t *testing.T) {
	s := application().search()
	found, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]Trial, len(found.Trials)) // as the journal has them
	for i := range found.Trials {
		t := &found.Trials[i]
		t.Baseline = nil
		kept[i] = *t
		kept[i].Judged = Judged{}
	}
	found.Trials[1].Judged = Judged{SlowElsewhere: true, Pressed: true, LimitCost: 0.3}
	found.AtLimit, found.ProofCost = RelativeCost{1.06, 0.98, 1.15}, RelativeCost{0.9, 0.8, 1}
	slo, _ := trial.ParseSLO(trial.DefaultSLO)
	ready, _ := trial.ParseReady("tcp:8080")
	c := Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Command: jvmopts.Command{Java: "java", Options: []string{"-Xss1m"}, Main: []string{"-jar", "app.jar"}, Args: []string{"x"}}, SLO: slo, Ready: ready}
	r := &Result{Found: *found, Config: c.record(), Took: time.Minute, Warnings: []string{"w"}}
	p, err := NewPlan(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(NewEnding(r, nil))
	if err != nil {
		t.Fatal(err)
	}
	var e Ending
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	got, err := e.Result(p, time.Time{}, kept)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Config.Command.With(), c.Command.With()) || got.Config.SLO.String() != slo.String() || got.LimitBytes != r.LimitBytes ||
		got.Baseline.Number != r.Baseline.Number || len(got.Confirmations) != len(r.Confirmations) || (got.FailBelow == nil) != (r.FailBelow == nil) || len(got.Levers) != len(r.Levers) || !reflect.DeepEqual(got.Trials, r.Trials) {
		t.Errorf("got %+v, want %+v", got, r)
	}
	if _, err := e.Result(p, time.Time{}, kept[:2]); err == nil {
		t.Error("a missing trial goes unnoticed")
	}
}
