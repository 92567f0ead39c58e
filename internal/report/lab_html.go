package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"tare/internal/lab"
	"tare/internal/linux"
)

//go:embed lab.html
var labPage string

var labTemplate = template.Must(template.New("lab").Parse(labPage))

// LabHTML writes the report of an experiment as one HTML page that needs no
// network.
func LabHTML(w io.Writer, s *lab.Set, command string) error {
	d := &pageDoc{}
	labReport(d, s)
	v := labView{Title: linux.Printable(s.Experiment.Title), Command: linux.Printable(command), Blocks: d.blocks,
		Style: template.CSS(pageStyle), Script: template.JS(sortScript), Policy: pagePolicy()}
	if err := labTemplate.Execute(w, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

type labView struct {
	Title, Command string
	Blocks         []labBlock
	Style          template.CSS
	Script         template.JS
	// Policy forbids everything but the page's own style and script.
	Policy string
}

// labBlock is one block of the page: one of its fields.
type labBlock struct {
	Heading, Text string
	Claim         *labClaim
	Head          []labColumn
	Rows          [][]labField
	Plots         []drawn
}

type labClaim struct{ Word, Class, Text, Evidence, Why string }

type labColumn struct {
	Text   string
	Number bool
}

type labField struct {
	Text   string
	Number bool
	// Spread stands below a number.
	Spread string
	// Sort is the number that it is sorted by, empty to sort by the text.
	Sort string
}

// pageDoc collects the blocks of a page.
type pageDoc struct{ blocks []labBlock }

func (d *pageDoc) add(b labBlock) { d.blocks = append(d.blocks, b) }

func (d *pageDoc) heading(text string) { d.add(labBlock{Heading: linux.Printable(text)}) }

func (d *pageDoc) paragraph(text string) { d.add(labBlock{Text: linux.Printable(text)}) }

func (d *pageDoc) item(word, text, evidence, why string) {
	class := map[string]string{string(lab.Confirmed): "good", string(lab.Refuted): "bad"}[word]
	d.add(labBlock{Claim: &labClaim{word, class, linux.Printable(text), linux.Printable(evidence), linux.Printable(oneLine(why))}})
}

func (d *pageDoc) measure(s *lab.Set, name string) { d.add(labBlock{Plots: labPlots(s, name)}) }

// table is sorted by numbers in the columns where every cell has one.
func (d *pageDoc) table(align []Align, rows [][]cell) {
	var b labBlock
	for j, c := range rows[0] {
		b.Head = append(b.Head, labColumn{linux.Printable(c.Text), align[j] == Right})
	}
	for _, row := range rows[1:] {
		var fields []labField
		for j, c := range row {
			f := labField{Text: linux.Printable(c.Text), Number: align[j] == Right}
			if value, spread, ok := strings.Cut(f.Text, " ("); ok && f.Number {
				f.Text, f.Spread = value, "("+spread
			}
			if !slices.ContainsFunc(rows[1:], func(r []cell) bool { return math.IsNaN(r[j].Sort) }) {
				f.Sort = strings.TrimSpace(fmt.Sprintf("%g", c.Sort))
			}
			fields = append(fields, f)
		}
		b.Rows = append(b.Rows, fields)
	}
	d.add(b)
}
