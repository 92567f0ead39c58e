package attach

import (
	"errors"
	"fmt"
	"io"

	"tare.dev/tare/internal/lazy"
)

// NMTCategory is one use of memory as native memory tracking counts it: by bytes
// that the JVM asked for, resident or not.
type NMTCategory struct {
	Name                          string
	ReservedBytes, CommittedBytes int64
	// MallocBytes are in chunks from malloc, ArenaBytes in the JVM's own arenas,
	// whose chunks are from malloc, too. MappedBytes are the committed bytes of
	// mappings.
	MallocBytes, ArenaBytes, MappedBytes int64
}

// NMTSummary is the answer of native memory tracking without its regions.
type NMTSummary struct {
	CommittedBytes int64
	Categories     []NMTCategory
}

var (
	nmtTotal    = lazy.Regexp(`^Total: reserved=\d+KB, committed=(\d+)KB`)
	nmtCategory = lazy.Regexp(`^- *(\S.*?) \(reserved=(\d+)KB, committed=(\d+)KB`)
	nmtPart     = lazy.Regexp(`^ +\((malloc|arena|mmap: reserved)=(\d+)KB(?:, committed=(\d+)KB)?`)
)

const maxNMTCategories = 256

// ParseNMTSummary parses VM.native_memory summary in KB, its default scale (JDK:
// src/hotspot/share/nmt/memReporter.cpp; before JDK 21 in services). It fails where
// tracking is off.
func ParseNMTSummary(r io.Reader) (*NMTSummary, error) {
	var sums nmtSums
	if err := scanLines(r, sums.line); err != nil {
		return nil, fmt.Errorf("native memory tracking: %w", err)
	}
	return sums.result()
}

// nmtSums is the state of parsing the sums.
type nmtSums struct {
	NMTSummary
	total bool
}

func (s *nmtSums) line(text string) (err error) {
	if m := nmtTotal().FindStringSubmatch(text); m != nil {
		s.total = true
		s.CommittedBytes, err = kib(m[1])
		return err
	}
	return s.addLine(text)
}

func (s *nmtSums) result() (*NMTSummary, error) {
	if !s.total {
		return nil, fmt.Errorf("native memory tracking: %w: no total: turn tracking on with -XX:NativeMemoryTracking=summary", ErrAnswer)
	}
	return &s.NMTSummary, nil
}

// addLine adds a category, or a part of the last one.
func (s *NMTSummary) addLine(line string) error {
	if m := nmtCategory().FindStringSubmatch(line); m != nil {
		if len(s.Categories) == maxNMTCategories {
			return fmt.Errorf("%w: more than %d categories", ErrAnswer, maxNMTCategories)
		}
		if len(m[1]) > maxCategoryName {
			return fmt.Errorf("%w: no category", ErrAnswer)
		}
		reserved, err1 := kib(m[2])
		committed, err2 := kib(m[3])
		s.Categories = append(s.Categories, NMTCategory{Name: m[1], ReservedBytes: reserved, CommittedBytes: committed})
		return errors.Join(err1, err2)
	}
	if m := nmtPart().FindStringSubmatch(line); m != nil && len(s.Categories) > 0 {
		return s.Categories[len(s.Categories)-1].setPart(m[1], m[2], m[3])
	}
	return nil
}

func (c *NMTCategory) setPart(kind, size, committed string) error {
	n, err := kib(size)
	if err != nil {
		return err
	}
	switch kind {
	case "malloc":
		c.MallocBytes = n
	case "arena":
		c.ArenaBytes = n
	default:
		if committed != "" {
			c.MappedBytes, err = kib(committed)
		}
	}
	return err
}
