package report

import (
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
)

// quality is what users feel of a run, as far as it was measured.
type quality struct {
	name string
	of   func(fit.Trial) (value float64, measured bool)
	text func(float64) string
}

var (
	goodAnswers = quality{"good answers", func(t fit.Trial) (float64, bool) {
		if l := t.Measured.Load; l != nil {
			return l.Throughput()
		}
		return 0, false
	}, func(v float64) string { return Rate(v) + "/s" }}
	p99 = quality{"p99", func(t fit.Trial) (float64, bool) {
		if l := t.Measured.Load; l != nil {
			d, measured := l.Latency.P99.Value()
			return d.Seconds(), measured
		}
		return 0, false
	}, secondsText}
	jobTime = quality{"time", func(t fit.Trial) (float64, bool) { return t.Measured.Time.Seconds(), t.Measured.Time > 0 }, secondsText}
	ready   = quality{"ready", func(t fit.Trial) (float64, bool) { return t.Measured.Start.Seconds(), t.Measured.Start > 0 }, secondsText}
)

func secondsText(v float64) string { return Duration(time.Duration(v * float64(time.Second))) }

// values are what runs measured of it.
func (q quality) values(runs []fit.Trial) []float64 {
	var out []float64
	for _, t := range runs {
		if v, measured := q.of(t); measured && v > 0 {
			out = append(out, v)
		}
	}
	return out
}

// change is by how much the options changed it at least and at most, by all runs as given that
// had enough memory and all that prove the limit: "" where some of the one were like some of the other.
func (q quality) change(r *fit.Result) string {
	before, after := q.values(givenRuns(r)), q.values(r.Confirmations)
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	low, high := slices.Min(after)/slices.Max(before), slices.Max(after)/slices.Min(before)
	if low <= 1 && high >= 1 {
		return ""
	}
	least, most := Change(1, low), Change(1, high)
	if high < 1 {
		least, most = most, least
	}
	if least == most {
		return most
	}
	return strings.TrimSuffix(least, " %") + " to " + most
}

// givenRuns are the runs as given that had enough memory.
func givenRuns(r *fit.Result) []fit.Trial {
	return slices.DeleteFunc(slices.Clone(r.Trials), func(t fit.Trial) bool {
		given := (t.Phase == fit.PhaseBaseline || t.Phase == fit.PhaseAsGiven) && t.Setup.Same(fit.Setup{})
		return !given || !t.Passed && !t.SlowElsewhere
	})
}

// fact is the quality of the recommended run, what changed of it, and what it was in the run as given;
// none where that was not measured.
func (q quality) fact(r *fit.Result) []document.Fact {
	is, measured := q.of(Recommended(r))
	if !measured {
		return nil
	}
	out := document.Fact{Name: q.name, Value: q.text(is)}
	if before, measured := q.of(r.AsGiven); measured {
		out.Note = was(q.change(r), q.text(before))
	}
	return []document.Fact{out}
}

// fitFacts are what changed, in four figures.
func fitFacts(r *fit.Result) document.Facts {
	out := []document.Fact{{Name: "memory", Value: Limit(r.LimitBytes), Note: was(memoryChange(r), asGiven(r))}}
	for _, q := range []quality{goodAnswers, p99, waitedFor(r)} {
		out = append(out, q.fact(r)...)
	}
	return document.Facts{Facts: out}
}

func was(change, before string) string {
	if change != "" {
		change += " · "
	}
	return change + "as given " + before
}
