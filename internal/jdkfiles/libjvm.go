package jdkfiles

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"tare.dev/tare/internal/elffile"
)

// maxSection bounds a section that is read. The read-only data have 0.5 MiB in
// JDK 8 and 1 MiB in 27, the relocations 2 and 3 MiB.
const maxSection = 32 << 20

// section is the content of one section of the library.
type section struct {
	data    []byte
	address uint64 // in memory, from where the library is mapped
}

func openSection(path, name string) (section, error) {
	f, err := os.Open(path)
	if err != nil {
		return section{}, err
	}
	defer f.Close()
	s, err := readSection(f, name)
	if err != nil {
		return section{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func readSection(r io.ReaderAt, name string) (section, error) {
	found, err := elffile.Find(r, name)
	if err != nil {
		return section{}, err
	}
	if found.Size() > maxSection {
		return section{}, fmt.Errorf("section %s of %d bytes: at most %d are read", name, found.Size(), maxSection)
	}
	s := section{make([]byte, found.Size()), found.Address}
	_, err = r.ReadAt(s.data, int64(found.Start))
	if err != nil && err != io.EOF {
		return section{}, err
	}
	return s, nil
}

// Has says that the JVM of this runtime has an option of that name, such as
// THPStackMitigation: the library holds the names of its options (JDK:
// src/hotspot/share/runtime/flags/jvmFlag.cpp). Options of debug builds are not
// in it. It is false where the library could not be read. The first call reads a
// megabyte, and each searches it: a quarter of a millisecond.
//
// A linker keeps a text that another one ends with only once. Where the name is
// nothing but the end of longer texts, such as ThreadStackSize of
// CompilerThreadStackSize, it is an option if something points to it.
func (r *Runtime) Has(flag string) bool {
	if flag == "" {
		return false
	}
	text, name := r.readOnly(), append([]byte(flag), 0)
	for at := 0; ; at++ {
		next := bytes.Index(text.data[at:], name)
		if next < 0 {
			return false
		}
		at += next
		if at == 0 || text.data[at-1] == 0 || r.pointedTo(text.address+uint64(at)) {
			return true
		}
	}
}

// pointedTo says whether the library has a pointer to an address within it, by
// the relocations that make it one (System V ABI, "Relocation": r_addend is the
// third word of an entry). Of a library without a table of these nothing is known,
// and it may have.
func (r *Runtime) pointedTo(address uint64) bool {
	if !r.relocations.isRead {
		r.relocations.isRead = true
		s, err := openSection(r.LibJVM, ".rela.dyn")
		r.relocations.data, r.relocations.unknown = s.data, err != nil
	}
	if r.relocations.unknown {
		return true
	}
	for entry := r.relocations.data; len(entry) >= 24; entry = entry[24:] {
		if binary.LittleEndian.Uint64(entry[16:]) == address {
			return true
		}
	}
	return false
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
