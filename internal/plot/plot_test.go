package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inside checks that an SVG is well formed, is named, and has all marks and
// text within its box; it returns the number of elements by class.
func inside(t *testing.T, svg string) map[string]int {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	counts := map[string]int{}
	var w, h float64
	titles := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		a := map[string]string{}
		for _, attr := range e.Attr {
			a[attr.Name.Local] = attr.Value
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Fatalf("no numbers in %s", svg)
		}
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(a[name], 64)
			if err != nil {
				t.Fatalf("%s of %v: %v", name, e, err)
			}
			return v
		}
		within := func(x, y float64) {
			if x < -1 || x > w+1 || y < -1 || y > h+1 {
				t.Errorf("%s at %g, %g is outside of %g by %g", e.Name.Local, x, y, w, h)
			}
		}
		switch e.Name.Local {
		case "svg":
			w, h = number("width"), number("height")
		case "title":
			titles++
		case "circle":
			within(number("cx"), number("cy"))
		case "rect":
			within(number("x"), number("y"))
			within(number("x")+number("width"), number("y")+number("height"))
		case "text":
			within(number("x"), number("y"))
		}
		for _, class := range strings.Fields(a["class"]) {
			counts[class]++
		}
	}
	if titles == 0 || !strings.Contains(svg, `role="img"`) {
		t.Errorf("no accessible name: %s", svg)
	}
	return counts
}

var chart = Chart{Title: "Memory & throughput", Desc: "x < y", X: Axis{Label: "limit, MiB", Unit: " MiB", Loose: true}, Y: Axis{Label: "requests/s", Unit: "/s"},
	Series: []Series{
		{Name: "frontier", Tone: Main, Line: true, Steps: true, Points: []Point{{X: 150, Y: 90}, {X: 304, Y: 117}}},
		{Name: "passed", Tone: Muted, Points: []Point{{X: 166, Y: 178, Low: 160, High: 190, Label: "recommended"}, {X: 304, Y: 117, Label: "as given"}}},
		{Name: "failed", Tone: Bad, Shape: Cross, Points: []Point{{X: 150, Y: 20, Title: "trial 7: oom-killed"}, {X: 160, Y: math.NaN()}, {X: math.Inf(1), Y: 3}}},
	},
	Rules: []Rule{{At: 117, Label: "ample memory", Tone: Muted}, {At: 170, Vertical: true, Label: "knee", Tone: Bad}},
}

func TestChart(t *testing.T) {
	for _, width := range []int{Wide, Narrow} {
		svg := chart.SVG(width)
		n := inside(t, svg)
		if n["dot"] != 3 || n["cross"] != 2 || n["interval"] != 1 || n["rule"] != 2 || n["line"] != 2 || n["label"] != 4 { // with the legend's
			t.Errorf("%d wide: %v", width, n)
		}
		for _, want := range []string{"trial 7: oom-killed", "Memory &amp; throughput", "passed: 166 MiB, 178/s", "x &lt; y"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%d wide: no %q in %s", width, want, svg)
			}
		}
	}
}

func TestEmptyChart(t *testing.T) {
	inside(t, Chart{Title: "nothing"}.SVG(Wide))
	inside(t, Bars{Title: "nothing"}.SVG(Narrow))
}

func TestBars(t *testing.T) {
	b := Bars{Title: "Footprint", Unit: "MiB", Names: []string{"baseline", "recommended"}, Tones: []Tone{Other, Main}, Groups: []Group{
		{"Java heap", []Bar{{Value: 78}, {Value: 52, Low: 50, High: 54}}},
		{"Thread stacks <3>", []Bar{{Value: 0}, {Value: math.NaN()}}},
		{"malloc", []Bar{{Value: -1}, {Value: 37.4}}},
	}}
	for _, width := range []int{Wide, Narrow} {
		svg := b.SVG(width)
		if n := inside(t, svg); n["bar"] != 2+4 || n["value"] != 4 || n["spread"] != 1 {
			t.Errorf("%d wide: %v in %s", width, n, svg)
		}
	}
}

// The names of groups are whole: the bars give way, or they stand above them.
func TestBarNames(t *testing.T) {
	for _, c := range []struct {
		name string
		left bool
	}{{"malloc", true}, {"threads 1000, jdk 11, huge-pages never", true}, {strings.Repeat("wide ", 20), false}} {
		b := Bars{Title: "Stacks", Groups: []Group{{c.name, []Bar{{Value: 1}}}}}
		svg := b.SVG(Wide)
		inside(t, svg)
		names := b.names(Wide)
		if (names > 0) != c.left || names > 0 && names < textWidth(c.name) {
			t.Errorf("%g for %q: %s", names, c.name, svg)
		}
		if strings.Contains(svg, `text-anchor="end"`) != c.left {
			t.Errorf("%q: %s", c.name, svg)
		}
	}
}

var heat = Heat{Title: "Largest request", Columns: "heap", Rows: "limit", ColumnNames: []string{"16m", "a name <much> too long for its column"}, RowNames: []string{"96m", "128m"},
	Fields: [][]Field{{{12, "12"}, {math.NaN(), "none"}}, {{30, "30 KiB & more"}, {}}}}

func TestHeat(t *testing.T) {
	for _, width := range []int{Wide, Narrow} {
		svg := heat.SVG(width)
		if n := inside(t, svg); n["heat"] != 2 || n["field"] != 2 || n["tick"] != 4 {
			t.Errorf("%d wide: %v in %s", width, n, svg)
		}
		for _, want := range []string{`fill-opacity="0.06"`, `fill-opacity="0.60"`, "limit 128m, heap 16m: 30 KiB &amp; more"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%d wide: no %q in %s", width, want, svg)
			}
		}
	}
	inside(t, Heat{Title: "nothing"}.SVG(Wide))
	inside(t, Heat{Title: "ragged", RowNames: []string{"a"}, Fields: [][]Field{{{1, "1"}}, {{2, "2"}}}}.SVG(Wide))
}

// Points of a logarithmic axis are as far apart as their logarithms.
func TestLogarithmicAxis(t *testing.T) {
	a := Axis{Marks: []Mark{{8, "8"}, {1, "1"}, {64, "64"}, {-1, "no"}, {math.Inf(1), "no"}}}
	s := a.scale([]float64{1, 8, 64}, 5)
	if one, eight, most := s.share(1), s.share(8), s.share(64); math.Abs((eight-one)-(most-eight)) > 1e-9 || one <= 0 || most >= 1 {
		t.Errorf("at %g, %g, %g", one, eight, most)
	}
	if m := s.marks(); len(m) != 3 || m[0].Name != "1" || m[2].Name != "64" {
		t.Errorf("%+v", m)
	}
	if s := (Axis{Marks: []Mark{{5, "5"}, {5, "five"}}}).scale([]float64{5}, 5); s.named != nil {
		t.Errorf("one value: %+v", s)
	}
}

func TestScale(t *testing.T) {
	tests := []struct {
		values []float64
		loose  bool
		want   string
	}{
		{[]float64{150, 304}, false, "0 100 200 300 400"},
		{[]float64{166, 304}, true, "150 200 250 300 350"},
		{nil, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{[]float64{0.03, 0.011}, false, "0.00 0.01 0.02 0.03"},
		{[]float64{5, 5}, true, ""},
		{[]float64{-3, 4}, false, "-4 -2 0 2 4"},
	}
	for _, tt := range tests {
		s := newScale(tt.values, tt.loose, 5)
		var got []string
		for _, v := range s.ticks() {
			got = append(got, s.format(v))
		}
		for _, v := range tt.values {
			if sh := s.share(v); sh < -1e-9 || sh > 1+1e-9 {
				t.Errorf("%v: %g lies at %g", tt.values, v, sh)
			}
		}
		if text := strings.Join(got, " "); tt.want != "" && text != tt.want || len(got) < 3 || len(got) > 12 {
			t.Errorf("%v: ticks %q, want %q", tt.values, text, tt.want)
		}
	}
}

// Whatever the values, the chart is well formed and within its box.
func FuzzChart(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, "label", true)
	f.Add(math.MaxFloat64, -math.MaxFloat64, 0.0, 1e-300, "<&>", false)
	f.Add(1e11, -1e11, 86400.0, 1e12, "", true)
	f.Fuzz(func(t *testing.T, x, y, low, high float64, label string, loose bool) {
		c := Chart{Title: label, X: Axis{Loose: loose}, Y: Axis{Loose: !loose}, Series: []Series{{Name: label, Points: []Point{{X: x, Y: y, Low: low, High: high, Label: label}, {X: 1, Y: 1}}}},
			Rules: []Rule{{At: y, Label: label}, {At: x, Vertical: true}}}
		if len(label) > 30 || strings.ToValidUTF8(label, "") != label || strings.IndexFunc(label, func(r rune) bool { return r < ' ' || r >= 0xfffe }) >= 0 {
			return
		}
		inside(t, c.SVG(Wide))
		c.X.Zone = time.UTC
		inside(t, c.SVG(Narrow))
		inside(t, Areas{Title: label, X: Axis{Zone: time.UTC}, At: []float64{x, y, low}, Layers: []Layer{{Name: label, Values: []float64{low, high, x}}, {Values: []float64{y, 1, 2}}}}.SVG(Wide))
		inside(t, Ranks{Title: label, Measures: []string{label}, Lines: []RankLine{{Places: []int{int(math.Mod(math.Abs(x), 1000))}}}}.SVG(Narrow))
		c.X.Zone = nil
		c.X.Marks = []Mark{{1, label}, {x, label}, {high, label}}
		inside(t, c.SVG(Narrow))
		inside(t, Heat{Title: label, Columns: label, ColumnNames: []string{label}, RowNames: []string{label, "b"}, Fields: [][]Field{{{x, label}}, {{y, "y"}}}}.SVG(Narrow))
		inside(t, Bars{Title: label, Groups: []Group{{label, []Bar{{Value: x, Low: low, High: high}, {Value: y}}}}}.SVG(Wide))
	})
}

// footprints are made-up: a day's resident memory by owner, with a gap where
// nothing was measured and a moment alone.
func footprints(moments int) Areas {
	a := Areas{Title: "Resident memory", Desc: "by owner & limit", X: Axis{Zone: time.UTC}, Y: Axis{Label: "MiB", Unit: " MiB"},
		Rules: []Rule{{At: 512, Label: "limit, 512 MiB", Tone: Bad}}, Layers: []Layer{{Name: "Java heap", Tone: "c0"}, {Name: "Metaspace", Tone: "c1"}, {Name: "malloc", Tone: "c2"}, {Name: "Thread stacks", Tone: "c3"}}}
	start := time.Date(2026, 3, 28, 21, 17, 0, 0, time.UTC)
	for i := range moments {
		at := start.Add(time.Duration(i) * 24 * time.Hour / time.Duration(moments))
		a.At = append(a.At, float64(at.Unix()))
		heap := 150 + 60*math.Sin(float64(i)*25/float64(moments)) + 120*float64(i)/float64(moments)
		if i > moments/2 && i < moments*6/10 && i != moments*55/100 {
			heap = math.NaN()
		}
		for j, v := range []float64{heap, 60, 40 + 30*float64(i)/float64(moments), 20} {
			a.Layers[j].Values = append(a.Layers[j].Values, v)
		}
	}
	return a
}

func TestAreas(t *testing.T) {
	for _, width := range []int{Wide, Narrow} {
		svg := footprints(100).SVG(width)
		n := inside(t, svg)
		if n["area"] != 3*4 || n["rule"] != 1 || n["label"] != 1 || n["bar"] != 4 || n["moment"] < 85 || n["moment"] > 95 {
			t.Errorf("%d wide: %v", width, n)
		}
		for _, want := range []string{"limit, 512 MiB", "2026-03-28 to 2026-03-29, UTC", ">29 Mar<", "Java heap: 150 MiB\ntogether: 270 MiB", "by owner &amp; limit"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%d wide: no %q in %s", width, want, svg)
			}
		}
	}
	inside(t, Areas{Title: "nothing"}.SVG(Wide))
	inside(t, Areas{Title: "ragged", At: []float64{1, 2}, Layers: []Layer{{Values: []float64{1}}, {}}}.SVG(Wide))
}

// However many moments there are, the picture is bounded and keeps the highest.
func TestAreasOfManyMoments(t *testing.T) {
	a := footprints(200_000)
	a.Layers[0].Values[777] = 900
	svg := a.SVG(Wide)
	if len(svg) > 200_000 {
		t.Errorf("%d bytes", len(svg))
	}
	if !strings.Contains(svg, ">1000<") {
		t.Error("the axis does not reach the highest moment")
	}
	inside(t, svg)
}

func TestTimeAxis(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from string
		last time.Duration
		zone *time.Location
		want string
	}{
		{"2026-03-01T14:03:10Z", 20 * time.Second, time.UTC, "14:03:10 14:03:15 14:03:20 14:03:25 14:03:30"},
		{"2026-03-01T14:03:10Z", 10 * time.Minute, time.UTC, "14:04 14:06 14:08 14:10 14:12"},
		{"2026-03-01T22:10:00Z", 4 * time.Hour, time.UTC, "23:00 2 Mar 01:00 02:00"},
		{"2026-03-28T20:00:00Z", 10 * time.Hour, berlin, "22:00 29 Mar 04:00 06:00 08:00"}, // summer time begins at 2 o'clock
		{"2026-10-24T20:00:00Z", 10 * time.Hour, berlin, "22:00 25 Oct 02:00 04:00 06:00"}, // and ends
		{"2026-01-30T05:00:00Z", 4 * 24 * time.Hour, time.UTC, "31 Jan 1 Feb 2 Feb 3 Feb"},
		{"2025-11-02T05:00:00Z", 200 * 24 * time.Hour, time.UTC, "Jan 2026 Mar 2026 May 2026"},
		{"1990-11-02T05:00:00Z", 30 * 365 * 24 * time.Hour, time.UTC, "2000 2010 2020"},
		{"2026-03-01T14:03:10Z", 0, time.UTC, "14:03:09 14:03:10 14:03:11"},
	} {
		from, err := time.Parse(time.RFC3339, tt.from)
		if err != nil {
			t.Fatal(err)
		}
		s := Axis{Zone: tt.zone}.scale([]float64{float64(from.Unix()), float64(from.Add(tt.last).Unix())}, 5)
		var got []string
		for _, m := range s.marks() {
			got = append(got, m.Name)
			if sh := s.share(m.At); sh < 0 || sh > 1 {
				t.Errorf("%s lies at %g", m.Name, sh)
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s for %s: %q, want %q", tt.from, tt.last, text, tt.want)
		}
	}
}

var ranks = Ranks{Title: "Places", Measures: []string{"score", "mem.retained", "proc.rss.peak"}, Lines: []RankLine{
	{Name: "guava <1>", Mark: "A", Tone: "c0", Places: []int{2, 1, 3}, Texts: []string{"2=", "1", "3="}},
	{Name: "caffeine", Mark: "B", Tone: "c1", Places: []int{1, 0, 2}}, {Name: "none", Mark: "C", Tone: "c2"}, {Name: "ehcache", Mark: "D", Tone: "c3", Places: []int{3, 2, 1, 9}}}}

func TestRanks(t *testing.T) {
	for _, width := range []int{Wide, Narrow} {
		svg := ranks.SVG(width)
		if n := inside(t, svg); n["place"] != 8 || n["line"] != 3 {
			t.Errorf("%d wide: %v in %s", width, n, svg)
		}
		if !strings.Contains(svg, "guava &lt;1&gt;: 2= by score") {
			t.Error(svg)
		}
	}
	inside(t, Ranks{Title: "nothing"}.SVG(Wide))
}

// A plot of its own is whole XML, and has its colours in it.
func TestFile(t *testing.T) {
	text := File(Bars{Title: "Limits", Unit: "MiB", Names: []string{"as given"}, Groups: []Group{{Name: "a & b", Bars: []Bar{{Value: 3}}}}}.SVG(300))
	if !strings.HasPrefix(text, "<svg ") || strings.Count(text, "<style>") != 1 || !strings.Contains(text, "--paper:#fff") {
		t.Errorf("%.300s", text)
	}
	if counts := inside(t, text); counts["bar"] == 0 {
		t.Errorf("%v", counts)
	}
}
