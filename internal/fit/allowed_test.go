package fit

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/profile"
)

var placeholder = regexp.MustCompile(`\{[^}]*\}[0-9]*`)

var update = flag.Bool("update", false, "write what tests compare with anew")

// allowed is all that levers add, in the form of the list of package profile.
func allowed() string {
	var lines []string
	for _, l := range Levers {
		for _, o := range slices.Concat(l.Options, l.Env) {
			lines = append(lines, placeholder.ReplaceAllStringFunc(o, func(p string) string {
				if p == profile.ArchivePlaceholder {
					return p
				}
				return profile.NumberPlaceholder
			}))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// A profile may hold what levers add, and nothing else.
func TestProfileAllowsWhatLeversAdd(t *testing.T) {
	const file = "../profile/allowed.txt"
	if *update {
		if err := os.WriteFile(file, []byte(allowed()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != allowed() {
		t.Errorf("%s (%v) is not what levers add; write it anew with -update:\n%s", file, err, allowed())
	}
}
