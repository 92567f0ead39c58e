package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"tare.dev/tare/internal/linux"
)

// Schema names the JSON form of a plan. Fields may be added; none changes its
// meaning.
const Schema = "tare.exec/1"

// The table is as wide as a terminal of old: names that are wider than their
// column have a line of their own.
const (
	tableWidth = 80
	nameWidth  = 28
)

// explain writes the plan as a table: what was decided, by whom, and why.
func (p *plan) explain(w io.Writer) error {
	var b strings.Builder
	for _, line := range p.headlines() {
		writeWrapped(&b, line, 0)
	}
	rows := append(slices.Clone(p.advice), p.yours...)
	if len(rows) == 0 {
		b.WriteString("  nothing to add\n")
	}
	for _, a := range rows {
		name := linux.Printable(a.name())
		if len(name) > nameWidth {
			fmt.Fprintf(&b, "  %s\n", name)
			name = ""
		}
		fmt.Fprintf(&b, "  %-*s  %-7s  ", nameWidth, name, a.From)
		const indent = 2 + nameWidth + 2 + 7 + 2
		why := a.Why
		if a.Source != "" {
			why += " (" + a.Source + ")"
		}
		writeWrapped(&b, linux.Printable(why), indent)
		if a.Effect != "" {
			b.WriteString(strings.Repeat(" ", indent))
			writeWrapped(&b, "→ "+linux.Printable(a.Effect), indent)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWrapped writes words up to the table's width, where indent columns of the
// first line are written already.
func writeWrapped(b *strings.Builder, text string, indent int) {
	at := indent
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == indent:
		case at+1+n > tableWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

func (p *plan) headlines() []string {
	memory := "unknown"
	if p.budget.MemoryBytes > 0 {
		memory = fmt.Sprintf("%d MiB (%s)", p.budget.MemoryBytes/mib, p.budget.MemoryFrom)
	}
	plural := "s"
	if p.budget.CPUs == 1 {
		plural = ""
	}
	version := p.java.Version
	if version == "" {
		version = "of unknown version"
	}
	return []string{
		linux.Printable(fmt.Sprintf("container: %s, %d processor%s (%s)", memory, p.budget.CPUs, plural, p.budget.CPUsFrom)),
		linux.Printable(fmt.Sprintf("java %s (%s) · profile: %s", version, p.java.Java, p.profile)),
	}
}

type planJSON struct {
	Schema  string   `json:"schema"`
	Java    string   `json:"java"`
	Version string   `json:"version"`
	Vendor  string   `json:"vendor"`
	Command []string `json:"command"`
	// MemoryBytes is 0 when unknown.
	MemoryBytes int64    `json:"memoryBytes"`
	MemoryFrom  string   `json:"memoryFrom"`
	Limited     bool     `json:"limited"`
	CPUs        int      `json:"cpus"`
	CPUsFrom    string   `json:"cpusFrom"`
	Profile     string   `json:"profile"`
	HeapBytes   int64    `json:"heapBytes"` // 0: left to the JVM or the user
	Rest        []Part   `json:"rest"`
	Added       []Advice `json:"added"`
	Yours       []Advice `json:"yours"`
	Warnings    []string `json:"warnings"`
}

func (p *plan) writeJSON(w io.Writer, args []string) error {
	list := func(a []Advice) []Advice { return append([]Advice{}, a...) }
	text, err := json.MarshalIndent(planJSON{
		Schema: Schema, Java: p.java.Java, Version: p.java.Version, Vendor: p.java.Vendor, Command: args,
		MemoryBytes: p.budget.MemoryBytes, MemoryFrom: p.budget.MemoryFrom, Limited: p.budget.Limited,
		CPUs: p.budget.CPUs, CPUsFrom: p.budget.CPUsFrom, Profile: p.profile, HeapBytes: p.heap,
		Rest: append([]Part{}, p.rest...), Added: list(p.advice), Yours: list(p.yours), Warnings: append([]string{}, p.warnings...),
	}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
