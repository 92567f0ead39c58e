// Package documenttest checks that a document is shown whole and safely by all
// renderers.
package documenttest

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/linux"
)

// Renderer is one form of a document.
type Renderer struct {
	Name  string
	Write func(io.Writer, *document.Document) error
	// Words gives the words of an output back, without markup.
	Words func(string) string
}

// Renderers are all forms.
var Renderers = []Renderer{
	{"text", func(w io.Writer, d *document.Document) error { return document.WriteText(w, d, document.Style{}) }, func(s string) string { return s }},
	{"json", document.WriteJSON, jsonWords},
	{"markdown", document.WriteMarkdown, markdownWords},
	{"html", document.WriteHTML, htmlWords},
}

// Render is a document in one form.
func (r Renderer) Render(t testing.TB, d *document.Document) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.Write(&out, d); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	return out.String()
}

// Check fails the test unless each renderer shows all words of the document, the
// same way each time, with nothing that a terminal would obey, and the page asks
// for nothing.
func Check(t testing.TB, d *document.Document) {
	t.Helper()
	words := wordsOf(Renderers[1].Render(t, d))
	for _, r := range Renderers {
		out := r.Render(t, d)
		if out != r.Render(t, d) {
			t.Errorf("%s: the same document is shown in two ways", r.Name)
		}
		if i := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("%s: a terminal would obey %q", r.Name, out[max(0, i-20):i+1])
		}
		shown := strings.Join(strings.Fields(linux.Printable(r.Words(out))), " ")
		for _, word := range words {
			if !strings.Contains(shown, word) {
				t.Errorf("%s: %q is lost in\n%s", r.Name, word, out)
			}
		}
	}
	CheckPage(t, Renderers[3].Render(t, d))
}

// CheckPage fails the test unless a page allows its own style and script alone,
// and has none of another's.
func CheckPage(t testing.TB, page string) {
	t.Helper()
	for _, bad := range []string{"unsafe-inline", "unsafe-eval", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	for _, found := range tag.FindAllString(page, -1) {
		if regexp.MustCompile(`\s(style|src|href|on[a-z]+)=`).MatchString(found) {
			t.Errorf("%s asks for something", found)
		}
	}
	for tag, want := range map[string]int{"<style": 1, "<script": 1, "<link": 0, "<img": 0, "<iframe": 0} {
		if n := strings.Count(page, tag); n != want {
			t.Errorf("%d times %s, want %d", n, tag, want)
		}
	}
}

// wordsOf are the words that a reader of each form must find: all but those of
// plots, which only pages draw, and of figures without numbers.
func wordsOf(text string) []string {
	var out []string
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case string:
			if !slices.Contains([]string{"schema", "kind", "role", "made"}, key) {
				for word := range strings.FieldsSeq(v) {
					out = append(out, strings.Fields(linux.Printable(word))...)
				}
			}
		case []any:
			for _, e := range v {
				walk(key, e)
			}
		case map[string]any:
			_, drawn := v["plot"]
			_, gallery := v["figures"]
			for k, e := range v {
				switch {
				case k == "plot", drawn && v["numbers"] == nil, gallery && k == "heading":
				default:
					walk(k, e)
				}
			}
		}
	}
	walk("", decode(text))
	return out
}

func decode(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err.Error()
	}
	return v
}

func jsonWords(text string) string {
	var words []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			words = append(words, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(decode(text))
	return strings.Join(words, " ")
}

var (
	markdownEscape = regexp.MustCompile("\\\\([!-/:-@\\[-`{-~])")
	emphasis       = regexp.MustCompile("\\*\\*|`")
	tag            = regexp.MustCompile(`<[^>]*>`)
)

// Words of code have no escapes: they are there as they are, and once more
// without what looks like one. Emphasis may begin within a word.
func markdownWords(text string) string {
	bare := html.UnescapeString(markdownEscape.ReplaceAllString(text, "$1"))
	return text + "\n" + bare + "\n" + emphasis.ReplaceAllString(text, "") + "\n" + emphasis.ReplaceAllString(bare, "")
}

// Tags may stand within a word, or between two.
func htmlWords(page string) string {
	page = page[strings.Index(page, "<main>"):]
	return html.UnescapeString(tag.ReplaceAllString(page, " ") + "\n" + tag.ReplaceAllString(page, ""))
}
