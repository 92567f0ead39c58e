// Package state keeps what a benchmark has measured, one JSON object a line, so
// that one that was cut off goes on where it stopped.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Read calls add with each line of a file, in order; a file that is not there
// has none. A last line that was cut off is left out.
func Read[T any](path string, add func(T)) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for number := 1; ; number++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("%s:%d: %w: mend or remove the line", path, number, err)
		}
		add(v)
		data = rest
	}
}

// Append adds a line to a file, and makes the file where there is none. A line
// that was cut off before is removed first.
func Append(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(appendLine(f, line), f.Close())
}

func appendLine(f *os.File, line []byte) error {
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	end := int64(bytes.LastIndexByte(data, '\n') + 1)
	if err := f.Truncate(end); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(line, '\n'), end); err != nil {
		return err
	}
	return f.Sync()
}
