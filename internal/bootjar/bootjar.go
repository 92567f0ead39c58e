// Package bootjar reads applications that are one jar with jars inside, in Spring
// Boot's layout, and takes them apart.
package bootjar

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/jarfile"
)

// Bounds of what is taken out of a jar.
const (
	maxNestedJars = 4096
	maxExtracted  = 4 << 30 // bytes
	maxIndex      = 1 << 20 // bytes
)

// ErrLayout says that a jar is not of Spring Boot's layout, or cannot be read.
var ErrLayout = errors.New("the jars inside were not extracted")

// Nested says that a jar holds jars, in Spring Boot's layout: its manifest names the
// class to start and the folders of classes and libraries (Spring Boot reference,
// "The Executable Jar Format"). Of what is no jar, or is not there, it says no.
func Nested(name string) bool {
	j, err := jarfile.Open(name)
	if err != nil {
		return false
	}
	defer j.Close()
	m, err := j.Manifest()
	return err == nil && m["start-class"] != "" && m["spring-boot-lib"] != ""
}

// Extract takes an application of Spring Boot's layout apart, as its own tools mode
// does from 3.3 on (java -Djarmode=tools -jar app.jar extract): dir then has a plain
// jar with the application's classes, whose path is returned, and beside it lib with
// the libraries in their order. Files get the time of the jar, for class archives
// hold for files of one time alone. dir may not hold anything yet; on an error it is
// removed again. The error wraps ErrLayout where the jar is the reason.
func Extract(name, dir string) (string, error) {
	st, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrLayout, name, err)
	}
	defer z.Close()
	b := bootJar{zip: &z.Reader, dir: dir, time: st.ModTime().UTC(), left: maxExtracted}
	if err := b.read(name); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrLayout, name, err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", fmt.Errorf("folder for extracted jars: %s holds files: move it away", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
		return "", fmt.Errorf("folder for extracted jars: %w", err)
	}
	jar := filepath.Join(dir, filepath.Base(name))
	if err = b.writeLibraries(); err == nil {
		err = b.writeClasses(jar)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("jars extracted from %s: %w", name, err), os.RemoveAll(dir))
	}
	return jar, nil
}

// bootJar is a jar of Spring Boot's layout.
type bootJar struct {
	zip           *zip.Reader
	dir           string
	time          time.Time
	manifest      jarfile.Manifest
	classes, libs string
	libraries     []*zip.File // in the order of the class path
	left          int64       // bytes that may still be written
}

func (b *bootJar) read(name string) error {
	j, err := jarfile.Open(name)
	if err != nil {
		return err
	}
	defer j.Close()
	if b.manifest, err = j.Manifest(); err != nil {
		return err
	}
	b.classes, b.libs = b.manifest["spring-boot-classes"], b.manifest["spring-boot-lib"]
	if b.manifest["start-class"] == "" || !strings.HasSuffix(b.classes, "/") || !strings.HasSuffix(b.libs, "/") {
		return errors.New("not of Spring Boot's layout")
	}
	byName := map[string]*zip.File{}
	var names []string
	for _, f := range b.zip.File {
		base := path.Base(f.Name)
		if f.Name == b.libs+base && strings.HasSuffix(base, ".jar") && byName[base] == nil {
			byName[base] = f
			names = append(names, base)
		}
	}
	if len(names) == 0 || len(names) > maxNestedJars {
		return fmt.Errorf("%d jars inside", len(names))
	}
	indexed, err := b.index()
	if err != nil {
		return err
	}
	for _, n := range indexed {
		if f := byName[n]; f != nil {
			b.libraries = append(b.libraries, f)
			byName[n] = nil
		}
	}
	if len(indexed) == 0 {
		for _, n := range names {
			b.libraries = append(b.libraries, byName[n])
		}
	}
	return nil
}

// index are the libraries in the order of the class path index, lines such as
// - "BOOT-INF/lib/a.jar"; none without an index.
func (b *bootJar) index() ([]string, error) {
	name := b.manifest["spring-boot-classpath-index"]
	i := slices.IndexFunc(b.zip.File, func(f *zip.File) bool { return f.Name == name })
	if name == "" || i < 0 {
		return nil, nil
	}
	r, err := b.zip.File[i].Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []string
	lines := bufio.NewScanner(io.LimitReader(r, maxIndex))
	for lines.Scan() {
		if entry, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "- "); ok {
			out = append(out, path.Base(strings.Trim(entry, `"`)))
		}
	}
	return out, lines.Err()
}

// writeLibraries writes the nested jars as they are.
func (b *bootJar) writeLibraries() error {
	for _, f := range b.libraries {
		r, err := f.Open()
		if err != nil {
			return err
		}
		err = b.writeFile(filepath.Join(b.dir, "lib", path.Base(f.Name)), func(w io.Writer) error {
			n, err := io.Copy(w, io.LimitReader(r, b.left+1))
			if b.left -= n; b.left < 0 {
				return fmt.Errorf("more than %d bytes", int64(maxExtracted))
			}
			return err
		})
		if err := errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// writeClasses writes the plain jar: the application's classes, compressed as
// they are, below a manifest that names the libraries.
func (b *bootJar) writeClasses(jar string) error {
	return b.writeFile(jar, func(w io.Writer) error {
		z := zip.NewWriter(w)
		m, err := z.CreateHeader(&zip.FileHeader{Name: "META-INF/MANIFEST.MF", Method: zip.Deflate, Modified: b.time})
		if err == nil {
			_, err = io.WriteString(m, b.plainManifest())
		}
		for _, f := range b.zip.File {
			name, ok := strings.CutPrefix(f.Name, b.classes)
			if err != nil || !ok || name == "" || name == "META-INF/MANIFEST.MF" {
				continue
			}
			err = copyRaw(z, f, name)
		}
		return errors.Join(err, z.Close())
	})
}

func copyRaw(z *zip.Writer, f *zip.File, name string) error {
	h := f.FileHeader
	h.Name = name
	w, err := z.CreateRaw(&h)
	if err != nil {
		return err
	}
	r, err := f.OpenRaw()
	if err == nil {
		_, err = io.Copy(w, r)
	}
	return err
}

// plainManifest keeps what libraries may look up of the application.
func (b *bootJar) plainManifest() string {
	var s strings.Builder
	line := func(name, value string) {
		text := name + ": " + value
		for len(text) > 70 { // a line has 72 bytes; more go on after a space
			s.WriteString(text[:70] + "\r\n")
			text = " " + text[70:]
		}
		s.WriteString(text + "\r\n")
	}
	line("Manifest-Version", "1.0")
	line("Main-Class", b.manifest["start-class"])
	var urls []string
	for _, f := range b.libraries {
		urls = append(urls, "lib/"+url.PathEscape(path.Base(f.Name)))
	}
	line("Class-Path", strings.Join(urls, " "))
	for _, kept := range []string{"Implementation-Title", "Implementation-Version", "Implementation-Vendor", "Multi-Release", "Add-Opens", "Add-Exports",
		"Enable-Native-Access", "Launcher-Agent-Class"} {
		if v := b.manifest[strings.ToLower(kept)]; v != "" {
			line(kept, v)
		}
	}
	return s.String() + "\r\n"
}

func (b *bootJar) writeFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	// Written to the disk: dirty pages cannot be dropped before a trial.
	err = errors.Join(write(w), w.Flush(), f.Sync(), f.Close())
	return errors.Join(err, os.Chtimes(name, b.time, b.time))
}
