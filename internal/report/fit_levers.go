package report

import (
	"fmt"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/shell"
)

// fitLevers are the levers that helped, and those that are not used.
func fitLevers(r *fit.Result) []document.Block {
	last := 0
	var kept document.Items
	for _, l := range r.Levers {
		if !l.Kept {
			continue
		}
		details := []document.Detail{{Text: document.Verbatim(shorten(setupText(l.Setup)))}, {Text: document.Plain(leverText(l.Lever)), Aside: true}}
		for _, price := range []string{costRange(l), priceText(r, l)} {
			if price != "" && l.Trial != last {
				details = append(details, document.Detail{Text: document.Plain(price), Aside: true})
			}
		}
		kept.Items = append(kept.Items, document.Item{Marks: []document.Text{document.Plain(savedText(l, last))}, Title: document.Plain(l.Lever.Name), Details: details})
		last = l.Trial
	}
	out := []document.Block{heading("What helped, each on top of those above it")}
	if len(kept.Items) > 0 {
		out = append(out, kept)
		if r.CostDeviation > 0 {
			out = append(out, aside(fmt.Sprintf("The same work took processor time that differed by %.1f %% between trials with the same options (standard deviation, by %.0f degrees of freedom).",
				100*r.CostDeviation, r.CostFreedom)))
		}
	} else {
		out = append(out, document.Paragraph{Text: document.Plain("Nothing: the options as given are the best that was found.")})
	}
	if dropped := droppedLevers(r); len(dropped.Items) > 0 {
		out = append(out, document.Heading{Text: document.Plain("Not used"), Sub: true}, dropped)
	}
	return out
}

// droppedLevers are the levers that are not used, those of one reason in one line.
func droppedLevers(r *fit.Result) document.List {
	var reasons []string
	names := map[string][]string{}
	for _, l := range r.Levers {
		if l.Kept || strings.HasPrefix(l.Reason, "up to JDK") {
			continue
		}
		if names[l.Reason] == nil {
			reasons = append(reasons, l.Reason)
		}
		names[l.Reason] = append(names[l.Reason], l.Lever.Name)
	}
	var out document.List
	for _, reason := range reasons {
		out.Items = append(out.Items, document.Join(document.Plain(strings.Join(names[reason], ", ")+" "), document.Faint("("+reason+")")))
	}
	return out
}

// costRange is what a lever costs, and all that were tried in its trial, by all trials of the
// fit; "" where they do not tell.
func costRange(l fit.LeverResult) string {
	if l.CostLow <= 0 {
		return ""
	}
	return fmt.Sprintf("processor time of the same work × %.2f (%.2f to %.2f)", l.CostRatio, l.CostLow, l.CostHigh)
}

// priceText is what the trial of a lever that the user allowed cost, beside the one
// before it: one run each, so that chance is in it.
func priceText(r *fit.Result, l fit.LeverResult) string {
	if l.Lever.Mark != fit.Framework || l.Trial < 1 || l.Before < 1 || max(l.Trial, l.Before) > len(r.Trials) {
		return ""
	}
	with, without := r.Trials[l.Trial-1], r.Trials[l.Before-1]
	var parts []string
	if a, b := with.Throughput, without.Throughput; a > 0 && b > 0 {
		parts = append(parts, fmt.Sprintf("throughput × %.2f", a/b))
	}
	if a, b := p99Of(with), p99Of(without); a > 0 && b > 0 {
		parts = append(parts, fmt.Sprintf("p99 × %.2f", a/b))
	}
	if len(parts) == 0 {
		return ""
	}
	return "in its trial, beside the one before: " + strings.Join(parts, ", ")
}

func p99Of(t fit.Trial) float64 {
	if t.Measured.Load == nil {
		return 0
	}
	d, _ := t.Measured.Load.Latency.P99.Value()
	return d.Seconds()
}

// savedText is what a lever saved; one that was tried together with the one
// above it has no figure of its own, nor has one that the proof asked for.
func savedText(l fit.LeverResult, last int) string {
	switch l.Trial {
	case 0:
		return "for the proof"
	case last:
		return "with it"
	}
	if l.SavedBytes < MiB && l.CostRatio > 0 && l.CostRatio < 1 {
		return fmt.Sprintf("%.0f %% less processor time", 100*(1-l.CostRatio))
	}
	return Limit(l.SavedBytes / MiB * MiB)
}

// leverText says why a lever helps, and what it costs.
func leverText(l fit.Lever) string {
	text := l.Why
	for _, part := range [][2]string{{"cost", l.Cost}, {"breaks", l.Breaks}, {"undo", l.Undo}, {"options", markText(l.Mark)}} {
		if part[1] != "" {
			text += "; " + part[0] + ": " + part[1]
		}
	}
	return text
}

// markText says what kind of options the user has allowed.
func markText(m fit.Mark) string {
	if m == fit.Framework {
		return "properties of the application's framework"
	}
	return string(m)
}

// setupText is what a setup adds, as words.
func setupText(s fit.Setup) string {
	words := append(append([]string{}, s.Env...), s.Options...)
	if s.Jar != "" {
		words = append(words, "-jar", s.Jar)
	}
	return shell.Words(words)
}

// fitEffects shows what each lever does by itself, as far as trials tell.
func fitEffects(r *fit.Result) []document.Block {
	t := document.Table{Columns: document.Columns(">saves", ">range", ">speed", "lever", "compared")}
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
		t.Row(document.Cells(Size(e.SavedBytes), spread, speed, cut(e.Lever.Lever.Name, 24), fmt.Sprintf("%s, %d × %d", how, len(e.With), len(e.Without)))...)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []document.Block{document.Heading{Text: document.Plain("What each does by itself: added to those above, or left out of all"), Sub: true}, t}
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
