// Package elffile finds sections of ELF files (System V ABI, "Sections"). It
// does by hand the little that is needed of debug/elf, which allocates what the
// file asks for, and would make the launcher tare-exec a tenth larger.
package elffile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Section is a section that has content in its file.
type Section struct {
	// Start and End are its range of bytes in the file.
	Start, End uint64
	// Address is where it lies in memory, from where the file is mapped; 0 when
	// it is not mapped.
	Address uint64
}

// Size is the length of the section in bytes.
func (s Section) Size() int64 { return int64(s.End - s.Start) }

// Contains says whether a position in the file lies in the section.
func (s Section) Contains(offset uint64) bool { return s.Start <= offset && offset < s.End }

// Errors of looking for a section.
var (
	// ErrFormat says that a file is no ELF file of a 64-bit little-endian
	// machine, such as amd64 or arm64, or that its tables contradict
	// themselves.
	ErrFormat = errors.New("not a 64-bit little-endian ELF file")
	// ErrNoSection says that the file has no such section with content.
	ErrNoSection = errors.New("no such section")
)

// What is read of a file is bounded: real ones have some forty sections, with a
// kilobyte of names.
const (
	headerSize        = 64
	sectionHeaderSize = 64
	maxSections       = 1024
	maxSectionNames   = 1 << 16
	sectionNull       = 0 // SHT_NULL: no section
	sectionNobits     = 8 // SHT_NOBITS: a section of zeros, which are not in the file
)

// Find finds the section with a name, such as ".rodata". The error is ErrFormat,
// ErrNoSection, or what reading the file returned.
func Find(r io.ReaderAt, name string) (Section, error) {
	headers, names, err := tables(r)
	if err != nil {
		return Section{}, err
	}
	for ; len(headers) > 0; headers = headers[sectionHeaderSize:] {
		at, kind := u32(headers), u32(headers[4:])
		if kind != sectionNull && kind != sectionNobits && int64(at) < int64(len(names)) && bytes.HasPrefix(names[at:], []byte(name+"\x00")) {
			return rangeOf(headers)
		}
	}
	return Section{}, fmt.Errorf("%w: %s", ErrNoSection, name)
}

// tables reads the section headers, and the section that holds their names.
func tables(r io.ReaderAt) (headers, names []byte, err error) {
	var h [headerSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil {
		return nil, nil, errors.Join(ErrFormat, err)
	}
	at, size, count, namesIndex := u64(h[40:]), u16(h[58:]), u16(h[60:]), u16(h[62:])
	if string(h[:6]) != "\x7fELF\x02\x01" || size != sectionHeaderSize || count > maxSections || namesIndex >= count || at > math.MaxInt64 {
		return nil, nil, ErrFormat
	}
	headers = make([]byte, int(count)*sectionHeaderSize)
	if _, err := r.ReadAt(headers, int64(at)); err != nil {
		return nil, nil, err
	}
	where, err := rangeOf(headers[int(namesIndex)*sectionHeaderSize:])
	if err != nil {
		return nil, nil, err
	}
	if where.Size() > maxSectionNames {
		return nil, nil, fmt.Errorf("%w: %d bytes of section names", ErrFormat, where.Size())
	}
	names = make([]byte, where.Size())
	_, err = r.ReadAt(names, int64(where.Start))
	return headers, names, err
}

// rangeOf is where the section of a header lies, if it has content.
func rangeOf(header []byte) (Section, error) {
	start, size := u64(header[24:]), u64(header[32:])
	if size == 0 || start > math.MaxInt64 || size > math.MaxInt64-start {
		return Section{}, fmt.Errorf("%w: %d bytes at %d", ErrNoSection, size, start)
	}
	return Section{start, start + size, u64(header[16:])}, nil
}

func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
