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
	if err := valid(good); err != nil {
		t.Error(err)
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
	for _, c := range [][2]string{{"build:", "bild:"}, {"needed:", "neded:"}, {"build: make jar", "runs: 3"}, {"    requests: 2000\n", ""}, {"  limit: 512m", "  workload: jmh"}} {
		text := strings.Replace(good, c[0], c[1], 1)
		if _, err := read(text); err == nil {
			t.Errorf("Read takes %q", c[1])
		}
		if valid(text) == nil {
			t.Errorf("the schema takes %q", c[1])
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
			change.Most = map[string]lab.Scalar{name: map[lab.Unit]lab.Scalar{lab.Bytes: "7.0MiB", lab.Seconds: "7.00s", lab.Count: "7"}[m.Unit]}
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
