package report

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/testkit/browsertest"
)

// labFiles are experiments of all shapes that plots have, by what is drawn.
var labFiles = map[string]string{
	"bars":       "factors:\n  - {name: jdk, values: [8, 11, 17, 21, 25]}\n  - {name: gc, variants: [{name: Serial}, {name: <G1>}]}\nmeasure: [rss, start, passed]\n",
	"one-factor": "factors:\n  - {name: gc, variants: [{name: Serial}, {name: G1}, {name: Z}]}\nmeasure: [rss]\n",
	"curves":     "factors:\n  - {name: jdk, values: [8, 17, 25]}\n  - {name: cpus, values: [1, 2, 4, 8, 16, 128]}\nmeasure: [rss, start]\n",
	"many":       "factors:\n  - {name: jdk, values: [8, 11, 25]}\n  - {name: gc, variants: [{name: a}, {name: b}, {name: c}]}\n  - {name: heap, values: [4m, 20m, 256m, 1g]}\nmeasure: [rss]\n",
	"heat":       "factors:\n  - {name: size, values: [96m, 128m, 192m]}\n  - {name: heap, values: [16m, 32m, 64m, 128m]}\nmeasure: [rss, start]\n",
	"none":       "measure: [rss]\n",
}

// labOf is an experiment with results that its cells' places decide on; every
// fifth cell has none.
func labOf(t *testing.T, factors string) *lab.Set {
	t.Helper()
	text := "title: <b>Shapes</b>\nquestion: Which?\nrun: {command: ["
	for _, name := range []string{"jdk", "cpus", "heap", "size"} {
		if strings.Contains(factors, name+", values") {
			text += "'{" + name + "}', "
		}
	}
	text += "a], ready: 'tcp:1'}\nclaims:\n  - {text: 'It is <small>', measure: rss, expect: <= 3000MiB, why: 'because & so'}\n" +
		"published:\n  - {measure: rss, value: 100MiB, note: elsewhere, why: another machine}\n"
	e, err := lab.Read(strings.NewReader(text+factors), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for i, c := range e.Cells() {
		for round := 1; round <= 3 && i%5 != 4; round++ {
			fmt.Fprintf(&lines, `{"schema":"tare.lab/1","hash":%q,"round":%d,"time":"2026-01-02T03:04:05Z","jdk":"25","verdict":"passed","warnings":["<script>alert(1)</script>"],"values":{"rss":%d,"start":0.%d,"passed":1}}`+"\n",
				e.Hash(c), round, (90*(i+1)+round*7)*MiB, 3+round)
		}
	}
	r, err := lab.ReadResults(&lines, "x.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return lab.Analyse(e, r)
}

func TestLabHTMLInABrowser(t *testing.T) {
	browser := browsertest.Start(t)
	plots := map[string]int{"bars": 3, "one-factor": 1, "curves": 2, "many": 3, "heat": 2, "none": 1}
	for _, name := range slices.Sorted(maps.Keys(labFiles)) {
		t.Run(name, func(t *testing.T) {
			page := browser.Open(t, writeLab(t, labOf(t, labFiles[name])), views["desk"])
			for view, v := range views {
				page.Look(t, v)
				checkDrawn(t, page, plots[name])
				checkWidth(t, page)
				if *pictures != "" {
					page.Screenshot(t, filepath.Join(*pictures, "lab-"+name+"-"+view+".png"))
				}
			}
			page.Look(t, views["desk"])
			checkAllTables(t, page)
			if p := page.Problems(); len(p) > 0 {
				t.Errorf("the console says %q", p)
			}
		})
	}
}

func writeLab(t *testing.T, s *lab.Set) string {
	t.Helper()
	b := bytes.NewBuffer(rendered(t, Lab(s, "tare lab run <x>.yaml"), document.WriteHTML))
	for _, bad := range []string{"<script>alert", "<small> is", "<b>Shapes", "ZgotmplZ", "http:", "https:"} {
		if strings.Contains(strings.ReplaceAll(b.String(), "http://www.w3.org/2000/svg", ""), bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	file := filepath.Join(t.TempDir(), "lab.html")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// checkAllTables presses every column of every table twice.
func checkAllTables(t *testing.T, page *browsertest.Page) {
	t.Helper()
	var tables []struct{ Rows, Columns int }
	page.Eval(t, `[...document.querySelectorAll("table")].map(t => ({rows: t.tBodies[0].rows.length, columns: t.tHead.rows[0].cells.length}))`, &tables)
	if len(tables) < 2 {
		t.Errorf("%d tables", len(tables))
	}
	for i, table := range tables {
		for column := range table.Columns {
			for range 2 {
				var got struct {
					Sort  string
					Texts []string
					Keys  []*float64
				}
				page.Eval(t, fmt.Sprintf(`(() => { const t = document.querySelectorAll("table")[%d], h = t.tHead.rows[0].cells[%d]; h.querySelector("button").click();
					const cells = [...t.tBodies[0].rows].map(r => r.cells[%[2]d]);
					return {sort: h.getAttribute("aria-sort"), texts: cells.map(c => c.textContent), keys: cells.map(c => c.dataset.sort === undefined ? null : +c.dataset.sort)}; })()`, i, column), &got)
				if got.Sort == "descending" {
					slices.Reverse(got.Texts)
					slices.Reverse(got.Keys)
				}
				numbers := !slices.Contains(got.Keys, nil)
				if len(got.Texts) != table.Rows || numbers && !slices.IsSortedFunc(got.Keys, func(a, b *float64) int { return cmp.Compare(*a, *b) }) {
					t.Errorf("table %d, column %d: %q is sorted %q", i, column, got.Texts, got.Sort)
				}
			}
		}
	}
}
