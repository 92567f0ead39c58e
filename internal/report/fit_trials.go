package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
)

// trialTable is all trials; one that is wide has room for why each failed.
func trialTable(r *fit.Result, wide bool) document.Table {
	t := document.Table{Name: "trials", Sortable: true, Columns: document.Columns(">#", ">limit", "what", "verdict")}
	loaded := slices.ContainsFunc(r.Trials, func(t fit.Trial) bool { return t.Measured.Load != nil })
	if loaded {
		t.Columns = append(t.Columns, document.Columns(">req/s", ">p99")...)
	}
	t.Columns = append(t.Columns, document.Columns(">peak")...)
	if wide {
		t.Columns = append(t.Columns, document.Column{Name: waitedFor(r).name, Number: true})
	}
	for _, trial := range r.Trials {
		what := string(trial.Phase)
		if trial.Lever != "" {
			what = "+ " + trial.Lever
		}
		if trial.Repeat > 0 {
			what = "again"
		}
		result := document.Cell{Text: verdict(trial)}
		if !wide {
			what = cut(what, 26)
		} else if !trial.Passed {
			result = failedCell(trial)
		}
		row := []document.Cell{document.Number(fmt.Sprint(trial.Number), float64(trial.Number)), bytesCell(trial.LimitBytes), {Text: document.Plain(what)}, result}
		if loaded {
			row = append(row, servedCells(trial.Measured.Load)...)
		}
		row = append(row, bytesCell(trial.PeakBytes/MiB*MiB))
		if wide {
			row = append(row, durationCell(waited(trial)))
		}
		t.Row(row...)
	}
	return t
}

// failedCell is a verdict with its evidence.
func failedCell(t fit.Trial) document.Cell {
	word := string(t.Verdict)
	if t.Narrow {
		word += ", narrowly"
	}
	c := document.Cell{Text: document.Bad(word)}
	if t.Result != nil {
		c.Note = document.Plain(strings.Join(t.Result.Evidence, "; "))
	}
	return c
}

// servedCells are the rate of good answers and the p99 of a load, which may be
// none.
func servedCells(l *load.Result) []document.Cell {
	rate, p99 := noCell, noCell
	if l != nil {
		if v, measured := l.Throughput(); measured {
			rate = document.Number(Rate(v), v)
		}
		if d, measured := l.Latency.P99.Value(); measured {
			p99 = document.Number(Duration(d), d.Seconds())
		}
	}
	return []document.Cell{rate, p99}
}

func durationCell(d time.Duration) document.Cell {
	if d <= 0 {
		return noCell
	}
	return document.Number(Duration(d), d.Seconds())
}

func bytesCell(n int64) document.Cell { return document.Number(Limit(n), float64(n)) }

// bestPassedTable is the trials that no other one beats in both limit and speed; nil where
// there is just one.
func bestPassedTable(r *fit.Result) *document.Table {
	t := document.Table{Columns: document.Columns(">limit", ">req/s", ">p99", ">"+waitedFor(r).name, ">#")}
	for _, trial := range fit.BestPassed(r.Trials) {
		t.Row(document.Cells(append(comparisonRow("", trial)[1:], fmt.Sprint(trial.Number))...)...)
	}
	if len(t.Rows) < 2 {
		return nil
	}
	return &t
}

func verdict(t fit.Trial) document.Text {
	switch {
	case t.OnlyPressed():
		return document.Plain("pressed") // the guide explains it
	case t.Passed:
		return document.Good(string(t.Verdict))
	case t.SlowElsewhere:
		return document.Plain("slow elsewhere") // the warnings and the guide explain it
	case narrow(t):
		return document.Bad(string(t.Verdict) + "?") // the conditions explain it
	}
	return document.Bad(string(t.Verdict))
}

// narrow says that a verdict is shown with a question mark.
func narrow(t fit.Trial) bool { return t.Narrow && !t.Passed && !t.SlowElsewhere }

func cut(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// fitConfirmations are the runs that confirmed the limit.
func fitConfirmations(r *fit.Result) []document.Block {
	t := document.Table{Columns: document.Columns(">#", ">req/s", ">p99", ">"+waitedFor(r).name, ">peak", ">GC")}
	for _, trial := range r.Confirmations {
		row := append([]string{fmt.Sprint(trial.Number)}, comparisonRow("", trial)[2:]...)
		gc := "?"
		if share, known := trial.Collecting(); known {
			gc = fmt.Sprintf("%.1f %%", 100*share)
		}
		t.Row(document.Cells(append(row, Size(trial.PeakBytes), gc)...)...)
	}
	return []document.Block{heading("Confirmed by fresh runs at " + Limit(r.LimitBytes)), t, aside(confirmedSpread(r))}
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
	text := fmt.Sprintf("Spread: %s to %s needed without page cache", Size(low), Size(high))
	if slow > 0 {
		text += fmt.Sprintf(", speed within %.0f %%", 100*(fast/slow-1))
	}
	return text
}

// peakTable is the footprint at the peak of a confirming run.
func peakTable(f *footprint.Footprint) *document.Table {
	t := document.Table{Columns: document.Columns("", ">", "")}
	for _, row := range byResident(f.Rows) {
		if row.ResidentBytes > 0 {
			t.Row(document.Cells(OwnerName(row.Owner), Size(row.ResidentBytes), knownBy(row, repeated(row, Size)))...)
		}
	}
	t.Rows = append(t.Rows, document.Row{Cells: document.Cells("= Rss", Size(f.RSSBytes)), Total: true})
	return &t
}
