// Package grouptest makes control groups with a memory limit, below the one that the
// caller is in, of either version.
package grouptest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/polltest"
)

// ErrNone says that no group can be made here.
var ErrNone = errors.New("no group with a limit can be made")

// Make makes a group with a limit in bytes, 0 for none. With within it lies in that
// group, else in the caller's own. Swap is not for it.
func Make(within string, bytes int64) (dir string, version int, err error) {
	g, err := linux.NewCgroupFS(linux.NewFS("/proc"), "/").Group(os.Getpid())
	if err != nil {
		return "", 0, err
	}
	if os.Getuid() != 0 {
		return "", 0, fmt.Errorf("%w: it needs root", ErrNone)
	}
	parent, values := g.Dirs["memory"], map[string]int64{"memory.limit_in_bytes": bytes, "memory.memsw.limit_in_bytes": bytes}
	if g.Version == 2 {
		parent, values = g.Dirs[""], map[string]int64{"memory.max": bytes, "memory.swap.max": 0}
	}
	if within != "" {
		parent = within
	}
	if g.Version == 2 {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return "", 0, fmt.Errorf("%w in %s: %w", ErrNone, parent, err)
		}
	}
	if dir, err = os.MkdirTemp(parent, "tare-group-"); err != nil {
		return "", 0, err
	}
	if bytes == 0 {
		return dir, g.Version, nil
	}
	// The limit with swap may not be below that without.
	for _, name := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.swap.max"} {
		value, ok := values[name]
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), fmt.Append(nil, value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", 0, errors.Join(err, os.Remove(dir))
		}
	}
	return dir, g.Version, nil
}

// Limited makes a group for a test, and removes it after that. A test is skipped
// where none can be made.
func Limited(t testing.TB, within string, bytes int64) (dir string) {
	t.Helper()
	dir, _, err := Make(within, bytes)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		polltest.UntilNil(t, func() error { return os.Remove(dir) }) // its processes may still be leaving
	})
	return dir
}

// Enter is what a shell does to enter a group.
func Enter(dir string) string { return fmt.Sprintf("echo $$ > %s/cgroup.procs; ", dir) }
