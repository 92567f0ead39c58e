package footprint

import (
	"context"
	"errors"
	"slices"
	"time"

	"tare.dev/tare/internal/linux"
)

// mostWalked is the resident memory of a process up to which a weighing that is to be
// gentle has the kernel walk over all of it at once, as for smaps: that takes 2 ms, and 4
// where the process is at work.
const mostWalked = 128 << 20

// walks says that the kernel may walk over all pages of the process at once.
func (s *scan) walks() bool { return !s.gentle || s.target.Status.VmRSS <= mostWalked }

// readPages reads the resident pages, and meanwhile the kernel's own sum to
// compare: of the same moment, and in half the time, for the kernel walks over
// every page for each.
func (s *scan) readPages(ctx context.Context, proc linux.FS) error {
	summed := make(chan struct{})
	go func() {
		defer close(summed)
		if s.series.lean() || !s.walks() {
			return
		}
		// The sum is a check, not a part: without it the rows still add up.
		_ = s.timed("smaps_rollup", func() (err error) {
			s.rollup, err = proc.SmapsRollup(s.target.PID)
			return err
		})
	}()
	err := s.readMapped(ctx, proc)
	<-summed
	return err
}

// maxScans bounds how often the pages of a JVM that maps more memory all the
// time are read.
const maxScans = 3

// readMapped reads the resident pages in the mappings that the target was found
// with. Where pages lie outside of them, or where nothing could be touched, the
// JVM has mapped memory since, and both are read again.
func (s *scan) readMapped(ctx context.Context, proc linux.FS) error {
	for scans := 1; ; scans++ {
		s.time = time.Now()
		if err := s.readOnce(ctx, proc); err != nil {
			return err
		}
		if scans == maxScans || !linux.Strays(s.runs, s.vmas) {
			return nil
		}
		vmas, err := proc.Maps(s.target.PID)
		if err != nil {
			return err
		}
		if slices.EqualFunc(vmas, s.vmas, sameMapping) {
			return nil // touched before access was taken away
		}
		s.vmas = vmas
	}
}

func sameMapping(a, b linux.VMA) bool {
	return a.Start == b.Start && a.End == b.End && a.Perms == b.Perms && a.Inode == b.Inode
}

func (s *scan) readOnce(ctx context.Context, proc linux.FS) error {
	var ways []func(context.Context, linux.FS) error
	if allocatorOf(s.vmas) == "" || !s.walks() { // else its mappings are known by their flags
		ways = append(ways, s.scanPages)
		if s.series.lean() || !s.walks() {
			ways = append(ways, s.readEntries)
		}
	}
	for _, read := range ways {
		s.time = time.Now()
		if err := read(ctx, proc); !errors.Is(err, errUnable) {
			return err
		}
	}
	s.time = time.Now()
	return s.readCounted(ctx, proc)
}

// errUnable says that a way to read the pages does not serve for this kernel and process,
// and the next is to be tried.
var errUnable = errors.New("the pages cannot be read in this way")

// readIn reads the page map in one way. That the way does not serve is no trouble to tell.
func (s *scan) readIn(read func() error, serves error) error {
	unable := false
	err := s.timed("page map", func() error {
		err := read()
		unable = errors.Is(err, serves)
		if unable {
			return nil
		}
		return err
	})
	if unable {
		return errUnable
	}
	return err
}

// scanPages finds the pages in the mappings that the target was found with; by kind,
// which takes ten times as long, unless only owners are to be told.
func (s *scan) scanPages(ctx context.Context, proc linux.FS) error {
	return s.readIn(func() (err error) {
		if s.series.lean() {
			s.runs, err = proc.FindResident(ctx, s.target.PID, s.vmas)
			return err
		}
		kinds, err := proc.ScanPages(ctx, s.target.PID, s.vmas)
		return s.take(kinds, err)
	}, linux.ErrNoPagemapScan)
}

// readEntries reads the page map entry by entry.
func (s *scan) readEntries(ctx context.Context, proc linux.FS) error {
	return s.readIn(func() error {
		kinds, err := proc.ReadPages(ctx, s.target.PID, s.vmas)
		return s.take(kinds, err)
	}, linux.ErrTooFar)
}

// take takes the pages by kind, unless that failed.
func (s *scan) take(kinds *linux.PageScan, err error) error {
	if err == nil {
		s.kinds, s.runs = kinds, kinds.Resident
	}
	return err
}

// readCounted reads the mappings with what the kernel counts in each, and the resident
// pages of them.
func (s *scan) readCounted(ctx context.Context, proc linux.FS) error {
	if err := s.timed("smaps", func() (err error) {
		s.vmas, err = proc.Smaps(s.target.PID)
		s.kinds = nil // of an earlier reading
		return err
	}); err != nil {
		return err
	}
	return s.timed("page map", func() (err error) {
		s.runs, err = proc.ResidentPages(ctx, s.target.PID, s.vmas)
		return err
	})
}

// anonymous is how much of the resident memory is anonymous.
func (s *scan) anonymous() (n int64) {
	if s.kinds == nil {
		return s.rollup.Anonymous
	}
	for _, r := range s.kinds.Resident {
		n += r.Size()
	}
	for _, r := range s.kinds.File {
		n -= r.Size()
	}
	return n
}

// swaps says that some of the process is swapped out.
func (s *scan) swaps() bool {
	return s.rollup.Swap > 0 || s.rollup.RSS == 0 && s.target.Status.VmSwap > 0
}
