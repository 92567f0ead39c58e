package document

import (
	"bytes"
	"encoding/json"
	"flag"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"tare.dev/tare/internal/plot"
	"tare.dev/tare/internal/testkit/browsertest"
)

var (
	update   = flag.Bool("update", false, "rewrite the golden files")
	pictures = flag.String("pictures", "", "folder for pictures of the pages")
)

// everything is a document with each kind of block, all of whose words are x.
func everything(x string) *Document {
	seven := 7.0
	nan := math.NaN()
	table := Table{Name: "all", Columns: Columns(x, ">"+x, ""), Sortable: true, Rows: []Row{
		{Cells: []Cell{{Text: Plain(x)}, {Text: Plain("7"), Note: Faint(x), Sort: &seven}, {Text: Good(x)}}},
		{Cells: []Cell{{Text: Strong(x)}, {Text: Plain("-"), Sort: &nan}}},
	}}
	tree := Table{Columns: Columns("MiB", ">resident"), Rows: []Row{{Cells: Cells(x, "8.0")}, {Cells: Cells(x, "3.0"), Depth: 1}, {Cells: Cells("= Rss", "8.0"), Total: true}}}
	bars := plot.Bars{Title: x, Desc: x, Unit: x, Names: []string{x, x}, Groups: []plot.Group{{Name: x, Bars: []plot.Bar{{Value: 7, Low: 6, High: 8, Text: x}, {Value: nan}}}}}
	chart := plot.Chart{Title: x, Desc: x, X: plot.Axis{Label: x, Zone: time.UTC}, Y: plot.Axis{Label: x, Unit: x},
		Series: []plot.Series{{Name: x, Tone: plot.Main, Points: []plot.Point{{X: 1e9, Y: 3, Label: x, Title: x}, {X: nan}}}}, Rules: []plot.Rule{{At: 2, Label: x}}}
	areas := plot.Areas{Title: x, Desc: x, At: []float64{1, 2, nan}, Layers: []plot.Layer{{Name: x, Tone: "c0", Values: []float64{1, 2, 3}}}}
	heat := plot.Heat{Title: x, Columns: x, Rows: x, ColumnNames: []string{x}, RowNames: []string{x}, Fields: [][]plot.Field{{{Value: 1, Text: x}}}}
	ranks := plot.Ranks{Title: x, Desc: x, Measures: []string{x}, Lines: []plot.RankLine{{Name: x, Mark: "A", Places: []int{1}, Texts: []string{"1="}}}}
	d := &Document{Title: x, Made: "tare " + x}
	d.Add(
		Paragraph{Plain(x), Lead}, Paragraph{Text: Join(Plain("of "), Strong(x), Bad(x), Verbatim(x), Faint(x))}, Paragraph{Plain(x), Note}, Paragraph{Plain(x), Note},
		Facts{[]Fact{{x, x, x}, {"memory", "8 MiB", ""}}},
		Heading{Text: Plain(x)}, Paragraph{Plain(x), Aside}, List{[]Text{Plain(x), Verbatim(x)}},
		Items{[]Item{{Marks: []Text{Plain("1"), Bad(x)}, Title: Plain(x), Details: []Detail{{Label: x, Text: Plain(x)}, {Text: Plain(x), Aside: true}}}}},
		Items{[]Item{{Title: Plain(x)}}},
		Heading{Plain(x), true}, table, tree, Code{Plain(x), x + "\n  " + x},
		Figure{Heading: Plain(x), Caption: Plain(x), Plot: chart, Numbers: &table},
		Figure{Plot: areas}, Gallery{Plain(x), []Figure{{Heading: Plain(x), Caption: Plain(x), Plot: bars, Numbers: &tree}, {Plot: heat}, {Plot: ranks}}},
		Fold{Plain(x), []Block{Paragraph{Plain(x), Failure}, tree}},
	)
	return d
}

// corpus are documents that every renderer shows.
func corpus() map[string]*Document {
	return map[string]*Document{
		"everything": everything("words of 50 %"),
		"empty":      {},
		"blank":      everything(""),
		"nothing in blocks": {Blocks: []Block{Paragraph{}, List{}, Items{}, Table{}, Facts{}, Code{}, Gallery{}, Fold{}, Figure{Plot: plot.Bars{}},
			Table{Columns: Columns("", "")}, Table{Columns: Columns("head")}, Table{Columns: Columns("a"), Rows: []Row{{}, {Cells: Cells("a", "too many")}}}}},
	}
}

// renderers are all of them. Structure is what of an output is not text: it must
// not depend on what a document says.
var renderers = []struct {
	name  string
	write func(io.Writer, *Document) error
	// plain gives the words back.
	plain     func(string) string
	structure func(string) []string
}{
	{"text", func(w io.Writer, d *Document) error { return WriteText(w, d, Style{}) }, func(s string) string { return s }, func(string) []string { return nil }},
	{"colour", func(w io.Writer, d *Document) error { return WriteText(w, d, Style{color: true}) },
		func(s string) string { return regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(s, "") }, func(string) []string { return nil }},
	{"json", WriteJSON, jsonWords, jsonStructure},
	{"markdown", WriteMarkdown, markdownWords, markdownStructure},
	{"html", WriteHTML, htmlWords, func(s string) []string { return htmlTag.FindAllString(body(s), -1) }},
}

func render(t *testing.T, write func(io.Writer, *Document) error, d *Document) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func body(page string) string { return page[strings.Index(page, "<main>"):] }

// Each renderer shows each document, the same way each time.
func TestEveryRendererShowsEveryDocument(t *testing.T) {
	for _, r := range renderers {
		for name, d := range corpus() {
			t.Run(r.name+"/"+name, func(t *testing.T) {
				if out := render(t, r.write, d); out != render(t, r.write, d) {
					t.Error("it is shown in two ways")
				}
			})
		}
	}
}

// All that a document says is in every form of it.
func TestNothingIsLost(t *testing.T) {
	d := &Document{Title: "title1", Made: "made1"}
	table := Table{Columns: Columns("head1", ">head2"), Rows: []Row{{Cells: []Cell{{Text: Plain("cell1")}, {Text: Plain("cell2"), Note: Plain("note2")}}}, {Cells: Cells("cell3"), Depth: 2}, {Cells: Cells("sum1"), Total: true}}}
	d.Add(Heading{Text: Plain("heading1")}, Heading{Plain("heading2"), true},
		Paragraph{Plain("body1"), Body}, Paragraph{Plain("lead1"), Lead}, Paragraph{Plain("noted1"), Note}, Paragraph{Plain("aside1"), Aside}, Paragraph{Plain("failure1"), Failure},
		Paragraph{Text: Join(Strong("strong1"), Good("good1"), Bad("bad1"), Faint("faint1"), Verbatim("verbatim1"))},
		List{[]Text{Plain("listed1"), Plain("listed2")}},
		Items{[]Item{{Marks: []Text{Plain("mark1"), Plain("mark2")}, Title: Plain("item1"), Details: []Detail{{"label1", Plain("detail1"), false}, {"", Plain("detail2"), true}}}}},
		table, Facts{[]Fact{{"fact1", "value1", "factnote1"}}}, Code{Plain("codelabel1"), "code1\n  code2"},
		Figure{Plain("figure1"), Plain("caption1"), plot.Bars{}, &Table{Columns: Columns("numbers1"), Rows: []Row{{Cells: Cells("numbers2")}}}},
		Gallery{Plain("gallery1"), []Figure{{Plain("figure2"), Plain("caption2"), plot.Bars{Groups: []plot.Group{{Name: "drawn1", Bars: []plot.Bar{{Value: 1}}}}}, &Table{Columns: Columns("x"), Rows: []Row{{Cells: Cells("drawn1")}}}}}},
		Fold{Plain("fold1"), []Block{Paragraph{Plain("folded1"), Body}}})
	all := []string{"title1", "heading1", "heading2", "body1", "lead1", "noted1", "aside1", "failure1", "strong1", "good1", "bad1", "faint1", "verbatim1", "listed1", "listed2",
		"mark1", "mark2", "item1", "label1", "detail1", "detail2", "head1", "head2", "cell1", "cell2", "note2", "cell3", "sum1", "fact1", "value1", "factnote1", "codelabel1", "code1", "code2",
		"figure1", "caption1", "gallery1", "figure2", "caption2", "drawn1", "fold1", "folded1"}
	for _, r := range renderers {
		words := r.plain(render(t, r.write, d))
		for _, word := range all {
			if !strings.Contains(words, word) {
				t.Errorf("%s: %q is lost", r.name, word)
			}
		}
	}
}

// checkHostile fails unless a text leaves the structure of every form alone, and a
// terminal alone.
func checkHostile(t *testing.T, hostile string) {
	t.Helper()
	for _, r := range renderers {
		want := r.structure(render(t, r.write, everything("x")))
		out := render(t, r.write, everything(hostile))
		if r.name != "colour" && strings.ContainsFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }) {
			t.Errorf("%s: %.40q: a terminal would obey it", r.name, hostile)
		}
		if got := r.structure(out); !slices.Equal(got, want) {
			t.Errorf("%s: %.40q changes the structure:\n%q\n%q", r.name, hostile, got, want)
		}
	}
}

// hostileTexts is what hostile JVMs and files may say.
var hostileTexts = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</main></title></style></script><b>", "'onload='x", "x\x1b[2J\x1b]0;title\x07", "x\u009b31m", "x\u202e\u2028y", "\xff\xfe",
	"a | b | c", "`code`", "```\n# heading", "**bold** _it_ ~~x~~", "[x](javascript:alert(1))", "![x](http://example.com/x.png)", "<http://example.com>", "&lt;b&gt; &#60;b&#62;", "# x", "- x", "1. x", "> x", "+ x", "---",
	"line\nbreak", "line\r\nbreak", "\\", "\\|", "x\\`", "-->", "<!-- x", "]]>", "{{.}}", "@someone #12", "\U000e0001", strings.Repeat("wide ", 400), strings.Repeat("w", 2000),
}

// What a hostile JVM or file says stays text.
func TestHostileText(t *testing.T) {
	for _, hostile := range hostileTexts {
		checkHostile(t, hostile)
	}
}

func FuzzHostileText(f *testing.F) {
	for _, hostile := range hostileTexts {
		f.Add(hostile)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.TrimSpace(text) != "" { // a text that shows nothing leaves blocks out
			checkHostile(t, "x"+text)
			checkHostile(t, text+"x")
		}
	})
}

// JSON keeps the very text.
func TestJSONKeepsText(t *testing.T) {
	for _, text := range []string{"\x1b[31m <&> \u2028\u009b\U000e0001 \"\\", "é\tb"} {
		var got struct{ Schema, Title string }
		if err := json.Unmarshal([]byte(render(t, WriteJSON, &Document{Title: text})), &got); err != nil || got.Title != text || got.Schema != Schema {
			t.Errorf("%+v, %v, want %q", got, err, text)
		}
	}
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(io.Writer, *Document) error{"everything.txt": renderers[0].write, "everything.md": WriteMarkdown, "everything.json": WriteJSON} {
		got := render(t, write, everything("50 % of <words>"))
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%s differs (go test -update rewrites it): %v\n%s", file, err, got)
		}
	}
}

// Prose fits a terminal; tables and lines to paste keep their width.
func TestProseFitsATerminal(t *testing.T) {
	long := Plain(strings.Repeat("some words of prose ", 20))
	d := &Document{Title: long.String()}
	d.Add(Heading{Text: long}, Paragraph{Text: long}, Paragraph{long, Note}, Paragraph{long, Lead}, List{[]Text{long}},
		Items{[]Item{{Marks: []Text{Plain("12"), Plain("certain")}, Title: long, Details: []Detail{{"evidence", long, false}, {"", long, true}}}, {Title: long}}},
		Items{[]Item{{Marks: []Text{Plain("refuted")}, Title: long, Details: []Detail{{Text: long}}}}})
	for _, style := range []Style{{}, {color: true}} {
		var out bytes.Buffer
		if err := WriteText(&out, d, style); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > Width {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestProse(t *testing.T) {
	for in, want := range map[string]string{
		"set `-Xmx` and `-Xss`": "set `-Xmx` and `-Xss`", "a ` alone": "a \\` alone", "": "", "``": "", "a|`b|c`": `a\|b\|c`,
	} {
		if got := inline(Prose(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestStyleColours(t *testing.T) {
	if s := (Style{color: true}).Good("passed"); !strings.Contains(s, "\x1b[") || lipgloss.Width(s) != 6 {
		t.Errorf("%q", s)
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if StyleFor(f).color || IsTerminal(f) {
		t.Error("a file is no terminal")
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text  Text
		width int
		want  string
	}{
		{Plain("one two three"), 8, "one two/three"}, {Plain("unbreakable"), 3, "unbreakable"}, {Plain(""), 8, ""}, {Plain("  a   b "), 8, "a b"},
		{Join(Strong("166 MiB"), Plain(", or more")), 9, "166 MiB,/or more"},
	} {
		var lines []string
		for _, l := range wrap(tt.text, tt.width) {
			lines = append(lines, l.String())
		}
		if got := strings.Join(lines, "/"); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// A page asks for nothing, and its policy allows its own style and script alone.
func TestPolicy(t *testing.T) {
	page := render(t, WriteHTML, everything("x"))
	for _, bad := range []string{"unsafe-inline", "unsafe-eval", "ZgotmplZ", " style=", "@import", "url(", "<link", " src=", "onclick"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if n := strings.Count(page, "<style"); n != 1 {
		t.Errorf("%d styles", n)
	}
}

var views = map[string]browsertest.View{"desk": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Dark: true}, "phone": {Width: 390, Height: 844}, "print": {Width: 794, Height: 1123, Print: true}}

// In a browser the policy lets style and script pass, and nothing of hostile
// text runs.
func TestPageInABrowser(t *testing.T) {
	browser := browsertest.Start(t)
	for name, words := range map[string]string{"words": "words of 50 %", "hostile": `"><img src=x onerror=alert(1)></script><script>document.title="taken"</script>`} {
		file := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(file, []byte(render(t, WriteHTML, everything(words))), 0o644); err != nil {
			t.Fatal(err)
		}
		page := browser.Open(t, "file://"+file, views["desk"])
		for view, v := range views {
			page.Look(t, v)
			var seen struct {
				Styled, Drawn, Title string
				Overflow             int
			}
			page.Eval(t, `({styled: getComputedStyle(document.querySelector(".facts")).display, drawn: getComputedStyle(document.querySelector(".plot .area")).fill, title: document.title,
				overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth})`, &seen)
			if seen.Styled != "grid" || !strings.HasPrefix(seen.Drawn, "rgb") || seen.Overflow > 0 || seen.Title != words {
				t.Errorf("%s, %s: %+v", name, view, seen)
			}
			if *pictures != "" {
				page.Screenshot(t, filepath.Join(*pictures, "document-"+name+"-"+view+".png"))
			}
		}
		var sorted string
		page.Eval(t, `(() => { const h = document.querySelector("#all th"); h.querySelector("button").click(); return h.getAttribute("aria-sort"); })()`, &sorted)
		if sorted != "ascending" {
			t.Errorf("%s: sorted %q", name, sorted)
		}
		if p := page.Problems(); len(p) > 0 {
			t.Errorf("%s: the console says %q", name, p)
		}
	}
}

func jsonWords(text string) string {
	var words []string
	walk(mustDecode(text), func(s string) { words = append(words, s) })
	return strings.Join(words, " ")
}

func mustDecode(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

func walk(v any, text func(string)) {
	switch v := v.(type) {
	case string:
		text(v)
	case []any:
		for _, e := range v {
			walk(e, text)
		}
	case map[string]any:
		for _, e := range v {
			walk(e, text)
		}
	}
}

// jsonStructure are the names of all fields.
func jsonStructure(text string) []string {
	var names []string
	d := json.NewDecoder(strings.NewReader(text))
	for {
		tok, err := d.Token()
		if err != nil {
			return names
		}
		if delim, ok := tok.(json.Delim); ok {
			names = append(names, delim.String())
		}
	}
}

var (
	folded         = regexp.MustCompile(`^<details><summary>[^<>]*</summary>$`)
	htmlTag        = regexp.MustCompile(`<[/!]?[a-z]+`)
	markdownEscape = regexp.MustCompile("\\\\([!-/:-@\\[-`{-~])")
	markdownStart  = regexp.MustCompile(`^(#+ |- |> |\+ |[0-9]+[.)] |\||---|===)`)
	markdownTags   = regexp.MustCompile(`</?[a-zA-Z]+|<!|&[a-zA-Z#]|!?\[|\|`)
)

func markdownWords(text string) string {
	return html.UnescapeString(markdownEscape.ReplaceAllString(text, "$1"))
}

// markdownStructure is what begins each line, how many cells a line has, and
// what could be markup: whatever is not escaped and not within code.
func markdownStructure(text string) []string {
	var out []string
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") && (fence == "" || line == fence) {
			fence = map[bool]string{true: line, false: ""}[fence == ""]
			out = append(out, "fence")
			continue
		}
		if fence != "" {
			continue
		}
		if folded.MatchString(line) {
			out = append(out, "details")
			continue
		}
		bare := markupOf(line)
		start := markdownStart.FindString(bare)
		tags := markdownTags.FindAllString(bare, -1)
		out = append(out, start+strings.Join(tags, " "))
	}
	return out
}

// markupOf is a line without what is escaped (GFM, 6.1) and without code spans
// (GFM, 6.3): a run of backticks, up to the next of the same length.
func markupOf(line string) string {
	run := func(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }
	var out strings.Builder
	for line != "" {
		n := run(line)
		switch {
		case len(line) > 1 && line[0] == '\\':
			out.WriteByte('~')
			line = line[2:]
			continue
		case n == 0:
			out.WriteByte(line[0])
			line = line[1:]
			continue
		}
		rest, closed := line[n:], false
		for at := strings.IndexByte(rest, '`'); at >= 0 && !closed; at = strings.IndexByte(rest, '`') {
			m := run(rest[at:])
			rest, closed = rest[at+m:], m == n
		}
		out.WriteByte('~')
		if !closed {
			out.WriteString("unclosed")
			rest = line[n:]
		}
		line = rest
	}
	return out.String()
}

func htmlWords(page string) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body(page), " "))
}
