package profile

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

// allowedText lists all that the levers of tare fit add, one option or variable a
// line, with {number} for a number and {archive} for the profile's class archive.
// A test of internal/fit writes it from the levers (-update), and fails where it
// differs.
//
//go:embed allowed.txt
var allowedText string

// The placeholders of allowedText.
const (
	NumberPlaceholder  = "{number}"
	ArchivePlaceholder = "{archive}"
)

const maxDigits = 12

// allowed are the lines of allowedText, each cut at its placeholder.
var allowed = sync.OnceValue(func() []template {
	var all []template
	for line := range strings.Lines(allowedText) {
		line = strings.TrimSuffix(line, "\n")
		for _, p := range []string{NumberPlaceholder, ArchivePlaceholder} {
			if before, after, found := strings.Cut(line, p); found {
				all = append(all, template{before, p, after})
				line = ""
			}
		}
		if line != "" {
			all = append(all, template{before: line})
		}
	}
	return all
})

type template struct{ before, placeholder, after string }

// takes says that a text is what the template allows.
func (t template) takes(text string, archive *Archive) bool {
	if t.placeholder == "" {
		return text == t.before
	}
	value, ok := strings.CutPrefix(text, t.before)
	if ok {
		value, ok = strings.CutSuffix(value, t.after)
	}
	switch {
	case !ok:
		return false
	case t.placeholder == ArchivePlaceholder:
		return archive != nil && value == archive.File
	}
	return value != "" && len(value) <= maxDigits && strings.Trim(value, "0123456789") == ""
}

// checkAllowed refuses what no lever adds: an option that is not known to be
// harmless could run a command, load code, or switch off checks.
func (p *Profile) checkAllowed(texts []string) error {
	for _, text := range texts {
		found := false
		for _, t := range allowed() {
			found = found || t.takes(text, p.Archive)
		}
		if !found {
			return fmt.Errorf("%.80q is nothing that tare fit recommends", text)
		}
	}
	return nil
}
