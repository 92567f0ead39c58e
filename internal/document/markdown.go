package document

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare.dev/tare/internal/linux"
)

// WriteMarkdown writes a document as GitHub Flavored Markdown
// (https://github.github.com/gfm/). What its text holds is never markup.
func WriteMarkdown(w io.Writer, d *Document) error {
	r := &markdownRenderer{}
	if d.Title != "" {
		r.block("# " + escape(d.Title))
	}
	for _, b := range d.Blocks {
		b.show(r)
	}
	if d.Made != "" {
		r.block("Made by " + inline(Verbatim(d.Made)) + ".")
	}
	_, err := w.Write(r.out.Bytes())
	return err
}

type markdownRenderer struct{ out bytes.Buffer }

// block writes lines and leaves one free behind them.
func (r *markdownRenderer) block(lines ...string) {
	for _, l := range lines {
		r.out.WriteString(l + "\n")
	}
	r.out.WriteByte('\n')
}

func (r *markdownRenderer) heading(h Heading) {
	level := "## "
	if h.Sub {
		level = "### "
	}
	r.block(level + inline(h.Text))
}

func (r *markdownRenderer) paragraph(p Paragraph) {
	if p.Text.Empty() {
		return
	}
	text := markdown(p.Text)
	if p.Role == Note {
		text = "Note: " + inline(p.Text)
	}
	r.block(text)
}

func (r *markdownRenderer) list(l List) {
	var lines []string
	for _, t := range l.Items {
		lines = append(lines, "- "+markdown(t))
	}
	if len(lines) > 0 {
		r.block(lines...)
	}
}

func (r *markdownRenderer) items(b Items) {
	for _, item := range b.Items {
		var marks []string
		for _, m := range item.Marks {
			marks = append(marks, escape(m.String()))
		}
		title := "- " + startOfLine(inline(item.Title))
		if len(marks) > 0 {
			title = "- " + bold(strings.Join(marks, " · ")) + ": " + inline(item.Title)
		}
		lines := []string{title}
		for _, d := range item.Details {
			text := inline(d.Text)
			if d.Label == "" && !d.Aside {
				text = startOfLine(text)
			}
			if d.Aside {
				text = "(" + text + ")"
			}
			switch {
			case d.Label != "":
				text = "- " + escape(d.Label) + ": " + text
			case slices.ContainsFunc(item.Details, func(o Detail) bool { return o.Label != "" }):
				text = "- " + text
			}
			lines = append(lines, "  "+text)
		}
		r.block(lines...)
	}
}

// bold is text that stands out; what is blank around it stays outside, where
// Markdown wants it (GFM, 6.4).
func bold(text string) string {
	inner := strings.TrimSpace(text)
	if inner == "" {
		return text
	}
	before, after, _ := strings.Cut(text, inner)
	return before + "**" + inner + "**" + after
}

func (r *markdownRenderer) table(t Table) {
	if len(t.Columns) == 0 {
		return
	}
	head, rule := "|", "|"
	for _, c := range t.Columns {
		head += " " + escape(c.Name) + " |"
		if c.Number {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	lines := []string{head, rule}
	for _, row := range t.Rows {
		line := "|"
		for i := range t.Columns {
			text := ""
			if i < len(row.Cells) {
				text = inline(beside(row.Cells[i]))
			}
			if i == 0 {
				text = strings.Repeat("&emsp;", row.Depth) + text
			}
			line += " " + text + " |"
		}
		lines = append(lines, line)
	}
	r.block(lines...)
}

func (r *markdownRenderer) facts(f Facts) {
	t := Table{Columns: Columns("", ">", "")}
	for _, fact := range f.Facts {
		t.Row(Cell{Text: Plain(fact.Name)}, Cell{Text: Strong(fact.Value)}, Cell{Text: Plain(fact.Note)})
	}
	r.table(t)
}

func (r *markdownRenderer) code(c Code) {
	if !c.Label.Empty() {
		r.block(markdown(c.Label) + ":")
	}
	fence := "```"
	for strings.Contains(c.Text, fence) {
		fence += "`"
	}
	lines := []string{fence}
	for l := range strings.SplitSeq(strings.TrimRight(c.Text, "\n"), "\n") {
		lines = append(lines, linux.Printable(l))
	}
	r.block(append(lines, fence)...)
}

func (r *markdownRenderer) figure(f Figure) {
	if f.Numbers == nil {
		return
	}
	if !f.Heading.Empty() {
		r.heading(Heading{Text: f.Heading, Sub: true})
	}
	r.paragraph(Paragraph{Text: f.Caption})
	f.Numbers.show(r)
}

func (r *markdownRenderer) gallery(g Gallery) {
	if !g.Heading.Empty() && slices.ContainsFunc(g.Figures, func(f Figure) bool { return f.Numbers != nil }) {
		r.heading(Heading{Text: g.Heading, Sub: true})
	}
	for _, f := range g.Figures {
		r.figure(f)
	}
}

func (r *markdownRenderer) fold(f Fold) {
	r.block("<details><summary>" + safe(f.Summary.String()) + "</summary>") // HTML has its own escapes
	for _, b := range f.Blocks {
		b.show(r)
	}
	r.block("</details>")
}

// markdown is a text that begins a line.
func markdown(t Text) string { return startOfLine(inline(t)) }

// inline is a text with its emphasis; the colours of a terminal have none.
func inline(t Text) string {
	var b strings.Builder
	for _, s := range t {
		switch {
		case s.tone == strong:
			b.WriteString(bold(escape(s.text)))
		case s.tone == code && strings.TrimSpace(s.text) != "":
			b.WriteString(codeSpan(s.text))
		default:
			b.WriteString(escape(s.text))
		}
	}
	return b.String()
}

// codeSpan is a code span (GFM, 6.3), between more backticks than the text has
// in a row. A | ends a cell even there (GFM, 4.10).
func codeSpan(text string) string {
	text = linux.Printable(text)
	if strings.Contains(text, "|") {
		return escape(text)
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// escape writes a backslash before what Markdown would take for markup (GFM,
// 6.1: any ASCII punctuation can be escaped). What cannot be markup where it
// stands is left alone, so that text stays readable.
func escape(text string) string {
	text = linux.Printable(text)
	var b strings.Builder
	before := ' '
	for i, r := range text {
		after, size := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		if size == 0 {
			after = endOfText
		}
		if special(before, r, after) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

// endOfText stands for whatever follows a text.
const endOfText = 0

// special says that a character could be markup between two others.
func special(before, r, after rune) bool {
	switch r {
	case '\\', '`', '*', '[', ']', '|', '~', '@':
		return true
	case '#': // begins a heading, or a reference to an issue
		return before == ' '
	case '_': // within a word it is none
		return !word(before) || !word(after)
	case '<': // begins a tag, a comment or an automatic link
		return unicode.IsLetter(after) || strings.ContainsRune("/!?", after) || after == endOfText
	case '&': // begins an entity
		return unicode.IsLetter(after) || after == '#' || after == endOfText
	case '!': // begins a picture
		return after == '['
	}
	return false
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// startOfLine escapes what only at the start of a line is markup: the signs of
// lists, quotations and rules.
func startOfLine(text string) string {
	text = strings.TrimLeft(text, " ")
	if text == "" {
		return text
	}
	second, _ := utf8.DecodeRuneInString(text[1:] + " ")
	if strings.ContainsRune("=>", rune(text[0])) || strings.ContainsRune("-+", rune(text[0])) && (second == ' ' || second == rune(text[0])) {
		return `\` + text
	}
	digits := strings.TrimLeft(text, "0123456789")
	if digits != text && digits != "" && (digits[0] == '.' || digits[0] == ')') && (len(digits) == 1 || digits[1] == ' ') {
		return text[:len(text)-len(digits)] + `\` + digits
	}
	return text
}
