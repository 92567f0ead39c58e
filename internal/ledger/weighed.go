package ledger

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tare.dev/tare/internal/footprint"
)

// ErrNoFootprint says that a ledger has no footprint of a JVM, or of that time.
var ErrNoFootprint = errors.New("no footprint")

// Footprints hands the footprints of a JVM to yield, in their order, those whose
// number is above after, until yield returns false. ended says that the JVM's end
// stands behind them.
func (r *Reader) Footprints(p Process, after uint64, yield func(uint64, *footprint.Footprint) bool) (ended bool, err error) {
	var last Counters
	_, err = r.Read(p.ID, func(rec Record) bool {
		switch {
		case rec.Start != nil:
			p = *rec.Start
		case rec.Counters != nil:
			last = *rec.Counters
		case rec.Event != nil && rec.Event.Kind == Ended:
			ended = true
		case rec.Footprint != nil && rec.Seq > after:
			return yield(rec.Seq, rec.Footprint.weighed(p, rec.At, &last))
		}
		return true
	})
	return ended, err
}

// At is the footprint of a JVM that was taken last at a moment. The error is
// ErrNoFootprint when the ledger has none from before.
func (r *Reader) At(p Process, at time.Time) (*footprint.Footprint, error) {
	var found *footprint.Footprint
	_, err := r.Footprints(p, 0, func(_ uint64, f *footprint.Footprint) bool {
		if !f.Time.After(at) {
			found = f
		}
		return true // clocks jump: a later record may be of an earlier time
	})
	if err == nil && found == nil {
		err = ErrNoFootprint
	}
	return found, err
}

// weighed is a footprint as tare weigh gives it, as far as the ledger keeps it: of a
// JVM with the last counters before it, which alone tell what the kernel can drop.
func (f *Footprint) weighed(p Process, at time.Time, last *Counters) *footprint.Footprint {
	out := &footprint.Footprint{
		Schema: footprint.Schema, PID: p.ID.PID, Name: p.Name, VM: p.Kind, JDK: p.JDK, Collector: p.Collector, Flags: p.Flags,
		Time: at, RSSBytes: f.Resident, Threads: f.Threads, Classes: f.Classes, Millis: f.Millis, Sources: []footprint.Source{}, Warnings: []string{},
	}
	if h := f.Heap; h != nil {
		out.Heap = &footprint.Heap{MaxBytes: h.Max, CapacityBytes: h.Committed, UsedBytes: h.Used, AfterGCBytes: h.AfterGC}
	}
	if f.Usage > 0 {
		c := &footprint.Cgroup{Version: p.Group.Version, Path: cmp.Or(p.Group.LimitPath, p.Group.Path), UsageBytes: f.Usage, ReclaimableBytes: last.Reclaimable}
		if limit := f.Limit; limit > 0 {
			left := limit - max(0, f.Usage-last.Reclaimable)
			c.LimitBytes, c.HeadroomBytes = &limit, &left
		}
		out.Cgroup = c
	}
	for _, o := range f.Owners {
		row := footprint.Row{Owner: o.Owner, ResidentBytes: o.Resident, AnonymousBytes: o.Anonymous}
		for _, part := range o.Parts {
			row.Children = append(row.Children, footprint.NewChild(part.ID, part.Bytes))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// KeepCommonParts leaves of two footprints of a ledger the parts that both have: a ledger
// keeps the largest, and one that is missing there need not be gone.
func KeepCommonParts(a, b *footprint.Footprint) {
	keep := func(of, other *footprint.Footprint) {
		for i := range of.Rows {
			row := &of.Rows[i]
			there, _ := other.Row(row.Owner)
			row.Children = slices.DeleteFunc(row.Children, func(c footprint.Child) bool {
				return !slices.ContainsFunc(there.Children, func(o footprint.Child) bool { return o.ID == c.ID })
			})
		}
	}
	keep(a, b)
	keep(b, a)
}
