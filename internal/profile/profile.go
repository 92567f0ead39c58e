// Package profile is tare.json: what tare fit has proven of an application, for
// the launcher to start it with. It imports the standard library alone.
package profile

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Schema names the JSON form. Fields may be added; none changes its meaning.
const Schema = "tare.profile/1"

// FileName is the profile's name beside a jar.
const FileName = "tare.json"

const (
	maxFile    = 1 << 20 // bytes
	maxOptions = 256
	maxOption  = 4096 // bytes
	// headBytes of an archive hold its header, which has the identity of the JVM
	// and the checksums of all regions (JDK: FileMapHeader in
	// src/hotspot/share/cds/filemap.hpp): the rest need not be read.
	headBytes = 64 << 10
)

// Profile is what was proven. Sizes are bytes.
type Profile struct {
	Schema string `json:"schema"`
	Time   string `json:"time,omitempty"` // RFC 3339
	// JDK is the version that it was proven with, such as 25.0.3.
	JDK  string `json:"jdk"`
	Arch string `json:"arch,omitempty"`
	// LimitBytes is the memory limit that it passed with, CPUs and Cpuset what
	// it had of processors; 0 and "" are no bound.
	LimitBytes int64   `json:"limitBytes"`
	CPUs       float64 `json:"cpus,omitempty"`
	Cpuset     string  `json:"cpuset,omitempty"`
	// Options and Env are what was added to the command as given.
	Options []string `json:"options"`
	Env     []string `json:"env,omitempty"` // "NAME=value"
	Archive *Archive `json:"archive,omitempty"`
	// UnpaidBytes are pages of the C library and the like that other groups were
	// charged for there, and a container of its own may be charged for.
	UnpaidBytes int64 `json:"unpaidBytes,omitempty"`
	// PeakBytes is the group's highest usage, Peaks the resident bytes near it
	// by owner, as tare weigh names them.
	PeakBytes int64            `json:"peakBytes,omitempty"`
	Peaks     map[string]int64 `json:"peaks,omitempty"`
}

// Archive is the class archive among the options.
type Archive struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// FNV128a is of the first 64 KiB, in hex: it tells archives apart, and
	// protects from nothing.
	FNV128a string `json:"fnv128a"`
}

// Read reads and checks a profile.
func Read(path string) (*Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a file")
	}
	if err == nil {
		var p *Profile
		if p, err = Parse(io.LimitReader(f, maxFile+1)); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("profile %s: %w: write it anew with tare fit --profile", path, err)
}

// Parse reads and checks a profile.
func Parse(r io.Reader) (*Profile, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	var p Profile
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("not JSON as written by tare: %w", err)
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return &p, p.check()
}

func (p *Profile) check() error {
	switch {
	case p.Schema != Schema:
		return fmt.Errorf("schema %.40q: want %s", p.Schema, Schema)
	case p.LimitBytes <= 0 || p.LimitBytes > 1<<60:
		return fmt.Errorf("limitBytes %d: want a limit", p.LimitBytes)
	case p.JDK == "":
		return errors.New("no jdk")
	case len(p.Options) > maxOptions || len(p.Env) > maxOptions:
		return fmt.Errorf("more than %d options", maxOptions)
	case p.Archive != nil && (p.Archive.File == "" || p.Archive.Bytes <= 0 || len(p.Archive.FNV128a) != 32):
		return errors.New("archive: want file, bytes and fnv128a")
	}
	for _, o := range p.Options {
		if !harmless(o) {
			return fmt.Errorf("option %.80q: only sizes, switches, numbers and archives are taken", o)
		}
	}
	for _, e := range p.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name != "MALLOC_ARENA_MAX" || len(e) > maxOption || strings.ContainsRune(e, 0) {
			return fmt.Errorf("variable %.80q: only MALLOC_ARENA_MAX is taken", e)
		}
	}
	return nil
}

// harmless says that an option of the JVM can do no more than size or switch
// something, or name an archive: it runs no command and loads no code.
func harmless(option string) bool {
	if len(option) > maxOption || strings.ContainsRune(option, 0) {
		return false
	}
	for _, prefix := range []string{"-Xmx", "-Xms", "-Xmn", "-Xss"} {
		if size, ok := strings.CutPrefix(option, prefix); ok {
			return isNumber(size)
		}
	}
	flag, ok := strings.CutPrefix(option, "-XX:")
	if !ok {
		return option == "-Xint" || strings.HasPrefix(option, "-Xshare:")
	}
	name, value, hasValue := strings.Cut(flag, "=")
	switch {
	case hasValue && (name == "SharedArchiveFile" || name == "AOTCache"):
		return value != ""
	case hasValue && name == "CompileCommand": // another could make the JVM print or skip methods
		size, ok := strings.CutPrefix(value, "MemLimit,*.*,")
		return value == "quiet" || ok && isNumber(size)
	case hasValue:
		return isName(name) && isNumber(value)
	}
	return flag != "" && (flag[0] == '+' || flag[0] == '-') && isName(flag[1:])
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// isNumber takes digits, with a point or a unit.
func isNumber(s string) bool {
	digits := strings.TrimRight(s, "kKmMgGtT")
	return digits != "" && len(s)-len(digits) <= 1 && strings.Trim(digits, "0123456789.") == ""
}

// Write writes a profile in one step: a reader sees the old one or the new.
func (p *Profile) Write(path string) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tare-profile-*")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("profile: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// DescribeArchive reads what identifies an archive.
func DescribeArchive(path string) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := fnv.New128a()
	if _, err := io.Copy(h, io.LimitReader(f, headBytes)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Archive{File: path, Bytes: st.Size(), FNV128a: hex.EncodeToString(h.Sum(nil))}, nil
}

// Same says that two archives have the same content, wherever they are.
func (a *Archive) Same(b *Archive) bool { return a.Bytes == b.Bytes && a.FNV128a == b.FNV128a }
