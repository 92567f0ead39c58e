package hotspot

import (
	"bytes"
	"errors"
	"fmt"
)

// Structs is HotSpot's own description of its data: the table vmStructs, which
// libjvm exports for the serviceability agent (JDK:
// src/hotspot/share/runtime/vmStructs.hpp). The JVM does nothing for its being read.
// It holds no addresses, and so is the same for every JVM of one library.
type Structs struct {
	fields map[string]field
	types  map[string]uint64 // size by type name
}

// reader reads one JVM by its description.
type reader struct {
	*Structs
	mem  Memory
	base uint64 // where libjvm is mapped
}

type field struct {
	typeName string
	static   bool
	at       uint64 // offset of a static field in libjvm, of another in its object
}

const (
	maxFields = 1 << 14
	maxString = 512
)

// ErrNoField says that this JVM version does not describe a field.
var ErrNoField = errors.New("field not described by this JVM")

// ReadStructs reads the description out of the libjvm that is mapped at base.
func ReadStructs(mem Memory, base uint64) (*Structs, error) {
	const what = "reading the JVM's own description (vmStructs)"
	lib, err := openLibrary(mem, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	s := &reader{&Structs{fields: map[string]field{}, types: map[string]uint64{}}, mem, base}
	if err := s.readFields(lib); err != nil {
		return nil, fmt.Errorf("%s: gHotSpotVMStructs: %w", what, err)
	}
	if err := s.readTypes(lib); err != nil {
		return nil, fmt.Errorf("%s: gHotSpotVMTypes: %w", what, err)
	}
	return s.Structs, nil
}

// table reads gHotSpot<name>s: entries of a fixed stride, whose columns lie
// at exported offsets, up to the first entry whose key column is null.
func (s *reader) table(lib *library, name, key string, columns []string, row func(cell func(i int) uint64) error) error {
	values := map[string]uint64{}
	for _, sym := range append([]string{"gHotSpot" + name + "s", "gHotSpot" + name + "EntryArrayStride"}, prefixed("gHotSpot"+name+"Entry", columns, "Offset")...) {
		addr, err := lib.symbol(sym)
		if err != nil {
			return err
		}
		if values[sym], err = s.word(addr); err != nil {
			return err
		}
	}
	at, stride := values["gHotSpot"+name+"s"], values["gHotSpot"+name+"EntryArrayStride"]
	if at == 0 || stride == 0 || stride > 256 {
		return fmt.Errorf("table at %#x with entries of %d bytes", at, stride)
	}
	offset := make([]uint64, len(columns))
	keyColumn := 0
	for i, c := range columns {
		offset[i] = values["gHotSpot"+name+"Entry"+c+"Offset"]
		if offset[i]+8 > stride {
			return fmt.Errorf("column %s lies beyond the entry", c)
		}
		if c == key {
			keyColumn = i
		}
	}
	entry := make([]byte, stride)
	for n := 0; n < maxFields; n++ {
		if err := s.mem.ReadMem(entry, at+uint64(n)*stride); err != nil {
			return err
		}
		cell := func(i int) uint64 { return u64(entry[offset[i]:]) }
		if cell(keyColumn) == 0 {
			return nil
		}
		if err := row(cell); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d entries", maxFields)
}

func prefixed(prefix string, names []string, suffix string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n + suffix
	}
	return out
}

func (s *reader) readFields(lib *library) error {
	columns := []string{"TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"}
	return s.table(lib, "VMStruct", "TypeName", columns, func(cell func(int) uint64) error {
		owner, err := s.cstring(cell(0))
		if err != nil {
			return err
		}
		name, err := s.cstring(cell(1))
		if err != nil {
			return err
		}
		f := field{static: uint32(cell(3)) != 0, at: cell(4)}
		if f.static {
			f.at = cell(5) - s.base
		}
		// A field of a type without a name has a null type string.
		if cell(2) != 0 {
			if f.typeName, err = s.cstring(cell(2)); err != nil {
				return err
			}
		}
		s.fields[owner+"::"+name] = f
		return nil
	})
}

func (s *reader) readTypes(lib *library) error {
	columns := []string{"TypeName", "Size"}
	return s.table(lib, "VMType", "TypeName", columns, func(cell func(int) uint64) error {
		name, err := s.cstring(cell(0))
		if err != nil {
			return err
		}
		s.types[name] = cell(1)
		return nil
	})
}

// word reads one 64-bit word.
func (s *reader) word(addr uint64) (uint64, error) {
	var b [8]byte
	err := s.mem.ReadMem(b[:], addr)
	return u64(b[:]), err
}

// cstring reads a string that ends in a zero byte.
func (s *reader) cstring(addr uint64) (string, error) {
	var out []byte
	var b [32]byte
	for len(out) < maxString {
		// A short string may end just before an unreadable page.
		n := min(uint64(len(b)), 4096-addr%4096)
		if err := s.mem.ReadMem(b[:n], addr); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b[:n], 0); i >= 0 {
			return string(append(out, b[:i]...)), nil
		}
		out, addr = append(out, b[:n]...), addr+n
	}
	return "", fmt.Errorf("string of more than %d bytes at %#x", maxString, addr)
}

// has says whether this JVM describes a field.
func (s *reader) has(name string) bool { _, ok := s.fields[name]; return ok }

// static returns the address of a static field.
func (s *reader) static(name string) (uint64, error) {
	f, ok := s.fields[name]
	if !ok || !f.static {
		return 0, fmt.Errorf("%w: %s", ErrNoField, name)
	}
	return s.base + f.at, nil
}

// staticWord reads a static field of 64 bits.
func (s *reader) staticWord(name string) (uint64, error) {
	at, err := s.static(name)
	if err != nil {
		return 0, err
	}
	return s.word(at)
}

// offset returns the offset of a field in its object.
func (s *reader) offset(name string) (uint64, error) {
	f, ok := s.fields[name]
	if !ok || f.static {
		return 0, fmt.Errorf("%w: %s", ErrNoField, name)
	}
	return f.at, nil
}

// member reads a field of 64 bits of the object at addr.
func (s *reader) member(addr uint64, name string) (uint64, error) {
	off, err := s.offset(name)
	if err != nil {
		return 0, err
	}
	if addr == 0 {
		return 0, fmt.Errorf("%s of a null object", name)
	}
	return s.word(addr + off)
}

// chain follows static pointer first through the members, each a pointer to
// the next object.
func (s *reader) chain(first string, members ...string) (uint64, error) {
	at, err := s.staticWord(first)
	for _, m := range members {
		if err != nil {
			return 0, err
		}
		at, err = s.member(at, m)
	}
	return at, err
}
