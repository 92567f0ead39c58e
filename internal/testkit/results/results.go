// Package results writes measured figures to docs/results, each with what is
// needed to judge and to repeat it: machine, versions, date, repeats, spread.
package results

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
)

// Write writes docs/results/NAME.md, below the working directory.
func Write(name, title, command, body string) error {
	path := filepath.Join("docs", "results", name+".md")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(Text(title, command, body)), 0o644); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	fmt.Fprintln(os.Stderr, "written to", path)
	index, err := Index(".")
	if err != nil {
		return err
	}
	return os.WriteFile(IndexFile, []byte(index), 0o644)
}

// IndexFile lists the pages, below the root of the tree.
const IndexFile = "docs/results/README.md"

var byCommand = regexp.MustCompile("(?:by|[Rr]un|with)\\s+`((?:make|[A-Z_]+=\\S+ )[^`]*)`")

// Index is the text of IndexFile for the pages below a root: the title of each,
// and the command that it says it was made by.
func Index(root string) (string, error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "results", "*.md"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# What was measured\n\nEach page says on which machine, when, and by which command it was measured.\n" +
		"Figures of another machine differ; the command tells yours.\n\n| page | title | command |\n|---|---|---|\n")
	for _, page := range pages {
		name := filepath.Base(page)
		if name == filepath.Base(IndexFile) {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return "", err
		}
		title, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s |\n", strings.TrimSuffix(name, ".md"), name, strings.TrimPrefix(title, "# "), command(root, name, string(text)))
	}
	return b.String(), nil
}

// command is what a page was made by, as code; empty if it does not say so.
func command(root, page, text string) string {
	if m := byCommand.FindStringSubmatch(text); m != nil {
		return "`" + m[1] + "`"
	}
	if _, err := os.Stat(filepath.Join(root, "experiments", strings.TrimSuffix(page, ".md")+".yaml")); err == nil {
		return "`make experiments`"
	}
	return ""
}

// Text is the text of a result: a title, how and where it was measured, and the
// body.
func Text(title, command, body string) string {
	return fmt.Sprintf("# %s\n\nMeasured by `%s` on %s: %s.\n\n%s", title, command,
		time.Now().UTC().Format(time.DateOnly), Machine(), body)
}

// Machine says what the figures were measured on.
func Machine() string {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	parts := []string{
		fmt.Sprintf("%d processors (%s)", runtime.NumCPU(), field("/proc/cpuinfo", "model name")),
		"memory " + field("/proc/meminfo", "MemTotal"),
		"Linux " + kernel + " " + runtime.GOARCH,
		runtime.Version(),
	}
	if linux.PagesOutIdle("/sys") {
		parts = append(parts, "a kernel that pages out what is not used for a while (DAMON)")
	}
	return strings.Join(parts, ", ")
}

// field is the value of the first line "name : value" of a file.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// Spread shows the median, minimum and maximum of some values.
func Spread(values []float64, format string) string {
	if len(values) == 0 {
		return "none"
	}
	return fmt.Sprintf(format+" ("+format+" … "+format+")", Median(values), slices.Min(values), slices.Max(values))
}

// Median is the median of some values, 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Reached says in words whether a goal was met.
func Reached(ok bool) string {
	if ok {
		return "reached"
	}
	return "not reached"
}
