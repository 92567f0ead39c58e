package report

import (
	"io"
	"path"
	"strings"

	"tare/internal/doctor"
	"tare/internal/linux"
)

// columns is the width of a screen.
const columns = 80

// Findings writes what was found for people: most bytes at stake first, each
// with what to do before the evidence for it.
func Findings(w io.Writer, r *doctor.Report) error {
	p := &printer{w: w}
	whole := Size(r.RSSBytes) + " resident"
	if r.LimitBytes != nil {
		whole += ", limit " + Size(*r.LimitBytes)
	}
	p.line("java %s %s · pid %d · %s · %s", linux.PrintableName(known(r.JDK)),
		linux.PrintableName(known(r.Collector)), r.PID, linux.PrintableName(path.Base(r.Name)), whole)
	p.line("")
	if len(r.Findings) == 0 {
		p.line("  nothing was found: %d rules looked", r.Rules)
	}
	for i, f := range r.Findings {
		p.finding(i+1, f)
	}
	if len(r.Findings) > 0 {
		p.line("  MiB are the most that a finding can save, or what is missing; findings overlap")
	}
	if len(r.Unknown) > 0 {
		p.note("not known: " + strings.Join(r.Unknown, ", ") + "; rules that need it said nothing")
	}
	return p.err
}

func (p *printer) finding(number int, f doctor.Finding) {
	const title = 26 // the column of the title
	for i, l := range Wrap(linux.Printable(f.Title), columns-title) {
		if i > 0 {
			p.line("%s%s", strings.Repeat(" ", title), l)
			continue
		}
		p.line("%2d  %10s  %-8s  %s", number, Size(f.BytesAtStake), f.Certainty, l)
	}
	label := "do"
	for _, d := range f.Do {
		p.labelled(label, d)
		label = "or"
	}
	label = "evidence"
	for _, e := range f.Evidence {
		p.labelled(label, e)
		label = ""
	}
	if f.Cost != "" {
		p.labelled("cost", f.Cost)
	}
	p.labelled("source", f.Source)
	p.line("")
}

// labelled writes a text behind a label, wrapped. What has no blank is not
// broken, so that options and addresses can be copied.
func (p *printer) labelled(label, text string) {
	const indent = 14
	for _, l := range Wrap(linux.Printable(text), columns-indent) {
		p.line("    %-8s  %s", label, l)
		label = ""
	}
}
