package attach

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"tare.dev/tare/internal/hotspot"
)

// NMTRegion is a range of addresses that the JVM has reserved for one use.
type NMTRegion struct {
	hotspot.Region
	Category string // NMT's name, such as "Java Heap" or "Thread Stack"
}

// ErrNMTNoDetail says that the JVM does not track regions, only sums.
var ErrNMTNoDetail = errors.New("native memory tracking is not at detail")

// maxNMTRegions bounds the regions of one answer: each thread has one, and JVMs
// some dozens besides.
const maxNMTRegions = 1 << 18

// ParseNMTDetail parses VM.native_memory detail in KB, its default scale (JDK:
// src/hotspot/share/nmt/memReporter.cpp): the sums at its beginning, and the
// reserved regions in its "Virtual memory map". It skips the committed parts, which
// are wrong for thread stacks, and the call stacks.
func ParseNMTDetail(r io.Reader) (*NMTSummary, []NMTRegion, error) {
	d := nmtDetail{categories: map[string]string{}}
	if err := scanLines(r, d.line); err != nil {
		return nil, nil, fmt.Errorf("native memory tracking: %w", err)
	}
	if len(d.regions) == 0 {
		return nil, nil, ErrNMTNoDetail
	}
	sums, err := d.sums.result()
	return sums, d.regions, err
}

// nmtDetail is the state of parsing one answer.
type nmtDetail struct {
	sums         nmtSums
	inMap, atEnd bool // atEnd: what follows is not about addresses
	regions      []NMTRegion
	categories   map[string]string // each name once
}

func (d *nmtDetail) line(text string) error {
	switch {
	case text == "Virtual memory map:":
		d.inMap = !d.atEnd
	case strings.HasPrefix(text, "Memory map of "):
		// ZGC's backing file: what look like addresses are offsets.
		d.inMap, d.atEnd = false, true
	case !d.inMap && !d.atEnd:
		return d.sums.line(text)
	case d.inMap && strings.HasPrefix(text, "[0x"):
		return d.region(text)
	}
	return nil
}

func (d *nmtDetail) region(text string) error {
	span, rest, ok := strings.Cut(text, "]")
	if ok && !strings.Contains(span, " - ") {
		return nil // a frame of a call stack
	}
	region, err := parseNMTRegion(span, rest)
	if err != nil {
		return err
	}
	name, known := d.categories[region.Category]
	if !known {
		if len(d.categories) == maxNMTCategories {
			return fmt.Errorf("%w: more than %d categories", ErrAnswer, maxNMTCategories)
		}
		name = strings.Clone(region.Category)
		d.categories[name] = name
	}
	if len(d.regions) == maxNMTRegions {
		return fmt.Errorf("%w: more than %d regions", ErrAnswer, maxNMTRegions)
	}
	region.Category = name
	d.regions = append(d.regions, region)
	return nil
}

// parseNMTRegion parses "[0x… - 0x…" and " reserved [and committed ]8192KB
// for Class[ from]".
func parseNMTRegion(span, rest string) (NMTRegion, error) {
	if !strings.HasPrefix(rest, " reserved ") {
		return NMTRegion{}, fmt.Errorf("%w: no reserved region", ErrAnswer)
	}
	from, to, _ := strings.Cut(strings.TrimPrefix(span, "["), " - ")
	region, err := parseRegion(from, to)
	if err != nil {
		return NMTRegion{}, err
	}
	_, category, ok := strings.Cut(rest, " for ")
	category = strings.TrimSuffix(strings.TrimSpace(category), " from")
	if !ok || category == "" || len(category) > maxCategoryName {
		return NMTRegion{}, fmt.Errorf("%w: no category", ErrAnswer)
	}
	return NMTRegion{region, category}, nil
}

// maxCategoryName bounds the names of categories, in bytes.
const maxCategoryName = 64
