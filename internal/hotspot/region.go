package hotspot

// Region is a range of addresses.
type Region struct{ Start, End uint64 }

// Size is the length of the region in bytes.
func (r Region) Size() int64 { return int64(r.End - r.Start) }

// Contains says whether addr lies in the region.
func (r Region) Contains(addr uint64) bool { return r.Start <= addr && addr < r.End }

// Empty says that the region contains no address.
func (r Region) Empty() bool { return r.End <= r.Start }
