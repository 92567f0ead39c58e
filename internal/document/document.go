// Package document is what a report says, apart from how it is shown. A subject
// (a footprint, a fit, an experiment, a benchmark) builds a Document; WriteText,
// WriteJSON, WriteMarkdown and WriteHTML show it on a terminal, to programs, in
// a pull request and in a browser.
//
// Text may come from anywhere: a JVM, a result file, an environment variable.
// Each renderer makes it safe for its medium, so a subject passes it on as it
// is.
package document

import (
	"slices"
	"strings"

	"tare.dev/tare/internal/plot"
)

// Document is a report.
type Document struct {
	// Title is the headline. It may be empty where the document becomes part of
	// another, such as a comment on a pull request; a page needs one.
	Title  string
	Blocks []Block
	// Made is the command that made the document; empty for none.
	Made string
}

// Add appends blocks.
func (d *Document) Add(blocks ...Block) { d.Blocks = append(d.Blocks, blocks...) }

// Block is a part of a document: a Heading, Paragraph, List, Items, Table,
// Facts, Code, Figure, Gallery or Fold.
type Block interface {
	show(renderer)
	kind() string
}

// renderer shows each kind of block. A new kind does not compile before every
// renderer shows it.
type renderer interface {
	heading(Heading)
	paragraph(Paragraph)
	list(List)
	items(Items)
	table(Table)
	facts(Facts)
	code(Code)
	figure(Figure)
	gallery(Gallery)
	fold(Fold)
}

// Heading begins a section, or with Sub a part of one.
type Heading struct {
	Text Text
	Sub  bool
}

// Paragraph is a piece of prose.
type Paragraph struct {
	Text Text
	Role Role
}

// Role is what a paragraph is for.
type Role int

// The roles.
const (
	Body    Role = iota
	Lead         // the answer, which comes first
	Note         // what to keep in mind, such as a warning
	Aside        // what matters less, such as how to read a table
	Failure      // why there is no answer
)

var roleNames = map[Role]string{Body: "body", Lead: "lead", Note: "note", Aside: "aside", Failure: "failure"}

// List is remarks of equal standing.
type List struct{ Items []Text }

// Items are judgements, each with what supports it: the claims of an experiment,
// the findings of doctor.
type Items struct{ Items []Item }

// Item is one judgement.
type Item struct {
	// Marks stand before the title, in columns: a number, a size, a verdict.
	Marks []Text
	Title Text
	// Details are evidence, reasons and what to do.
	Details []Detail
}

// Detail supports an Item. Label says what it is, empty where the text tells;
// an Aside matters less.
type Detail struct {
	Label string
	Text  Text
	Aside bool
}

// Table is rows of cells. A table whose columns have no names has no head.
type Table struct {
	// Name is the id of the table on a page; empty for none.
	Name    string
	Columns []Column
	Rows    []Row
	// Sortable tables are sorted on a page by pressing a column's name.
	Sortable bool
}

// Column is the head of a column. Numbers stand at the right.
type Column struct {
	Name   string
	Number bool
}

// Columns are columns of text by their names; a name that begins with > is one
// of numbers.
func Columns(names ...string) []Column {
	out := make([]Column, 0, len(names))
	for _, n := range names {
		name, number := strings.CutPrefix(n, ">")
		out = append(out, Column{name, number})
	}
	return out
}

// Row is a row of a table; it may be shorter than the head.
type Row struct {
	Cells []Cell
	// Depth is 0 for a row, 1 for a part of the one above, and so on.
	Depth int
	// Total rows are the sum of those above.
	Total bool
}

// Cell is one field of a table.
type Cell struct {
	Text Text
	// Note is what stands beside or below the text, such as a spread.
	Note Text
	// Sort is the number that a column is sorted by, nil to sort by the text.
	Sort *float64
}

// Facts are the few figures that the reader came for.
type Facts struct{ Facts []Fact }

// Fact is one figure.
type Fact struct{ Name, Value, Note string }

// Code is text to paste, line by line as it is.
type Code struct {
	// Label says where it belongs.
	Label Text
	Text  string
}

// Figure is a plot. Where none can be drawn, on a terminal and in Markdown,
// Numbers stands for it; a page folds them below it. Nil means that a table of
// the document has them, and that the plot is left out where it cannot be drawn.
type Figure struct {
	Heading Text
	Caption Text
	Plot    plot.Plot
	Numbers *Table
}

// Gallery is small figures side by side.
type Gallery struct {
	Heading Text
	Figures []Figure
}

// Fold is what a reader opens to see, where the medium can fold.
type Fold struct {
	Summary Text
	Blocks  []Block
}

func (b Heading) show(r renderer)   { r.heading(b) }
func (b Paragraph) show(r renderer) { r.paragraph(b) }
func (b List) show(r renderer)      { r.list(b) }
func (b Items) show(r renderer)     { r.items(b) }
func (b Table) show(r renderer)     { r.table(b.widened()) }
func (b Facts) show(r renderer)     { r.facts(b) }
func (b Code) show(r renderer)      { r.code(b) }
func (b Figure) show(r renderer)    { r.figure(b) }
func (b Gallery) show(r renderer)   { r.gallery(b) }
func (b Fold) show(r renderer)      { r.fold(b) }

func (Heading) kind() string   { return "heading" }
func (Paragraph) kind() string { return "paragraph" }
func (List) kind() string      { return "list" }
func (Items) kind() string     { return "items" }
func (Table) kind() string     { return "table" }
func (Facts) kind() string     { return "facts" }
func (Code) kind() string      { return "code" }
func (Figure) kind() string    { return "figure" }
func (Gallery) kind() string   { return "gallery" }
func (Fold) kind() string      { return "fold" }

// Text is a line of words, some of which stand out. Nothing is said by tone
// alone.
type Text []span

type span struct {
	text string
	tone tone
}

type tone int

const (
	plain tone = iota
	strong
	good
	bad
	faint
	code
)

// Plain is text as it is.
func Plain(text string) Text { return Text{{text, plain}} }

// Strong is text that stands out.
func Strong(text string) Text { return Text{{text, strong}} }

// Good is text that tells of what passed.
func Good(text string) Text { return Text{{text, good}} }

// Bad is text that tells of what failed.
func Bad(text string) Text { return Text{{text, bad}} }

// Faint is text that matters less.
func Faint(text string) Text { return Text{{text, faint}} }

// Verbatim is text that a program reads: an option, a command.
func Verbatim(text string) Text { return Text{{text, code}} }

// Prose is text in which words between backticks are verbatim.
func Prose(text string) Text {
	parts := strings.Split(text, "`")
	var out Text
	for i, p := range parts {
		switch {
		case i%2 == 1 && i < len(parts)-1:
			out = append(out, span{p, code})
		case i%2 == 1: // a backtick without its second
			out = append(out, span{"`" + p, plain})
		case p != "":
			out = append(out, span{p, plain})
		}
	}
	return out
}

// Join puts texts one after the other.
func Join(texts ...Text) Text {
	var out Text
	for _, t := range texts {
		out = append(out, t...)
	}
	return out
}

// String is the text without its tones.
func (t Text) String() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(s.text)
	}
	return b.String()
}

// Empty says that there is nothing to show.
func (t Text) Empty() bool { return strings.TrimSpace(t.String()) == "" }

// Cells are cells of plain text.
func Cells(texts ...string) []Cell {
	out := make([]Cell, 0, len(texts))
	for _, t := range texts {
		out = append(out, Cell{Text: Plain(t)})
	}
	return out
}

// Number is a cell that is sorted by a value.
func Number(text string, value float64) Cell { return Cell{Text: Plain(text), Sort: &value} }

// Row appends a row of cells.
func (t *Table) Row(cells ...Cell) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// widened has a column for each cell of its longest row.
func (t Table) widened() Table {
	t.Columns = slices.Clone(t.Columns)
	for _, row := range t.Rows {
		for len(t.Columns) < len(row.Cells) {
			t.Columns = append(t.Columns, Column{})
		}
	}
	return t
}

// headed says that a column has a name.
func (t Table) headed() bool {
	for _, c := range t.Columns {
		if c.Name != "" {
			return true
		}
	}
	return false
}
