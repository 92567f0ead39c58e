package hotspot

import (
	"errors"
	"fmt"
)

// DirectMemory counts the buffers outside the heap that ByteBuffer.allocateDirect
// made (JDK: java.nio.Bits). Memory that a library allocates in another way does
// not count.
type DirectMemory struct {
	Bytes   int64 // that java.nio asked malloc for
	Buffers int64
}

// directClass is where java.nio.Bits keeps its counters.
type directClass struct {
	klass         uint64
	bytes, number uint64 // offsets of static fields, each an AtomicLong
}

// readDirect reads the counters of java.nio.Bits: static fields, which lie in
// the class's mirror in the heap. A collector may be moving them at this very
// moment: what does not fit is not an error, but no figure.
func (vm *VM) readDirect(s *reader, c *directClass) error {
	if c == nil {
		var err error
		if c, err = s.findDirectClass(); err != nil || c == nil {
			return err // not loaded: there are no such buffers, or the version differs
		}
	}
	vm.direct = c
	values, err := vm.counters(s, c)
	if bytes, n := values[0], values[1]; err == nil && bytes >= n && n >= 0 && bytes < maxHeap && (bytes == 0) == (n == 0) {
		vm.Direct = &DirectMemory{bytes, n}
	}
	return nil
}

// counters reads the values of the two counters.
func (vm *VM) counters(s *reader, c *directClass) (values [2]int64, err error) {
	o, err := vm.objects(s)
	if err != nil {
		return values, err
	}
	mirror, err := o.mirror(c.klass)
	if err != nil {
		return values, err
	}
	for i, field := range []uint64{c.bytes, c.number} {
		counter, err := o.reference(mirror + field)
		if err != nil {
			return values, err
		}
		v, err := s.word(counter + o.valueOffset)
		if err != nil {
			return values, err
		}
		values[i] = int64(v)
	}
	return values, nil
}

// objects reads Java objects.
type objects struct {
	s           *reader
	heap        Region // empty when unknown
	compressed  bool
	base        uint64
	shift       uint64
	colour      uint64 // bits of a reference below the address (generational ZGC)
	valueOffset uint64 // of the only field, a long, behind an object's header
}

func (vm *VM) objects(s *reader) (*objects, error) {
	o := &objects{s: s, heap: vm.Heap, valueOffset: 16, compressed: vm.Flags["UseCompressedOops"] == "true"}
	if vm.Flags["UseCompactObjectHeaders"] == "true" {
		o.valueOffset = 8
	}
	if vm.Collector == "ZGC" {
		o.compressed, o.heap = false, Region{}
		var err error
		o.colour, err = s.zColour()
		return o, err
	}
	if !o.compressed {
		return o, nil
	}
	for _, owner := range []string{"CompressedOops::", "CompressedOops::_narrow_oop.", "Universe::_narrow_oop."} {
		if !s.has(owner+"_base") || !s.has(owner+"_shift") {
			continue
		}
		base, err1 := s.staticWord(owner + "_base")
		shift, err2 := s.staticWord(owner + "_shift")
		o.base, o.shift = base, uint64(uint32(shift))
		if o.shift > 8 {
			return nil, fmt.Errorf("references shifted by %d", o.shift)
		}
		return o, errors.Join(err1, err2)
	}
	return nil, fmt.Errorf("%w: base of compressed references", ErrNoField)
}

// zColour is how many bits generational ZGC keeps below the address. Before
// that ZGC's references are addresses as they are.
func (s *reader) zColour() (uint64, error) {
	if !s.has("ZGlobalsForVMStructs::_ZPointerLoadShift") {
		return 0, nil
	}
	at, err := s.chain("ZGlobalsForVMStructs::_instance_p", "ZGlobalsForVMStructs::_ZPointerLoadShift")
	if err != nil {
		return 0, err
	}
	n, err := s.word(at)
	if err == nil && n > 32 {
		err = fmt.Errorf("references with %d bits below the address", n)
	}
	return n, err
}

// full reads a reference of 64 bits.
func (o *objects) full(at uint64) (uint64, error) {
	w, err := o.s.word(at)
	return w >> o.colour, err
}

// reference reads a field that refers to an object.
func (o *objects) reference(at uint64) (uint64, error) {
	to, err := o.full(at)
	if o.compressed {
		to = o.base + uint64(uint32(to))<<o.shift
	}
	if err == nil && (to == 0 || to%8 != 0 || !o.heap.Empty() && !o.heap.Contains(to)) {
		err = fmt.Errorf("reference at %#x leads to %#x", at, to)
	}
	return to, err
}

// mirror finds the java.lang.Class object of a class: behind a handle since
// JDK 10 or so.
func (o *objects) mirror(klass uint64) (uint64, error) {
	const name = "Klass::_java_mirror"
	off, err := o.s.offset(name)
	if err != nil {
		return 0, err
	}
	at := klass + off
	if o.s.fields[name].typeName == "OopHandle" {
		if at, err = o.s.word(at); err != nil {
			return 0, err
		}
	}
	return o.full(at)
}

// findDirectClass finds java.nio.Bits below java.lang.Object: nil when it is
// not loaded, or has no such fields.
func (s *reader) findDirectClass() (*directClass, error) {
	object, err := s.objectClass()
	if err != nil {
		return nil, err
	}
	first, err := s.member(object, "Klass::_subklass")
	if err != nil {
		return nil, err
	}
	for k, err := range s.list(first, "Klass::_next_sibling", maxClasses) {
		if err != nil {
			return nil, err
		}
		if s.mayBeDirect(k) && s.className(k) == "java/nio/Bits" {
			return s.directFields(k)
		}
	}
	return nil, nil
}

// mayBeDirect sorts out most classes by their shape: it has static references,
// and no instance fields.
func (s *reader) mayBeDirect(klass uint64) bool {
	size, err1 := s.member(klass, "Klass::_layout_helper")
	statics, err2 := s.member(klass, "InstanceKlass::_static_oop_field_count")
	return err1 == nil && err2 == nil && int32(size) > 0 && int32(size) <= 17 && uint16(statics) >= 3
}

func (s *reader) className(klass uint64) string {
	at, err := s.member(klass, "Klass::_name")
	if err != nil {
		return ""
	}
	return s.symbol(at)
}

// symbol reads a Symbol, which the JVM keeps names in; "" when it is not
// readable.
func (s *reader) symbol(at uint64) string {
	length, err1 := s.member(at, "Symbol::_length")
	body, err2 := s.offset("Symbol::_body")
	n := uint64(uint16(length))
	if err1 != nil || err2 != nil || n > maxString {
		return ""
	}
	text := make([]byte, n)
	if s.mem.ReadMem(text, at+body) != nil {
		return ""
	}
	return string(text)
}

// directFields finds the counters by their names: those of JDK 8, and later.
func (s *reader) directFields(klass uint64) (*directClass, error) {
	offsets, err := s.fieldOffsets(klass)
	if err != nil {
		return nil, err
	}
	for _, names := range [][2]string{{"RESERVED_MEMORY", "COUNT"}, {"reservedMemory", "count"}} {
		bytes, ok1 := offsets[names[0]]
		number, ok2 := offsets[names[1]]
		if ok1 && ok2 {
			return &directClass{klass, bytes, number}, nil
		}
	}
	return nil, nil
}

// maxClassFields bounds the fields of one class.
const maxClassFields = 1 << 10

// fieldOffsets reads the fields of a class: by name, the offset in an object,
// or in the mirror for a static one.
func (s *reader) fieldOffsets(klass uint64) (map[string]uint64, error) {
	pool, err := s.member(klass, "InstanceKlass::_constants")
	if err != nil {
		return nil, err
	}
	size := s.types["ConstantPool"]
	if size == 0 || size > 1<<10 {
		return nil, fmt.Errorf("constant pools of %d bytes", size)
	}
	out := map[string]uint64{}
	add := func(nameIndex, offset uint32) {
		if sym, err := s.word(pool + size + uint64(nameIndex)*8); err == nil && nameIndex > 0 && nameIndex < 1<<16 && offset < 1<<16 {
			out[s.symbol(sym)] = uint64(offset)
		}
	}
	if s.has("InstanceKlass::_fieldinfo_stream") {
		return out, s.fieldStream(klass, add)
	}
	return out, s.fieldArray(klass, add)
}

// array reads an Array<T> of the metaspace.
func (s *reader) array(holder uint64, field, data string, width int) ([]byte, error) {
	at, err := s.member(holder, field)
	if err != nil {
		return nil, err
	}
	length, err := s.member(at, "Array<int>::_length")
	if err != nil {
		return nil, err
	}
	off, err := s.offset(data)
	if err != nil {
		return nil, err
	}
	n := int(uint32(length))
	if n > maxClassFields*8 {
		return nil, fmt.Errorf("%s of %d elements", field, n)
	}
	out := make([]byte, n*width)
	return out, s.mem.ReadMem(out, at+off)
}

// fieldArray reads the fields up to JDK 20: six words of 16 bits for each
// (JDK: src/hotspot/share/oops/fieldInfo.hpp).
func (s *reader) fieldArray(klass uint64, add func(name, offset uint32)) error {
	b, err := s.array(klass, "InstanceKlass::_fields", "Array<u2>::_data", 2)
	if err != nil {
		return err
	}
	for ; len(b) >= 12; b = b[12:] {
		packed := uint32(u16(b[10:]))<<16 | uint32(u16(b[8:]))
		add(uint32(u16(b[2:])), packed>>2)
	}
	return nil
}

// fieldStream reads the fields since JDK 21: numbers of varying length (JDK:
// src/hotspot/share/oops/fieldInfo.hpp).
func (s *reader) fieldStream(klass uint64, add func(name, offset uint32)) error {
	b, err := s.array(klass, "InstanceKlass::_fieldinfo_stream", "Array<u1>::_data", 1)
	if err != nil {
		return err
	}
	const (
		hasInitialValue = 1 << 0
		hasGeneric      = 1 << 2
		isContended     = 1 << 4
	)
	next := func() (v uint32) { v, b = unsigned5(b); return v }
	fields := next()
	next() // injected ones, which follow
	for range min(fields, maxClassFields) {
		name, _, offset, _, flags := next(), next(), next(), next(), next()
		for _, f := range []uint32{hasInitialValue, hasGeneric, isContended} {
			if flags&f != 0 {
				next()
			}
		}
		add(name, offset)
	}
	return nil
}

// unsigned5 reads a number of one to five bytes: a byte below 192 ends it, and
// none is zero (JDK: src/hotspot/share/utilities/unsigned5.hpp). At the end of
// b it is 0.
func unsigned5(b []byte) (v uint32, rest []byte) {
	for i := 0; i < 5 && i < len(b); i++ {
		if b[i] == 0 {
			return 0, nil
		}
		v += uint32(b[i]-1) << (6 * i)
		if b[i] < 192 || i == 4 {
			return v, b[i+1:]
		}
	}
	return 0, nil
}
