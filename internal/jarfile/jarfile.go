// Package jarfile reads of a jar what a launcher needs: how many classes it and
// the jars inside it hold, and its manifest. It reads the central directory
// alone (APPNOTE.TXT, section 4.3), which archive/zip does too, but without an
// object for each of perhaps fifty thousand entries. It imports the standard
// library alone.
package jarfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	endSize         = 22 // the end of central directory record, without comment
	maxComment      = 1<<16 - 1
	directorySize   = 46 // an entry of the central directory, without its names
	localSize       = 30 // a local file header, without its names
	locator64Size   = 20
	end64Size       = 56
	maxDirectory    = 64 << 20 // bytes; 50 000 entries take 5 MiB
	maxManifest     = 1 << 20  // bytes
	maxNested       = 4096
	stored          = 0
	deflated        = 8
	manifestName    = "META-INF/MANIFEST.MF"
	bytesPerClass   = 2 << 10 // of a deflated jar, for jars that cannot be looked into
	magicEnd        = "PK\x05\x06"
	magicEnd64      = "PK\x06\x06"
	magicLocator64  = "PK\x06\x07"
	magicDirectory  = "PK\x01\x02"
	magicLocal      = "PK\x03\x04"
	unknownOffset32 = 1<<32 - 1
)

// errNotJar says that a file is no zip archive.
var errNotJar = errors.New("not a jar: it has no central directory")

// Jar is an opened jar. Close it.
type Jar struct {
	name    string
	r       io.ReaderAt
	entries []byte // the central directory
	shift   int64  // what precedes the archive, such as a script
}

// Open opens a jar, or a war.
func Open(path string) (*Jar, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	j, err := newJar(path, f, st.Size())
	if err != nil {
		f.Close()
	}
	return j, err
}

func newJar(name string, r io.ReaderAt, size int64) (*Jar, error) {
	entries, shift, err := readDirectory(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Jar{name, r, entries, shift}, nil
}

// Close closes the file.
func (j *Jar) Close() error {
	if c, ok := j.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// readDirectory finds the central directory through the record at the end.
func readDirectory(r io.ReaderAt, size int64) (entries []byte, shift int64, err error) {
	tail := make([]byte, min(size, endSize+maxComment))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return nil, 0, err
	}
	at := bytes.LastIndex(tail, []byte(magicEnd))
	if at < 0 || len(tail)-at < endSize {
		return nil, 0, errNotJar
	}
	le := binary.LittleEndian
	end := size - int64(len(tail)) + int64(at)
	length, offset := int64(le.Uint32(tail[at+12:])), int64(le.Uint32(tail[at+16:]))
	if offset == unknownOffset32 || le.Uint16(tail[at+10:]) == 1<<16-1 {
		if length, offset, end, err = readEnd64(r, end, length, offset); err != nil {
			return nil, 0, err
		}
	}
	if length > maxDirectory || length > end || offset > end-length || offset < 0 || length < 0 {
		return nil, 0, fmt.Errorf("%w of at most %d bytes", errNotJar, maxDirectory)
	}
	entries = make([]byte, length)
	if _, err := r.ReadAt(entries, end-length); err != nil && err != io.EOF {
		return nil, 0, err
	}
	return entries, end - length - offset, nil
}

// readEnd64 reads the record for archives of 65535 entries and more; without
// one the values of the other record stand.
func readEnd64(r io.ReaderAt, end, length, offset int64) (int64, int64, int64, error) {
	var locator [locator64Size]byte
	if end < locator64Size {
		return length, offset, end, nil
	}
	if _, err := r.ReadAt(locator[:], end-locator64Size); err != nil {
		return 0, 0, 0, err
	}
	if string(locator[:4]) != magicLocator64 {
		return length, offset, end, nil
	}
	at := end - locator64Size - end64Size
	var record [end64Size]byte
	if at < 0 {
		return 0, 0, 0, errNotJar
	}
	if _, err := r.ReadAt(record[:], at); err != nil {
		return 0, 0, 0, err
	}
	if string(record[:4]) != magicEnd64 {
		return 0, 0, 0, errNotJar
	}
	le := binary.LittleEndian
	return int64(le.Uint64(record[40:])), int64(le.Uint64(record[48:])), at, nil
}

// entry is one file of an archive.
type entry struct {
	name             []byte
	method           uint16
	compressed, size int64
	offset           int64
}

// eachEntry calls do until it returns false or the directory ends or is broken.
func eachEntry(directory []byte, do func(entry) bool) {
	le := binary.LittleEndian
	for len(directory) >= directorySize && string(directory[:4]) == magicDirectory {
		name, extra, comment := int(le.Uint16(directory[28:])), int(le.Uint16(directory[30:])), int(le.Uint16(directory[32:]))
		next := directorySize + name + extra + comment
		if next > len(directory) {
			return
		}
		e := entry{name: directory[directorySize : directorySize+name], method: le.Uint16(directory[10:]),
			compressed: int64(le.Uint32(directory[20:])), size: int64(le.Uint32(directory[24:])), offset: int64(le.Uint32(directory[42:]))}
		if !do(e) {
			return
		}
		directory = directory[next:]
	}
}

// Classes counts the class files, those in jars inside included. A jar that is
// compressed once more is counted by its size.
func (j *Jar) Classes() int {
	n, nested := 0, 0
	eachEntry(j.entries, func(e entry) bool {
		switch {
		case bytes.HasSuffix(e.name, []byte(".class")):
			n++
		case bytes.HasSuffix(e.name, []byte(".jar")):
			if nested++; nested > maxNested {
				return false
			}
			n += j.nestedClasses(e)
		}
		return true
	})
	return n
}

func (j *Jar) nestedClasses(e entry) int {
	if e.method != stored || e.compressed != e.size {
		return int(e.size / bytesPerClass)
	}
	directory, _ := j.nestedDirectory(e)
	n := 0
	eachEntry(directory, func(e entry) bool {
		if bytes.HasSuffix(e.name, []byte(".class")) {
			n++
		}
		return true
	})
	return n
}

// contents is where the bytes of an entry begin.
func (j *Jar) contents(e entry) (int64, error) {
	var h [localSize]byte
	at := j.shift + e.offset
	if _, err := j.r.ReadAt(h[:], at); err != nil {
		return 0, err
	}
	if string(h[:4]) != magicLocal {
		return 0, errors.New("no local header")
	}
	le := binary.LittleEndian
	return at + localSize + int64(le.Uint16(h[26:])) + int64(le.Uint16(h[28:])), nil
}

// Manifest is the main section of a manifest (the JAR file specification), by
// attribute in lower case.
type Manifest map[string]string

// Manifest reads the manifest. A jar without one has no attributes.
func (j *Jar) Manifest() (Manifest, error) {
	var found *entry
	eachEntry(j.entries, func(e entry) bool {
		if bytes.EqualFold(e.name, []byte(manifestName)) {
			found = &e
		}
		return found == nil
	})
	if found == nil {
		return Manifest{}, nil
	}
	text, err := j.read(*found)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", j.name, manifestName, err)
	}
	return ParseManifest(text), nil
}

func (j *Jar) read(e entry) ([]byte, error) {
	start, err := j.contents(e)
	if err != nil {
		return nil, err
	}
	var r io.Reader = io.NewSectionReader(j.r, start, e.compressed)
	switch e.method {
	case stored:
	case deflated:
		r = flate.NewReader(r)
	default:
		return nil, fmt.Errorf("compression method %d", e.method)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("more than %d bytes", maxManifest)
	}
	return text, err
}

// ParseManifest reads the main section: "Name: value", where a line that begins
// with a blank goes on with the last one's value.
func ParseManifest(text []byte) Manifest {
	m := Manifest{}
	name := ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\r\n", "\n")) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if more, ok := strings.CutPrefix(line, " "); ok {
			if name != "" {
				m[name] += more
			}
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if name = ""; ok {
			name = strings.ToLower(key)
			m[name] = strings.TrimPrefix(value, " ")
		}
	}
	return m
}
