package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one of what is installed.
type file struct {
	// path is below the prefix, such as bin/tare.
	path    string
	content []byte
	mode    fs.FileMode
}

// treeOf is what is installed, by all ways the same: programs, manual pages, completions,
// licences, the list of parts, and the units of systemd.
func treeOf(programs, sbom, generated string, changes, notices []byte) ([]file, error) {
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	parts, err := os.ReadFile(sbom)
	if err != nil {
		return nil, err
	}
	files := []file{
		{"share/doc/tare/LICENSE", licence, 0o644},
		{"share/doc/tare/THIRD-PARTY.txt", notices, 0o644},
		{"share/doc/tare/CHANGES.md", changes, 0o644},
		{"share/tare/sbom.cdx.json", parts, 0o644},
	}
	for _, of := range []struct {
		dir, to string
		mode    fs.FileMode
	}{{programs, "bin", 0o755}, {generated, "share", 0o644}, {filepath.Join("deploy", "systemd"), "lib/systemd/system", 0o644}} {
		more, err := filesBelow(of.dir, of.to)
		if err != nil {
			return nil, err
		}
		for i := range more {
			more[i].mode = of.mode
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// generate lets tare write its manual pages and completions.
func generate(tare, dir string) error {
	pages := filepath.Join(dir, "pages")
	if _, err := command(tare, "man", pages); err != nil {
		return err
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, e := range entries {
		page, err := os.ReadFile(filepath.Join(pages, e.Name()))
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		// Without a name and a time: the same page, the same bytes.
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		_, err = w.Write(page)
		if err := errors.Join(err, w.Close(), writeBelow(dir, "man/man1/"+e.Name()+".gz", packed.Bytes())); err != nil {
			return err
		}
	}
	for shell, to := range map[string]string{"bash": "bash-completion/completions/tare", "zsh": "zsh/site-functions/_tare", "fish": "fish/vendor_completions.d/tare.fish"} {
		text, err := command(tare, "completion", shell)
		if err != nil {
			return err
		}
		if err := writeBelow(dir, to, []byte(text+"\n")); err != nil {
			return err
		}
	}
	return os.RemoveAll(pages)
}

func writeBelow(dir, name string, content []byte) error {
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// filesBelow are the files of a folder, sorted, below to.
func filesBelow(dir, to string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(p)
		files = append(files, file{path.Join(to, filepath.ToSlash(name)), content, 0o644})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no files in %s", dir)
	}
	return files, err
}

// writeArchive writes a tar.gz with the files in a folder of that name, all of root and of
// one time. It names each folder, which what unpacks as another user needs.
func writeArchive(to, folder string, files []file, date time.Time) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	made := map[string]bool{".": true}
	for _, f := range files {
		f.path = path.Join(folder, f.path)
		if err := errors.Join(addFolders(w, made, path.Dir(f.path), date), addFile(w, f, date)); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	return errors.Join(w.Close(), zip.Close(), out.Close())
}

func addFolders(w *tar.Writer, made map[string]bool, dir string, date time.Time) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	return errors.Join(addFolders(w, made, path.Dir(dir), date),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date, Format: tar.FormatUSTAR, Uname: "root", Gname: "root"}))
}

func addFile(w *tar.Writer, f file, date time.Time) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: date, Format: tar.FormatUSTAR, Uname: "root", Gname: "root"})
	_, writeErr := w.Write(f.content)
	return errors.Join(err, writeErr)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
