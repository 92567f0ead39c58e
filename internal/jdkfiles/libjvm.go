package jdkfiles

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
)

// maxReadOnlyData bounds the section that is read: it has 0.5 MiB in JDK 8 and
// 1 MiB in 27.
const maxReadOnlyData = 32 << 20

// readOnlyData reads the section .rodata of a library.
func readOnlyData(path string) ([]byte, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	s := f.Section(".rodata")
	if s == nil || s.Type == elf.SHT_NOBITS || s.FileSize > maxReadOnlyData {
		return nil, fmt.Errorf("%s: no section .rodata of at most %d bytes", path, maxReadOnlyData)
	}
	data := make([]byte, s.FileSize)
	if _, err := s.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: .rodata: %w", path, err)
	}
	return data, nil
}

// Has says that the JVM of this runtime has an option of that name, such as
// THPStackMitigation: the library holds the names of its options (JDK:
// src/hotspot/share/runtime/flags/jvmFlag.cpp). Options of debug builds are not
// in it. It is false where the library could not be read.
func (r *Runtime) Has(flag string) bool {
	return flag != "" && bytes.Contains(r.flags, append([]byte(flag), 0))
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
