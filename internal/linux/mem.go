package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
)

// ErrNotResident says that a page is not in memory and was therefore not
// read: reading it would have brought it in.
var ErrNotResident = errors.New("page is not resident")

// notResidentError is ErrNotResident at an address. It happens often and is
// seldom shown: its text is made when that is asked for.
type notResidentError struct{ addr uint64 }

func (e *notResidentError) Error() string {
	return fmt.Sprintf("reading at %#x: %v", e.addr, ErrNotResident)
}

// Unwrap is ErrNotResident.
func (e *notResidentError) Unwrap() error { return ErrNotResident }

// errTooMuch says that a Mem has read all that it may.
var errTooMuch = fmt.Errorf("more than %d blocks of the process read already", maxLoads)

// Mem reads the memory of another process through /proc/PID/mem without
// changing it: a page that is not resident is never touched. Where such a
// page belongs to a mapped file and was not swapped out, nobody has written
// to it, and its content is read from the file itself.
//
// Blocks are kept, so that many small reads cost few system calls: a block shows
// what it held when it was first read, until Forget, or until so many others were
// read that all are given up. The blocks that one Mem reads are bounded, for a
// hostile process can lead a reader from page to page without end.
type Mem struct {
	mem      *os.File
	pagemap  *os.File
	pageSize uint64
	block    uint64
	vmas     []VMA
	blocks   map[uint64]*memBlock
	loads    int
	files    mappedFiles
	entries  [blockSize / 4096 * 8]byte // of the page map
}

// blockSize is how much is read at once: small, for most of what is read of a
// JVM lies scattered.
const blockSize = 16 << 10

// memBlock is a block as it was read. Only its valid pages hold anything.
type memBlock struct {
	data  []byte
	valid uint64 // a bit for each page
}

// blockPool keeps blocks from one Mem for the next: with a series of
// weighings, making them anew would cost more than filling them.
var blockPool sync.Pool

const (
	// maxBlocks bounds what is kept of a process: 32 MiB, more with larger pages.
	maxBlocks = 32 << 20 / blockSize
	// maxLoads bounds how often a block is read, which takes some microseconds:
	// a JVM of 10 000 threads and 60 000 classes takes 50 000.
	maxLoads = 1 << 16
)

// OpenMem opens the memory of process pid, whose mappings are vmas. It needs
// the permission to trace the process (ptrace(2), PTRACE_MODE_ATTACH), and
// asks for nothing that stops or signals it.
func (fs FS) OpenMem(pid int, vmas []VMA) (*Mem, error) {
	mem, err := os.Open(fs.Path(pid, "mem"))
	if err != nil {
		return nil, err
	}
	pagemap, err := os.Open(fs.Path(pid, "pagemap"))
	if err != nil {
		mem.Close()
		return nil, err
	}
	page := uint64(os.Getpagesize())
	return &Mem{
		mem: mem, pagemap: pagemap,
		pageSize: page, block: max(blockSize, page), vmas: vmas,
		blocks: map[uint64]*memBlock{}, files: mappedFiles{fs: fs, pid: pid},
	}, nil
}

// Close releases the files.
func (m *Mem) Close() error {
	err := errors.Join(m.mem.Close(), m.pagemap.Close())
	m.Forget()
	m.files.close()
	return err
}

// Forget makes the next reads show the memory as it is then.
func (m *Mem) Forget() {
	for _, b := range m.blocks {
		blockPool.Put(b)
	}
	clear(m.blocks)
}

// ReadMem fills p from address addr.
func (m *Mem) ReadMem(p []byte, addr uint64) error {
	if addr+uint64(len(p)) < addr {
		return fmt.Errorf("reading %d bytes at %#x: beyond the address space", len(p), addr)
	}
	for len(p) > 0 {
		base := addr &^ (m.block - 1)
		b, err := m.load(base)
		if err != nil {
			return err
		}
		page := (addr - base) / m.pageSize
		if b.valid&(1<<page) == 0 {
			return &notResidentError{addr}
		}
		pageEnd := (page + 1) * m.pageSize
		n := copy(p, b.data[addr-base:pageEnd])
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

func (m *Mem) load(base uint64) (*memBlock, error) {
	if b, ok := m.blocks[base]; ok {
		return b, nil
	}
	if m.loads++; m.loads > maxLoads {
		return nil, fmt.Errorf("reading at %#x: %w", base, errTooMuch)
	}
	if len(m.blocks) >= maxBlocks {
		m.Forget()
	}
	pages := m.block / m.pageSize
	entries := m.entries[:pages*8]
	clear(entries)
	// Beyond the end of user space the page map ends early: those entries
	// stay zero, that is, not present.
	if _, err := m.pagemap.ReadAt(entries, int64(base/m.pageSize*8)); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the page map at %#x: %w", base, err)
	}
	b := m.emptyBlock()
	state := func(page uint64) uint64 { return binary.NativeEndian.Uint64(entries[page*8:]) }
	for page := uint64(0); page < pages; {
		end := page + 1
		if state(page)&pagemapPresent != 0 {
			for end < pages && state(end)&pagemapPresent != 0 {
				end++
			}
			m.fill(b, base, page, end)
		} else if state(page)&pagemapSwapped == 0 && m.fillFromFile(b.data[page*m.pageSize:end*m.pageSize], base+page*m.pageSize) {
			b.valid |= 1 << page
		}
		page = end
	}
	m.blocks[base] = b
	return b, nil
}

func (m *Mem) emptyBlock() *memBlock {
	if b, ok := blockPool.Get().(*memBlock); ok {
		b.valid = 0
		return b
	}
	return &memBlock{data: make([]byte, m.block)}
}

// fill reads the resident pages [page, end) of a block. Guard pages and
// mappings that went away in between stay invalid.
func (m *Mem) fill(b *memBlock, base, page, end uint64) {
	n, _ := m.mem.ReadAt(b.data[page*m.pageSize:end*m.pageSize], int64(base+page*m.pageSize))
	for p := page; p < page+uint64(n)/m.pageSize; p++ {
		b.valid |= 1 << p
	}
}

func (m *Mem) fillFromFile(p []byte, addr uint64) bool {
	i := sort.Search(len(m.vmas), func(i int) bool { return m.vmas[i].End > addr })
	if i == len(m.vmas) || addr < m.vmas[i].Start || !m.vmas[i].FileBacked() {
		return false
	}
	v := &m.vmas[i]
	f := m.files.of(v)
	if f == nil {
		return false
	}
	n, _ := f.ReadAt(p, int64(v.Offset+addr-v.Start))
	return n == len(p)
}
