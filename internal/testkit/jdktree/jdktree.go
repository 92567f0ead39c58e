// Package jdktree makes folders that look like installed JDKs to whoever reads
// their files, for tests whose result must not depend on the JDK that a
// distribution serves today. Nothing in them can be started.
package jdktree

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// JDK is what the files of a made-up JDK say.
type JDK struct {
	// Version is as the release file has it, such as 17.0.12 or 1.8.0_504.
	Version string
	// ArchiveBytes is the size of the class data archive.
	ArchiveBytes int64
	// Options are the names of the options that the JVM knows.
	Options []string
}

// options are names that the product says something about, with the first major
// version whose latest builds know them.
var options = map[string]int{
	"ExitOnOutOfMemoryError": 8, "UseSerialGC": 8, "UseG1GC": 8, "MaxRAMPercentage": 8, "UseContainerSupport": 8, "ActiveProcessorCount": 8,
	"TieredStopAtLevel": 8, "ReservedCodeCacheSize": 8, "MaxMetaspaceSize": 8, "SharedArchiveFile": 8, "MaxHeapFreeRatio": 8, "InitialHeapSize": 8,
	"UnlockDiagnosticVMOptions": 8, "UnlockExperimentalVMOptions": 8, "G1PeriodicGCInterval": 17, "ArchiveRelocationMode": 17, "TrimNativeHeapInterval": 17, "THPStackMitigation": 17,
	"AutoCreateSharedArchive": 21, "AOTCache": 25, "UseCompactObjectHeaders": 25,
}

// Like is a JDK with what the builds of a major version have in common.
func Like(major int) JDK {
	jdk := JDK{Version: strconv.Itoa(major) + ".0.12", ArchiveBytes: 14 << 20}
	if major == 8 {
		jdk.Version = "1.8.0_409"
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if options[name] <= major {
			jdk.Options = append(jdk.Options, name)
		}
	}
	return jdk
}

// Make writes the JDK's files into a folder, its home, and returns the path of
// its launcher, a script that says what it is and fails.
func (j JDK) Make(t testing.TB, home string) (java string) {
	t.Helper()
	server := filepath.Join(home, "lib", "server")
	java = filepath.Join(home, "bin", "java")
	write(t, java, 0o755, []byte("#!/bin/sh\necho 'a made-up JDK, which cannot be started' >&2\nexit 1\n"))
	write(t, filepath.Join(home, "release"), 0o644, []byte("IMPLEMENTOR=\"Debian\"\nJAVA_VERSION=\""+j.Version+"\"\nOS_ARCH=\"x86_64\"\nLIBC=\"gnu\"\n"))
	write(t, filepath.Join(server, "libjvm.so"), 0o644, library(j))
	archives := []string{"classes.jsa"}
	if strings.HasPrefix(j.Version, "25.") || strings.HasPrefix(j.Version, "26.") {
		archives = append(archives, "classes_coh.jsa") // JEP 519; from 27 on the default
	}
	for _, name := range archives {
		path := filepath.Join(server, name)
		write(t, path, 0o644, nil)
		if err := os.Truncate(path, j.ArchiveBytes); err != nil { // without content
			t.Fatal(err)
		}
	}
	return java
}

func write(t testing.TB, path string, mode os.FileMode, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
}

// library is an ELF file (System V ABI, "Sections") whose read-only data has the
// version's text and the names of the options, as HotSpot's has.
func library(j JDK) []byte {
	const header, section, progbits, strtab = 64, 64, 1, 3
	data := []byte("\x00OpenJDK 64-Bit Server VM (" + j.Version + "-made) for linux-amd64 JRE (" + j.Version + "-made), built on no day\x00" +
		strings.Join(j.Options, "\x00") + "\x00")
	names := []byte("\x00.rodata\x00.shstrtab\x00")
	out := make([]byte, header, header+3*section+len(data)+len(names))
	copy(out, "\x7fELF\x02\x01\x01")
	put16, put32, put64 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	put64(out[40:], header)  // where the section headers are,
	put16(out[58:], section) // how large each is,
	put16(out[60:], 3)       // how many,
	put16(out[62:], 2)       // and which has their names
	at := header + 3*section
	out = append(out, make([]byte, section)...) // the first is no section
	for _, s := range []struct {
		name, kind uint32
		content    []byte
	}{
		{uint32(bytes.Index(names, []byte(".rodata"))), progbits, data}, {uint32(bytes.Index(names, []byte(".shstrtab"))), strtab, names},
	} {
		h := make([]byte, section)
		put32(h, s.name)
		put32(h[4:], s.kind)
		put64(h[24:], uint64(at))
		put64(h[32:], uint64(len(s.content)))
		out, at = append(out, h...), at+len(s.content)
	}
	return append(append(out, data...), names...)
}
