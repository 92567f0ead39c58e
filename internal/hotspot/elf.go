package hotspot

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// Memory reads a process's memory without changing it.
type Memory interface {
	// ReadMem fills p from the address, or fails.
	ReadMem(p []byte, addr uint64) error
}

// ErrNoSymbol says that a library does not export a symbol.
var ErrNoSymbol = errors.New("no such symbol")

// library finds the exported symbols of a shared library that is mapped in a
// process, through its GNU hash table (System V ABI; DT_GNU_HASH). It reads
// memory alone, so it works for a library whose file was replaced. Only
// 64-bit little-endian libraries are read: amd64 and arm64.
type library struct {
	mem                       Memory
	base                      uint64
	symtab, strtab, hashTable uint64
	buckets, symoffset, bloom uint32
}

const (
	elfHeaderSize     = 64
	programHeaderSize = 56
	symbolSize        = 24
	maxProgramHeaders = 64
	maxDynamic        = 256
	maxChain          = 1 << 16
)

func openLibrary(mem Memory, base uint64) (*library, error) {
	l := &library{mem: mem, base: base}
	dyn, err := l.dynamicSection()
	if err != nil {
		return nil, fmt.Errorf("library at %#x: %w", base, err)
	}
	if err := l.readDynamic(dyn); err != nil {
		return nil, fmt.Errorf("library at %#x: %w", base, err)
	}
	return l, nil
}

func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// segments calls do for each program header of the library at base, with its
// type, address and size in memory.
func segments(mem Memory, base uint64, do func(kind elf.ProgType, vaddr, memsz uint64)) error {
	var h [elfHeaderSize]byte
	if err := mem.ReadMem(h[:], base); err != nil {
		return err
	}
	if string(h[:6]) != "\x7fELF\x02\x01" {
		return fmt.Errorf("not a 64-bit little-endian ELF image")
	}
	phoff, phentsize, phnum := u64(h[32:]), u16(h[54:]), u16(h[56:])
	if phentsize != programHeaderSize || phnum > maxProgramHeaders {
		return fmt.Errorf("unexpected program headers: %d of %d bytes", phnum, phentsize)
	}
	table := make([]byte, int(phnum)*programHeaderSize)
	if err := mem.ReadMem(table, base+phoff); err != nil {
		return err
	}
	for ; len(table) > 0; table = table[programHeaderSize:] {
		do(elf.ProgType(u32(table)), u64(table[16:]), u64(table[40:]))
	}
	return nil
}

// LoadEnd returns the address where a library ends that is mapped at base. Its
// zero-initialised data (bss) count.
func LoadEnd(mem Memory, base uint64) (uint64, error) {
	var end, first uint64
	seen := false
	err := segments(mem, base, func(kind elf.ProgType, vaddr, memsz uint64) {
		if kind != elf.PT_LOAD {
			return
		}
		if !seen {
			first, seen = vaddr, true
		}
		end = max(end, vaddr+memsz)
	})
	if err != nil {
		return 0, err
	}
	if !seen || end < first || end-first > 1<<40 {
		return 0, fmt.Errorf("library at %#x: unbelievable size", base)
	}
	return base + end - first, nil
}

func (l *library) dynamicSection() ([]byte, error) {
	var dyn []byte
	var readErr error
	err := segments(l.mem, l.base, func(kind elf.ProgType, vaddr, memsz uint64) {
		if kind == elf.PT_DYNAMIC {
			dyn = make([]byte, min(memsz, maxDynamic*16))
			readErr = l.mem.ReadMem(dyn, l.base+vaddr)
		}
	})
	if err = errors.Join(err, readErr); err == nil && dyn == nil {
		err = fmt.Errorf("no dynamic section")
	}
	return dyn, err
}

func (l *library) readDynamic(dyn []byte) error {
	for ; len(dyn) >= 16; dyn = dyn[16:] {
		at := u64(dyn[8:])
		if at < l.base { // musl leaves these addresses unrelocated
			at += l.base
		}
		switch elf.DynTag(u64(dyn)) {
		case elf.DT_SYMTAB:
			l.symtab = at
		case elf.DT_STRTAB:
			l.strtab = at
		case elf.DT_GNU_HASH:
			l.hashTable = at
		}
	}
	if l.symtab == 0 || l.strtab == 0 || l.hashTable == 0 {
		return fmt.Errorf("no symbol table with a GNU hash")
	}
	var h [16]byte
	if err := l.mem.ReadMem(h[:], l.hashTable); err != nil {
		return err
	}
	l.buckets, l.symoffset, l.bloom = u32(h[:]), u32(h[4:]), u32(h[8:])
	if l.buckets == 0 || l.buckets > 1<<20 || l.bloom > 1<<20 {
		return fmt.Errorf("unbelievable hash table: %d buckets", l.buckets)
	}
	return nil
}

// symbol returns the address of an exported symbol.
func (l *library) symbol(name string) (uint64, error) {
	var hash uint32 = 5381
	for i := range len(name) {
		hash = hash*33 + uint32(name[i])
	}
	buckets := l.hashTable + 16 + uint64(l.bloom)*8
	index, err := l.word(buckets + uint64(hash%l.buckets)*4)
	if err != nil {
		return 0, err
	}
	chains := buckets + uint64(l.buckets)*4
	for n := 0; index >= l.symoffset && index != 0 && n < maxChain; n++ {
		h, err := l.word(chains + uint64(index-l.symoffset)*4)
		if err != nil {
			return 0, err
		}
		if h|1 == hash|1 {
			if addr, ok := l.match(index, name); ok {
				return addr, nil
			}
		}
		if h&1 != 0 {
			break
		}
		index++
	}
	return 0, fmt.Errorf("%w: %s", ErrNoSymbol, name)
}

func (l *library) match(index uint32, name string) (uint64, bool) {
	var sym [symbolSize]byte
	if l.mem.ReadMem(sym[:], l.symtab+uint64(index)*symbolSize) != nil {
		return 0, false
	}
	got := make([]byte, len(name)+1)
	if l.mem.ReadMem(got, l.strtab+uint64(u32(sym[:]))) != nil {
		return 0, false
	}
	return l.base + u64(sym[8:]), string(got) == name+"\x00"
}

func (l *library) word(addr uint64) (uint32, error) {
	var b [4]byte
	err := l.mem.ReadMem(b[:], addr)
	return u32(b[:]), err
}
