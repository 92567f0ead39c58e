package runner

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"tare.dev/tare/internal/jarfile"
)

// ClassPathQuery asks what a class path holds. Names are those that the processes of
// the Runner know the files by.
type ClassPathQuery struct {
	// Paths are its jars and folders; "folder/*" is each jar in the folder.
	Paths []string
	// Folders are searched for Texts as the paths are, and for nothing else.
	Folders []string `json:",omitempty"`
	// Entries are looked for, such as "org/apache/catalina/startup/Tomcat.class".
	Entries []string `json:",omitempty"`
	// Texts are patterns of path.Match: files whose base names match are read.
	Texts []string `json:",omitempty"`
}

// ClassPath is what there is of a class path.
type ClassPath struct {
	// Files are the paths, and all that they stand for; see jarfile.Closure.
	Files []string `json:",omitempty"`
	// Holds are the entries that it holds; see jarfile.Holds.
	Holds map[string]bool `json:",omitempty"`
	// Texts are the files that match, by their paths; see jarfile.Texts.
	Texts map[string][]byte `json:",omitempty"`
}

// match checks the patterns of Texts, and returns what tells whether one matches.
func (q ClassPathQuery) match() (func(base string) bool, error) {
	for _, pattern := range q.Texts {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("pattern %.100q of file names: %w", pattern, err)
		}
	}
	return func(base string) bool {
		return slices.ContainsFunc(q.Texts, func(pattern string) bool {
			ok, _ := path.Match(pattern, base) // it is well-formed
			return ok
		})
	}, nil
}

// ClassPath reads jars and folders. What cannot be read holds nothing: the JVM will
// say why.
func (thisHost) ClassPath(ctx context.Context, q ClassPathQuery) (ClassPath, error) {
	match, err := q.match()
	if err != nil {
		return ClassPath{}, err
	}
	if err := ctx.Err(); err != nil {
		return ClassPath{}, err
	}
	c := ClassPath{Files: jarfile.Closure(q.Paths)}
	if len(q.Entries) > 0 {
		c.Holds = jarfile.Holds(c.Files, q.Entries)
	}
	if len(q.Texts) > 0 {
		c.Texts = jarfile.Texts(slices.Concat(c.Files, q.Folders), match)
	}
	return c, ctx.Err()
}

// ClassPath looks into the files of the image that were copied out of it. Of others
// the names alone are known.
func (d *Docker) ClassPath(ctx context.Context, q ClassPathQuery) (ClassPath, error) {
	c := ClassPath{Files: q.Paths, Holds: map[string]bool{}, Texts: map[string][]byte{}}
	match, err := q.match()
	if err != nil {
		return ClassPath{}, err
	}
	for _, name := range q.Paths {
		local, ok := d.copies[name]
		if !ok {
			continue
		}
		for entry := range jarfile.Holds([]string{local}, q.Entries) {
			c.Holds[entry] = true
		}
		for file, text := range jarfile.Texts([]string{local}, match) {
			c.Texts[name+strings.TrimPrefix(file, local)] = text
		}
	}
	return c, ctx.Err()
}

// File describes a file of the image by its copy, or one in the folder of archives. Of
// other files of the image nothing is known.
func (d *Docker) File(ctx context.Context, name string) (File, error) {
	local, err := d.local(name)
	if err != nil {
		return File{}, err
	}
	return d.thisHost.File(ctx, local)
}

// Extract takes a jar of the image of which there is a copy apart into the folder of
// archives.
func (d *Docker) Extract(ctx context.Context, jar, dir string) (string, error) {
	local, err := d.local(jar)
	if err != nil {
		return "", err
	}
	return d.thisHost.Extract(ctx, local, dir)
}

// local is where this machine has a file that processes know as name, or that is in the
// folder of archives; the error wraps fs.ErrNotExist where it has none.
func (d *Docker) local(name string) (string, error) {
	if local, ok := d.copies[name]; ok {
		return local, nil
	}
	if d.Has(name) {
		return name, nil
	}
	return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
