package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/hotspot"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// usualPage is a page of amd64, and of arm64 as most distributions have it:
	// what is taken where the footprint does not say.
	usualPage = 4 * kib
)

const (
	// worthBytes and worthShare are the least that a finding about waste is
	// worth: nobody changes an option for less.
	worthBytes = 4 * mib
	worthShare = 50 // a fiftieth of Rss
)

// patient is a footprint, and what rules ask of it.
type patient struct {
	*footprint.Footprint
	major int // 0 when unknown
}

func newPatient(f *footprint.Footprint) *patient {
	p := &patient{Footprint: f}
	if n, err := hotspot.Major(f.JDK); err == nil {
		p.major = n
	}
	return p
}

// worth says whether so many bytes are worth a finding.
func (p *patient) worth(bytes int64) bool {
	return bytes >= max(worthBytes, p.RSSBytes/worthShare)
}

// row is the row of an owner, empty without one.
func (p *patient) row(o footprint.Owner) footprint.Row {
	r, _ := p.Row(o)
	return r
}

// number is the value of a flag; false when this JVM lacks it, it is not known,
// or it is so large that it means "no limit".
func (p *patient) number(flag string) (int64, bool) {
	n, err := strconv.ParseInt(p.Flags[flag], 10, 64)
	return n, err == nil && n <= maxFlag && n >= -maxFlag
}

// maxFlag is more than any size on any machine.
const maxFlag = 1 << 52

// is says that a flag is known to have a value.
func (p *patient) is(flag, value string) bool { return p.Flags[flag] == value }

// has says that this JVM has the flag.
func (p *patient) has(flag string) bool {
	_, ok := p.Flags[flag]
	return ok
}

// page is the size of a page of the machine.
func (p *patient) page() int64 {
	if p.Host != nil && p.Host.PageBytes > 0 {
		return p.Host.PageBytes
	}
	return usualPage
}

// hugePage is the size of a transparent huge page: what one page of page table
// entries of 8 bytes maps, which is 2 MiB with pages of 4 KiB.
func (p *patient) hugePage() int64 { return p.page() / 8 * p.page() }

// limit is the memory limit; 0 without one.
func (p *patient) limit() int64 {
	if p.Cgroup == nil || p.Cgroup.LimitBytes == nil {
		return 0
	}
	return *p.Cgroup.LimitBytes
}

// kernelAtLeast says that the machine's kernel is known to be major.minor or
// later.
func (p *patient) kernelAtLeast(major, minor int) bool {
	if p.Host == nil {
		return false
	}
	a, rest, _ := strings.Cut(p.Host.Kernel, ".")
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		rest = rest[:i]
	}
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(rest)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}

// size shows bytes in MiB.
func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mib) }

// megabytes shows bytes as the JVM's options want them, rounded up to a MiB.
func megabytes(bytes int64) string { return strconv.FormatInt(ceilMiB(bytes), 10) + "m" }

func ceilMiB(bytes int64) int64 { return (bytes + mib - 1) / mib }

// share is a factor of bytes.
func share(bytes int64, factor float64) int64 { return int64(math.Round(float64(bytes) * factor)) }
