// Package licences collects the licences of what tare's programs are made of, from the
// module cache: each module that is linked in, the Go library, and what is embedded.
package licences

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A Notice is a file that goes with the programs because of something in them.
type Notice struct {
	// Of says what the file belongs to: a module and its version, or an embedded file.
	Of string
	// File is the name below the module.
	File string
	// IDs are the SPDX identifiers of the licences that it has; none for a notice that is
	// no licence.
	IDs  []string
	Text []byte
}

// accepted are the licences under which tare may be given on as a whole: SPDX identifiers.
// To accept another, read it first.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "MIT", "MPL-2.0", "Unlicense", "blessing"}

// known are files that licensecheck does not know as a whole: by the SHA-256 of what was
// read, the licences in it.
var known = map[string][]string{
	// modernc.org/libc, LICENSE-3RD-PARTY.md: Go, musl, go-netdb, nixpkgs.
	"f597097efe3d97021f89170746bd3a0fb9a8b6fb26b82043ed68a4e0283bee6c": {"BSD-3-Clause", "MIT", "BSD-2-Clause"},
	// modernc.org/sqlite, LICENSE-3RD-PARTY.md: what it links, and what its tests use.
	"4194f8e7119be72babd499db4f6f1f7547e36e8a7bffcb2b9c8df241b8f1576a": {"MIT", "BSD-3-Clause", "Apache-2.0", "MPL-2.0"},
	// modernc.org/sqlite, LICENSE-SQLITE: in the public domain.
	"8438c9c89b849131ead81d5435cb97fcf052df5b0b286dda8a2d4c29e6cb3fd0": {"blessing"},
}

var (
	licence = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying)([-.].*)?$`)
	notice  = regexp.MustCompile(`(?i)^notice([-.].*)?$`)
	within  = regexp.MustCompile(`(?i)^.+-licen[sc]e(\.txt|\.md)?$`)
	// aside are licences of pictures and pages, which are in no program.
	aside = regexp.MustCompile(`(?i)([.-]docs|-logo)$`)
)

// coverage is the share of a file, in percent, that must be the text of a known licence.
const coverage = 75

// Collect returns the notices of programs: packages of the module in dir, for an
// architecture of Linux. It fails where a module has no licence, or one that is not
// accepted.
func Collect(dir, arch string, programs ...string) ([]Notice, error) {
	packages, err := list(dir, arch, programs)
	if err != nil {
		return nil, err
	}
	goroot, err := goTool(dir, arch, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	c := collector{goroot: strings.TrimSpace(string(goroot)), seen: map[string]bool{}, licensed: map[string]bool{}}
	for _, p := range packages {
		c.add(p)
	}
	if len(c.notices) == 0 && c.err == nil {
		c.err = fmt.Errorf("no packages in %s", strings.Join(programs, ", "))
	}
	for of, licensed := range c.licensed {
		if !licensed {
			c.err = errors.Join(c.err, fmt.Errorf("%s has no file with its licence", of))
		}
	}
	slices.SortFunc(c.notices, func(a, b Notice) int { return cmp.Or(strings.Compare(a.Of, b.Of), strings.Compare(a.File, b.File)) })
	return c.notices, c.err
}

// goPackage is what Collect reads of go list.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}
}

func list(dir, arch string, programs []string) ([]goPackage, error) {
	out, err := goTool(dir, arch, append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,EmbedFiles,Module"}, programs...)...)
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

func goTool(dir, arch string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

type collector struct {
	goroot  string
	notices []Notice
	// seen has the paths of files.
	seen map[string]bool
	// licensed says of each module whether a licence was found.
	licensed map[string]bool
	err      error
}

func (c *collector) add(p goPackage) {
	switch {
	case p.Standard:
		c.folders("the Go library", c.goroot, c.goroot)
	case p.Module == nil:
		c.err = errors.Join(c.err, fmt.Errorf("package %s is of no module", p.ImportPath))
	case p.Module.Main:
		for _, name := range p.EmbedFiles {
			if within.MatchString(filepath.Base(name)) {
				c.file("what is embedded in "+p.ImportPath, filepath.Join(p.Dir, name), p.Dir)
			}
		}
	default:
		of := p.Module.Path + " " + p.Module.Version
		if r := p.Module.Replace; r != nil {
			of = strings.TrimSpace(r.Path + " " + r.Version)
		}
		c.folders(of, p.Dir, p.Module.Dir)
	}
}

// folders takes what lies in a package's folder and above it, up to the module's.
func (c *collector) folders(of, dir, top string) {
	c.licensed[of] = c.licensed[of] || false
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			c.err = errors.Join(c.err, err)
			return
		}
		for _, e := range entries {
			if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), ".go") && !aside.MatchString(e.Name()) && (licence.MatchString(e.Name()) || notice.MatchString(e.Name())) {
				c.file(of, filepath.Join(dir, e.Name()), top)
			}
		}
		if dir == top || len(dir) <= len(top) {
			return
		}
		dir = filepath.Dir(dir)
	}
}

func (c *collector) file(of, path, top string) {
	if c.seen[path] {
		return
	}
	c.seen[path] = true
	text, err := os.ReadFile(path)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	name, _ := filepath.Rel(top, path)
	n := Notice{Of: of, File: filepath.ToSlash(name), Text: text}
	if !notice.MatchString(filepath.Base(path)) {
		if n.IDs, err = identify(text); err != nil {
			c.err = errors.Join(c.err, fmt.Errorf("%s: %s: %w", of, n.File, err))
			return
		}
		c.licensed[of] = true
	}
	c.notices = append(c.notices, n)
}

// identify says which licences a text has.
func identify(text []byte) ([]string, error) {
	if id, ok := known[fmt.Sprintf("%x", sha256.Sum256(text))]; ok {
		return id, nil
	}
	scan := licensecheck.Scan(text)
	var ids []string
	for _, m := range scan.Match {
		if !slices.Contains(ids, m.ID) && !m.IsURL {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 || scan.Percent < coverage {
		return nil, fmt.Errorf("an unknown licence: read it, and add it to deploy/licences if tare may contain it (%.0f %% are known: %q)", scan.Percent, ids)
	}
	for _, id := range ids {
		if !slices.Contains(accepted, id) {
			return nil, fmt.Errorf("the licence %s is not accepted", id)
		}
	}
	return ids, nil
}

// Text is the file that goes with the programs: each notice in full, a text that several
// have once.
func Text(notices []Notice) []byte {
	var b bytes.Buffer
	b.WriteString("tare is under the Apache License 2.0. It contains what is named here, under the\nlicences that follow.\n\n")
	for _, n := range notices {
		fmt.Fprintf(&b, "  %s: %s (%s)\n", n.Of, cmp.Or(strings.Join(n.IDs, ", "), "notice"), n.File)
	}
	of := map[string][]string{}
	for _, n := range notices {
		of[string(n.Text)] = append(of[string(n.Text)], n.Of)
	}
	rule := strings.Repeat("=", 80)
	for _, n := range notices {
		names := of[string(n.Text)]
		if delete(of, string(n.Text)); names != nil {
			fmt.Fprintf(&b, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(slices.Compact(names), "\n"), rule, bytes.TrimSpace(n.Text))
		}
	}
	return b.Bytes()
}
