package report

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/trial"
)

// Fit shows a fit that found a limit, for a terminal, where the last lines are
// seen first: the answer, what it is compared with, why, the evidence, and last
// what to paste.
func Fit(r *fit.Result) *document.Document {
	d := &document.Document{}
	d.Add(document.Paragraph{Text: answer(r), Role: document.Lead}, comparison(r))
	d.Add(fitNeed(r)...)
	d.Add(fitLevers(r)...)
	d.Add(fitEffects(r)...)
	d.Add(fitFrontier(r)...)
	d.Add(heading("All trials"), trialTable(r, false))
	for _, f := range fitFigures(r) {
		d.Add(f)
	}
	d.Add(fitConfirmations(r)...)
	d.Add(fitConditions(r)...)
	d.Add(fitNext(r)...)
	return d
}

// FitUnanswered shows a fit that has no answer: why, and its trials.
func FitUnanswered(r *fit.Result, why error) *document.Document {
	d := &document.Document{}
	d.Add(document.Paragraph{Text: document.Plain(why.Error()), Role: document.Failure})
	if len(r.Trials) > 0 {
		d.Add(heading("All trials"), trialTable(r, false))
	}
	d.Add(fitConditions(r)...)
	return d
}

// FitPage shows a fit where pictures can be seen and the first lines are seen
// first: what to paste comes early. failure is why there is no recommendation, or
// nil.
func FitPage(r *fit.Result, failure error) *document.Document {
	d := &document.Document{}
	if failure != nil {
		d.Title = subject(r) + ": no answer"
		d.Add(document.Paragraph{Text: document.Plain(failure.Error()), Role: document.Failure})
		d.Add(fitNotes(r)...)
	} else {
		d.Title = subject(r) + " fits in " + Limit(r.LimitBytes)
		d.Add(document.Paragraph{Text: answer(r), Role: document.Lead}, fitFacts(r))
		d.Add(fitNeed(r)...)
		d.Add(fitNotes(r)...)
		d.Add(fitNext(r)...)
	}
	if len(r.Levers) > 0 {
		d.Add(fitLevers(r)...)
		d.Add(fitEffects(r)...)
	}
	d.Add(fitFrontier(r)...)
	d.Add(heading("In pictures"))
	for _, f := range fitFigures(r) {
		d.Add(f)
	}
	if failure == nil {
		d.Add(heading("The runs compared"), comparison(r))
		d.Add(fitConfirmations(r)...)
		d.Add(fitCache(r)...)
	}
	if len(r.Trials) > 0 {
		d.Add(heading("All trials"), trialTable(r, true))
	}
	d.Add(heading("How it was measured"), aside(conditions(r)))
	return d
}

// subject names the application.
func subject(r *fit.Result) string {
	c := r.Config.Command
	if jar := c.Jar(); jar != "" {
		return filepath.Base(jar)
	}
	if len(c.Main) > 0 {
		return c.Main[len(c.Main)-1]
	}
	return "the application"
}

// answer is the one sentence that the user came for.
func answer(r *fit.Result) document.Text {
	passed, all := len(r.Confirmations), len(r.FreshRuns())
	text := document.Join(document.Strong(Limit(r.LimitBytes)), document.Plain(" is enough (as given it needs "+asGiven(r)+"). "),
		document.Good(fmt.Sprintf("%d of %d fresh runs pass", passed, max(passed, all))))
	rest := ""
	if slow := r.SlowRuns(); slow > 0 && slow == passed {
		rest += ": memory was enough in all of them, but none was as fast as asked, and not for want of memory; " + cmp.Or(together(r), "a quieter machine can tell whether it is")
	} else if slow > 0 {
		rest += fmt.Sprintf(" (%d of them slower than asked, and not for want of memory", slow)
		if all := together(r); all != "" {
			rest += "; " + all
		}
		rest += ")"
	}
	if all > passed {
		rest += fmt.Sprintf(" (%d set aside and made again: others disturbed it, or it missed by little)", all-passed)
	}
	if f := r.FailBelow; f != nil {
		without := ""
		if n := r.Need; n != nil && n.UntouchedBytes > 0 && f.LimitBytes+n.UntouchedBytes <= r.LimitBytes {
			without = ", without room for heap that no run touched,"
		}
		rest += "; at " + Limit(f.LimitBytes) + without + " " + failure(*f)
	}
	rest += "."
	if r.Need == nil && r.MarginBytes > 0 {
		rest += " " + Limit(r.MarginBytes) + " of it are a margin."
	}
	if r.RaisedFrom > 0 {
		rest += " A run failed at " + Limit(r.RaisedFrom) + ", so the limit was raised."
	}
	return document.Join(text, document.Plain(rest))
}

// together is what the runs that prove a limit say as one of the cost that some of them missed; ""
// is nothing.
func together(r *fit.Result) string {
	v, c := r.CostVerdict(), r.ProofCost
	if v == fit.CostUntold {
		return ""
	}
	return fmt.Sprintf("by all of them the same work takes %.2f times the baseline's processor time (%.2f to %.2f): %s", c.CostRatio, c.CostLow, c.CostHigh, v)
}

// moreSamples is the number of runs that a report says the savings of.
const moreSamples = 20

// fitNeed says what the limit is made of, and what stress showed.
func fitNeed(r *fit.Result) []document.Block {
	var out []document.Block
	if n := r.Need; n != nil {
		out = append(append(out, aside(needText(*n, r.LimitBytes))), needTable(r)...)
	}
	for _, text := range []string{atLimit(r), stressed(r)} {
		if text != "" {
			out = append(out, aside(text))
		}
	}
	return out
}

// needText says how sure a limit is, and what more runs would save.
func needText(n fit.Need, limit int64) string {
	how := fmt.Sprintf("%d runs", n.Samples)
	if n.Pressed {
		how = fmt.Sprintf("%d runs near that limit, by how long they waited for memory", n.Samples)
	}
	differ := "that differ"
	if n.Assumed > 0 {
		differ = "taken to differ"
	}
	within := ""
	if limit < n.BoundBytes {
		within = fmt.Sprintf(", and %.0f %% no more than the limit", math.Floor(100*n.Content(limit)))
	}
	text := fmt.Sprintf("Runs with these options need %s on the average (%s, %s by %.1f %%); 99 %% of them need no more than %s%s, with a confidence of 95 %%.",
		Size(n.MeanBytes), how, differ, 100*n.Deviation, Size(n.BoundBytes), within)
	if less := n.BoundBytes - n.BoundWith(moreSamples); less >= MiB && n.Samples < moreSamples {
		text += fmt.Sprintf(" With %d runs like these the limit would be about %s less.", moreSamples, Size(less))
	}
	return text
}

// needTable has the parts of the limit, which add up to it; none of a fit that was stored
// without them.
func needTable(r *fit.Result) []document.Block {
	n := r.Need
	if n.HeldBytes == 0 {
		return nil
	}
	held := "cannot be dropped, with the heap full"
	if n.UntouchedBytes != 0 {
		held = "cannot be dropped, with the heap as it was"
	}
	t := document.Table{Columns: document.Columns("part of the limit", ">size")}
	for _, part := range []struct {
		name  string
		bytes int64
		shown bool
	}{
		{held, n.HeldBytes, true},
		{"page cache that it works with", n.CacheBytes, true},
		{"what limits that were tried changed of that", n.TriedBytes, n.TriedBytes != 0},
		{"heap that you allow, and no run touched", n.UntouchedBytes, n.UntouchedBytes != 0},
		{"what was still growing", n.GrowthBytes, n.GrowthBytes != 0},
		{"what runs differ by", n.BoundBytes - n.MeanBytes, true},
		{"whole MiB, and what the proof changed", r.LimitBytes - n.BoundBytes, true},
	} {
		if part.shown {
			t.Row(document.Cells(part.name, Size(part.bytes))...)
		}
	}
	return []document.Block{t}
}

// atLimit says what the limit costs; "" where trials do not tell.
func atLimit(r *fit.Result) string {
	c := r.AtLimit
	if c.CostRatio <= 0 {
		return ""
	}
	return fmt.Sprintf("At this limit the same work takes %.2f times the processor time that it takes with these options and room (%.2f to %.2f).", c.CostRatio, c.CostLow, c.CostHigh)
}

// stressed says what the long run and that with half the processors showed; "" where
// none was made.
func stressed(r *fit.Result) string {
	var parts []string
	if t := r.Long; t != nil {
		parts = append(parts, fmt.Sprintf("Ten times the load at %s: %s, %s needed without page cache.", Limit(t.LimitBytes), runText(*t), Size(t.NeededBytes)))
	}
	if t := r.Half; t != nil {
		parts = append(parts, fmt.Sprintf("Half the processors at %s: %s. So the limit holds for this load on machines down to half as fast.", Limit(t.LimitBytes), runText(*t)))
	}
	return strings.Join(parts, " ")
}

// runText is how a run went that memory did not fail.
func runText(t fit.Trial) string {
	text := string(t.Verdict)
	if !t.Passed {
		text = "too slow there, and not for want of memory"
	}
	if t.Measured.Load != nil && t.Throughput > 0 {
		text += fmt.Sprintf(", %s req/s", Rate(t.Throughput))
	}
	return text
}

// asGiven is what the application needs as given: between two limits where
// they are far apart.
func asGiven(r *fit.Result) string {
	limit, fails := r.AsGiven.LimitBytes, r.AsGivenFails
	switch {
	case !farApart(r):
		return Limit(limit)
	case fails == 0:
		return "at most " + Limit(limit)
	}
	return Limit(fails) + " to " + Limit(limit)
}

// farApart says that the smallest limit as given was not looked for to the end.
func farApart(r *fit.Result) bool {
	return float64(r.AsGiven.LimitBytes) > 1.1*float64(r.AsGivenFails) && !r.Setup.Same(fit.Setup{})
}

// memoryChange is the change of the limit from what the application needs as
// given: between two where that is between two limits.
func memoryChange(r *fit.Result) string {
	most := Change(float64(r.AsGiven.LimitBytes), float64(r.LimitBytes))
	switch {
	case !farApart(r):
		return most
	case r.AsGivenFails <= r.LimitBytes: // it may need no more as given
		return "up to " + most
	}
	least := Change(float64(r.AsGivenFails), float64(r.LimitBytes))
	return strings.TrimSuffix(least, " %") + " to " + most
}

// failure says in words why a limit was not enough in a trial.
func failure(t fit.Trial) string {
	if t.Pressed && (t.Passed || t.Verdict == trial.TooSlow) {
		return fmt.Sprintf("it waits for reclaimed memory for %.0f %% of the time", 100*t.Result.ReclaimShare)
	}
	switch t.Verdict {
	case trial.OOMKilled:
		return "the kernel kills it"
	case trial.OutOfMemory:
		return "it runs out of Java heap"
	case trial.Thrashing:
		return "garbage collection takes most of the time"
	case trial.Stalled:
		return "it waits for reclaimed memory most of the time"
	case trial.TooSlow:
		return "it is too slow"
	case trial.Errors:
		return "requests fail"
	case trial.NeverReady:
		return "it does not get ready"
	case trial.Crashed:
		return "it ends by itself"
	}
	return "it is " + string(t.Verdict)
}

// comparison is the runs as given beside the recommended one.
func comparison(r *fit.Result) document.Table {
	rec := Recommended(r)
	changes := []string{memoryChange(r) + " memory"}
	if c := goodAnswers.change(r); c != "" {
		changes = append(changes, c+" req/s")
	}
	if c := jobTime.change(r); c != "" {
		changes = append(changes, c+" time")
	}
	t := document.Table{Columns: document.Columns("", ">limit", ">req/s", ">p99", ">"+waitedFor(r).name, "")}
	t.Row(document.Cells(comparisonRow("baseline", r.Baseline)...)...)
	t.Row(document.Cells(comparisonRow("as given", r.AsGiven)...)...)
	row := document.Cells(comparisonRow("recommended", rec)...)
	row[0].Text = document.Strong("recommended")
	for _, c := range changes {
		t.Row(append(row, document.Cell{Text: document.Good(c)})...)
		row = make([]document.Cell, len(row))
	}
	return t
}

// waited is what a trial's user waits for: the end of a job, a service's
// readiness.
func waited(t fit.Trial) time.Duration { return max(t.Measured.Time, t.Measured.Start) }

// waitedFor is that among the qualities of a run.
func waitedFor(r *fit.Result) quality {
	if r.Config.Job {
		return jobTime
	}
	return ready
}

func comparisonRow(name string, t fit.Trial) []string {
	row := []string{name, Limit(t.LimitBytes), "-", "-", Duration(waited(t))}
	if v, measured := goodAnswers.of(t); measured {
		row[2] = Rate(v)
	}
	if v, measured := p99.of(t); measured {
		row[3] = p99.text(v)
	}
	return row
}
