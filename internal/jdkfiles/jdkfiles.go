// Package jdkfiles reads what an installed Java runtime is from its files, without
// starting it: version, vendor, the options that its JVM knows, the class
// archives beside it. It imports nothing that would make the launcher large.
package jdkfiles

import (
	"os"
	"path/filepath"
	"strings"
)

// Runtime is what the files of an installed runtime say. What they do not say
// is empty.
type Runtime struct {
	// Java is the launcher as it is started, Home the folder that holds lib.
	Java, Home string
	Release
	// LibJVM is the path of HotSpot's library; empty when it is not there, as
	// with another JVM, or when Java is a script.
	LibJVM string
	// data is the library's read-only data, which holds its version and the
	// names of its options; it is read when it is asked for.
	data    section
	dataErr error
	isRead  bool
	// relocations are read when an option's name does not tell enough.
	relocations struct {
		data            []byte
		isRead, unknown bool
	}
}

// Open reads the runtime of a launcher. An error leaves Version empty: the
// launcher can be started all the same.
func Open(java string) (*Runtime, error) {
	r := &Runtime{Java: java}
	resolved, err := filepath.EvalSymlinks(java)
	if err == nil {
		resolved, err = filepath.Abs(resolved)
	}
	if err != nil {
		return r, err
	}
	r.Home = filepath.Dir(filepath.Dir(resolved))
	r.LibJVM = findServer(r.Home, "libjvm.so")
	r.Release, err = ReadRelease(r.releaseFile())
	if r.Version == "" {
		r.Version = libraryVersion(r.readOnly().data)
	}
	return r, err
}

// Problem is the error of reading the library, or nil. The library is read when
// something is asked that it tells.
func (r *Runtime) Problem() error { return r.dataErr }

// readOnly is the library's read-only data, empty if it cannot be had.
func (r *Runtime) readOnly() section {
	if !r.isRead && r.LibJVM != "" {
		r.isRead = true
		r.data, r.dataErr = openSection(r.LibJVM, ".rodata")
	}
	return r.data
}

// HotSpot says whether the runtime has HotSpot's library, and is not OpenJ9.
func (r *Runtime) HotSpot() bool { return r.LibJVM != "" && r.Variant != "openj9" }

// releaseFile is beside bin, or for the jre folder of a JDK 8 one above.
func (r *Runtime) releaseFile() string {
	own := filepath.Join(r.Home, "release")
	if _, err := os.Stat(own); err != nil && filepath.Base(r.Home) == "jre" {
		return filepath.Join(filepath.Dir(r.Home), "release")
	}
	return own
}

// serverFolders are where libjvm and its archives are: lib/server since 9; on 8
// jre/lib/ARCH/server in a JDK, lib/ARCH/server in a JRE.
var serverFolders = []string{"lib/server", "jre/lib/*/server", "lib/*/server"}

// findServer finds a file beside libjvm; empty when it is not there.
func findServer(home, name string) string {
	for _, folder := range serverFolders {
		if found := globBelow(home, folder, name); found != "" {
			return found
		}
	}
	return ""
}

// globBelow is the first file that is there; a * in folder stands for one name.
func globBelow(home, folder, name string) string {
	before, after, wild := strings.Cut(folder, "*")
	if !wild {
		return ifRegular(filepath.Join(home, folder, name))
	}
	entries, err := os.ReadDir(filepath.Join(home, before))
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if f := ifRegular(filepath.Join(home, before, e.Name(), after, name)); f != "" {
			return f
		}
	}
	return ""
}

func ifRegular(path string) string {
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		return path
	}
	return ""
}

// DefaultArchive is the path of the class data archive that the JVM in home uses
// by default; it is empty when there is none.
func DefaultArchive(home string) string { return findServer(home, "classes.jsa") }

// CompactArchive is the path of the archive that the JVM in home uses with compact
// object headers (JEP 450, JEP 519). It is empty when there is no archive of that
// kind.
func CompactArchive(home string) string { return findServer(home, "classes_coh.jsa") }
