package footprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxSaved bounds a saved footprint: one with ten thousand mapped files has a
// few megabytes.
const maxSaved = 16 << 20

// maxBytes bounds every figure of a saved footprint, so that sums of them stay
// in range: no machine addresses more.
const maxBytes = 1 << 52

// maxPage is more than any machine has: arm64 has pages of 64 KiB at most, and
// powerpc of 256 KiB.
const maxPage = 1 << 20

// maxRows is more owners than there will be.
const maxRows = 64

// maxParts bounds the children of all rows together.
const maxParts = 1 << 16

// ErrForeign says that what was read is not a saved footprint.
var ErrForeign = errors.New("not a saved footprint")

// Decode reads a footprint that was saved as JSON. Fields that it does not
// know are ignored; another schema and figures out of range are errors.
func Decode(r io.Reader) (*Footprint, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSaved+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSaved {
		return nil, fmt.Errorf("%w: more than %d MiB", ErrForeign, maxSaved>>20)
	}
	var head struct{ Schema *string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: no JSON object: %w", ErrForeign, err)
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("%w: it names no schema", ErrForeign)
	}
	if *head.Schema != Schema {
		return nil, fmt.Errorf("%w: its schema is %.60q, want %q", ErrForeign, *head.Schema, Schema)
	}
	var f Footprint
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	f.identify()
	return &f, nil
}

// check says which figure is out of range.
func (f *Footprint) check() error {
	c := checker{}
	c.bytes("rssBytes", f.RSSBytes, f.PSSBytes, f.RollupRSSBytes, f.Classes, int64(f.Threads))
	if len(f.Rows) > maxRows {
		c.fail("%d rows", len(f.Rows))
	}
	seen := map[Owner]bool{}
	for _, r := range f.Rows {
		if seen[r.Owner] {
			c.fail("two rows of %.40q", r.Owner)
		}
		seen[r.Owner] = true
		c.bytes(string(r.Owner), r.ResidentBytes, r.AnonymousBytes, r.SharedMemoryBytes, r.SwapBytes, r.HugeBytes, r.HugetlbBytes, r.RepeatedBytes, int64(r.Arenas))
		c.promised(string(r.Owner), r.CommittedBytes, r.ReservedBytes, r.UsedBytes)
		c.children(string(r.Owner), r.Children)
	}
	if h := f.Heap; h != nil {
		c.bytes("heap", h.MaxBytes, h.CapacityBytes, h.UsedBytes, h.AfterGCBytes, h.Collections)
	}
	c.asked(f.Asked)
	if h := f.Host; h != nil {
		c.bytes("host", h.MemTotalBytes, h.MemAvailableBytes)
		if n := h.PageBytes; n < 0 || n > maxPage || n&(n-1) != 0 {
			c.fail("pages of %d bytes", n)
		}
	}
	if g := f.Cgroup; g != nil {
		c.bytes("cgroup", g.UsageBytes, g.ReclaimableBytes)
		c.promised("cgroup", g.LimitBytes, g.HighBytes, g.SwapLeftBytes)
		if n := g.HighHeadroomBytes; n != nil { // negative when usage exceeds it
			c.bytes("cgroup", max(*n, -*n))
		}
		if g.HeadroomBytes != nil { // negative when usage exceeds the limit
			c.bytes("cgroup", max(*g.HeadroomBytes, -*g.HeadroomBytes))
		}
		if n := g.CPUs; n != nil && !(*n > 0 && *n < 1<<20) {
			c.fail("%v processors", *n)
		}
		for name, n := range g.Events {
			c.bytes("event "+name, n)
		}
	}
	return c.err
}

// checker keeps the first thing that is wrong.
type checker struct {
	err   error
	count int
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *checker) bytes(name string, figures ...int64) {
	for _, n := range figures {
		if n < 0 || n > maxBytes {
			c.fail("%.40q: %d is out of range", name, n)
		}
	}
}

func (c *checker) promised(name string, figures ...*int64) {
	for _, n := range figures {
		if n != nil {
			c.bytes(name, *n)
		}
	}
}

func (c *checker) asked(a *Asked) {
	if a == nil {
		return
	}
	c.promised("asked", a.HeapUsedBytes, a.CodeUsedBytes)
	if t := a.Tracking; t != nil {
		for _, k := range t.Categories {
			c.bytes("tracked "+k.Name, k.ReservedBytes, k.CommittedBytes, k.MallocBytes)
		}
	}
	if h := a.Classes; h != nil {
		c.bytes("objects", h.Instances, h.Bytes)
		for _, k := range h.Largest {
			c.bytes("objects of "+k.Name, k.Instances, k.Bytes)
		}
	}
	if m := a.Metaspace; m != nil {
		c.bytes("metaspace", m.CommittedBytes, m.WasteBytes)
	}
	if l := a.Loaders; l != nil {
		c.bytes("class loaders", l.Loaders, l.Classes)
		for _, t := range l.Largest {
			c.bytes("class loaders "+t.Type, t.Loaders, t.Classes, t.MetaspaceBytes, t.UsedBytes)
		}
	}
}

func (c *checker) children(of string, children []Child) {
	if c.count += len(children); c.count > maxParts {
		c.fail("more than %d parts", maxParts)
		return
	}
	for _, k := range children {
		c.bytes(of+" "+k.Name, k.ResidentBytes)
		c.promised(of+" "+k.Name, k.CommittedBytes, k.ReservedBytes, k.UsedBytes)
		c.children(of, k.Children)
	}
}
