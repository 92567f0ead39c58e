package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode"
)

// Schema names the JSON form of a document. Fields may be added; none changes
// its meaning.
const Schema = "tare.document/1"

// WriteJSON writes a document for programs. It is for reports that have no
// format of their own. Text is whole; what a terminal would obey is escaped.
func WriteJSON(w io.Writer, d *Document) error {
	blocks, err := jsonBlocks(d.Blocks)
	if err != nil {
		return fmt.Errorf("document: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(struct {
		Schema string            `json:"schema"`
		Title  string            `json:"title"`
		Made   string            `json:"made,omitempty"`
		Blocks []json.RawMessage `json:"blocks"`
	}{Schema, d.Title, d.Made, blocks}); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	_, err = w.Write(asciiControls(out.Bytes()))
	return err
}

// asciiControls escapes what is not printable; outside of strings JSON has line
// feeds alone.
func asciiControls(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff: // as a pair of surrogates (RFC 8259, 7)
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// jsonBlocks are blocks with their kinds.
func jsonBlocks(blocks []Block) ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	for _, b := range blocks {
		r := &jsonRenderer{kind: b.kind()}
		b.show(r)
		if r.err != nil {
			return nil, r.err
		}
		out = append(out, r.out)
	}
	return out, nil
}

// jsonRenderer encodes one block.
type jsonRenderer struct {
	kind string
	out  json.RawMessage
	err  error
}

func (r *jsonRenderer) encode(v any) { r.out, r.err = json.Marshal(v) }

func (r *jsonRenderer) heading(h Heading) {
	r.encode(struct {
		Kind string `json:"kind"`
		Text Text   `json:"text"`
		Sub  bool   `json:"sub,omitempty"`
	}{r.kind, h.Text, h.Sub})
}

func (r *jsonRenderer) paragraph(p Paragraph) {
	r.encode(struct {
		Kind string `json:"kind"`
		Role string `json:"role"`
		Text Text   `json:"text"`
	}{r.kind, roleNames[p.Role], p.Text})
}

func (r *jsonRenderer) list(l List) {
	r.encode(struct {
		Kind  string `json:"kind"`
		Items []Text `json:"items"`
	}{r.kind, append([]Text{}, l.Items...)})
}

func (r *jsonRenderer) items(b Items) {
	type detail struct {
		Label string `json:"label,omitempty"`
		Text  Text   `json:"text"`
	}
	type item struct {
		Marks   []Text   `json:"marks"`
		Title   Text     `json:"title"`
		Details []detail `json:"details"`
	}
	all := []item{}
	for _, i := range b.Items {
		to := item{append([]Text{}, i.Marks...), i.Title, []detail{}}
		for _, d := range i.Details {
			to.Details = append(to.Details, detail{d.Label, d.Text})
		}
		all = append(all, to)
	}
	r.encode(struct {
		Kind  string `json:"kind"`
		Items []item `json:"items"`
	}{r.kind, all})
}

type jsonCell struct {
	Text  Text     `json:"text"`
	Note  Text     `json:"note,omitempty"`
	Value *float64 `json:"value,omitempty"`
}

type jsonRow struct {
	Cells []jsonCell `json:"cells"`
	Depth int        `json:"depth,omitempty"`
	Total bool       `json:"total,omitempty"`
}

type jsonTable struct {
	Kind    string    `json:"kind,omitempty"`
	Columns []string  `json:"columns"`
	Rows    []jsonRow `json:"rows"`
}

func tableJSON(kind string, t Table) jsonTable {
	out := jsonTable{kind, []string{}, []jsonRow{}}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, c.Name)
	}
	for _, row := range t.Rows {
		to := jsonRow{[]jsonCell{}, row.Depth, row.Total}
		for _, c := range row.Cells {
			cell := jsonCell{Text: c.Text, Note: c.Note}
			if c.Sort != nil && !math.IsNaN(*c.Sort) && !math.IsInf(*c.Sort, 0) {
				cell.Value = c.Sort
			}
			to.Cells = append(to.Cells, cell)
		}
		out.Rows = append(out.Rows, to)
	}
	return out
}

func (r *jsonRenderer) table(t Table) { r.encode(tableJSON(r.kind, t)) }

func (r *jsonRenderer) facts(f Facts) {
	type fact struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		Note  string `json:"note,omitempty"`
	}
	all := []fact{}
	for _, x := range f.Facts {
		all = append(all, fact(x))
	}
	r.encode(struct {
		Kind  string `json:"kind"`
		Facts []fact `json:"facts"`
	}{r.kind, all})
}

func (r *jsonRenderer) code(c Code) {
	r.encode(struct {
		Kind  string `json:"kind"`
		Label Text   `json:"label,omitempty"`
		Text  string `json:"text"`
	}{r.kind, c.Label, c.Text})
}

type jsonFigure struct {
	Kind    string     `json:"kind,omitempty"`
	Heading Text       `json:"heading,omitempty"`
	Caption Text       `json:"caption,omitempty"`
	Plot    any        `json:"plot"`
	Numbers *jsonTable `json:"numbers,omitempty"`
}

func figureJSON(kind string, f Figure) jsonFigure {
	out := jsonFigure{Kind: kind, Heading: f.Heading, Caption: f.Caption, Plot: f.Plot}
	if f.Numbers != nil {
		t := tableJSON("", f.Numbers.widened())
		out.Numbers = &t
	}
	return out
}

func (r *jsonRenderer) figure(f Figure) { r.encode(figureJSON(r.kind, f)) }

func (r *jsonRenderer) gallery(g Gallery) {
	all := []jsonFigure{}
	for _, f := range g.Figures {
		all = append(all, figureJSON("", f))
	}
	r.encode(struct {
		Kind    string       `json:"kind"`
		Heading Text         `json:"heading,omitempty"`
		Figures []jsonFigure `json:"figures"`
	}{r.kind, g.Heading, all})
}

func (r *jsonRenderer) fold(f Fold) {
	blocks, err := jsonBlocks(f.Blocks)
	if err != nil {
		r.err = err
		return
	}
	r.encode(struct {
		Kind    string            `json:"kind"`
		Summary Text              `json:"summary"`
		Blocks  []json.RawMessage `json:"blocks"`
	}{r.kind, f.Summary, blocks})
}

// MarshalJSON writes the words alone: tones say nothing more.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }
