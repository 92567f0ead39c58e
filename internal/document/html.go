package document

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"io"
	"strconv"
	"strings"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/plot"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageCSS string

//go:embed sort.js
var sortScript string

// pageStyle is the one style of all pages: the palette and the plots' rules,
// then the page's own.
var pageStyle = plot.Style + pageCSS

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Policy is the Content-Security-Policy of every page
// (https://www.w3.org/TR/CSP3/): nothing but the page's own style and script, by
// their hashes.
func Policy() string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashSource(pageStyle) + "; script-src " + hashSource(sortScript)
}

func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// WriteHTML writes a document as one page that needs no network.
func WriteHTML(w io.Writer, d *Document) error {
	r := &htmlRenderer{}
	for _, b := range d.Blocks {
		b.show(r)
	}
	page := struct {
		Title, Made, Policy string
		// What the renderer wrote is escaped; the others are this package's.
		Body   template.HTML
		Style  template.CSS
		Script template.JS
	}{linux.Printable(d.Title), linux.Printable(d.Made), Policy(), template.HTML(r.String()), template.CSS(pageStyle), template.JS(sortScript)}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, page); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	_, err := w.Write(out.Bytes())
	return err
}

type htmlRenderer struct{ strings.Builder }

// tag writes an element around text that is HTML already.
func (r *htmlRenderer) tag(name, attributes, inner string) {
	r.WriteString("<" + name + attributes + ">" + inner + "</" + name + ">\n")
}

func class(name string) string { return ` class="` + name + `"` }

func (r *htmlRenderer) heading(h Heading) {
	if h.Sub {
		r.tag("h3", "", markup(h.Text))
	} else {
		r.tag("h2", "", markup(h.Text))
	}
}

func (r *htmlRenderer) paragraph(p Paragraph) {
	if p.Text.Empty() {
		return
	}
	attributes := ""
	if p.Role != Body {
		attributes = class(roleNames[p.Role])
	}
	r.tag("p", attributes, markup(p.Text))
}

func (r *htmlRenderer) list(l List) {
	if len(l.Items) == 0 {
		return
	}
	var items htmlRenderer
	for _, t := range l.Items {
		items.tag("li", "", markup(t))
	}
	r.tag("ul", "", items.String())
}

func (r *htmlRenderer) items(b Items) {
	for _, item := range b.Items {
		var inner htmlRenderer
		for _, m := range item.Marks {
			inner.WriteString(`<span class="mark">` + markup(m) + "</span> ")
		}
		inner.tag("b", "", markup(item.Title))
		for _, d := range item.Details {
			text := markup(d.Text)
			if d.Label != "" {
				text = `<span class="aside">` + safe(d.Label) + ":</span> " + text
			}
			if d.Aside {
				inner.tag("p", class("aside"), text)
			} else {
				inner.tag("p", "", text)
			}
		}
		r.tag("div", class("item"), inner.String())
	}
}

func (r *htmlRenderer) table(t Table) {
	if len(t.Rows) == 0 && !t.headed() {
		return
	}
	var table, body htmlRenderer
	if t.headed() {
		table.tag("thead", "", "<tr>"+t.head()+"</tr>")
	}
	sorted := t.sorted()
	for _, row := range t.Rows {
		attributes := ""
		switch {
		case row.Total:
			attributes = class("total")
		case row.Depth > 0:
			attributes = class("depth" + strconv.Itoa(min(row.Depth, deepest)))
		}
		var cells strings.Builder
		for i := range t.Columns {
			cells.WriteString(t.cell(row, i, sorted[i]))
		}
		body.tag("tr", attributes, cells.String())
	}
	table.tag("tbody", "", body.String())
	attributes := ""
	if t.Name != "" {
		attributes = ` id="` + safe(t.Name) + `"`
	}
	if t.Sortable {
		attributes += class("sortable")
	}
	r.WriteString(`<div class="scroll">`)
	r.tag("table", attributes, table.String())
	r.WriteString("</div>\n")
}

// deepest is the depth of rows that the style knows.
const deepest = 4

func (t Table) head() string {
	var b strings.Builder
	for _, c := range t.Columns {
		name := safe(c.Name)
		if t.Sortable {
			if name == "" {
				name = "#" // something to press
			}
			name = `<button type="button">` + name + "</button>"
		}
		b.WriteString(`<th scope="col"` + numberClass(c.Number) + ">" + name + "</th>")
	}
	return b.String()
}

func numberClass(number bool) string {
	if number {
		return class("n")
	}
	return ""
}

// sorted says of each column whether all its cells have a number to sort by.
func (t Table) sorted() []bool {
	out := make([]bool, len(t.Columns))
	for i := range out {
		out[i] = t.Sortable
		for _, row := range t.Rows {
			out[i] = out[i] && i < len(row.Cells) && row.Cells[i].Sort != nil
		}
	}
	return out
}

func (t Table) cell(row Row, i int, sorted bool) string {
	if i >= len(row.Cells) {
		return "<td></td>"
	}
	c := row.Cells[i]
	attributes := numberClass(t.Columns[i].Number)
	if sorted {
		attributes += ` data-sort="` + strconv.FormatFloat(*c.Sort, 'g', -1, 64) + `"`
	}
	note := ""
	if !c.Note.Empty() {
		note = "<small>" + markup(c.Note) + "</small>"
	}
	return "<td" + attributes + ">" + markup(c.Text) + note + "</td>"
}

func (r *htmlRenderer) facts(f Facts) {
	var list htmlRenderer
	for _, x := range f.Facts {
		note := ""
		if x.Note != "" {
			note = " <span>" + safe(x.Note) + "</span>"
		}
		list.tag("div", "", "<dt>"+safe(x.Name)+"</dt><dd><b>"+safe(x.Value)+"</b>"+note+"</dd>")
	}
	r.tag("dl", class("facts"), list.String())
}

func (r *htmlRenderer) code(c Code) {
	if !c.Label.Empty() {
		r.tag("h3", "", markup(c.Label))
	}
	var lines []string
	for l := range strings.SplitSeq(strings.TrimRight(c.Text, "\n"), "\n") {
		lines = append(lines, safe(l))
	}
	r.tag("pre", "", strings.Join(lines, "\n"))
}

func (r *htmlRenderer) figure(f Figure) {
	if !f.Heading.Empty() {
		r.tag("h3", "", markup(f.Heading))
	}
	r.paragraph(Paragraph{Text: f.Caption})
	r.tag("figure", "", `<div class="wide">`+f.Plot.SVG(plot.Wide)+`</div><div class="narrow">`+f.Plot.SVG(plot.Narrow)+"</div>"+numbers(f))
}

// numbers is the table of a figure, for readers who want more than the picture.
func numbers(f Figure) string {
	if f.Numbers == nil {
		return ""
	}
	var r htmlRenderer
	r.fold(Fold{Plain("The numbers"), []Block{*f.Numbers}})
	return r.String()
}

func (r *htmlRenderer) gallery(g Gallery) {
	if !g.Heading.Empty() {
		r.tag("h3", "", markup(g.Heading))
	}
	var all htmlRenderer
	for _, f := range g.Figures {
		caption := markup(f.Heading)
		if !f.Caption.Empty() {
			caption += " <small>" + markup(f.Caption) + "</small>"
		}
		all.tag("figure", "", "<figcaption>"+caption+"</figcaption>"+f.Plot.SVG(plot.Narrow)+numbers(f))
	}
	r.tag("div", class("gallery"), all.String())
}

func (r *htmlRenderer) fold(f Fold) {
	var inner htmlRenderer
	inner.tag("summary", "", markup(f.Summary))
	for _, b := range f.Blocks {
		b.show(&inner)
	}
	r.tag("details", "", inner.String())
}

var toneTags = map[tone][2]string{
	strong: {"<b>", "</b>"}, code: {"<code>", "</code>"},
	good: {`<span class="good">`, "</span>"}, bad: {`<span class="bad">`, "</span>"}, faint: {`<span class="aside">`, "</span>"},
}

// markup is a text as HTML.
func markup(t Text) string {
	var b strings.Builder
	for _, s := range t {
		tags := toneTags[s.tone]
		b.WriteString(tags[0] + safe(s.text) + tags[1])
	}
	return b.String()
}

// safe is text from anywhere as HTML, in an element or a quoted attribute.
func safe(text string) string { return html.EscapeString(linux.Printable(text)) }
