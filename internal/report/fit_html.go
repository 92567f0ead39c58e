package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"tare/internal/fit"
	"tare/internal/linux"
)

//go:embed fit.html
var fitPage string

var fitTemplate = template.Must(template.New("fit").Parse(fitPage))

// fitView is what the page shows.
type fitView struct {
	Title, Lead, Failure string
	Tiles                []tile
	// Load says that answers were counted.
	Load bool
	// WaitedFor is the heading of the times that users wait for.
	WaitedFor  string
	Comparison [][]string
	Kept       []keptLever
	Dropped    []droppedLever
	Effects    [][]string
	Recipe     []recipe
	Plots      []drawn
	Trials     []trialRow
	Conditions []string
	Warnings   []string
	Style      template.CSS
	Script     template.JS
	// Policy forbids everything but the page's own style and script.
	Policy string
}

type tile struct{ Name, Value, Note string }

type keptLever struct{ Name, Saves, Options, Why, Cost, Breaks string }

type droppedLever struct{ Name, Reason string }

type recipe struct{ Name, Text string }

// cell is a text, and the number that it is sorted by.
type cell struct {
	Text string
	Sort float64
}

type trialRow struct {
	Number                          int
	Limit, Speed, P99, Start, Peak  cell
	What, Options, Verdict, Details string
	Passed                          bool
}

// FitHTML writes a fit as one HTML page that needs no network; failure is why
// there is no recommendation, or nil.
func FitHTML(w io.Writer, r *fit.Result, failure error) error {
	v := fitView{Title: subject(r), Plots: fitPlots(r), Trials: trialRows(r), Conditions: conditions(r), Style: template.CSS(pageStyle), Script: template.JS(sortScript),
		Policy: pagePolicy()}
	for _, warning := range r.Warnings {
		v.Warnings = append(v.Warnings, linux.Printable(warning))
	}
	last := 0
	for _, l := range r.Levers {
		if l.Kept {
			v.Kept = append(v.Kept, keptLever{l.Lever.Name, savedText(l, last), shorten(setupText(l.Setup)), l.Lever.Why, l.Lever.Cost, l.Lever.Breaks})
			last = l.Trial
		}
	}
	v.Dropped, v.Effects = droppedLevers(r), effectRows(r)
	v.Comparison, v.WaitedFor, v.Load = comparison(r), waitedFor(r), measureOf(r).unit == "/s"
	if failure != nil {
		v.Failure = linux.Printable(failure.Error())
		v.Title += ": no answer"
	} else {
		v.Title += " fits in " + Limit(r.LimitBytes)
		v.Lead = answer(r, Style{})
		v.Tiles, v.Recipe = tiles(r), recipes(r)
	}
	if err := fitTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// subject names the application.
func subject(r *fit.Result) string {
	c := r.Config.Command
	if jar := c.Jar(); jar != "" {
		return linux.Printable(filepath.Base(jar))
	}
	if len(c.Main) > 0 {
		return linux.Printable(c.Main[len(c.Main)-1])
	}
	return "the application"
}

func tiles(r *fit.Result) []tile {
	rec, given := Recommended(r), r.AsGiven
	out := []tile{{"memory", Limit(r.LimitBytes), was(memoryChange(r), asGiven(r))}}
	if a, b := given.Measured.Load, rec.Measured.Load; b != nil {
		tp, p99 := tile{Name: "good answers", Value: Rate(rec.Throughput) + "/s"}, tile{Name: "p99", Value: Duration(b.Latency.P99)}
		if a != nil {
			tp.Note = was(Change(given.Throughput, rec.Throughput), Rate(given.Throughput)+"/s")
			p99.Note = was(Change(a.Latency.P99.Seconds(), b.Latency.P99.Seconds()), Duration(a.Latency.P99))
		}
		out = append(out, tp, p99)
	}
	return append(out, tile{waitedFor(r), Duration(waited(rec)), was(Change(waited(given).Seconds(), waited(rec).Seconds()), Duration(waited(given)))})
}

func was(change, before string) string {
	if change == "" {
		return ""
	}
	return change + " · as given " + before
}

func comparison(r *fit.Result) [][]string {
	var rows [][]string
	for _, run := range []struct {
		name string
		t    fit.Trial
	}{{"as given, ample memory", r.Baseline}, {"as given, smallest that passed", r.AsGiven}, {"recommended", Recommended(r)}} {
		if run.t.Number > 0 {
			rows = append(rows, append(comparisonRow(run.name, run.t), Size(run.t.PeakBytes)))
		}
	}
	return rows
}

func recipes(r *fit.Result) []recipe {
	image := imageSetup(r)
	var out []recipe
	if r.Config.Image == nil {
		out = append(out, recipe{"On this machine", continued(shellLines(localCommand(r)))})
	}
	out = append(out, recipe{"docker run", continued(dockerLines(r, image))})
	if lines := dockerfileLines(r, image); len(lines) > 0 {
		out = append(out, recipe{"Dockerfile", strings.Join(lines, "\n")})
	}
	return append(out, recipe{"Kubernetes, of the container", strings.Join(kubernetesLines(r, image), "\n")})
}

// continued joins lines to what a shell reads as one command.
func continued(lines []string) string { return strings.Join(lines, " \\\n  ") }

// dockerfileLines are the lines that bring archive, options and environment into
// an image.
func dockerfileLines(r *fit.Result, image fit.Setup) []string {
	var lines []string
	if r.Setup.Jar != "" {
		lines = append(lines, copyLine(r))
	}
	if r.Archive != "" {
		lines = append(lines, continued(trainLines(r, image)))
	}
	env := image.Env
	if len(image.Options) > 0 {
		env = append(append([]string{}, env...), "JAVA_TOOL_OPTIONS="+r.Config.ToolOptions(image.Options))
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		lines = append(lines, "ENV "+name+"="+dockerfileQuote(value))
	}
	if len(lines) > 0 && r.Config.Image != nil {
		lines = append([]string{"FROM " + r.Config.Image.Name}, lines...)
	}
	return lines
}

// dockerfileQuote quotes a value of ENV (Dockerfile reference, "Environment
// replacement": backslash escapes, and $ begins a variable).
func dockerfileQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}

func trialRows(r *fit.Result) []trialRow {
	var rows []trialRow
	for _, t := range r.Trials {
		row := trialRow{Number: t.Number, Limit: bytesCell(t.LimitBytes), Peak: bytesCell(t.PeakBytes / MiB * MiB), Passed: t.Passed, Verdict: string(t.Verdict), What: string(t.Phase),
			Speed: cell{"–", -1}, P99: cell{"–", -1}, Start: cell{"–", -1}, Options: shorten(setupText(t.Setup))}
		if t.Lever != "" {
			row.What = "+ " + t.Lever
		}
		if t.Repeat > 0 {
			row.What += ", again"
		}
		if t.Narrow && !t.Passed {
			row.Verdict += ", narrowly"
		}
		if l := t.Measured.Load; l != nil {
			row.Speed, row.P99 = cell{Rate(l.Throughput()), l.Throughput()}, cell{Duration(l.Latency.P99), l.Latency.P99.Seconds()}
		}
		if s := waited(t); s > 0 {
			row.Start = cell{Duration(s), s.Seconds()}
		}
		if t.Result != nil {
			row.Details = linux.Printable(strings.Join(t.Result.Evidence, "; "))
		}
		rows = append(rows, row)
	}
	return rows
}

func bytesCell(n int64) cell { return cell{Limit(n), float64(n)} }
