package jvmopts

import (
	"strconv"
	"strings"
)

// Release is a Java version that compares.
type Release struct{ Feature, Interim, Update int }

// ParseRelease reads a java.version, old ("1.8.0_504") or new ("17.0.15",
// "27-ea", "21.0.12.1"). What is missing or is no number counts as zero.
func ParseRelease(version string) Release {
	v, _, _ := strings.Cut(version, "-")
	v, _, _ = strings.Cut(v, "+")
	parts := strings.FieldsFunc(v, func(r rune) bool { return r == '.' || r == '_' })
	if len(parts) > 1 && parts[0] == "1" {
		parts = parts[1:]
	}
	n := [3]int{}
	for i := range min(len(parts), len(n)) {
		n[i], _ = strconv.Atoi(parts[i])
	}
	return Release{n[0], n[1], n[2]}
}

// AtLeast compares releases.
func (r Release) AtLeast(o Release) bool {
	if r.Feature != o.Feature {
		return r.Feature > o.Feature
	}
	if r.Interim != o.Interim {
		return r.Interim > o.Interim
	}
	return r.Update >= o.Update
}

// since tells whether the release is of a feature release or later; the zero
// Release, of which nothing is known, is the newest.
func (r Release) since(feature int) bool { return r.Feature == 0 || r.Feature >= feature }
