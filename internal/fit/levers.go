package fit

import (
	"fmt"
	"slices"
	"strings"
)

// Levers are the built-in ones, in files by their subject. Those that cost no speed are
// tried together, first; then those that may, one by one; then class archives, which fit
// one set of options alone, with hot code alone compiled; the heap; and what hides
// evidence at the end.
var Levers = slices.Concat(heapLevers, mallocLevers, placementLevers, threadLevers, compilerLevers, frameworkLevers, classLevers, codeCacheLevers, evidenceLevers,
	heapSizeLevers)

// ParseAllow reads a list of marks, or none.
func ParseAllow(list string) ([]Mark, error) {
	var out []Mark
	for word := range strings.FieldsFuncSeq(list, isComma) {
		m := Mark(word)
		if m != Diagnostic && m != Experimental && m != Framework {
			return nil, fmt.Errorf("%q is neither %s nor %s nor %s", word, Diagnostic, Experimental, Framework)
		}
		out = append(out, m)
	}
	return out, nil
}

func isComma(r rune) bool { return r == ',' || r == ' ' }

// NoLevers is the list that names none.
const NoLevers = "none"

// SelectLevers reads a list such as "c1,heap" or "-archive,-c1": the levers
// named, or all but those with a minus; or NoLevers.
func SelectLevers(all []Lever, list string) ([]Lever, error) {
	if list == NoLevers {
		return nil, nil
	}
	wanted, unwanted := map[string]bool{}, map[string]bool{}
	for word := range strings.FieldsFuncSeq(list, isComma) {
		id, without := strings.CutPrefix(word, "-")
		if !slices.ContainsFunc(all, func(l Lever) bool { return l.ID == id }) {
			return nil, fmt.Errorf("%q is no lever: there are %s", word, strings.Join(leverIDs(all), ", "))
		}
		if without {
			unwanted[id] = true
		} else {
			wanted[id] = true
		}
	}
	var out []Lever
	for _, l := range all {
		if (len(wanted) == 0 || wanted[l.ID]) && !unwanted[l.ID] {
			out = append(out, l)
		}
	}
	return out, nil
}

func leverIDs(all []Lever) []string {
	var ids []string
	for _, l := range all {
		if !slices.Contains(ids, l.ID) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
