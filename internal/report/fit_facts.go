package report

import (
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/load"
)

// loadFacts are what the recommended run's load measured, beside that of the run
// as given; nil where there is none.
func loadFacts(given *load.Result, rec load.Result) []document.Fact {
	var out []document.Fact
	if given == nil {
		given = &load.Result{}
	}
	if is, measured := rec.Throughput(); measured {
		t := document.Fact{Name: "good answers", Value: Rate(is) + "/s"}
		if before, measured := given.Throughput(); measured {
			t.Note = was(Change(before, is), Rate(before)+"/s")
		}
		out = append(out, t)
	}
	if is, measured := rec.Latency.P99.Value(); measured {
		t := document.Fact{Name: "p99", Value: Duration(is)}
		if before, measured := given.Latency.P99.Value(); measured {
			t.Note = was(Change(before.Seconds(), is.Seconds()), Duration(before))
		}
		out = append(out, t)
	}
	return out
}

// fitFacts are what changed, in four figures.
func fitFacts(r *fit.Result) document.Facts {
	rec, given := Recommended(r), r.AsGiven
	out := []document.Fact{{Name: "memory", Value: Limit(r.LimitBytes), Note: was(memoryChange(r), asGiven(r))}}
	if a, b := given.Measured.Load, rec.Measured.Load; b != nil {
		out = append(out, loadFacts(a, *b)...)
	}
	ready := document.Fact{Name: waitedFor(r), Value: Duration(waited(rec)), Note: was(Change(waited(given).Seconds(), waited(rec).Seconds()), Duration(waited(given)))}
	return document.Facts{Facts: append(out, ready)}
}

func was(change, before string) string {
	if change == "" {
		return ""
	}
	return change + " · as given " + before
}
