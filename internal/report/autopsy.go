package report

import (
	"fmt"
	"slices"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
)

// Autopsy shows why a JVM ended: the answer first, what it held before, the evidence,
// and what to do.
func Autopsy(r *autopsy.Report) *document.Document {
	d := &document.Document{Title: r.Headline}
	if r.What != "" {
		d.Add(document.Paragraph{Text: document.Plain(r.What), Role: document.Lead})
	}
	if len(r.Moments) > 0 {
		d.Add(momentTable(r))
	}
	d.Add(verdictItem(verdictNames[r.Verdict], r.Confidence, r.Evidence))
	if len(r.Do) > 0 {
		d.Add(autopsyAdvice(r))
	}
	for _, m := range r.Missing {
		d.Add(note(m))
	}
	d.Add(aside(jvmLine(r)))
	return d
}

// verdictItem is a verdict, how sure it is, and its evidence by source.
func verdictItem(name string, sure doctor.Certainty, evidence []autopsy.Evidence) document.Items {
	item := document.Item{Marks: []document.Text{document.Plain(string(sure))}, Title: document.Strong(name)}
	last := ""
	for _, e := range evidence {
		label := e.Source
		if label == last {
			label = "" // as above
		}
		last = e.Source
		item.Details = append(item.Details, document.Detail{Label: label, Text: document.Plain(e.Text)})
	}
	return document.Items{Items: []document.Item{item}}
}

// verdictNames are the verdicts as a reader sees them.
var verdictNames = map[autopsy.Verdict]string{
	autopsy.ContainerLimit: "the container's limit", autopsy.ParentLimit: "a parent's limit", autopsy.MachineLimit: "the machine's memory",
	autopsy.ChildKilled: "another process of the group", autopsy.OOMD: "systemd-oomd", autopsy.OutOfMemoryError: "OutOfMemoryError",
	autopsy.NativeCrash: "native crash", autopsy.Killed: "killed from outside", autopsy.Exited: "ended by itself",
	autopsy.Running: "it runs", autopsy.Unknown: "not known",
}

// shortNames are the verdicts in a list.
var shortNames = map[autopsy.Verdict]string{
	autopsy.ContainerLimit: "container limit", autopsy.ParentLimit: "parent's limit", autopsy.MachineLimit: "machine",
	autopsy.ChildKilled: "another process", autopsy.OOMD: "systemd-oomd", autopsy.OutOfMemoryError: "OutOfMemoryErr.",
	autopsy.NativeCrash: "native crash", autopsy.Killed: "killed", autopsy.Exited: "ended by itself",
	autopsy.Running: "it runs", autopsy.Unknown: "not known",
}

// momentColumns is how many accounts a terminal has room for.
const momentColumns = 4

// momentTable is what the JVM held before its end, in MiB: the accounts that grew
// most, or have most.
func momentTable(r *autopsy.Report) document.Table {
	accounts := telling(r)
	columns := []string{"MiB", ">before", ">usage"}
	for _, a := range accounts {
		columns = append(columns, ">"+accountTitle(a))
	}
	t := document.Table{Columns: document.Columns(append(columns, ">rest")...)}
	for _, m := range r.Moments {
		row := []string{m.At.Format("15:04:05"), before(m.BeforeSeconds), whole(m.UsageBytes)}
		rest := m.ResidentBytes
		for _, a := range accounts {
			row = append(row, whole(m.Accounts[a]))
			rest -= m.Accounts[a]
		}
		t.Rows = append(t.Rows, document.Row{Cells: document.Cells(append(row, whole(rest))...)})
	}
	if r.LimitBytes > 0 && r.Verdict != autopsy.ChildKilled {
		t.Rows = append(t.Rows, document.Row{Cells: document.Cells("limit", "", whole(r.LimitBytes)), Total: true})
	}
	return t
}

// telling are the accounts to show: those that grew, then the largest.
func telling(r *autopsy.Report) []autopsy.Account {
	last := r.Moments[len(r.Moments)-1].Accounts
	var out []autopsy.Account
	for _, g := range r.Growth {
		if g.Change() >= MiB && len(out) < momentColumns {
			out = append(out, g.Account)
		}
	}
	var others []autopsy.Account
	for a := range last {
		if !slices.Contains(out, a) {
			others = append(others, a)
		}
	}
	slices.SortFunc(others, func(a, b autopsy.Account) int {
		if last[a] != last[b] {
			return int(min(1, max(-1, last[b]-last[a])))
		}
		return int(min(1, max(-1, int64(len(a)-len(b)))))
	})
	return append(out, others[:min(len(others), momentColumns-len(out))]...)
}

// accountTitles are short enough for the head of a column.
var accountTitles = map[autopsy.Account]string{
	autopsy.DirectBuffers: "direct", autopsy.Account(footprint.JavaHeap): "heap", autopsy.Account(footprint.ClassSpace): "class sp.",
	autopsy.Account(footprint.CodeCache): "code", autopsy.Account(footprint.ThreadStacks): "stacks", autopsy.Account(footprint.GC): "GC",
	autopsy.Account(footprint.CDS): "archive", autopsy.Account(footprint.MappedFiles): "files", autopsy.Account(footprint.JVMOther): "JVM",
	autopsy.Account(footprint.Unattributed): "unknown",
}

func accountTitle(a autopsy.Account) string {
	if t, ok := accountTitles[a]; ok {
		return t
	}
	return string(a)
}

func whole(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/MiB) }

// before is how long before the end something was.
func before(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", seconds)
	}
	return Duration(d)
}

// autopsyAdvice is what would have kept it alive, what can be pasted first in its
// line.
func autopsyAdvice(r *autopsy.Report) document.Items {
	var all document.Items
	item := document.Item{Title: document.Strong(adviceTitle(r))}
	label := "do"
	for _, a := range r.Do {
		text := document.Plain(a.Text)
		if a.Option != "" {
			text = document.Join(document.Verbatim(a.Option), document.Plain(": "+a.Text))
		}
		item.Details = append(item.Details, document.Detail{Label: label, Text: text})
		label = "or"
	}
	all.Items = append(all.Items, item)
	return all
}

func adviceTitle(r *autopsy.Report) string {
	switch r.Verdict {
	case autopsy.ContainerLimit, autopsy.ParentLimit:
		if len(r.Growth) > 0 {
			return "the smallest change that would have stayed below the limit then"
		}
	}
	return "what to do"
}

// jvmLine says which JVM it was.
func jvmLine(r *autopsy.Report) string {
	p := r.JVM
	text := fmt.Sprintf("pid %d", p.ID.PID)
	if p.JDK != "" {
		text = fmt.Sprintf("java %s %s · %s", known(p.JDK), known(p.Collector), text)
	}
	if p.Name != "" && p.Name != r.Name {
		text += " · " + linux.PrintableName(p.Name)
	}
	if len(p.Container) >= 12 {
		text += " · container " + p.Container[:12]
	}
	if p.Pod == "" && p.PodUID != "" {
		text += " · pod " + linux.PrintableName(p.PodUID)
	}
	if !p.Started.IsZero() && !r.At.IsZero() {
		text += fmt.Sprintf(" · %s, after %s", r.At.Local().Format(time.DateTime), Duration(r.At.Sub(p.Started).Round(time.Second)))
	} else if !r.At.IsZero() {
		text += " · " + r.At.Local().Format(time.DateTime)
	}
	return text
}

// Autopsies lists ends, the last one first.
func Autopsies(all []*autopsy.Report, since string) *document.Document {
	d := &document.Document{Title: fmt.Sprintf("%d JVMs ended in the last %s", len(all), since)}
	if len(all) == 1 {
		d.Title = "1 JVM ended in the last " + since
	}
	t := document.Table{Columns: document.Columns("ended", ">pid", "JVM", "why", "sure", "grew, MiB")}
	for _, r := range all {
		at := "?"
		if !r.At.IsZero() {
			at = r.At.Local().Format("01-02 15:04:05")
		}
		grew := ""
		if len(r.Growth) > 0 && r.Growth[0].Change() >= MiB {
			grew = fmt.Sprintf("%s +%s", accountTitle(r.Growth[0].Account), whole(r.Growth[0].Change()))
		}
		t.Rows = append(t.Rows, document.Row{Cells: document.Cells(at, fmt.Sprint(r.JVM.ID.PID), middleCut(linux.PrintableName(r.Name), 14), shortNames[r.Verdict], string(r.Confidence), grew)})
	}
	if len(all) > 0 {
		d.Add(t, aside("one of them in full: tare autopsy PID"))
	}
	return d
}
