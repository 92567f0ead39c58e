package linux

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"app.jar":              "app.jar",
		"\x1b[31mred\x1b[0m":   "\ufffd[31mred\ufffd[0m",
		"a\nb\x00c\u202e":      "a\ufffdb\ufffdc\ufffd",
		strings.Repeat("é", 9): strings.Repeat("é", 9),
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := PrintableName(strings.Repeat("x", 1<<20)); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
}
