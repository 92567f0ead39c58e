package jmhreport

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/testkit/browsertest"
	"tare.dev/tare/internal/testkit/documenttest"
)

var (
	update   = flag.Bool("update", false, "rewrite the golden files")
	pictures = flag.String("pictures", "", "folder for pictures of the page")
)

func caches(t testing.TB) []jmh.Result {
	t.Helper()
	file, err := os.Open("../jmh/testdata/caches.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results, err := jmh.Read(file, "caches.json")
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s", file, got)
	}
}

func TestReports(t *testing.T) {
	report, err := Rank(caches(t), Options{Sort: "mem.retained"})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer, *Report) error{"report.txt": Text, "report.md": Markdown} {
		var out bytes.Buffer
		if err := write(&out, report); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
		for _, line := range strings.Split(out.String(), "\n") {
			if name == "report.txt" && len([]rune(line)) > 80 {
				t.Errorf("wider than 80: %s", line)
			}
		}
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), ReportSchema) {
		t.Error(err, string(text))
	}
}

// The page needs nothing else, is well formed where it must be, and what a
// result file says is never markup.
func TestPage(t *testing.T) {
	results := caches(t)
	const hostile = `<img src=x onerror=alert(1)>"'</script>`
	for i := range results {
		results[i].Params["cache"] += hostile
	}
	report, err := Rank(results, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := HTML(&out, report); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if strings.Contains(page, "<img") || strings.Count(page, "</script>") != 1 {
		t.Error("a parameter's value became markup")
	}
	if strings.Contains(page, "unsafe-inline") {
		t.Error("any style may stand in the page")
	}
	// Metrics have one width, the ranking has two.
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if want := 2 + len(report.Groups[0].Rankings); len(plots) != want {
		t.Errorf("%d plots, want %d", len(plots), want)
	}
	for _, plot := range plots {
		if err := xml.Unmarshal([]byte(plot), new(struct{})); err != nil {
			t.Errorf("%v in %.200s", err, plot)
		}
		for _, number := range regexp.MustCompile(` (?:x1?|x2|width|cx)="([^"]*)"`).FindAllStringSubmatch(plot, -1) {
			if strings.Contains(number[1], "NaN") || strings.HasPrefix(number[1], "-") {
				t.Errorf("coordinate %q", number[1])
			}
		}
	}
}

// The page is whole in every form, whatever a result file says.
func TestEveryForm(t *testing.T) {
	results := caches(t)
	for i := range results {
		results[i].Params["cache"] += "<b>|*\x1b[31m"
		delete(results[i].Metrics, []string{"score", "mem.retained"}[i%2])
	}
	report, err := Rank(results, Options{})
	if err != nil {
		t.Fatal(err)
	}
	documenttest.Check(t, page(report))
}

func TestRankings(t *testing.T) {
	report, err := Rank(caches(t), Options{Metrics: []string{"score", "mem.*"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Groups) != 1 || len(report.Groups[0].Contenders) != 4 {
		t.Fatalf("%+v", report)
	}
	g := report.Groups[0]
	for _, r := range g.Rankings {
		if r.HigherIsBetter != (r.Metric == "score") {
			t.Errorf("%s: higher is better: %v", r.Metric, r.HigherIsBetter)
		}
		for i := 1; i < len(r.Order); i++ {
			a, b := g.Contenders[r.Order[i-1]].Estimates[r.Metric], g.Contenders[r.Order[i]].Estimates[r.Metric]
			if a.Center != b.Center && (a.Center > b.Center) != r.HigherIsBetter {
				t.Errorf("%s is not in order", r.Metric)
			}
			if r.Tied[i] != (*a.Low <= *b.High && *b.Low <= *a.High) {
				t.Errorf("%s: tied %v at %d", r.Metric, r.Tied[i], i)
			}
		}
	}
	if i := slices.IndexFunc(g.Rankings, func(r Ranking) bool { return r.Metric == "mem.retained" }); g.Contenders[g.Rankings[i].Order[0]].Name != "guava" {
		t.Errorf("first by mem.retained: %s", g.Contenders[g.Rankings[i].Order[0]].Name)
	}
}

func TestGroups(t *testing.T) {
	small := caches(t)
	large := caches(t)
	for i := range large {
		large[i].Params["entries"] = "40000"
	}
	report, err := Rank(append(small, large...), Options{Contender: "cache"})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Groups) != 2 || report.Groups[1].Name != "entries 40000" || report.Groups[1].Contenders[0].Name == "" {
		t.Errorf("%+v", report.Groups)
	}
	for i := range large {
		large[i].File = "other.json"
	}
	if report, err = Rank(append(small, large...), Options{Contender: "cache"}); err != nil || report.Groups[1].Name != "entries 40000" {
		t.Errorf("the file is no condition: %v, %+v", err, report)
	}
	if report, err = Rank(append(small, caches(t)...), Options{}); err != nil || len(report.Groups) != 1 || len(report.Groups[0].Contenders) != 8 {
		t.Errorf("two files of the same: %v, %+v", err, report)
	}
	for _, o := range []Options{{Contender: "color"}, {Metrics: []string{"nothing"}}, {Sort: "nothing"}, {Metrics: []string{"[x"}}} {
		if _, err := Rank(small, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestCompare(t *testing.T) {
	before, after := caches(t), caches(t)
	for i := range after {
		for f, fork := range after[i].Metrics["mem.retained"].Forks {
			for j := range fork {
				after[i].Metrics["mem.retained"].Forks[f][j] *= 1.2
			}
		}
	}
	after[0].Params["cache"] = "new"
	c, err := Compare(before, after, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.OnlyA) != 1 || len(c.OnlyB) != 1 {
		t.Errorf("only in A: %q, only in B: %q", c.OnlyA, c.OnlyB)
	}
	for _, ch := range c.Changes {
		if want := map[bool]Verdict{true: Worse, false: Same}[ch.Metric == "mem.retained"]; ch.Verdict != want {
			t.Errorf("%s of %s: %s, want %s", ch.Metric, ch.Benchmark, ch.Verdict, want)
		}
	}
	var text, markdown bytes.Buffer
	if err := CompareText(&text, c); err != nil {
		t.Fatal(err)
	}
	if err := CompareMarkdown(&markdown, c); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", text.Bytes())
	golden(t, "compare.md", markdown.Bytes())
}

func TestVerdicts(t *testing.T) {
	at := func(values ...float64) jmh.Estimate { return jmh.Metric{Forks: [][]float64{values}}.Estimate() }
	for _, c := range []struct {
		a, b   jmh.Estimate
		higher bool
		want   Verdict
	}{
		{at(1, 1, 1), at(2, 2, 2), false, Worse},
		{at(1, 1, 1), at(2, 2, 2), true, Better},
		{at(5, 5), at(5, 5), false, Same},
		{at(1, 2, 3), at(2, 3, 4), false, Same},
		{at(1), at(2, 2), false, TooFew},
		{at(1, 1.01, 1.02, 1.01), at(2, 2.01, 2.02, 2.01), false, Worse},
	} {
		if got := verdict(c.a, c.b, c.higher); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.a.Values, c.b.Values, got, c.want)
		}
	}
}

// In a browser, on a phone, a desk, in the dark and on paper, nothing is wider
// than the page, no text of a plot is cut off, and a click sorts the table.
func TestPageInChromium(t *testing.T) {
	report, err := Rank(caches(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var html bytes.Buffer
	if err := HTML(&html, report); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, html.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	page := browsertest.Start(t).Open(t, "file://"+file, browsertest.View{Width: 1280, Height: 900})
	for name, view := range map[string]browsertest.View{"desk": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Dark: true},
		"phone": {Width: 390, Height: 844}, "print": {Width: 794, Height: 1123, Print: true}} {
		page.Look(t, view)
		var seen struct {
			Overflow  int
			Cut, Wide []string
		}
		page.Eval(t, `({
			overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
			wide: [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML),
			cut: [...document.querySelectorAll("svg text")].filter(text => text.getClientRects().length > 0).filter(text => {
				const a = text.getBoundingClientRect(), b = text.closest("svg").getBoundingClientRect();
				return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
			}).map(e => e.outerHTML),
		})`, &seen)
		if seen.Overflow > 0 || len(seen.Cut) > 0 || len(seen.Wide) > 0 {
			t.Errorf("%s: %+v", name, seen)
		}
		if *pictures != "" {
			page.Screenshot(t, filepath.Join(*pictures, name+".png"))
		}
	}
	var first string
	page.Eval(t, `document.querySelectorAll("th button")[2].click(), document.querySelector("tbody td").textContent.trim().slice(-5)`, &first)
	if first != "guava" {
		t.Errorf("by the second metric %q comes first, want guava", first)
	}
	if p := page.Problems(); len(p) > 0 {
		t.Errorf("the console says %q", p)
	}
}

// Whatever a file says, a report of it can be written.
func FuzzReports(f *testing.F) {
	text, err := os.ReadFile("../jmh/testdata/caches.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		results, err := jmh.Read(bytes.NewReader(text), "x")
		if err != nil {
			return
		}
		report, err := Rank(results, Options{})
		if err != nil {
			return
		}
		for _, write := range []func(io.Writer, *Report) error{Text, Markdown, HTML} {
			if err := write(io.Discard, report); err != nil {
				t.Error(err)
			}
		}
	})
}
