// Package watch follows the footprint of one JVM: as a live screen, as plain
// lines, and as a record that is safe against being killed.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// WeighFunc takes the footprint of the JVM under watch. It fails with
// process.ErrNoProcess once the JVM has ended.
type WeighFunc func(context.Context) (*footprint.Footprint, error)

// ErrEnded says that the JVM under watch has ended.
var ErrEnded = errors.New("has ended")

// Of weighs the JVM that was found as target, as long as it is that one.
// Nothing but what cannot change is kept from one weighing to the next: its
// mappings and threads come and go. Full footprints are for a record.
func Of(proc linux.FS, target *process.Target, full bool) WeighFunc {
	series := &footprint.Series{Full: full}
	gone := fmt.Errorf("process %d (%s): %w", target.PID, target.Name, process.ErrNoProcess)
	return func(ctx context.Context) (*footprint.Footprint, error) {
		now, err := target.Anew(proc)
		if !target.StillThere(proc) {
			return nil, gone
		}
		if err != nil {
			return nil, err
		}
		f, err := footprint.WeighTarget(ctx, now, footprint.Options{Proc: proc, Series: series})
		if err != nil {
			return nil, err
		}
		// A process that is being killed loses its memory a moment before
		// it counts as ended: what was read of it then is not its footprint.
		if st, err := proc.Status(target.PID); err != nil || st.VmHWM == 0 {
			return nil, gone
		}
		return f, nil
	}
}

// Session is a series of footprints of one JVM, one at each tick.
type Session struct {
	Weigh WeighFunc
	// Ticks says when to weigh; the first footprint waits for none.
	Ticks <-chan time.Time
	// Count is how many footprints are taken; 0 is without an end.
	Count int
	// Record is where each footprint is appended to; nil is nowhere.
	Record *Record

	mu   sync.Mutex
	done int
}

// Next waits for the next tick, weighs the JVM and records the footprint. It
// returns ErrEnded when the JVM has ended since the last one, io.EOF after
// the last of Count, and the error of ctx when that ends first.
func (s *Session) Next(ctx context.Context) (*footprint.Footprint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Count > 0 && s.done == s.Count {
		return nil, io.EOF
	}
	if s.done > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.Ticks:
		}
	}
	f, err := s.Weigh(ctx)
	if s.done > 0 && (errors.Is(err, process.ErrNoProcess) || errors.Is(err, process.ErrNotJVM)) {
		// A dying process has no libjvm any more.
		return nil, ErrEnded
	}
	if err != nil {
		return nil, err
	}
	s.done++
	if s.Record != nil {
		if err := s.Record.Append(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close closes the record. It waits for a Next that is under way, whose
// context must have ended.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Record == nil {
		return nil
	}
	return s.Record.Close()
}
