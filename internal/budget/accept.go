package budget

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/lab"
)

// Change is what is agreed to: new bounds, and growth beyond those against a base.
type Change struct {
	Acceptance
	// Most are the new absolute bounds of measures that have one.
	Most map[string]lab.Scalar
}

// Accept is the text of a budget with a change. Everything else in it, comments too,
// stays as it is. Mistakes in the file are *yamlfile.Error.
func Accept(data []byte, name string, c Change) ([]byte, error) {
	before, err := parse(data, name)
	if err != nil {
		return nil, err
	}
	out := data
	for _, measure := range slices.Sorted(maps.Keys(c.Most)) {
		if out, err = setMost(out, measure, string(c.Most[measure])); err != nil {
			return nil, fmt.Errorf("%s: most.%s: %w", name, measure, err)
		}
	}
	if out, err = addAcceptance(out, c.Acceptance); err != nil {
		return nil, fmt.Errorf("%s: accepted: %w", name, err)
	}
	after, err := parse(out, name)
	if err != nil {
		return nil, fmt.Errorf("the file is written in a way that cannot be changed here: change it by hand: %w", err)
	}
	if !changed(before, after, c) {
		return nil, fmt.Errorf("%s is written in a way that cannot be changed here: change it by hand", name)
	}
	return out, nil
}

// changed says that a change made one budget of the other, and nothing else.
func changed(before, after *Budget, c Change) bool {
	want := *before
	want.Most = maps.Clone(before.Most)
	maps.Copy(want.Most, c.Most)
	want.Accepted = append(slices.Clone(before.Accepted), c.Acceptance)
	got := *after
	want.bounds, got.bounds = nil, nil
	return reflect.DeepEqual(want, got)
}

var errForm = errors.New("write the value on one line after its name")

// setMost puts another text in the place of a bound.
func setMost(data []byte, measure, text string) ([]byte, error) {
	path, err := yaml.PathString(at("most", measure))
	if err != nil {
		return nil, err
	}
	node, err := path.ReadNode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	token := node.GetToken()
	lines := strings.SplitAfter(string(data), "\n")
	row, column := token.Position.Line-1, token.Position.Column-1
	if row < 0 || row >= len(lines) {
		return nil, errForm
	}
	runes := []rune(lines[row])
	if column < 0 || column > len(runes) {
		return nil, errForm
	}
	head, rest := string(runes[:column]), string(runes[column:])
	for _, old := range []string{token.Value, `"` + token.Value + `"`, "'" + token.Value + "'"} {
		if tail, ok := strings.CutPrefix(rest, old); ok {
			lines[row] = head + text + tail
			return []byte(strings.Join(lines, "")), nil
		}
	}
	return nil, errForm
}

// addAcceptance appends an entry to the list at the key accepted, which it makes where
// there is none.
func addAcceptance(data []byte, a Acceptance) ([]byte, error) {
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1]
	start := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "accepted:") })
	entry := a.lines()
	if start < 0 {
		return []byte(text + "\n# What was agreed to, and why: tare check accept.\naccepted:\n" + entry), nil
	}
	if rest, _, _ := strings.Cut(strings.TrimPrefix(lines[start], "accepted:"), "#"); strings.TrimSpace(rest) != "" {
		return nil, errors.New("write the list with an entry a line")
	}
	last := start
	for i := start + 1; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(lines[i], "#") {
			continue
		}
		if lines[i][0] != ' ' && lines[i][0] != '-' {
			break
		}
		last = i
	}
	if last > start && lines[start+1] != "" {
		first := lines[start+1]
		entry = indent(entry, len(first)-len(strings.TrimLeft(first, " ")))
	}
	return []byte(strings.Join(lines[:last+1], "") + entry + strings.Join(lines[last+1:], "")), nil
}

// lines are the entry, indented by two blanks.
func (a Acceptance) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - date: %s\n    reason: %s\n", strconv.Quote(a.Date), quoted(a.Reason))
	if len(a.Growth) > 0 {
		b.WriteString("    growth:\n")
		for _, m := range slices.Sorted(maps.Keys(a.Growth)) {
			fmt.Fprintf(&b, "      %s: %s\n", key(m), a.Growth[m])
		}
	}
	return b.String()
}

// key is a name as a key: those of results may have any character.
func key(measure string) string {
	if strings.Contains(measure, resultSeparator) {
		return quoted(measure)
	}
	return measure
}

// quoted is a text in single quotes, in which YAML knows no escapes but of the quote.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// indent moves lines that are indented by two blanks to another depth.
func indent(text string, blanks int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", blanks) + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}
