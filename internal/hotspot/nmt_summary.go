package hotspot

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// NMTCategory is what native memory tracking counts for one use of memory.
// Sizes are bytes that were asked for, not resident pages.
type NMTCategory struct {
	Name                          string
	ReservedBytes, CommittedBytes int64
	// MallocBytes is in chunks from malloc, ArenaBytes in the JVM's own
	// arenas, whose chunks are from malloc too; MappedBytes is what of its
	// mappings is committed.
	MallocBytes, ArenaBytes, MappedBytes int64
}

// NMTSummary is the sums of native memory tracking.
type NMTSummary struct {
	CommittedBytes int64
	Categories     []NMTCategory
}

var (
	nmtTotal    = regexp.MustCompile(`^Total: reserved=\d+KB, committed=(\d+)KB`)
	nmtCategory = regexp.MustCompile(`^- *(\S.*?) \(reserved=(\d+)KB, committed=(\d+)KB`)
	nmtPart     = regexp.MustCompile(`^ +\((malloc|arena|mmap: reserved)=(\d+)KB(?:, committed=(\d+)KB)?`)
)

const maxNMTCategories = 256

// ParseNMTSummary parses the sums of VM.native_memory summary in KB, its
// default scale, which VM.native_memory detail begins with (JDK:
// src/hotspot/share/nmt/memReporter.cpp; before JDK 21 in services). Tracking
// that is off is an error.
func ParseNMTSummary(r io.Reader) (*NMTSummary, error) {
	s := &NMTSummary{}
	total, ended := false, false
	err := scanLines(r, func(line string) (err error) {
		ended = ended || strings.HasPrefix(line, "Virtual memory map:")
		if ended {
			return nil
		}
		if m := nmtTotal.FindStringSubmatch(line); m != nil {
			total = true
			s.CommittedBytes, err = kib(m[1])
			return err
		}
		return s.addLine(line)
	})
	if err == nil && !total {
		err = fmt.Errorf("%w: no total: turn tracking on with -XX:NativeMemoryTracking=summary", ErrAnswer)
	}
	if err != nil {
		return nil, fmt.Errorf("native memory tracking: %w", err)
	}
	return s, nil
}

// addLine adds a category, or a part of the last one.
func (s *NMTSummary) addLine(line string) error {
	if m := nmtCategory.FindStringSubmatch(line); m != nil {
		if len(s.Categories) == maxNMTCategories {
			return fmt.Errorf("more than %d categories", maxNMTCategories)
		}
		reserved, err1 := kib(m[2])
		committed, err2 := kib(m[3])
		s.Categories = append(s.Categories, NMTCategory{Name: m[1], ReservedBytes: reserved, CommittedBytes: committed})
		return errors.Join(err1, err2)
	}
	if m := nmtPart.FindStringSubmatch(line); m != nil && len(s.Categories) > 0 {
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
