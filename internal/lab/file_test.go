package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/testkit/schematest"
	"tare.dev/tare/internal/yamlfile"
)

const good = `title: Stacks
run:
  jdk: "{jdk}"
  options: ["-Xss{xss}"]
  command: [-jar, app.jar, "{port}"]
  ready: tcp:{port}
  limit: 256m
factors:
  - name: jdk
    values: [8, 17]
  - name: xss
    values: [512k, 2m]
  - name: tuning
    variants:
      - name: none
      - {name: small, options: [-Xmx20m], env: {MALLOC_ARENA_MAX: 1}, limit: 128m}
exclude:
  - {jdk: 8, tuning: small}
include:
  - {jdk: 25, xss: 4m, tuning: none}
repeats: 2
seed: 7
measure: [rss, start]
claims:
  - {text: no cost, measure: rss, compare: {xss: [2m, 512k]}, expect: 0.9 .. 1.1}
published:
  - {where: {jdk: 17, xss: 2m}, measure: rss, value: 282336KiB}
`

func TestReadSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"unknown field", "repeats: 2", "repets: 2", `[21:1] unknown field "repets"`},
		{"duplicate key", "seed: 7", "repeats: 7", `"repeats" already defined`},
		{"no YAML", "title: Stacks", "title: [", "x.yaml: ["},
		{"type", "repeats: 2", "repeats: many", "repeats"},
		{"no title", "title: Stacks", "title: ''", "title is missing"},
		{"repeats", "repeats: 2", "repeats: 100000", "repeats 100000"},
		{"most repeats", "repeats: 2", "repeats: 3\nmostRepeats: 2", "mostRepeats 2: give 3, the repeats, to 1000"},
		{"factor name", "name: xss", "name: X S", `factor name "X S"`},
		{"factor twice", "name: xss", "name: jdk", `"jdk" is taken`},
		{"value twice", "[512k, 2m]", "[2m, 2m]", `value "2m" is empty or there twice`},
		{"values and variants", "values: [8, 17]", "values: [8, 17]\n    variants: [{name: a}]", "values or variants"},
		{"unknown factor", "{jdk: 8, tuning: small}", "{jdkk: 8}", `"jdkk" is no factor`},
		{"unknown value", "{jdk: 8, tuning: small}", "{jdk: 9}", `factor jdk has no value "9"`},
		{"included in part", "{jdk: 25, xss: 4m, tuning: none}", "{jdk: 25, xss: 4m}", "needs a value for each"},
		{"unknown name", "-Xss{xss}", "-Xss{xs}", "{xs} is not known"},
		{"idle factor", "-Xss{xss}", "-Xss1m", "factor xss changes nothing"},
		{"measure", "[rss, start]", "[rss, rsss]", `measure "rsss" is not known`},
		{"no measure", "measure: [rss, start]", "measure: []", "measure is missing"},
		{"load wanted", "[rss, start]", "[rss, throughput]", "throughput needs a load"},
		{"found alone", "[rss, start]", "[found]", "found is what a search finds"},
		{"limit found alone", "[rss, start]", "[rss, limit]", "limit is what a search for the smallest limit finds"},
		{"search for nothing", "seed: 7", "seed: 7\nsearch: {find: smallest limit}", "found is what a search finds"},
		{"confirmations", "measure: [rss, start]", "search: {find: smallest limit, confirmations: -1}\nmeasure: [found]", "-1 confirmations: give a number from 1"},
		{"confirmed number", "\"{port}\"]\n  ready: tcp:{port}\n  limit: 256m\n", "\"{port}\", \"{n}\"]\n  ready: tcp:{port}\n  limit: 256m\nsearch: {find: largest n, from: 1, to: 9, confirmations: 2}\n", "a number that is looked for is not"},
		{"huge number", "\"{port}\"]\n  ready: tcp:{port}\n  limit: 256m\n", "\"{port}\", \"{n}\"]\n  ready: tcp:{port}\n  limit: 256m\nsearch: {find: largest n, from: 1, to: 9223372036854775807}\n", "give a range of numbers from 1 to 9007199254740992"},
		{"largest factor", "measure: [rss, start]", "search: {find: largest jdk, from: 1, to: 9}\nmeasure: [found]", `"jdk" is taken already`},
		{"largest port", "measure: [rss, start]", "search: {find: largest port, from: 1, to: 9}\nmeasure: [found]", `"port" is taken already`},
		{"workload", "  limit: 256m", "  limit: 256m\n  workload: gmh", `workload "gmh": give jmh`},
		{"workload in an image", "  jdk: \"{jdk}\"\n", "  runner: docker\n  image: \"shop:{jdk}\"\n  workload: jmh\n", "leave out runner and image"},
		{"workload with ready", "  limit: 256m", "  limit: 256m\n  workload: jmh", "leave out ready, load and settle"},
		{"result of JMH", "[-jar, app.jar, \"{port}\"]\n  ready: tcp:{port}", "[-jar, app.jar, -rff, x.json]\n  workload: jmh", "leave out -rff"},
		{"measure of a service", "  ready: tcp:{port}\n", "  workload: jmh\n", "measure rss is of a program that keeps running"},
		{"measure of JMH", "[rss, start]", "[rss, jmh.score]", "measure jmh.score needs workload: jmh"},
		{"archive without training", "\"-Xss{xss}\"", "\"-Xss{xss}\", \"-XX:AOTCache={archive}\"", "give train"},
		{"training without archive", "  limit: 256m", "  limit: 256m\n  train: {options: [\"-XX:AOTCacheOutput={archive}\"]}", "which stands in no option of the run"},
		{"training of nothing", "[\"-Xss{xss}\"]", "[\"-Xss{xss}\", \"-XX:AOTCache={archive}\"]\n  train: {options: [-Xlog]}", "{archive} stands in no option of train"},
		{"launcher without path", "  limit: 256m", "  limit: 256m\n  launcher: [tare-exec]", "give its path"},
		{"limit", "limit: 256m", "limit: 256x", `"256x" is no size`},
		{"small limit", "limit: 256m", "limit: 4k", "no JVM starts in it"},
		{"ready", "ready: tcp:{port}", "ready: soon", `readiness "soon"`},
		{"no ready", "  ready: tcp:{port}\n", "", "when is it ready?"},
		{"no command", "command: [-jar, app.jar, \"{port}\"]", "command: []", "command is missing"},
		{"machine's memory", "  limit: 256m", "  machine: {memory: 3m}", `memory "3m": give whole MiB`},
		{"machine's setting", "  limit: 256m", "  machine: {settings: {/sys/kernel/mm/../../../etc/passwd: x}}", "give a file below"},
		{"runner", "  limit: 256m", "  limit: 256m\n  runner: podman", `runner "podman": give cgroup or docker`},
		{"runner without image", "  limit: 256m", "  limit: 256m\n  runner: docker", "runner: docker and image go together"},
		{"image without runner", "  limit: 256m", "  limit: 256m\n  image: shop:1", "runner: docker and image go together"},
		{"image and JDK", "  limit: 256m", "  limit: 256m\n  runner: docker\n  image: shop:1", "the JDK is the image's"},
		{"settle", "  limit: 256m", "  limit: 256m\n  settle: -1s", `"-1s" is no time`},
		{"expectation", "0.9 .. 1.1", "about 1", `expect "about 1"`},
		{"empty range", "0.9 .. 1.1", "1.1 .. 0.9", "the range is empty"},
		{"claim's value", "[2m, 512k]", "[2m, 1m]", `factor xss has no value "1m"`},
		{"claim's measure", "{text: no cost, measure: rss", "{text: no cost, measure: pss", "not among those of the experiment"},
		{"published value", "282336KiB", "282336 apples", `"282336 apples" is no size`},
		{"nothing left", "- {jdk: 8, tuning: small}\ninclude:\n  - {jdk: 25, xss: 4m, tuning: none}", "- {}", "nothing is left to run"},
		{"columns", "seed: 7", "seed: 7\ncolumns: gc", `"gc" is no factor`},
		{"search", "seed: 7", "seed: 7\nsearch: {find: fastest}", `"fastest"`},
		{"aliases", "seed: 7", "seed: &n 7\nsearch: *n", "aliases are not read"},
		{"documents", "title: Stacks", "title: A\n---\ntitle: B", "2 documents"},
		{"deep", "title: Stacks", "title: " + strings.Repeat("[", yamlfile.MaxBytes/2), "nested more than"},
		{"deep lists", "title: Stacks", "title:\n  " + strings.Repeat("- ", yamlfile.MaxBytes/4), "nested more than"},
		{"empty", good, "", "the file is empty"},
		{"too large", good, strings.Repeat("#", yamlfile.MaxBytes+1), "not an experiment file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.new, 1)
			if text == good {
				t.Fatal("the test changes nothing")
			}
			e, err := Read(strings.NewReader(text), "x.yaml")
			var mistake *FileError
			if !errors.As(err, &mistake) || e != nil {
				t.Fatalf("got %v, %v", e, err)
			}
			if !strings.HasPrefix(err.Error(), "x.yaml: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
			if line, _, _ := strings.Cut(err.Error(), "\n"); len(line) > 400 {
				t.Errorf("the first line has %d bytes", len(line))
			}
		})
	}
}

func TestReadShowsThePlace(t *testing.T) {
	_, err := Read(strings.NewReader(strings.Replace(good, "jdk: 8, tuning: small", "jdk: 9", 1)), "x.yaml")
	if err == nil || !strings.Contains(err.Error(), "x.yaml: [18:") || !strings.Contains(err.Error(), "^") || !strings.Contains(err.Error(), "> 18 |") {
		t.Errorf("got %v", err)
	}
}

func TestCells(t *testing.T) {
	e, err := Read(strings.NewReader(good), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cells := e.Cells()
	var keys []string
	hashes := map[string]bool{}
	for _, c := range cells {
		keys = append(keys, e.Key(c))
		hashes[e.Hash(c)] = true
	}
	want := "jdk=8 xss=512k tuning=none|jdk=8 xss=2m tuning=none|jdk=17 xss=512k tuning=none|jdk=17 xss=512k tuning=small|" +
		"jdk=17 xss=2m tuning=none|jdk=17 xss=2m tuning=small|jdk=25 xss=4m tuning=none"
	if got := strings.Join(keys, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(hashes) != len(cells) {
		t.Errorf("%d hashes of %d cells", len(hashes), len(cells))
	}
	small := cells[3].Run
	if strings.Join(small.Options, " ") != "-Xss512k -Xmx20m" || small.Env["MALLOC_ARENA_MAX"] != "1" || small.Limit != "128m" || small.JDK != "17" {
		t.Errorf("%+v", small)
	}
	if small.Command[2] != "{port}" || e.Run.Options[0] != "-Xss{xss}" || cells[2].Run.Limit != "256m" {
		t.Errorf("%+v", cells[2].Run)
	}
}

func TestPlanIsRepeatable(t *testing.T) {
	e, err := Read(strings.NewReader(good), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (out []string) {
		for _, j := range e.Plan() {
			out = append(out, e.Key(j.Cell))
		}
		return out
	}
	first := keys()
	if strings.Join(first, "|") != strings.Join(keys(), "|") {
		t.Error("the same seed gives another order")
	}
	cells := len(e.Cells())
	for round := range e.Repeats {
		seen := map[string]bool{}
		for _, k := range first[round*cells : (round+1)*cells] {
			seen[k] = true
		}
		if len(seen) != cells {
			t.Errorf("round %d has %d of %d cells", round+1, len(seen), cells)
		}
	}
	e.Seed++
	if strings.Join(first, "|") == strings.Join(keys(), "|") {
		t.Error("another seed gives the same order")
	}
}

// After the plan only the cells of unclear claims run on, all in the same round.
func TestPendingGoesOnWithUnclearClaims(t *testing.T) {
	const file = `title: x
factors: [{name: f, values: [a, b, c]}]
run: {command: [a, "{f}"], ready: "tcp:1"}
measure: [rss]
repeats: 2
mostRepeats: 4
claims:
  - {text: noise, measure: rss, compare: {f: [a, b]}, expect: <= 1}
  - {text: clear, measure: rss, compare: {f: [b, c]}, expect: <= 1}
`
	e, err := Read(strings.NewReader(file), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{Experiment: e, Results: &Results{have: map[runKey]bool{}}}
	run := func(c Cell, round int, rss float64) {
		l.Results.add(Record{Hash: e.Hash(c), Round: round, Values: map[string]float64{"rss": rss}})
	}
	pending := func() string {
		var jobs []string
		for _, j := range l.Pending() {
			jobs = append(jobs, fmt.Sprintf("%s%d", j.Cell.Labels[0], j.Round))
		}
		slices.Sort(jobs)
		return strings.Join(jobs, " ")
	}
	cells := e.Cells()
	a, b, c := cells[0], cells[1], cells[2]
	steps := []struct {
		runs func()
		want string
	}{
		{func() {}, "a1 a2 b1 b2 c1 c2"},
		{func() { run(a, 1, 1); run(b, 1, 2); run(c, 1, 18) }, "a2 b2 c2"},
		{func() { run(a, 2, 2); run(b, 2, 1); run(c, 2, 9) }, "a3 b3"},
		{func() { run(b, 3, 1) }, "a3"}, // interrupted within a round
		{func() { run(a, 3, 2) }, "a4 b4"},
		{func() { run(a, 4, 1); run(b, 4, 1) }, ""},
	}
	for i, s := range steps {
		s.runs()
		if got := pending(); got != s.want {
			t.Errorf("step %d: pending %q, want %q", i, got, s.want)
		}
	}
	e.MostRepeats = 6
	if got := pending(); got != "a5 b5" {
		t.Errorf("with more repeats: %q", got)
	}
	run(a, 5, 1e9)
	run(b, 5, 1e9)
	if err := e.Restrict(Where{}, 5); err != nil || pending() != "" {
		t.Errorf("with --rounds 5: %q, %v", pending(), err)
	}
}

// The schema for editors and the checks of Read must agree.
func TestSchemaAgrees(t *testing.T) {
	schema := schematest.Compile(t, FileSchema, "")
	files, err := filepath.Glob("../../experiments/*.yaml")
	services, servicesErr := filepath.Glob("../../experiments/services/*.yaml")
	if files = append(files, services...); err != nil || servicesErr != nil || len(services) == 0 {
		t.Fatalf("%d experiments, %d of them of services, %v, %v", len(files), len(services), err, servicesErr)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Read(strings.NewReader(string(b)), name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range e.Published {
			if p.Why == "" && e.Remarks == "" {
				t.Errorf("%s: no reason why %s differs from the published %s", name, p.Measure, p.Value)
			}
		}
		if err := schema.Validate(decoded(t, string(b))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := schema.Validate(decoded(t, good)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{{"repeats: 2", "repets: 2"}, {"name: xss", "name: X S"}, {"[rss, start]", "[]"},
		{"values: [8, 17]", "values: [8, 17]\n    variants: [{name: a}]"}, {"text: no cost, ", ""}, {"ready:", "redy:"}, {"seed: 7", "search: {find: fastest}"},
		{"  limit: 256m", "  runner: podman"}, {"  limit: 256m", "  load: {urls: ['http://127.0.0.1:{port}/'], duration: 1s, requests: -1}"}} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, err := Read(strings.NewReader(text), "x.yaml"); err == nil {
			t.Errorf("Read takes %q", change[1])
		}
		if err := schema.Validate(decoded(t, text)); err == nil {
			t.Errorf("the schema takes %q", change[1])
		}
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add("title: x\nrun: {command: [a], ready: 'tcp:1'}\nmeasure: [rss]\n")
	f.Add("title: x\nrun: {command: [a, '{n}'], ready: 'tcp:1'}\nmeasure: [found]\nsearch: {find: largest n, from: 1, to: 9}\n")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Read(strings.NewReader(text), "x.yaml")
		if err != nil {
			return
		}
		cells := e.Cells()
		if len(cells) == 0 || len(e.Plan()) != len(cells)*e.Repeats {
			t.Fatalf("%d cells, %d jobs", len(cells), len(e.Plan()))
		}
		for _, c := range cells {
			if len(c.Labels) != len(e.Factors) {
				t.Fatalf("cell %q of %d factors", c.Labels, len(e.Factors))
			}
			if _, err := c.Run.spec(Place{Dir: "/"}, 1); err != nil {
				t.Fatalf("%s was accepted: %v", e.Key(c), err)
			}
		}
	})
}

// A load of a number of requests is the work of the trial.
func TestLoadOfRequests(t *testing.T) {
	e, err := Read(strings.NewReader(strings.Replace(good, "  limit: 256m", "  load: {urls: ['http://127.0.0.1:{port}/'], duration: 9s, requests: 50}", 1)), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Cells()[0].Run.spec(Place{Dir: "/"}, 1)
	if err != nil || s.Work.Measured != 50 || !s.Work.Due || s.Duration != 9*time.Second {
		t.Errorf("%+v, %v, %v", s.Work, s.Duration, err)
	}
}
