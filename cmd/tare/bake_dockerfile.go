package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/report"
)

// checkContext refuses a folder for a Dockerfile that holds something already.
func checkContext(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--dockerfile: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--dockerfile %s: there are files in it: name a new folder", dir)
	}
	return nil
}

// writeContext writes a folder that docker build makes the same image of: a Dockerfile,
// and beside it the files, with the time that a class archive holds for.
func (b baking) writeContext(dir string, c image.Change) error {
	parts, err := b.parts()
	if err != nil {
		return err
	}
	for _, p := range parts {
		for _, f := range p.files {
			if err := writeContextFile(filepath.Join(dir, filepath.FromSlash(f.Path)), f); err != nil {
				return fmt.Errorf("--dockerfile: %w", err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(b.dockerfile(c)), 0o644); err != nil {
		return fmt.Errorf("--dockerfile: %w", err)
	}
	return nil
}

func writeContextFile(name string, f image.File) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	var from io.Reader = strings.NewReader(string(f.Content))
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return errors.Join(err, to.Close())
		}
		defer source.Close()
		from = source
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(mode), to.Close(), os.Chtimes(name, image.FileTime, image.FileTime))
}

// dockerfile is the change as lines of a Dockerfile. COPY keeps the times of files. An
// ENTRYPOINT takes the CMD of the image away, which so is set again (Dockerfile
// reference, "Understand how CMD and ENTRYPOINT interact").
func (b baking) dockerfile(c image.Change) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("# Made by tare bake, for the JDK and the jars of the image below alone.")
	line("FROM scratch AS tare")
	line("COPY %s %s", strings.TrimPrefix(fit.InImage, "/"), fit.InImage)
	line("")
	line("FROM %s", b.fit.Image.Name)
	line("COPY --from=tare %s %s", fit.InImage, fit.InImage)
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		line("ENV %s=%s", name, report.DockerfileQuote(value))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		line("LABEL %s=%s", name, report.DockerfileQuote(c.Labels[name]))
	}
	cmd := c.Cmd
	if c.Entrypoint != nil {
		line("ENTRYPOINT %s", words(c.Entrypoint))
		if cmd == nil {
			cmd = b.config.Cmd
		}
	}
	if len(cmd) > 0 {
		line("CMD %s", words(cmd))
	}
	return s.String()
}

// words are a command in the form of a JSON array.
func words(command []string) string {
	text, _ := json.Marshal(command) // strings always can
	return string(text)
}
