package report

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/plot"
	"tare.dev/tare/internal/testkit/browsertest"
	"tare.dev/tare/internal/trial"
)

var pictures = flag.String("pictures", "", "folder for pictures of the HTML reports")

// richResult is a fit with all that a report can show.
func richResult(t *testing.T) *fit.Result {
	t.Helper()
	r := fitResult(t)
	full := r.Setup
	for i, point := range []struct {
		heap int64
		rate int64
		v    trial.Verdict
	}{{24, 8, trial.Thrashing}, {30, 71, trial.TooSlow}, {40, 160, trial.Passed}, {52, 174, trial.Passed}, {64, 177, trial.Passed}, {96, 181, trial.Passed}} {
		setup := fit.Setup{Env: full.Env, Options: slices.Clone(full.Options)}
		setup.Options[1] = fmt.Sprintf("-Xmx%dm", point.heap)
		l := &load.Result{Due: point.rate * 10, Sent: point.rate * 10, OK: point.rate * 10, Elapsed: 10 * time.Second, Latency: load.Latency{P99: load.TimeOf(900 * time.Millisecond)}}
		speed, _ := l.Throughput()
		m := trial.Measured{Load: l, Start: 2800 * time.Millisecond}
		r.Trials = append(r.Trials, fit.Trial{
			Attempt: fit.Attempt{Number: 10 + i, Phase: fit.PhaseHeap, Setup: setup, LimitBytes: 512 * MiB},
			Outcome: fit.Outcome{Passed: point.v == trial.Passed, Verdict: point.v, Throughput: speed, Measured: m, PeakBytes: 160 * MiB,
				Result: &trial.Result{Verdict: point.v, Load: l, Evidence: []string{"<script>alert('evidence')</script> \x1b[31m"}}}})
	}
	r.Trials[0].Result.Peak = &footprint.Footprint{RSSBytes: 290 * MiB, Rows: []footprint.Row{
		{Owner: footprint.JavaHeap, ResidentBytes: 120 * MiB}, {Owner: footprint.Malloc, ResidentBytes: 80 * MiB}, {Owner: footprint.MappedFiles, ResidentBytes: 50 * MiB},
		{Owner: footprint.GC, ResidentBytes: 4 * MiB}, {Owner: footprint.ThreadStacks, ResidentBytes: 36 * MiB}}}
	r.Baseline = r.Trials[0]
	return r
}

func failedResult(t *testing.T) *fit.Result {
	t.Helper()
	r := fitResult(t)
	r.Found = fit.Found{Trials: r.Trials[:1]}
	r.Peak, r.Archive = nil, ""
	return r
}

func withoutLoad(t *testing.T) *fit.Result {
	t.Helper()
	r := fitResult(t)
	r.Config.Load = load.Description{}
	for i := range r.Trials {
		r.Trials[i].Measured.Load, r.Trials[i].Throughput = nil, 0
	}
	r.Confirmations = r.Trials[6:]
	r.Baseline, r.AsGiven = r.Trials[0], r.Trials[1]
	return r
}

// writePage writes a report and returns its URL.
func writePage(t *testing.T, r *fit.Result, failure error) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	var b bytes.Buffer
	if err := document.WriteHTML(&b, FitPage(r, failure)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// views are how pages are looked at.
var views = map[string]browsertest.View{"desk": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Dark: true}, "phone": {Width: 390, Height: 844},
	"phone-dark": {Width: 390, Height: 844, Dark: true}, "print": {Width: 794, Height: 1123, Print: true}}

func checkWidth(t *testing.T, page *browsertest.Page) {
	t.Helper()
	var overflow int
	page.Eval(t, "document.documentElement.scrollWidth - document.documentElement.clientWidth", &overflow)
	if overflow > 0 {
		t.Errorf("%d pixels wider than the screen", overflow)
	}
}

// The page in a browser: on a desk, on a phone, dark and printed.
func TestFitHTMLInABrowser(t *testing.T) {
	browser := browsertest.Start(t)
	tests := []struct {
		name    string
		result  *fit.Result
		failure error
		plots   int
		columns int
	}{
		{"whole", richResult(t), nil, 3, 8},
		{"failed", failedResult(t), errors.New("no limit could be confirmed: at 512 MiB a run was oom-killed"), 1, 8},
		{"without-load", withoutLoad(t), nil, 2, 6},
	}
	for _, tt := range tests {
		page := browser.Open(t, writePage(t, tt.result, tt.failure), views["desk"])
		for name, v := range views {
			if tt.name != "whole" && (v.Dark || v.Print) {
				continue // they differ in colours alone
			}
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				page.Look(t, v)
				checkDrawn(t, page, tt.plots)
				checkWidth(t, page)
				if *pictures != "" {
					page.Screenshot(t, filepath.Join(*pictures, tt.name+"-"+name+".png"))
				}
			})
		}
		page.Look(t, views["desk"])
		checkSorting(t, page, len(tt.result.Trials), tt.columns)
		if p := page.Problems(); len(p) > 0 {
			t.Errorf("%s: the console says %q", tt.name, p)
		}
	}
}

// checkDrawn checks that each plot is visible once, is named, and that marks
// and text lie inside it.
func checkDrawn(t *testing.T, page *browsertest.Page, plots int) {
	t.Helper()
	var seen []struct {
		Kind, Name string
		Marks      int
		Outside    []string
		Font       float64
	}
	page.Eval(t, `[...document.querySelectorAll("svg.plot")].filter(s => s.getClientRects().length > 0).map(s => {
		const box = s.getBoundingClientRect(), scale = box.width / s.viewBox.baseVal.width;
		const out = [...s.querySelectorAll("text,.dot,.ring,.cross,.bar,.line,.heat")].filter(e => { const r = e.getBoundingClientRect();
			return r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1; });
		return {kind: s.dataset.plot, name: s.querySelector("title").textContent, marks: s.querySelectorAll(".dot,.bar,.heat").length, outside: out.map(e => e.outerHTML), font: 12 * scale};
	})`, &seen)
	if len(seen) != plots {
		t.Errorf("%d plots are visible, want %d", len(seen), plots)
	}
	for _, s := range seen {
		if s.Name == "" || s.Marks == 0 && plots > 1 || len(s.Outside) > 0 || s.Font < 10 {
			t.Errorf("plot %+v", s)
		}
	}
}

// checkSorting presses every column of the table of trials twice.
func checkSorting(t *testing.T, page *browsertest.Page, trials, want int) {
	t.Helper()
	var columns int
	page.Eval(t, `document.querySelectorAll("#trials th").length`, &columns)
	if columns != want {
		t.Fatalf("%d columns", columns)
	}
	for i := range columns {
		for _, direction := range []string{"first", "again"} {
			var got struct {
				Sort  string
				Texts []string
				Keys  []*float64
			}
			page.Eval(t, fmt.Sprintf(`(() => { const h = document.querySelectorAll("#trials th")[%d]; h.querySelector("button").click();
				const cells = [...document.querySelectorAll("#trials tbody tr")].map(r => r.cells[%d]);
				return {sort: h.getAttribute("aria-sort"), texts: cells.map(c => c.textContent), keys: cells.map(c => c.dataset.sort === undefined ? null : +c.dataset.sort)}; })()`, i, i), &got)
			if len(got.Texts) != trials {
				t.Errorf("column %d: %d rows, want %d", i, len(got.Texts), trials)
			}
			if got.Sort == "descending" {
				slices.Reverse(got.Texts)
				slices.Reverse(got.Keys)
			} else if got.Sort != "ascending" {
				t.Errorf("column %d is sorted %q, %s", i, got.Sort, direction)
			}
			sorted := got.Keys[0] == nil && slices.IsSorted(got.Texts) ||
				got.Keys[0] != nil && slices.IsSortedFunc(got.Keys, func(a, b *float64) int { return cmp.Compare(*a, *b) })
			if !sorted {
				t.Errorf("column %d is %q, %s", i, got.Texts, direction)
			}
		}
	}
}

// What comes from outside is text.
func TestFitHTMLEscapes(t *testing.T) {
	r := richResult(t)
	const evil = `"><img src=x onerror=alert(1)>`
	r.Warnings = []string{evil}
	r.Config.Java.Version = evil
	r.Config.Command.Main[1] = evil
	r.Setup.Options = append(r.Setup.Options, "-D"+evil)
	r.Levers[2].Reason = evil
	var b bytes.Buffer
	if err := document.WriteHTML(&b, FitPage(r, nil)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<img") || strings.Contains(b.String(), "<script>alert") || strings.Contains(b.String(), "\x1b") {
		t.Error("markup from outside is in the page")
	}
	if strings.Contains(b.String(), "ZgotmplZ") || strings.Contains(b.String(), "http://127.0.0.1/") {
		t.Error("the template refused something")
	}
}

func TestDockerfileLines(t *testing.T) {
	r := fitResult(t)
	got := strings.Join(dockerfileLines(r, imageSetup(r)), "\n")
	for _, want := range []string{"RUN timeout -s TERM 60 java", "ENV MALLOC_ARENA_MAX=\"1\"\n", `ENV JAVA_TOOL_OPTIONS="-XX:+UseSerialGC -Xmx52m `} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	r.Config.Command = jvmopts.Command{Java: "/opt/shop/bin/start.sh", Args: []string{"--port", "8080"}}
	got = strings.Join(trainLines(r, imageSetup(r)), " ")
	if words, script, _ := strings.Cut(got, " timeout -s TERM 60 "); !strings.HasPrefix(words, "RUN JAVA_TOOL_OPTIONS='-XX:+UseSerialGC -Xmx52m ") || script != "/opt/shop/bin/start.sh --port 8080 || [ $? -ge 124 ]" {
		t.Errorf("a script does not get its JVM's options by a variable: %s", got)
	}
	if got := DockerfileQuote(`a"b\c$d`); got != `"a\"b\\c\$d"` {
		t.Error(got)
	}
}

func TestHeapPlotMarksTheKnee(t *testing.T) {
	r := richResult(t)
	c := fit.NewHeapCurve(r.Trials, r.Config.Command.With())
	if c == nil || c.KneeBytes < 41*MiB || c.KneeBytes > 43*MiB || len(c.Points) != 6 {
		t.Fatalf("%+v", c)
	}
	p := heapPlot(r, c)
	for _, svg := range []string{p.Plot.SVG(plot.Wide), p.Plot.SVG(plot.Narrow)} {
		if !strings.Contains(svg, ">knee, 4") || !strings.Contains(svg, ">recommended<") {
			t.Errorf("no knee in %s", svg)
		}
	}
}
