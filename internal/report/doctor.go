package report

import (
	"fmt"
	"path"
	"strings"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/linux"
)

// Findings shows what doctor found: most bytes at stake first, and of each what to
// do before the evidence for it.
func Findings(r *doctor.Report) *document.Document {
	whole := Size(r.RSSBytes) + " resident"
	if r.LimitBytes != nil {
		whole += ", limit " + Size(*r.LimitBytes)
	}
	d := &document.Document{Title: fmt.Sprintf("java %s %s · pid %d · %s · %s", known(r.JDK), known(r.Collector), r.PID, linux.PrintableName(path.Base(r.Name)), whole)}
	var all document.Items
	for i, f := range r.Findings {
		all.Items = append(all.Items, document.Item{
			Marks: []document.Text{document.Plain(fmt.Sprint(i + 1)), document.Plain(Size(f.BytesAtStake)), document.Plain(string(f.Certainty))},
			Title: document.Plain(f.Title), Details: findingDetails(f),
		})
	}
	if len(all.Items) == 0 {
		d.Add(paragraph(fmt.Sprintf("nothing was found: %d rules looked", r.Rules)))
	} else {
		d.Add(all, aside("MiB are the most that a finding can save, or what is missing; findings overlap"))
	}
	if len(r.Unknown) > 0 {
		d.Add(note("not known: " + strings.Join(r.Unknown, ", ") + "; rules that need it said nothing"))
	}
	return d
}

func findingDetails(f doctor.Finding) []document.Detail {
	var out []document.Detail
	add := func(label, text string) { out = append(out, document.Detail{Label: label, Text: document.Plain(text)}) }
	label := "do"
	for _, do := range f.Do {
		add(label, do)
		label = "or"
	}
	label = "evidence"
	for _, e := range f.Evidence {
		add(label, e)
		label = ""
	}
	if f.Cost != "" {
		add("cost", f.Cost)
	}
	add("source", f.Source)
	return out
}
