package linux

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// oPath is O_PATH (include/uapi/asm-generic/fcntl.h), which package syscall lacks.
// The launcher, which imports this package, has the standard library alone.
const oPath = 0x200000

// maxOpenFiles bounds the mapped files that are open at once. A JVM maps a few
// dozen libraries; a hostile process maps as many files as it likes.
const maxOpenFiles = 64

// mappedFiles opens the files that a process has mapped. The process may be
// hostile and may change its folders at any moment.
type mappedFiles struct {
	fs    FS
	pid   int
	root  *os.Root // opened when the first file is looked up by its path
	files map[mappedFile]*os.File
	// order lists the files that are open, the one opened first in front.
	order []mappedFile
}

// mappedFile names a file as the mapping names it.
type mappedFile struct {
	path          string
	device, inode uint64
}

// of returns the file behind a mapping, nil when it cannot be read. The file
// stays open until maxOpenFiles others were opened.
func (m *mappedFiles) of(v *VMA) *os.File {
	key := mappedFile{v.Path, v.Device, v.Inode}
	f, seen := m.files[key]
	if seen {
		return f
	}
	f, err := m.open(v)
	if err != nil {
		f = nil
	}
	if m.files == nil {
		m.files = map[mappedFile]*os.File{}
	}
	m.files[key] = f
	if f == nil {
		return nil
	}
	if m.order = append(m.order, key); len(m.order) > maxOpenFiles {
		m.files[m.order[0]].Close()
		delete(m.files, m.order[0])
		m.order = m.order[1:]
	}
	return f
}

// open opens the file behind a mapping: through the mapping itself, which
// nobody can exchange, and which also leads to a file that was removed
// (proc_pid_map_files(5); it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE); or
// else by its path in the root of the process.
func (m *mappedFiles) open(v *VMA) (*os.File, error) {
	direct := m.fs.Path(m.pid, "map_files", fmt.Sprintf("%x-%x", v.Start, v.End))
	if fd, err := syscall.Open(direct, oPath|syscall.O_CLOEXEC, 0); err == nil {
		if f, err := reopen(os.NewFile(uintptr(fd), direct), v); err == nil {
			return f, nil
		}
	}
	if m.root == nil {
		root, err := os.OpenRoot(m.fs.Path(m.pid, "root"))
		if err != nil {
			return nil, err
		}
		m.root = root
	}
	handle, err := m.root.OpenFile(strings.TrimPrefix(v.Path, "/"), oPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return reopen(handle, v)
}

var errOtherFile = errors.New("not the file that is mapped")

// reopen opens for reading what a handle (O_PATH) leads to, if it is the
// regular file of the mapping, and closes the handle. A handle opens nothing: a
// pipe does not wait for a writer, and a device does not start.
func reopen(handle *os.File, v *VMA) (*os.File, error) {
	defer handle.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(handle.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Ino != v.Inode {
		return nil, errOtherFile
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(handle.Fd())), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st.Dev != v.Device && !mapsAs(f, v) {
		f.Close()
		return nil, errOtherFile
	}
	return f, nil
}

// mapsAs says that the kernel lists a mapping of f with the device and the
// inode of v. On btrfs and overlayfs stat tells another device than maps does:
// there the file must be mapped to compare. Nothing of it is touched.
func mapsAs(f *os.File, v *VMA) bool {
	b, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Munmap(b) }()
	w := ownMapping(b)
	return w != nil && w.Inode == v.Inode && w.Device == v.Device
}

// close closes all files.
func (m *mappedFiles) close() {
	for _, key := range m.order {
		m.files[key].Close()
	}
	m.files, m.order = nil, nil
	if m.root != nil {
		m.root.Close()
	}
}

// addressOf is where a slice that is not moved lies.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
