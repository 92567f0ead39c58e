package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep removes groups whose owner has ended, after it has killed what is in
// them. It looks below CgroupOptions.Parent, or, without a parent, in all
// hierarchies that are visible here: the owner may have run in another session.
// It spares a group whose owner may be alive, and one that this user may not
// remove. It returns the directories that it removed.
func (c *Cgroup) Sweep(ctx context.Context) (removed []string, err error) {
	leftovers := map[string][]string{}
	for _, root := range slices.Compact(slices.Sorted(slices.Values(c.roots))) {
		if err := c.collect(root, leftovers); err != nil {
			return nil, fmt.Errorf("look for leftovers: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(leftovers)) {
		if ctx.Err() != nil {
			return removed, also(err, ctx.Err())
		}
		dirs := leftovers[name]
		if e := destroy(dirs); e != nil {
			err = also(err, fmt.Errorf("remove leftover %s: %w", name, e))
			continue
		}
		removed = append(removed, dirs...)
	}
	return removed, err
}

// collect adds the leftovers below dir to found, their directories by name.
func (c *Cgroup) collect(dir string, found map[string][]string) error {
	entries, err := os.ReadDir(dir)
	if vanished(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if o, ok := ownerOf(e.Name()); ok && c.leftOver(o, path) {
			found[e.Name()] = append(found[e.Name()], path)
		} else if err := c.collect(path, found); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cgroup) leftOver(o owner, dir string) bool {
	if o.pidns != c.owner.pidns {
		if !abandoned(dir) {
			return false
		}
	} else if !o.gone(c.proc, c.owner) {
		return false
	}
	if unix.Access(filepath.Dir(dir), unix.W_OK) != nil {
		return false
	}
	// This process itself may have been started by an owner that has ended.
	return !slices.ContainsFunc(c.own, func(own string) bool {
		return own == dir || strings.HasPrefix(own, dir+"/")
	})
}
