package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Trust says whose files may decide how a JVM is started: those of root, of the
// user, and of the owner of the jar, who decides already what runs. A class archive
// is code; a profile names options.
type Trust struct {
	owners map[uint32]bool
	groups map[uint32]bool
}

// unmapped is the user that the kernel shows for all those that a user namespace
// does not know (user_namespaces(7), /proc/sys/kernel/overflowuid): two such files
// may have two owners.
const (
	unmappedFile    = "/proc/sys/kernel/overflowuid"
	defaultUnmapped = 65534
)

// TrustFor is the trust of this process in what lies beside a jar; the jar may be
// empty.
func TrustFor(jar string) Trust {
	t := Trust{owners: map[uint32]bool{0: true, uint32(os.Geteuid()): true}, groups: map[uint32]bool{0: true, uint32(os.Getegid()): true}}
	if jar == "" {
		return t
	}
	if st, err := os.Stat(jar); err == nil {
		if owner := stat(st).Uid; owner != unmapped() {
			t.owners[owner] = true
		}
	}
	return t
}

func unmapped() uint32 {
	text, err := os.ReadFile(unmappedFile)
	if err != nil {
		return defaultUnmapped
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return defaultUnmapped
	}
	return uint32(id)
}

// stat is what Linux tells of a file.
func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// Open opens a regular file that only trusted users can change or replace.
func (t Trust) Open(path string) (*os.File, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if err := t.check(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openRegular opens a regular file; a pipe is not waited for.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check looks at the file and at the folders that lead to it: that of the path, and
// that of the file where the path is a link, as in a volume of Kubernetes.
func (t Trust) check(f *os.File, path string) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.checkOne(path, st); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(real)} {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := t.checkOne(dir, st); err != nil {
			return err
		}
	}
	return nil
}

// checkOne says who else could change a file, or replace one in a folder. In a
// sticky folder such as /tmp only their owners replace files; where the mount is
// read-only nobody does.
func (t Trust) checkOne(path string, info fs.FileInfo) error {
	st := stat(info)
	if !t.owners[st.Uid] {
		return fmt.Errorf("%s is of user %d, and only root, user %d and the owner of the jar are trusted: chown it", path, st.Uid, os.Geteuid())
	}
	mode := info.Mode()
	others := mode&0o002 != 0 || mode&0o020 != 0 && !t.groups[st.Gid]
	if !others || mode.IsDir() && mode&fs.ModeSticky != 0 || readOnly(path) {
		return nil
	}
	return fmt.Errorf("%s may be written by others (mode %03o): chmod go-w it", path, mode.Perm())
}

// readOnly says that a path is on a read-only mount (statfs(2), ST_RDONLY).
func readOnly(path string) bool {
	const rdonly = 1
	var fs syscall.Statfs_t
	return syscall.Statfs(path, &fs) == nil && fs.Flags&rdonly != 0
}
