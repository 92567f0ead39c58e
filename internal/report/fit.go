package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tare/internal/fit"
	"tare/internal/footprint"
	"tare/internal/linux"
	"tare/internal/trial"
)

const width = 80

// Fit writes the result of a fit that found a limit: the answer, what it is
// compared with, why, the evidence, and what to paste.
func Fit(w io.Writer, r *fit.Result, s Style) error {
	p := &printer{w: w}
	for _, l := range Wrap(answer(r, s), width-1) {
		p.line(" %s", l)
	}
	p.line("")
	fitComparison(p, r, s)
	fitLevers(p, r, s)
	fitEffects(p, r)
	fitTrials(p, r, s)
	fitFrontier(p, r)
	fitConfirmations(p, r)
	fitPeak(p, r)
	fitConditions(p, r, s)
	fitNext(p, r, s)
	return p.err
}

// answer is the one sentence that the user came for.
func answer(r *fit.Result, s Style) string {
	text := s.Strong(Limit(r.LimitBytes)) + " is enough (as given it needs " + asGiven(r) + "). "
	n := len(r.Confirmations)
	text += s.Good(fmt.Sprintf("%d of %d fresh runs pass", n, n))
	if f := r.FailBelow; f != nil {
		text += "; at " + Limit(f.LimitBytes) + " " + failure(f.Verdict)
	}
	text += "."
	if r.MarginBytes > 0 {
		text += " " + Limit(r.MarginBytes) + " of it are a margin."
	}
	if r.RaisedFrom > 0 {
		text += " A confirming run failed at " + Limit(r.RaisedFrom) + ", so the limit was raised."
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
	case r.AsGivenFails == 0:
		return "up to " + most
	}
	least := Change(float64(r.AsGivenFails), float64(r.LimitBytes))
	return strings.TrimSuffix(least, " %") + " to " + most
}

// failure says in words what a verdict means.
func failure(v trial.Verdict) string {
	switch v {
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
	return "it is " + string(v)
}

func fitComparison(p *printer, r *fit.Result, s Style) {
	rec := Recommended(r)
	change := memoryChange(r) + " memory"
	if c := Change(r.AsGiven.Throughput, rec.Throughput); c != "" {
		change += ", " + c + " req/s"
	}
	if c := Change(r.AsGiven.Measured.Time.Seconds(), rec.Measured.Time.Seconds()); c != "" {
		change += ", " + c + " time"
	}
	rows := [][]string{
		{"", "limit", "req/s", "p99", waitedFor(r)},
		comparisonRow("baseline", r.Baseline),
		comparisonRow("as given", r.AsGiven),
		append(comparisonRow(s.Strong("recommended"), rec), s.Good(change)),
	}
	p.table("  ", []Align{Left, Right, Right, Right, Right, Left}, rows)
	p.line("")
}

// waited is what a trial's user waits for: the end of a job, a service's
// readiness.
func waited(t fit.Trial) time.Duration { return max(t.Measured.Time, t.Measured.Start) }

// waitedFor is the heading over it.
func waitedFor(r *fit.Result) string {
	if r.Config.Job {
		return "time"
	}
	return "ready"
}

func comparisonRow(name string, t fit.Trial) []string {
	row := []string{name, Limit(t.LimitBytes), "-", "-", Duration(waited(t))}
	if l := t.Measured.Load; l != nil {
		row[2], row[3] = Rate(l.Throughput()), Duration(l.Latency.P99)
	}
	return row
}

func fitLevers(p *printer, r *fit.Result, s Style) {
	p.line("  what helped, each on top of those above it")
	last := 0
	for _, l := range r.Levers {
		if !l.Kept {
			continue
		}
		p.line("  %9s  %s", savedText(l, last), s.Strong(l.Lever.Name))
		last = l.Trial
		for _, line := range Wrap(shorten(setupText(l.Setup)), width-13) {
			p.line("             %s", line)
		}
		for _, line := range Wrap(leverText(l.Lever), width-13) {
			p.line("             %s", s.Faint(line))
		}
	}
	if last == 0 {
		p.line("             nothing: the options as given are the best that was found")
	}
	var dropped []string
	for _, l := range droppedLevers(r) {
		dropped = append(dropped, l.Name+" ("+l.Reason+")")
	}
	if len(dropped) > 0 {
		for i, line := range Wrap("not used: "+strings.Join(dropped, "; "), width-2) {
			p.line("  %s%s", map[bool]string{true: "", false: "  "}[i == 0], s.Faint(line))
		}
	}
	p.line("")
}

// savedText is what a lever saved; one that was tried together with the one
// above it has no figure of its own.
func savedText(l fit.LeverResult, last int) string {
	if l.Trial == last {
		return "with it"
	}
	return Limit(l.SavedBytes / MiB * MiB)
}

// leverText says why a lever helps, and what it costs.
func leverText(l fit.Lever) string {
	text := l.Why
	for _, part := range [][2]string{{"cost", l.Cost}, {"breaks", l.Breaks}, {"undo", l.Undo}, {"options", string(l.Mark)}} {
		if part[1] != "" {
			text += "; " + part[0] + ": " + part[1]
		}
	}
	return text
}

// setupText is what a setup adds, as words.
func setupText(s fit.Setup) string {
	words := append(append([]string{}, s.Env...), s.Options...)
	if s.Jar != "" {
		words = append(words, "-jar", s.Jar)
	}
	return ShellWords(words)
}

// droppedLevers are the levers that are not used, and why.
func droppedLevers(r *fit.Result) []droppedLever {
	var out []droppedLever
	for _, l := range r.Levers {
		if !l.Kept && !strings.HasPrefix(l.Reason, "up to JDK") {
			out = append(out, droppedLever{l.Lever.Name, linux.Printable(l.Reason)})
		}
	}
	return out
}

// fitEffects shows what each lever does by itself, as far as trials tell.
func fitEffects(p *printer, r *fit.Result) {
	rows := effectRows(r)
	if len(rows) == 0 {
		return
	}
	p.line("  what each does by itself: added to those above, or left out of all")
	p.table("  ", []Align{Right, Right, Right, Left, Left}, append([][]string{{"saves", "range", "speed", "lever", "compared"}}, rows...))
	p.line("")
}

// effectRows are saving, range, speed, lever, and the trials compared.
func effectRows(r *fit.Result) [][]string {
	var rows [][]string
	for _, e := range r.Effects() {
		spread, speed, how := "one trial each", "-", "added"
		if e.Measured {
			spread = fmt.Sprintf("%.1f to %.1f", float64(e.LowBytes)/MiB, float64(e.HighBytes)/MiB)
		}
		if e.Speed > 0 {
			speed = fmt.Sprintf("%.2f", e.Speed)
		}
		if e.LeftOut {
			how = "left out"
		}
		rows = append(rows, []string{Size(e.SavedBytes), spread, speed, cut(e.Lever.Lever.Name, 24), fmt.Sprintf("%s, %d × %d", how, len(e.With), len(e.Without))})
	}
	return rows
}

// shorten cuts the folder of an archive, which is shown whole further down.
func shorten(options string) string {
	words := strings.Fields(options)
	for i, w := range words {
		for _, o := range []string{"-XX:SharedArchiveFile=", "-XX:AOTCache="} {
			if strings.HasPrefix(w, o) {
				words[i] = o + "…" + w[strings.LastIndex(w, "/"):]
			}
		}
	}
	return strings.Join(words, " ")
}

func fitTrials(p *printer, r *fit.Result, s Style) {
	p.line("  all trials")
	rows := [][]string{{"#", "limit", "what", "verdict", "req/s", "p99", "peak"}}
	for _, t := range r.Trials {
		what := string(t.Phase)
		if t.Lever != "" {
			what = "+ " + t.Lever
		}
		if t.Repeat > 0 {
			what = "again"
		}
		row := []string{fmt.Sprint(t.Number), Limit(t.LimitBytes), cut(what, 26), verdict(t, s), "-", "-", Limit(t.PeakBytes / MiB * MiB)}
		if l := t.Measured.Load; l != nil {
			row[4] = Rate(l.Throughput())
			if l.Latency.P99 > 0 {
				row[5] = Duration(l.Latency.P99)
			}
		}
		rows = append(rows, row)
	}
	p.table("  ", []Align{Right, Right, Left, Left, Right, Right, Right}, rows)
	p.line("")
}

// fitFrontier shows the trials between which a preference chooses.
func fitFrontier(p *printer, r *fit.Result) {
	rows := [][]string{{"limit", "req/s", "p99", waitedFor(r), "#"}}
	for _, t := range fit.Frontier(r.Trials) {
		rows = append(rows, append(comparisonRow("", t)[1:], fmt.Sprint(t.Number)))
	}
	if len(rows) < 3 {
		return
	}
	p.line("  memory against speed: the best that passed")
	p.table("  ", []Align{Right, Right, Right, Right, Right}, rows)
	p.line("")
}

func verdict(t fit.Trial, s Style) string {
	if t.Passed {
		return s.Good(string(t.Verdict))
	}
	text := string(t.Verdict)
	if t.Narrow {
		text += "?" // explained below the table's heading
	}
	return s.Bad(text)
}

func cut(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

func fitConfirmations(p *printer, r *fit.Result) {
	p.line("  confirmed by fresh runs at %s", Limit(r.LimitBytes))
	rows := [][]string{{"#", "req/s", "p99", waitedFor(r), "peak", "GC"}}
	for _, t := range r.Confirmations {
		row := append([]string{fmt.Sprint(t.Number)}, comparisonRow("", t)[2:]...)
		gc := "?"
		if t.Result != nil && t.Result.GCShare != nil {
			gc = fmt.Sprintf("%.1f %%", 100**t.Result.GCShare)
		}
		rows = append(rows, append(row, Size(t.PeakBytes), gc))
	}
	p.table("  ", []Align{Right, Right, Right, Right, Right, Right}, rows)
	p.line("  %s", confirmedSpread(r))
	p.line("")
}

// confirmedSpread says how much the confirming runs differ.
func confirmedSpread(r *fit.Result) string {
	var low, high int64
	slow, fast := 0.0, 0.0
	for i, t := range r.Confirmations {
		if i == 0 {
			low, high, slow, fast = t.NeededBytes, t.NeededBytes, t.Speed(), t.Speed()
		}
		low, high, slow, fast = min(low, t.NeededBytes), max(high, t.NeededBytes), min(slow, t.Speed()), max(fast, t.Speed())
	}
	text := fmt.Sprintf("spread: %s to %s needed without page cache", Size(low), Size(high))
	if slow > 0 {
		text += fmt.Sprintf(", speed within %.0f %%", 100*(fast/slow-1))
	}
	return text
}

func fitPeak(p *printer, r *fit.Result) {
	if r.Peak == nil {
		return
	}
	p.line("  where the memory is, at the peak of a confirming run")
	rows := [][]string{}
	for _, row := range byResident(r.Peak.Rows) {
		if row.ResidentBytes > 0 {
			rows = append(rows, []string{ownerNames[row.Owner], Size(row.ResidentBytes), howText(row)})
		}
	}
	rows = append(rows, []string{"= Rss", Size(r.Peak.RSSBytes)})
	p.table("  ", []Align{Left, Right, Left}, rows)
	p.line("")
}

func howText(r footprint.Row) string {
	if r.Owner == footprint.Unattributed {
		return ""
	}
	return string(r.How)
}

func fitConditions(p *printer, r *fit.Result, s Style) {
	lines := conditions(r)
	lines[0] = "measured with: " + lines[0]
	for i, l := range lines[1:] {
		lines[1+i] = "note: " + l
	}
	for _, t := range r.Trials {
		if t.Narrow {
			lines = append(lines, "?: missed by little and without a sign that memory is the reason")
			break
		}
	}
	for _, warning := range r.Warnings {
		lines = append(lines, "note: "+linux.Printable(warning))
	}
	for _, l := range lines {
		for _, line := range Wrap(l, width-2) {
			p.line("  %s", s.Faint(line))
		}
	}
	p.line("")
}

// conditions says how it was measured, and what that means for the result.
func conditions(r *fit.Result) []string {
	c := r.Config
	cpus := fmt.Sprintf("%d CPUs", r.Machine.CPUs)
	if c.CPUs > 0 {
		cpus = fmt.Sprintf("%g of %d CPUs", c.CPUs, r.Machine.CPUs)
	}
	if c.Cpuset != "" {
		cpus += ", cpuset " + c.Cpuset
	}
	name := ""
	if r.RunnerName != "" {
		name = " · " + r.RunnerName
	}
	lines := []string{
		fmt.Sprintf("JDK %s · Linux %s %s · %s%s · SLO %s · %s · %d trials in %s", linux.Printable(c.Java.Version), r.Machine.Kernel,
			r.Machine.Arch, cpus, name, c.SLO, loadText(c), len(r.Trials), Duration(r.Took)),
	}
	if r.UnpaidBytes >= MiB {
		lines = append(lines, fmt.Sprintf("%s that it maps, of the C library and of files that other processes use, are charged to others "+
			"on this machine; where it is alone, add them to the limit", Size(r.UnpaidBytes)))
	}
	return lines
}

func loadText(c fit.Config) string {
	var how string
	switch {
	case len(c.Load.Command) > 0:
		how = "load command " + linux.Printable(ShellWords(c.Load.Command))
	case c.Job:
		return "a job that runs to its end"
	case len(c.Load.Targets) == 0:
		return fmt.Sprintf("no load, idle for %s", Duration(c.Duration))
	case c.Load.Rate > 0:
		how = fmt.Sprintf("%g requests per second", c.Load.Rate)
	default:
		how = fmt.Sprintf("closed loop, %d at a time", c.Load.Concurrency)
	}
	return fmt.Sprintf("%s, %s after %s of warm-up", how, Duration(c.Duration), Duration(c.Warmup))
}

// table writes a table through the printer.
func (p *printer) table(indent string, align []Align, rows [][]string) {
	if p.err == nil {
		p.err = Table(p.w, indent, align, rows)
	}
}
