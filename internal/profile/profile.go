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
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	// NoHugePages says that it ran without transparent huge pages (prctl(2),
	// PR_SET_THP_DISABLE).
	NoHugePages bool `json:"noHugePages,omitempty"`
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

// Read reads and checks a profile that trusted users alone can have written.
func Read(path string, t Trust) (*Profile, error) {
	f, err := t.Open(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	defer f.Close()
	p, err := Parse(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w: write it anew with tare fit --profile", path, err)
	}
	return p, nil
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
	isOption := func(text string) bool { return strings.HasPrefix(text, "-") }
	for _, o := range p.Options {
		if !isOption(o) {
			return fmt.Errorf("option %.80q: want one that begins with -", o)
		}
	}
	if slices.ContainsFunc(p.Env, isOption) {
		return errors.New("env: want NAME=value")
	}
	for _, text := range slices.Concat(p.Options, p.Env) {
		if len(text) > maxOption || strings.ContainsRune(text, 0) {
			return fmt.Errorf("option %.80q: too long, or not text", text)
		}
	}
	return p.checkAllowed(slices.Concat(p.Options, p.Env))
}

// Encode is the text of a profile that Read takes.
func (p *Profile) Encode() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return append(text, '\n'), nil
}

// Write writes a profile in one step: a reader sees the old one or the new.
func (p *Profile) Write(path string) error {
	text, err := p.Encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tare-profile-*")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	_, err = f.Write(text)
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
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return describe(f, path)
}

func describe(f *os.File, path string) (*Archive, error) {
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

// Find is the first of some paths where the archive lies, and trusted users alone
// can have put it there. The error says why the ones that exist are not taken.
func (a *Archive) Find(t Trust, paths ...string) (string, error) {
	var problems error
	for _, path := range paths {
		f, err := t.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var found *Archive
		if err == nil {
			found, err = describe(f, path)
			err = errors.Join(err, f.Close())
		}
		if err == nil && found.same(a) {
			return path, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is another archive", path)
		}
		problems = errors.Join(problems, err)
	}
	return "", problems
}

// same says that two archives have the same content, wherever they are.
func (a *Archive) same(b *Archive) bool { return a.Bytes == b.Bytes && a.FNV128a == b.FNV128a }
