package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
