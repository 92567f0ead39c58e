package hotspot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// NMTRegion is one reserved region of native memory tracking.
type NMTRegion struct {
	Region
	Category string // NMT's name, such as "Java Heap" or "Thread Stack"
}

// ErrNMTNoDetail says that native memory tracking does not know regions.
var ErrNMTNoDetail = errors.New("native memory tracking is not at detail")

const maxNMTRegions = 1 << 22

// ParseNMTDetail parses the reserved regions out of the "Virtual memory map"
// of VM.native_memory detail (JDK:
// src/hotspot/share/nmt/memReporter.cpp). Committed parts and call stacks are
// passed over: their figures are not to be trusted for stacks.
func ParseNMTDetail(r io.Reader) ([]NMTRegion, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 1<<20)
	var regions []NMTRegion
	inMap := false
	for line := 1; sc.Scan(); line++ {
		text := sc.Text()
		switch {
		case text == "Virtual memory map:":
			inMap = true
		case strings.HasPrefix(text, "Memory map of "):
			// ZGC's backing file: what look like addresses are offsets.
			inMap = false
		case inMap && strings.HasPrefix(text, "[0x"):
			span, rest, ok := strings.Cut(text, "]")
			if ok && !strings.Contains(span, " - ") {
				continue // a frame of a call stack
			}
			region, err := parseNMTRegion(span, rest)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w: %.120q", line, err, text)
			}
			if len(regions) == maxNMTRegions {
				return nil, fmt.Errorf("line %d: more than %d regions", line, maxNMTRegions)
			}
			regions = append(regions, region)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if len(regions) == 0 {
		return nil, ErrNMTNoDetail
	}
	return regions, nil
}

// parseNMTRegion parses "[0x… - 0x…" and " reserved [and committed ]8192KB
// for Class[ from]".
func parseNMTRegion(span, rest string) (NMTRegion, error) {
	if !strings.HasPrefix(rest, " reserved ") {
		return NMTRegion{}, fmt.Errorf("no reserved region")
	}
	from, to, _ := strings.Cut(strings.TrimPrefix(span, "["), " - ")
	start, err1 := strconv.ParseUint(strings.TrimPrefix(from, "0x"), 16, 64)
	end, err2 := strconv.ParseUint(strings.TrimPrefix(to, "0x"), 16, 64)
	if err1 != nil || err2 != nil || end < start {
		return NMTRegion{}, fmt.Errorf("bad range")
	}
	_, category, ok := strings.Cut(rest, " for ")
	category = strings.TrimSuffix(strings.TrimSpace(category), " from")
	if !ok || category == "" {
		return NMTRegion{}, fmt.Errorf("no category")
	}
	return NMTRegion{Region{start, end}, category}, nil
}
