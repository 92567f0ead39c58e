package budget

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/testkit/schematest"
	"tare.dev/tare/internal/yamlfile"
)

const good = `# What the shop may need.
build: make jar
run:
  jdk: 21
  command: [-jar, shop.jar, --port, "{port}"]
  limit: 512m
  ready: tcp:{port}
  load:
    urls: ["http://127.0.0.1:{port}/"]
    warmup: 30s
    warmupRequests: 500
    requests: 2000
    duration: 60s
most:
  needed: 180MiB # with the cache
  start: 5s
  "heap-live": "60MiB"
growth:
  metaspace: 2%
  malloc: 3% or 1MiB
  threads: default
`

func read(text string) (*Budget, error) { return Read(strings.NewReader(text), "b.yaml") }

func TestRead(t *testing.T) {
	b, err := read(good)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name   string
		growth bool
		most   float64
		floor  Floor
	}{
		{"needed", false, 180 << 20, Floor{0.01, 128 << 10}}, {"heap-live", false, 60 << 20, Floor{0.01, 128 << 10}}, {"start", false, 5, Floor{0.1, 0.2}},
		{"threads", true, 0, Floor{0.01, 1}}, {"metaspace", true, 0, Floor{0.02, 0}}, {"malloc", true, 0, Floor{0.03, 1 << 20}},
	}
	bounds := b.Bounds()
	if len(bounds) != len(want) || b.Runs != 8 || b.MostRuns != 24 {
		t.Fatalf("%+v", b)
	}
	for i, w := range want {
		if g := bounds[i]; g.Measure.Name != w.name || g.Growth != w.growth || g.Most != w.most || g.Floor != w.floor {
			t.Errorf("bound %d: %+v, want %+v", i, g, w)
		}
	}
	if n := len(b.Against(false, nil)); n != 3 {
		t.Errorf("%d bounds without a base", n)
	}
	if f := bounds[5].Floor; f.Of(10<<20) != 1<<20 || f.Of(100<<20) != 3<<20 {
		t.Errorf("%+v", f)
	}
}

// Growth that was accepted counts until the base has accepted it itself.
func TestAccepted(t *testing.T) {
	b, err := read(good + "accepted:\n  - {date: 2026-11-25, reason: cache, growth: {malloc: 2MiB}}\n")
	if err != nil {
		t.Fatal(err)
	}
	malloc := func(accepted []Acceptance) float64 {
		all := b.Against(true, accepted)
		return all[len(all)-1].Accepted
	}
	if got := malloc(nil); got != 2<<20 {
		t.Errorf("%g", got)
	}
	if got := malloc(b.Accepted); got != 0 {
		t.Errorf("against a base that has it: %g", got)
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"build: make jar", "bild: make jar", "[2:1] unknown field \"bild\""},
		{"  needed: 180MiB", "  neded: 180MiB", `measure "neded" is not known: one of needed, peak`},
		{"180MiB", "180 apples", `[15:11] "180 apples" is no size`},
		{"180MiB", "0", `"0": give more than 0`},
		{"start: 5s", "start: 5MiB", `"5MiB" is no time`},
		{"metaspace: 2%", "metaspace: -2%", `"-2%" is no share above 0%`},
		{"metaspace: 2%", "metaspace: much", "as a share such as 2%, or default"},
		{"3% or 1MiB", "3% or 1MiB or 2MiB", "one or the other"},
		{"    requests: 2000\n", "", "requests is missing"},
		{"    warmupRequests: 500\n", "", "warmupRequests is missing"},
		{"  command: [-jar, shop.jar, --port, \"{port}\"]\n", "", "command is missing"},
		{"  limit: 512m", "  limit: 1k", "no JVM starts in it"},
		{"  limit: 512m", "  slo: p99<1s", "leave out slo"},
		{"  limit: 512m", "  workload: jmh", "for tare lab"},
		{"build: make jar", "runs: 3", "[2:7] runs 3: give 4 to 100; fewer cannot tell growth from noise"},
		{"build: make jar", "mostRuns: 8", "mostRuns 8: give 16, twice the runs, to 400"},
		{"build: make jar", "accepted: [{growth: {malloc: 1MiB}}]", "reason: give one"},
		{"build: make jar", "accepted: [{reason: x, growth: {mallok: 1MiB}}]", `"mallok" is not known`},
		{good[strings.Index(good, "most:"):], "", "nothing is bounded"},
		{good, "", "the file is empty: see docs/check.md"},
		{good, strings.Repeat("#", yamlfile.MaxBytes+1), "not a memory budget"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q changes nothing", c.new)
		}
		b, err := read(text)
		var mistake *yamlfile.Error
		if !errors.As(err, &mistake) || b != nil || !strings.HasPrefix(err.Error(), "b.yaml: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.new, err, c.want)
		}
		if strings.HasPrefix(c.want, "[") && !strings.Contains(mistake.Excerpt, "^") {
			t.Errorf("%q: no caret in %q", c.new, mistake.Excerpt)
		}
	}
}

const (
	composed = `compose: {file: compose.yaml, service: web, fresh: [db], reset: {cache: redis-cli flushall}}
run: {ready: "http://127.0.0.1:8080/health", limit: 256m, settle: 1s}
growth: {heap-live: default}
`
	benchmarks = `build: mvn -q package
results:
  format: jmh
  command: java -jar target/benchmarks.jar Caches -f 1 -rf json -rff target/jmh.json
  files: [target/jmh.json]
most:
  Caches.read(cache=guava,keys=500)/mem.retained: 12MiB
growth:
  a.Caches.read/mem.alloc.norm: default
`
)

// A service of a Compose file, and results of benchmarks, whose names have dots.
func TestReadOtherSubjects(t *testing.T) {
	b, err := read(composed)
	if err != nil || b.Compose.Service != "web" || b.Compose.Reset["cache"] != "redis-cli flushall" || len(b.Bounds()) != 1 {
		t.Errorf("%v, %+v", err, b)
	}
	b, err = read(benchmarks)
	if err != nil {
		t.Fatal(err)
	}
	bounds := b.Bounds()
	if len(bounds) != 2 || bounds[0].Most != 12<<20 || bounds[0].Measure.Unit != lab.Bytes || bounds[1].Measure.Unit != lab.Number || bounds[1].Floor != (Floor{0.01, 0}) {
		t.Errorf("%+v", bounds)
	}
	if test, metric := SplitResult(bounds[1].Measure.Name); test != "a.Caches.read" || metric != "mem.alloc.norm" {
		t.Errorf("%q, %q", test, metric)
	}
	out, err := Accept([]byte(benchmarks), "b.yaml", Change{Acceptance: Acceptance{Date: "2026-11-25", Reason: "why", Growth: map[string]lab.Scalar{"a.Caches.read/mem.alloc.norm": "7"}},
		Most: map[string]lab.Scalar{"Caches.read(cache=guava,keys=500)/mem.retained": "13.0MiB"}})
	if err != nil || !strings.Contains(string(out), "mem.retained: 13.0MiB\n") || !strings.Contains(string(out), "'a.Caches.read/mem.alloc.norm': 7\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range []struct{ text, old, new, want string }{
		{composed, "service: web, ", "", "give file and service"},
		{composed, "limit: 256m", "limit: 256m, jdk: 21", "leave out image, runner, jdk and launcher"},
		{composed, `ready: "http://127.0.0.1:8080/health", `, "", "when is it ready?"},
		{composed, "limit: 256m", "limit: 1k", "no JVM starts in it"},
		{composed, "fresh:", "frash:", `unknown field "frash"`},
		{composed, "heap-live", "Caches.read/score", `measure "Caches.read/score" does not go with what is run`},
		{benchmarks, "format: jmh", "format: xml", `format "xml": give jmh or junit`},
		{benchmarks, "[target/jmh.json]", "[]", "files: name those"},
		{benchmarks, "[target/jmh.json]", "[/etc/passwd]", `[5:10] "/etc/passwd" is no pattern of files below`},
		{benchmarks, "[target/jmh.json]", "['[']", `"[" is no pattern of files`},
		{benchmarks, "  command: java", "  commund: java", `unknown field "commund"`},
		{benchmarks, "12MiB", "12", ""},
		{benchmarks, "12MiB", "much", `[7:51] "much" is no size`},
		{benchmarks, "a.Caches.read/mem.alloc.norm", "heap-live", `measure "heap-live" does not go with what is run`},
		{benchmarks, "a.Caches.read/mem.alloc.norm", "/score", `"/score" is no measure of results`},
		{benchmarks, "results:", "run: {limit: 1g}\nresults:", "give one of run, compose and results"},
		{benchmarks, "results:", "compose: {file: a, service: b}\nresults:", "give one of run, compose and results"},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		_, err := read(text)
		if text == c.text || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.new, err, c.want)
		}
	}
}

// What a base starts is its own, and what is put on it the head's.
func TestUnder(t *testing.T) {
	head, err := read(good)
	if err != nil {
		t.Fatal(err)
	}
	old, err := read(strings.NewReplacer("512m", "256m", "shop.jar", "old.jar", "requests: 2000", "requests: 10").Replace(good))
	if err != nil {
		t.Fatal(err)
	}
	base, err := old.Under(head)
	if err != nil || base.Run.Limit != "512m" || base.Run.Load.Requests != 2000 || base.Run.Command[1] != "old.jar" || old.Run.Limit != "256m" {
		t.Errorf("%v, %+v", err, base)
	}
	other, err := read(benchmarks)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Under(head); err == nil || err.Error() != "its budget checks results of jmh, and this one a command: they cannot be compared" {
		t.Error(err)
	}
}

// The schema for editors and the checks of Read agree.
func TestSchemaAgrees(t *testing.T) {
	schema := schematest.Compile(t, Schema, "")
	valid := func(text string) error {
		b, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	for _, text := range []string{good, composed, benchmarks} {
		if err := valid(text); err != nil {
			t.Error(err)
		}
	}
	all := "run: {command: [a], ready: 'tcp:1'}\nmost:\n"
	for _, m := range Measures() {
		all += "  " + m.Name + ": " + map[lab.Unit]string{lab.Bytes: "1MiB", lab.Seconds: "1s", lab.Count: "1"}[m.Unit] + "\n"
	}
	if _, err := read(all); err != nil {
		t.Error(err)
	}
	if err := valid(all); err != nil {
		t.Error(err)
	}
	for _, c := range [][3]string{{good, "build:", "bild:"}, {good, "needed:", "neded:"}, {good, "build: make jar", "runs: 3"}, {good, "    requests: 2000\n", ""}, {good, "  limit: 512m", "  workload: jmh"},
		{good, "command:", "options:"}, {composed, "service: web, ", ""}, {composed, "limit: 256m", "jdk: 21"}, {composed, "fresh:", "frash:"}, {benchmarks, "jmh\n", "xml\n"},
		{benchmarks, "results:", "run: {limit: 1g}\nresults:"}, {benchmarks, "[target/jmh.json]", "[]"}} {
		text := strings.Replace(c[0], c[1], c[2], 1)
		if _, err := read(text); err == nil {
			t.Errorf("Read takes %q", c[2])
		}
		if valid(text) == nil {
			t.Errorf("the schema takes %q", c[2])
		}
	}
}

// Accept changes what it is to change: comments, order and quotes of the rest stay.
func TestAccept(t *testing.T) {
	change := Change{Acceptance: Acceptance{Date: "2026-11-25", Reason: "it's # a: cache", Growth: map[string]lab.Scalar{"malloc": "1.5MiB"}},
		Most: map[string]lab.Scalar{"needed": "190.0MiB", "heap-live": "61.0MiB"}}
	once, err := Accept([]byte(good), "b.yaml", change)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("180MiB", "190.0MiB", `"60MiB"`, "61.0MiB").Replace(good) + `
# What was agreed to, and why: tare check accept.
accepted:
  - date: "2026-11-25"
    reason: 'it''s # a: cache'
    growth:
      malloc: 1.5MiB
`
	if string(once) != want {
		t.Errorf("got\n%s\nwant\n%s", once, want)
	}
	again := Change{Acceptance: Acceptance{Date: "2026-11-26", Reason: "more"}}
	after := string(once) + "\n# The end.\n"
	twice, err := Accept([]byte(after), "b.yaml", again)
	if err != nil || string(twice) != string(once)+"  - date: \"2026-11-26\"\n    reason: 'more'\n\n# The end.\n" {
		t.Errorf("%v\n%s", err, twice)
	}
	for name, text := range map[string]string{
		"flow":    good + "accepted: [{reason: x}]\n",
		"one map": "run: {command: [a], ready: 'tcp:1'}\nmost: {needed: &n 1MiB}\n",
	} {
		if out, err := Accept([]byte(text), "b.yaml", change); err == nil {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	inFlow := "run: {command: [a], ready: 'tcp:1'}\nmost: {needed: 1MiB, rss: 1MiB}\n"
	out, err := Accept([]byte(inFlow), "b.yaml", Change{Acceptance: Acceptance{Date: "x", Reason: "y"}, Most: map[string]lab.Scalar{"rss": "2.0MiB"}})
	if err != nil || !strings.Contains(string(out), "{needed: 1MiB, rss: 2.0MiB}") {
		t.Errorf("%v\n%s", err, out)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add("run: {command: [a], ready: 'tcp:1'}\nmost: {needed: 1MiB}\n")
	f.Add(composed)
	f.Add(benchmarks)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := read(text)
		if err != nil {
			return
		}
		if len(b.Bounds()) == 0 || b.Runs < leastRuns || b.MostRuns < 2*b.Runs {
			t.Fatalf("%+v", b)
		}
		change := Change{Acceptance: Acceptance{Date: "2026-11-25", Reason: "why"}}
		for name := range b.Most {
			m, _ := MeasureNamed(name)
			change.Most = map[string]lab.Scalar{name: map[lab.Unit]lab.Scalar{lab.Bytes: "7.0MiB", lab.Seconds: "7.00s", lab.Count: "7", lab.Number: "7"}[m.Unit]}
		}
		if out, err := Accept([]byte(text), "x", change); err == nil {
			if _, err := read(string(out)); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}

// The budgets of the documentation are read.
func TestDocumentedBudgets(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "check.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if _, err := read(text); err != nil {
			t.Error(err)
		}
		n++
	}
	if n == 0 {
		t.Error("docs/check.md shows no budget")
	}
}
