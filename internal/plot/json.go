package plot

import (
	"encoding/json"
	"fmt"
	"math"
)

// number is a value in JSON; null is one that was not measured.
type number float64

// MarshalJSON writes null for a value that is not finite.
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func numbers(values []float64) []number {
	out := make([]number, len(values))
	for i, v := range values {
		out[i] = number(v)
	}
	return out
}

// jsonHead is how each plot begins.
type jsonHead struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
	Desc  string `json:"description"`
}

// jsonAxes are the axes of a plot that has two.
type jsonAxes struct {
	X jsonAxis `json:"x"`
	Y jsonAxis `json:"y"`
}

type jsonAxis struct {
	Label string `json:"label"`
	Unit  string `json:"unit,omitempty"`
	// Zone is set where values are seconds since 1970.
	Zone string `json:"zone,omitempty"`
}

func (a Axis) json() jsonAxis {
	out := jsonAxis{Label: a.Label, Unit: a.Unit}
	if a.Zone != nil {
		out.Zone = a.Zone.String()
	}
	return out
}

type jsonRule struct {
	At       number `json:"at"`
	Vertical bool   `json:"vertical"`
	Label    string `json:"label"`
}

func rulesJSON(rules []Rule) []jsonRule {
	out := []jsonRule{}
	for _, r := range rules {
		out = append(out, jsonRule{number(r.At), r.Vertical, r.Label})
	}
	return out
}

type jsonPoint struct {
	X     number  `json:"x"`
	Y     number  `json:"y"`
	Low   *number `json:"low,omitempty"`
	High  *number `json:"high,omitempty"`
	Label string  `json:"label,omitempty"`
	Title string  `json:"title,omitempty"`
}

// interval is a pair of bounds, nil where both are zero.
func interval(low, high float64) (*number, *number) {
	if low == 0 && high == 0 {
		return nil, nil
	}
	l, h := number(low), number(high)
	return &l, &h
}

// MarshalJSON writes what the chart shows.
func (c Chart) MarshalJSON() ([]byte, error) {
	type series struct {
		Name   string      `json:"name,omitempty"`
		Points []jsonPoint `json:"points"`
	}
	all := []series{}
	for _, s := range c.Series {
		to := series{s.Name, []jsonPoint{}}
		for _, p := range s.Points {
			low, high := interval(p.Low, p.High)
			to.Points = append(to.Points, jsonPoint{number(p.X), number(p.Y), low, high, p.Label, p.Title})
		}
		all = append(all, to)
	}
	return json.Marshal(struct {
		jsonHead
		jsonAxes
		Series []series   `json:"series"`
		Rules  []jsonRule `json:"rules"`
	}{jsonHead{"chart", c.Title, c.Desc}, jsonAxes{c.X.json(), c.Y.json()}, all, rulesJSON(c.Rules)})
}

// MarshalJSON writes what the areas show.
func (a Areas) MarshalJSON() ([]byte, error) {
	type layer struct {
		Name   string   `json:"name"`
		Values []number `json:"values"`
	}
	layers := []layer{}
	for _, l := range a.Layers {
		layers = append(layers, layer{l.Name, numbers(l.Values)})
	}
	return json.Marshal(struct {
		jsonHead
		jsonAxes
		At     []number   `json:"at"`
		Layers []layer    `json:"layers"`
		Rules  []jsonRule `json:"rules"`
	}{jsonHead{"areas", a.Title, a.Desc}, jsonAxes{a.X.json(), a.Y.json()}, numbers(a.At), layers, rulesJSON(a.Rules)})
}

// MarshalJSON writes what the bars show.
func (c Bars) MarshalJSON() ([]byte, error) {
	type bar struct {
		Name  string  `json:"name,omitempty"`
		Value number  `json:"value"`
		Low   *number `json:"low,omitempty"`
		High  *number `json:"high,omitempty"`
	}
	type group struct {
		Name string `json:"name"`
		Bars []bar  `json:"bars"`
	}
	groups := []group{}
	for _, g := range c.Groups {
		to := group{g.Name, []bar{}}
		for i, b := range g.Bars {
			name := ""
			if i < len(c.Names) {
				name = c.Names[i]
			}
			low, high := interval(b.Low, b.High)
			to.Bars = append(to.Bars, bar{name, number(b.Value), low, high})
		}
		groups = append(groups, to)
	}
	return json.Marshal(struct {
		jsonHead
		Unit   string  `json:"unit"`
		Groups []group `json:"groups"`
	}{jsonHead{"bars", c.Title, c.Desc}, c.Unit, groups})
}

// MarshalJSON writes what the map shows; null is a field without a value.
func (h Heat) MarshalJSON() ([]byte, error) {
	rows := [][]number{}
	for _, row := range h.Fields {
		values := []number{}
		for _, f := range row {
			if f.Text == "" {
				f.Value = math.NaN()
			}
			values = append(values, number(f.Value))
		}
		rows = append(rows, values)
	}
	return json.Marshal(struct {
		jsonHead
		Columns     string     `json:"columns"`
		Rows        string     `json:"rows"`
		ColumnNames []string   `json:"columnNames"`
		RowNames    []string   `json:"rowNames"`
		Values      [][]number `json:"values"`
	}{jsonHead{"heat", h.Title, h.Desc}, h.Columns, h.Rows, append([]string{}, h.ColumnNames...), append([]string{}, h.RowNames...), rows})
}

// MarshalJSON writes the places as they are shown.
func (r Ranks) MarshalJSON() ([]byte, error) {
	type line struct {
		Name   string   `json:"name"`
		Places []string `json:"places"`
	}
	lines := []line{}
	for _, l := range r.Lines {
		to := line{l.Name, []string{}}
		for i, p := range l.Places {
			text := fmt.Sprint(p)
			if i < len(l.Texts) {
				text = l.Texts[i]
			}
			to.Places = append(to.Places, text)
		}
		lines = append(lines, to)
	}
	return json.Marshal(struct {
		jsonHead
		Measures []string `json:"measures"`
		Lines    []line   `json:"lines"`
	}{jsonHead{"ranks", r.Title, r.Desc}, append([]string{}, r.Measures...), lines})
}
