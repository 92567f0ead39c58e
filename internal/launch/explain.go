package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Schema names the JSON form of a plan. Fields may be added; none changes its
// meaning.
const Schema = "tare.exec/1"

// explain writes the plan as a table; it names what was decided, by whom, and
// why.
func (p *plan) explain(w io.Writer) error {
	var b strings.Builder
	b.WriteString(p.headline() + "\n")
	rows := append(slices.Clone(p.advice), p.yours...)
	wide := len("option")
	for _, a := range rows {
		wide = max(wide, len(a.name()))
	}
	wide = min(wide, 40)
	if len(rows) > 0 {
		fmt.Fprintf(&b, "  %-*s  %-7s  %s\n", wide, "option", "from", "why")
	}
	for _, a := range rows {
		fmt.Fprintf(&b, "  %-*s  %-7s  %s\n", wide, printable(a.name()), a.From, printable(a.Why))
		if a.Effect != "" {
			fmt.Fprintf(&b, "  %-*s  %-7s  %s\n", wide, "", "", a.Effect)
		}
	}
	if len(rows) == 0 {
		b.WriteString("  nothing to add\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *plan) headline() string {
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
	return printable(fmt.Sprintf("container: %s, %d processor%s (%s) · java %s · profile: %s",
		memory, p.budget.CPUs, plural, p.budget.CPUsFrom, version, p.profile))
}

// printable keeps control characters of options and paths off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
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

// shellLine is a command as a POSIX shell reads it, with the variables that
// were added in front.
func shellLine(variables, args []string) string {
	var words []string
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		words = append(words, name+"="+quote(value))
	}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func quote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,+@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
