package jdkfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// maxReadOnlyData bounds the section that is read: it has 0.5 MiB in JDK 8 and
// 1 MiB in 27.
const maxReadOnlyData = 32 << 20

const (
	elfHeaderSize     = 64
	sectionHeaderSize = 64
	maxSections       = 256
	maxSectionNames   = 64 << 10
	sectionProgbits   = 1 // SHT_PROGBITS
)

// errNotELF says what kind of library is read: of amd64, arm64 and the like.
var errNotELF = errors.New("not a 64-bit little-endian ELF library")

// readOnlyData reads the section .rodata of a library (System V ABI). It does by
// hand the little that is needed of debug/elf, which would make the launcher a
// tenth larger.
func readOnlyData(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := section(f, ".rodata")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

func section(r io.ReaderAt, name string) ([]byte, error) {
	var h [elfHeaderSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil {
		return nil, errors.Join(errNotELF, err)
	}
	le := binary.LittleEndian
	at, size, count, names := le.Uint64(h[40:]), le.Uint16(h[58:]), le.Uint16(h[60:]), le.Uint16(h[62:])
	if string(h[:6]) != "\x7fELF\x02\x01" || size != sectionHeaderSize || count > maxSections || names >= count || at > math.MaxInt64/2 {
		return nil, errNotELF
	}
	table := make([]byte, int(count)*sectionHeaderSize)
	if _, err := r.ReadAt(table, int64(at)); err != nil {
		return nil, err
	}
	strings, err := contents(r, table[int(names)*sectionHeaderSize:], maxSectionNames)
	if err != nil {
		return nil, err
	}
	for ; len(table) > 0; table = table[sectionHeaderSize:] {
		n := le.Uint32(table)
		if int64(n) < int64(len(strings)) && bytes.HasPrefix(strings[n:], append([]byte(name), 0)) && le.Uint32(table[4:]) == sectionProgbits {
			return contents(r, table, maxReadOnlyData)
		}
	}
	return nil, fmt.Errorf("no section %s", name)
}

// contents reads the section that a header describes.
func contents(r io.ReaderAt, header []byte, most uint64) ([]byte, error) {
	le := binary.LittleEndian
	at, size := le.Uint64(header[24:]), le.Uint64(header[32:])
	if size > most || at > math.MaxInt64/2 {
		return nil, fmt.Errorf("a section of %d bytes: at most %d are read", size, most)
	}
	data := make([]byte, size)
	_, err := r.ReadAt(data, int64(at))
	if err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}

// Has says that the JVM of this runtime has an option of that name, such as
// THPStackMitigation: the library holds the names of its options (JDK:
// src/hotspot/share/runtime/flags/jvmFlag.cpp). Options of debug builds are not
// in it. It is false where the library could not be read. The first call reads a
// megabyte, and each searches it: a quarter of a millisecond.
func (r *Runtime) Has(flag string) bool {
	return flag != "" && bytes.Contains(r.readOnly(), append([]byte(flag), 0))
}

// libraryVersion finds the version in the text that java -version and crash
// logs print (JDK: VM_Version::internal_vm_info_string in
// src/hotspot/share/runtime/abstract_vm_version.cpp), such as
// "OpenJDK 64-Bit Server VM (25.504-b01) for linux-amd64 JRE (1.8.0_504-8u504-ga-1-b01), built on ...".
func libraryVersion(data []byte) string {
	_, rest, ok := bytes.Cut(data, []byte(") for linux-"))
	if !ok {
		return ""
	}
	rest = rest[:min(len(rest), 2*maxValue)]
	if _, rest, ok = bytes.Cut(rest, []byte(" JRE (")); !ok {
		return ""
	}
	end := bytes.IndexAny(rest, "-+) \x00")
	if end <= 0 || !IsName(string(rest[:end])) || rest[0] < '0' || rest[0] > '9' {
		return ""
	}
	return string(rest[:end])
}
