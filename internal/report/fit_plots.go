package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/plot"
)

// measure is what tells how fast trials were: with load the higher the better,
// of jobs and without load a time.
type measure struct {
	axis, unit string
	of         func(fit.Trial) float64
}

func measureOf(r *fit.Result) measure {
	if slices.ContainsFunc(r.Trials, func(t fit.Trial) bool { return t.Measured.Load != nil }) {
		return measure{"good answers per second", "/s", func(t fit.Trial) float64 { return t.Throughput }}
	}
	if r.Config.Job {
		return measure{"time of the job, seconds", " s", secondsWaited}
	}
	return measure{"ready after, seconds", " s", secondsWaited}
}

// secondsWaited is no number where a trial did not come so far: it is not drawn.
func secondsWaited(t fit.Trial) float64 {
	if w := waited(t); w > 0 {
		return w.Seconds()
	}
	return math.NaN()
}

func mibs(bytes int64) float64 { return float64(bytes) / MiB }

// fitFigures are the plots of a fit, as far as there is something to draw.
func fitFigures(r *fit.Result) []document.Figure {
	var out []document.Figure
	if len(r.Trials) > 0 {
		out = append(out, frontierPlot(r))
	}
	if c := fit.NewHeapCurve(r.Trials, r.Config.Command.With()); c != nil {
		out = append(out, heapPlot(r, c))
	}
	if r.Peak != nil {
		out = append(out, footprintPlot(r))
	}
	return out
}

func figure(title, text string, p plot.Plot, numbers *document.Table) document.Figure {
	return document.Figure{Heading: document.Plain(title), Caption: document.Plain(text), Plot: p, Numbers: numbers}
}

func frontierPlot(r *fit.Result) document.Figure {
	m := measureOf(r)
	line := plot.Series{Name: "the best that passed", Tone: plot.Main, Line: true, Steps: true}
	for _, t := range fit.BestPassed(r.Trials) {
		line.Points = append(line.Points, plot.Point{X: mibs(t.LimitBytes), Y: m.of(t)})
	}
	if n := len(line.Points); n > 0 { // what passed with little passes with more
		end := line.Points[n-1]
		for _, t := range r.Trials {
			if !fit.Aside(t.Phase) {
				end.X = max(end.X, mibs(t.LimitBytes))
			}
		}
		line.Points = append(line.Points, end)
	}
	passed := plot.Series{Name: "passed", Tone: plot.Muted}
	failed := plot.Series{Name: "failed", Tone: plot.Bad, Shape: plot.Cross}
	for _, t := range r.Trials {
		if fit.Aside(t.Phase) || t.Number == r.AsGiven.Number || r.LimitBytes > 0 && t.Phase == fit.PhaseConfirm && t.Passed {
			continue
		}
		p := plot.Point{X: mibs(t.LimitBytes), Y: m.of(t), Title: trialTitle(t)}
		if t.Passed {
			passed.Points = append(passed.Points, p)
		} else {
			failed.Points = append(failed.Points, p)
		}
	}
	better := "Up"
	if m.unit == " s" {
		better = "Down"
	}
	c := plot.Chart{Title: "Memory against speed", Desc: "Each trial by its memory limit and how fast it was.",
		X: plot.Axis{Label: "memory limit, MiB", Unit: " MiB", Loose: true}, Y: plot.Axis{Label: m.axis, Unit: m.unit}, Series: []plot.Series{line, passed, failed}}
	if r.AsGiven.Number > 0 {
		c.Series = append(c.Series, plot.Series{Tone: plot.Other, Shape: plot.Diamond, Points: []plot.Point{
			{X: mibs(r.AsGiven.LimitBytes), Y: m.of(r.AsGiven), Label: "as given", Title: trialTitle(r.AsGiven)}}})
	}
	if r.LimitBytes > 0 {
		c.Series = append(c.Series, recommendedPoint(r, m))
	}
	if r.Baseline.Number > 0 {
		c.Rules = append(c.Rules, plot.Rule{At: m.of(r.Baseline), Label: "as given, ample memory", Tone: plot.Other})
	}
	return figure("Memory against speed", "Every trial by its limit. "+better+" and to the left is better; a bar through the recommended point spans its fresh runs.", c, bestPassedTable(r))
}

func recommendedPoint(r *fit.Result, m measure) plot.Series {
	rec := Recommended(r)
	p := plot.Point{X: mibs(r.LimitBytes), Y: m.of(rec), Label: "recommended", Title: fmt.Sprintf("recommended: %s, median of %d fresh runs", Limit(r.LimitBytes), len(r.Confirmations))}
	for i, t := range r.Confirmations {
		if i == 0 {
			p.Low, p.High = m.of(t), m.of(t)
		}
		p.Low, p.High = min(p.Low, m.of(t)), max(p.High, m.of(t))
	}
	return plot.Series{Tone: plot.Main, Points: []plot.Point{p}}
}

func trialTitle(t fit.Trial) string {
	what := string(t.Phase)
	if t.Lever != "" {
		what = "+ " + t.Lever
	}
	text := fmt.Sprintf("trial %d, %s, %s: %s", t.Number, Limit(t.LimitBytes), what, t.Verdict)
	if t.Measured.Load != nil {
		text += ", " + Rate(t.Throughput) + "/s"
	}
	return text
}

func heapPlot(r *fit.Result, curve *fit.HeapCurve) document.Figure {
	m := measureOf(r)
	line, dots := plot.Series{Tone: plot.Main, Line: true}, plot.Series{Tone: plot.Main}
	recommended := plot.Series{Tone: plot.Other, Shape: plot.Ring}
	for _, p := range curve.Points {
		median := m.of(p.Median)
		at := plot.Point{X: mibs(p.HeapBytes), Y: median, Title: fmt.Sprintf("-Xmx%dm: %s%s, %d trials", p.HeapBytes/MiB, Rate(median), m.unit, len(p.Trials))}
		line.Points = append(line.Points, at)
		if len(p.Trials) > 1 {
			at.Low, at.High = m.of(p.Slowest), m.of(p.Fastest)
		}
		dots.Points = append(dots.Points, at)
		if p.HeapBytes == r.HeapBytes() {
			recommended.Points = []plot.Point{{X: at.X, Y: at.Y, Label: "recommended", Title: at.Title}}
		}
	}
	c := plot.Chart{Title: "Heap against speed", Desc: "Speed over the size of the Java heap, all other options alike.",
		X: plot.Axis{Label: "Java heap (-Xmx), MiB", Unit: " MiB"}, Y: plot.Axis{Label: m.axis, Unit: m.unit}, Series: []plot.Series{line, dots, recommended}}
	text := "Speed over the size of the Java heap, all other options alike. No cliff: the smallest heap that was tried is about as fast as the largest."
	if !curve.Swept {
		text = "Speed over the size of the Java heap, all other options alike, by trials of the search: the machine's own pace is in it. --heap-curve measures the curve."
	}
	if curve.KneeBytes > 0 {
		c.Rules = []plot.Rule{{At: mibs(curve.KneeBytes), Vertical: true, Label: fmt.Sprintf("knee, %.0f MiB", mibs(curve.KneeBytes)), Tone: plot.Bad}}
		text = fmt.Sprintf("Speed over the size of the Java heap, all other options alike. Below about %.0f MiB it falls under %.0f %% of the fastest: the collector takes the time.",
			mibs(curve.KneeBytes), 100*fit.KneeShare)
	}
	return figure("Heap against speed", text, c, nil)
}

func footprintPlot(r *fit.Result) document.Figure {
	sizes := map[footprint.Owner][2]int64{}
	collect := func(f *footprint.Footprint, at int) {
		for _, row := range f.Rows {
			s := sizes[row.Owner]
			s[at] += row.ResidentBytes
			sizes[row.Owner] = s
		}
	}
	c := plot.Bars{Title: "Where the memory is", Desc: "Resident memory by owner at the peak.", Unit: "MiB", Names: []string{"recommended"}, Tones: []plot.Tone{plot.Main}}
	text := "Resident memory by owner near the peak of the confirming run that used most."
	if b := r.Baseline.Result; b != nil && b.Peak != nil {
		collect(b.Peak, 0)
		c.Names, c.Tones = []string{"as given, ample memory", "recommended"}, []plot.Tone{plot.Other, plot.Main}
		text = fmt.Sprintf("Resident memory by owner near the peak: %s as given with ample memory, %s as recommended.", Size(b.Peak.RSSBytes), Size(r.Peak.RSSBytes))
	}
	collect(r.Peak, 1)
	owners := make([]footprint.Owner, 0, len(sizes))
	for o, s := range sizes {
		if max(s[0], s[1]) >= MiB/10 {
			owners = append(owners, o)
		}
	}
	slices.SortFunc(owners, func(a, b footprint.Owner) int {
		return cmp.Or(cmp.Compare(max(sizes[b][0], sizes[b][1]), max(sizes[a][0], sizes[a][1])), cmp.Compare(a, b))
	})
	for _, o := range owners {
		g := plot.Group{Name: OwnerName(o)}
		for i := 2 - len(c.Names); i < 2; i++ {
			g.Bars = append(g.Bars, plot.Bar{Value: mibs(sizes[o][i])})
		}
		c.Groups = append(c.Groups, g)
	}
	if others := r.Peak.Cgroup.OthersBytes(); others >= MiB {
		text += fmt.Sprintf(" Other processes of the application have %s beside it, as recommended.", Size(others))
	}
	return figure("Where the memory is", text, c, peakTable(r.Peak))
}
