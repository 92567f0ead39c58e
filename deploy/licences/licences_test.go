package licences

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Everything that is linked into tare has a licence that is accepted, and the text has it.
func TestOfTare(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		notices, err := Collect(filepath.Join("..", ".."), arch, "./cmd/tare", "./cmd/tare-exec")
		if err != nil {
			t.Fatal(err)
		}
		text := string(Text(notices))
		for _, want := range []string{"the Go library", "github.com/spf13/cobra", "modernc.org/sqlite", "what is embedded in tare.dev/tare/internal/serve", "Leon Sorokin"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: nothing of %s", arch, want)
			}
		}
		if n := strings.Count(text, "Leon Sorokin"); n != 1 {
			t.Errorf("%s: a text is there %d times", arch, n)
		}
	}
}

// The launcher is of the standard library alone, and its notices say so.
func TestOfLauncher(t *testing.T) {
	notices, err := Collect(filepath.Join("..", ".."), "amd64", "./cmd/tare-exec")
	for _, n := range notices {
		if n.Of != "the Go library" {
			t.Errorf("%+v", n.Of)
		}
	}
	if err != nil || len(notices) != 1 {
		t.Errorf("%d notices, %v", len(notices), err)
	}
}

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this
software and associated documentation files (the "Software"), to deal in the Software without
restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// A module with a licence that is not known, not accepted or missing stops the release.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, text, refusal string }{
		"known":        {"LICENSE", "MIT License\n\n" + mit, ""},
		"none":         {"README", "no word of it", "has no file with its licence"},
		"notice alone": {"NOTICE", "MIT License\n\n" + mit, "has no file with its licence"},
		"unknown":      {"LICENSE", "You may look at this, but not use it.", "an unknown licence"},
		"a part":       {"LICENSE", mit + strings.Repeat("But not where bread is baked, on Sundays, or by left-handed people. ", 20), "an unknown licence"},
		"not accepted": {"COPYING", "This library is under https://www.gnu.org/licenses/agpl-3.0.html", "licence"},
	} {
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("main/go.mod", "module example.org/main\n\ngo 1.26\n\nrequire example.org/part v1.2.3\n\nreplace example.org/part => ../part\n")
		write("main/main.go", "package main\n\nimport _ \"example.org/part/sub\"\n\nfunc main() {}\n")
		write("part/go.mod", "module example.org/part\n\ngo 1.26\n")
		write("part/sub/sub.go", "package sub\n")
		write("part/"+c.file, c.text)
		notices, err := Collect(filepath.Join(dir, "main"), "amd64", ".")
		if c.refusal == "" {
			if err != nil || !slices.ContainsFunc(notices, func(n Notice) bool { return slices.Equal(n.IDs, []string{"MIT"}) }) {
				t.Errorf("%s: %v, %v", name, notices, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
