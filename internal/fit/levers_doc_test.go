package fit

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each lever has its row in docs/levers.md, with the harms that it can do; and each row
// is a lever's.
func TestLeversAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/levers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9]+)` \\|(.*)$").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	known := map[string]bool{}
	for _, l := range Levers {
		known[l.ID] = true
		row, ok := rows[l.ID]
		if !ok {
			t.Errorf("docs/levers.md has no row for %s", l.ID)
		}
		if l.Mark == Framework {
			continue
		}
		var harms []string
		for _, h := range l.Harms {
			harms = append(harms, string(h))
		}
		want := strings.Join(harms, ", ")
		if want == "" {
			want = "–"
		}
		if !strings.HasSuffix(row, "| "+want+" |") {
			t.Errorf("docs/levers.md says of the harms of %s: %s, want %s", l.ID, row, want)
		}
	}
	for id := range rows {
		if !known[id] {
			t.Errorf("docs/levers.md tells of %s, which is no lever", id)
		}
	}
}
