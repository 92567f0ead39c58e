package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"

	"tare.dev/tare/internal/testkit/browsertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// No link of the documentation is dead, and its pages need nothing of the network.
func TestSite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	if err := run(jvmtest.Root(t), out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "docs/weigh.html", "docs/results/index.html", "CHANGELOG.html", "style.css", "index.js", "search.js"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(text), `src="http`) || strings.Contains(string(text), `href="http`) && strings.HasSuffix(name, ".css") {
			t.Errorf("%s fetches from the network", name)
		}
	}
}

// Dead links stop the site.
func TestDeadLinks(t *testing.T) {
	for name, c := range map[string]struct{ text, refusal string }{
		"good":          {"# A\n\n[b](docs/b.md#two-words) [c](#a) [d](https://example.org/x) ![p](p.svg)\n", ""},
		"no page":       {"# A\n\n[b](docs/c.md)\n", "README.md: there is no docs/c.md"},
		"no part":       {"# A\n\n[b](docs/b.md#three)\n", "docs/b.md has no part #three"},
		"no own part":   {"# A\n\n[b](#three)\n", "README.md has no part #three"},
		"no picture":    {"# A\n\n![b](q.svg)\n", "there is no q.svg"},
		"outside":       {"# A\n\n[b](../../etc/passwd)\n", "there is no ../../etc/passwd"},
		"in a table":    {"# A\n\n| a |\n|---|\n| [b](none.md) |\n", "there is no none.md"},
		"a folder":      {"# A\n\n[b](docs)\n", "is a folder"},
		"a reference":   {"# A\n\n[b][x]\n\n[x]: none.md\n", "there is no none.md"},
		"not a link":    {"# A\n\n`[b](none.md)`\n", ""},
		"no good chars": {"# A\n\n[b](%zz)\n", "link to"},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{"README.md": c.text, "docs/b.md": "# B\n\n## Two words\n\nText.\n", "p.svg": "<svg/>"} {
			if err := write(root, file, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		err := run(root, filepath.Join(root, "out"))
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The search finds parts, from a page that was opened as a file, and its links lead there.
func TestSearch(t *testing.T) {
	b := browsertest.Start(t)
	out := filepath.Join(t.TempDir(), "site")
	if err := run(jvmtest.Root(t), out); err != nil {
		t.Fatal(err)
	}
	p := b.Open(t, "file://"+filepath.Join(out, "docs", "weigh.html"), browsertest.View{Width: 1200, Height: 800})
	var found []string
	p.Eval(t, `(() => { const s = document.getElementById("search"); s.value = "exit codes"; s.dispatchEvent(new Event("input"));
		return [...document.querySelectorAll("#found a")].map(a => a.href); })()`, &found)
	if len(found) == 0 {
		t.Fatal("nothing was found")
	}
	for _, link := range found {
		file, _, _ := strings.Cut(strings.TrimPrefix(link, "file://"), "#")
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	p.Eval(t, `(() => { const s = document.getElementById("search"); s.value = "zzzz-no-such-word"; s.dispatchEvent(new Event("input"));
		return [...document.querySelectorAll("#found a")].map(a => a.href); })()`, &found)
	if len(found) != 0 || len(p.Problems()) != 0 {
		t.Errorf("%q, %q", found, p.Problems())
	}
}

// The navigation has each page once, in the order of the first page.
func TestNavigation(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"README.md":              "# A\n\n[b](docs/b.md)\n\n## First\n\n[c](docs/c.md) [b](docs/b.md) [r](docs/results/r.md)\n\n## None\n\nText.\n\n## More\n\n[results](docs/results/README.md)\n",
		"docs/b.md":              "# B\n",
		"docs/c.md":              "# C\n",
		"docs/d.md":              "# D\n",
		"docs/results/README.md": "# R\n",
		"docs/results/r.md":      "# One result\n",
	} {
		if err := write(root, file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := readPages(root, goldmark.New())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range navigation(pages) {
		for _, p := range g.Pages {
			got = append(got, g.Title+": "+p.Title)
		}
	}
	if want := []string{": A", "A: B", "First: C", "More: R", "More: D"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// On a telephone the text begins on the first screen; beside it, where there is room, are
// all pages.
func TestNarrow(t *testing.T) {
	b := browsertest.Start(t)
	out := filepath.Join(t.TempDir(), "site")
	if err := run(jvmtest.Root(t), out); err != nil {
		t.Fatal(err)
	}
	for width, want := range map[int]string{400: "closed, above", 1200: "open, beside"} {
		p := b.Open(t, "file://"+filepath.Join(out, "index.html"), browsertest.View{Width: width, Height: 800})
		var got string
		p.Eval(t, `(() => { const nav = document.querySelector("nav").getBoundingClientRect(), text = document.querySelector("h1").getBoundingClientRect();
			return (document.querySelector("nav details").open ? "open" : "closed") + ", " + (text.top < nav.bottom ? "beside" : text.bottom < 400 ? "above" : "far above"); })()`, &got)
		if got != want || len(p.Problems()) != 0 {
			t.Errorf("%d pixels: %s, want %s; %q", width, got, want, p.Problems())
		}
	}
}
