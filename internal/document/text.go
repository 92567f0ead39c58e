package document

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"tare.dev/tare/internal/linux"
)

// Width is how many columns a terminal has at least. Prose is broken there;
// tables and what is to be pasted keep their lines.
const Width = 80

// WriteText writes a document for a terminal.
func WriteText(w io.Writer, d *Document, s Style) error {
	r := &textRenderer{style: s}
	if d.Title != "" {
		r.lines("", "", Strong(d.Title))
		r.last = "title"
	}
	for _, b := range d.Blocks {
		b.show(r)
	}
	_, err := w.Write(r.out.Bytes())
	return err
}

type textRenderer struct {
	out   bytes.Buffer
	style Style
	// last is the kind of the block above, empty at the start.
	last string
}

// begin leaves a line free between blocks, but for what belongs together.
func (r *textRenderer) begin(kind string) {
	together := r.last == "heading" || kind == "note" && r.last == "note"
	if r.last != "" && !together {
		r.out.WriteByte('\n')
	}
	r.last = kind
}

// line writes styled text behind an indent; nothing trails.
func (r *textRenderer) line(indent string, text Text) {
	var b strings.Builder
	for _, s := range text {
		b.WriteString(r.style.tone(s.text, s.tone))
	}
	r.out.WriteString(strings.TrimRight(indent+b.String(), " "))
	r.out.WriteByte('\n')
}

// lines writes text wrapped, the first line behind one indent, all others
// behind another of the same or more columns.
func (r *textRenderer) lines(first, others string, text Text) {
	all := wrap(text, Width-lipgloss.Width(others))
	if len(all) == 0 {
		all = []Text{nil} // what stands before it is shown all the same
	}
	for i, l := range all {
		if i == 0 {
			r.line(first, l)
		} else {
			r.line(others, l)
		}
	}
}

func (r *textRenderer) heading(h Heading) {
	r.begin("heading")
	r.lines("", "", emphasized(h.Text, strong))
}

func (r *textRenderer) paragraph(p Paragraph) {
	if p.Text.Empty() {
		return
	}
	switch p.Role {
	case Note:
		r.begin("note")
		r.lines("note: ", "      ", p.Text)
	case Aside:
		r.begin("paragraph")
		r.lines("", "", emphasized(p.Text, faint))
	case Failure:
		r.begin("paragraph")
		r.lines("", "", emphasized(p.Text, bad))
	default:
		r.begin("paragraph")
		r.lines("", "", p.Text)
	}
}

func (r *textRenderer) list(l List) {
	if len(l.Items) == 0 {
		return
	}
	r.begin("list")
	for _, t := range l.Items {
		r.lines("  ", "    ", t)
	}
}

func (r *textRenderer) items(b Items) {
	widths, right := markColumns(b.Items)
	indent, labelled := 2, 0
	for _, w := range widths {
		indent += w + 2
	}
	for _, item := range b.Items {
		for _, d := range item.Details {
			labelled = max(labelled, lipgloss.Width(linux.Printable(d.Label)))
		}
	}
	for _, item := range b.Items {
		r.begin("items")
		var head strings.Builder
		head.WriteString("  ")
		for i, m := range item.Marks {
			head.WriteString(r.padded(m, widths[i], right[i]) + "  ")
		}
		r.lines(head.String(), strings.Repeat(" ", indent), emphasized(item.Title, strong))
		for _, d := range item.Details {
			r.detail(d, indent, labelled)
		}
	}
}

// detail writes a detail below a title: behind its label where the block has
// labels, else where the title begins.
func (r *textRenderer) detail(d Detail, indent, labelled int) {
	first, others := strings.Repeat(" ", indent), strings.Repeat(" ", indent)
	if labelled > 0 {
		label := linux.Printable(d.Label)
		first = "    " + label + strings.Repeat(" ", labelled-lipgloss.Width(label)+2)
		others = strings.Repeat(" ", 4+labelled+2)
	}
	text := d.Text
	if d.Aside {
		text = emphasized(text, faint)
	}
	r.lines(first, others, text)
}

// markColumns are the widths of marks; a column whose marks begin with digits
// is one of numbers.
func markColumns(items []Item) (widths []int, right []bool) {
	for _, item := range items {
		for i, m := range item.Marks {
			if i == len(widths) {
				widths, right = append(widths, 0), append(right, true)
			}
			text := linux.Printable(m.String())
			widths[i] = max(widths[i], lipgloss.Width(text))
			right[i] = right[i] && text != "" && text[0] >= '0' && text[0] <= '9'
		}
	}
	return widths, right
}

func (r *textRenderer) padded(text Text, width int, right bool) string {
	var b strings.Builder
	used := 0
	for _, s := range text {
		safe := linux.Printable(s.text)
		used += lipgloss.Width(safe)
		b.WriteString(r.style.tone(safe, s.tone))
	}
	pad := strings.Repeat(" ", max(width-used, 0))
	if right {
		return pad + b.String()
	}
	return b.String() + pad
}

func (r *textRenderer) table(t Table) {
	rows := slices.Clone(t.Rows)
	if t.headed() {
		head := Row{}
		for _, c := range t.Columns {
			head.Cells = append(head.Cells, Cell{Text: Plain(c.Name)})
		}
		rows = slices.Insert(rows, 0, head)
	}
	if len(rows) == 0 {
		return
	}
	r.begin("table")
	texts := make([][]Text, len(rows))
	widths := make([]int, len(t.Columns))
	for i, row := range rows {
		for j, c := range row.Cells {
			text := beside(c)
			if j == 0 {
				text = Join(Plain(strings.Repeat("  ", row.Depth)), text)
			}
			texts[i] = append(texts[i], text)
			widths[j] = max(widths[j], lipgloss.Width(linux.Printable(text.String())))
		}
	}
	for i, row := range rows {
		if row.Total {
			r.line("  ", Plain(strings.Repeat("─", ruleWidth(widths[:len(texts[i])]))))
		}
		var line strings.Builder
		for j, text := range texts[i] {
			if j > 0 {
				line.WriteString("  ")
			}
			line.WriteString(r.padded(text, widths[j], t.Columns[j].Number))
		}
		r.line("  ", Plain(line.String()))
	}
}

func ruleWidth(widths []int) int {
	sum := 2 * max(len(widths)-1, 0)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// beside is the text of a cell with its note behind it.
func beside(c Cell) Text {
	if c.Note.Empty() {
		return c.Text
	}
	if c.Text.Empty() {
		return c.Note
	}
	return Join(c.Text, Plain(" "), c.Note)
}

func (r *textRenderer) facts(f Facts) {
	t := Table{Columns: Columns("", ">", "")}
	for _, fact := range f.Facts {
		t.Rows = append(t.Rows, Row{Cells: Cells(fact.Name, fact.Value, fact.Note)})
	}
	r.table(t)
}

func (r *textRenderer) code(c Code) {
	if !c.Label.Empty() {
		r.begin("code")
		r.lines("  ", "  ", c.Label)
		r.last = "heading"
	}
	r.begin("code")
	for l := range strings.SplitSeq(strings.TrimRight(c.Text, "\n"), "\n") {
		r.out.WriteString(strings.TrimRight("    "+linux.Printable(l), " ") + "\n")
	}
}

func (r *textRenderer) figure(f Figure) {
	if f.Numbers == nil {
		return
	}
	if !f.Heading.Empty() {
		r.heading(Heading{Text: f.Heading})
	}
	r.paragraph(Paragraph{Text: f.Caption})
	f.Numbers.show(r)
}

func (r *textRenderer) gallery(g Gallery) {
	if !g.Heading.Empty() && slices.ContainsFunc(g.Figures, func(f Figure) bool { return f.Numbers != nil }) {
		r.heading(Heading{Text: g.Heading, Sub: true})
	}
	for _, f := range g.Figures {
		r.figure(f)
	}
}

func (r *textRenderer) fold(f Fold) {
	r.heading(Heading{Text: f.Summary})
	for _, b := range f.Blocks {
		b.show(r)
	}
}

// emphasized gives a tone to what has none.
func emphasized(t Text, to tone) Text {
	out := slices.Clone(t)
	for i, s := range out {
		if s.tone == plain {
			out[i].tone = to
		}
	}
	return out
}

// wrap breaks text at spaces so that no line is wider than width, where words
// allow it. What it returns is printable.
func wrap(t Text, width int) []Text {
	var out []Text
	var line, word Text
	used, size := 0, 0
	end := func() {
		if len(word) == 0 {
			return
		}
		if used > 0 && used+1+size > width {
			out, line, used = append(out, line), nil, 0
		}
		if used > 0 {
			line = appendSpan(line, span{" ", between(line, word)})
			used++
		}
		for _, s := range word {
			line = appendSpan(line, s)
		}
		used += size
		word, size = nil, 0
	}
	for _, s := range t {
		text := linux.Printable(s.text)
		for i, part := range strings.Split(text, " ") {
			if i > 0 {
				end()
			}
			if part != "" {
				word = append(word, span{part, s.tone})
				size += lipgloss.Width(part)
			}
		}
	}
	end()
	if len(line) > 0 {
		out = append(out, line)
	}
	return out
}

// between is the tone of a space: that of its neighbours where they agree.
func between(line, word Text) tone {
	if t := line[len(line)-1].tone; t == word[0].tone {
		return t
	}
	return plain
}

func appendSpan(t Text, s span) Text {
	if n := len(t); n > 0 && t[n-1].tone == s.tone {
		t[n-1].text += s.text
		return t
	}
	return append(t, s)
}
