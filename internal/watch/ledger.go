package watch

import (
	"context"
	"io"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// OfLedger tells what an agent weighed: first the footprints that the ledger of r has of
// a JVM, then, at each tick, those that came since, for as long as the JVM lives. It fails
// with io.EOF behind the last one of a JVM whose end no agent saw.
func OfLedger(r *ledger.Reader, p ledger.Process, proc linux.FS, ticks <-chan time.Time) WeighFunc {
	var waiting []*footprint.Footprint
	var last uint64
	return func(ctx context.Context) (*footprint.Footprint, error) {
		for {
			if len(waiting) > 0 {
				f := waiting[0]
				waiting = waiting[1:]
				return f, nil
			}
			lived := p.ID.Lives(proc) // before the ledger is read: what it tells then is all
			ended, err := r.Footprints(p, last, func(seq uint64, f *footprint.Footprint) bool {
				last = seq
				withoutParts(f)
				waiting = append(waiting, f)
				return true
			})
			switch {
			case err != nil:
				return nil, err
			case len(waiting) > 0:
				continue
			case ended:
				return nil, process.ErrNoProcess
			case !lived:
				return nil, io.EOF
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-ticks:
			}
		}
	}
}

// withoutParts leaves out the parts of rows: a ledger has but the largest, and one that
// is missing there is not gone.
func withoutParts(f *footprint.Footprint) {
	for i := range f.Rows {
		f.Rows[i].Children = nil
	}
}
