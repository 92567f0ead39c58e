package linux

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// container is a made-up process whose root is a directory, as a container's
// is. Nothing of its memory is resident, so that every read goes to a file.
type container struct {
	root string
	proc FS
	vmas []VMA
}

const containerPID = 7

func newContainer(t *testing.T) *container {
	t.Helper()
	dir := t.TempDir()
	c := &container{root: filepath.Join(dir, "container"), proc: NewFS(dir)}
	process := filepath.Join(dir, strconv.Itoa(containerPID))
	for _, d := range []string{c.root, process} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"mem", "pagemap"} {
		if err := os.WriteFile(filepath.Join(process, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(c.root, filepath.Join(process, "root")); err != nil {
		t.Fatal(err)
	}
	return c
}

// write makes a file of the container, a page long.
func (c *container) write(t *testing.T, name, text string) {
	t.Helper()
	writePage(t, filepath.Join(c.root, name), text)
}

func writePage(t *testing.T, path, text string) {
	t.Helper()
	page := make([]byte, os.Getpagesize())
	copy(page, text)
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
}

// maps adds a mapping of name, which has the inode and the device of the file
// at target, and returns its address.
func (c *container) maps(t *testing.T, name, target string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(target, &st); err != nil {
		t.Fatal(err)
	}
	page := uint64(os.Getpagesize())
	start := uint64(len(c.vmas)+1) << 20
	c.vmas = append(c.vmas, VMA{Start: start, End: start + page, Perms: "r--p", Inode: st.Ino, Device: st.Dev, Path: "/" + name})
	return start
}

// read reads what the container's memory has at an address.
func (c *container) read(t *testing.T, addr uint64) (string, error) {
	t.Helper()
	m, err := c.proc.OpenMem(containerPID, c.vmas)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b [4]byte
	err = m.ReadMem(b[:], addr)
	return string(b[:]), err
}

// A file that is mapped is read where it lies; what a container puts in its
// place is not.
func TestMappedFileOfContainer(t *testing.T) {
	c := newContainer(t)
	inside := func(name string) string { return filepath.Join(c.root, name) }
	c.write(t, "library", "mine")
	outside := filepath.Join(t.TempDir(), "secret")
	writePage(t, outside, "host")
	for name, target := range map[string]string{
		"absolute":    outside,
		"relative":    filepath.Join("..", filepath.Base(filepath.Dir(outside)), "secret"),
		"within":      "library",
		"directories": filepath.Dir(outside),
	} {
		if err := os.Symlink(target, inside(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(inside("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := c.maps(t, "library", inside("library"))
	other := c.maps(t, "library", outside)
	c.vmas[len(c.vmas)-1].Inode = c.vmas[0].Inode
	c.vmas[len(c.vmas)-1].Device++
	refused := map[string]uint64{
		"a link out of the root":      c.maps(t, "absolute", outside),
		"a link that climbs":          c.maps(t, "relative", outside),
		"a link where there was none": c.maps(t, "within", inside("library")),
		"a folder that leads out":     c.maps(t, "directories/secret", outside),
		"a path that climbs":          c.maps(t, "../"+filepath.Base(filepath.Dir(outside))+"/secret", outside),
		"a pipe":                      c.maps(t, "pipe", inside("pipe")),
		"a folder":                    c.maps(t, "", c.root),
		"a file of another device":    other,
		"another file":                c.maps(t, "library", outside),
		"what is not there":           c.maps(t, "gone", outside),
	}
	if got, err := c.read(t, good); err != nil || got != "mine" {
		t.Errorf("the file itself: %q, %v", got, err)
	}
	for name, addr := range refused {
		if got, err := c.read(t, addr); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
	}
}

// A container that exchanges a file for a pipe again and again, to catch the
// moment between looking and opening, holds nobody up.
func TestMappedFileExchangedForPipe(t *testing.T) {
	c := newContainer(t)
	c.write(t, "library", "mine")
	library, pipe := filepath.Join(c.root, "library"), filepath.Join(c.root, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := c.maps(t, "library", library)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, library, unix.AT_FDCWD, pipe, unix.RENAME_EXCHANGE)
			}
		}
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 2000 {
			if got, err := c.read(t, addr); err == nil && got != "mine" {
				t.Errorf("read %q", got)
			}
		}
	}()
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Error("hung in opening a pipe")
	}
	close(stop)
	<-stopped
}

// However many files a process maps, few of them are open at once.
func TestMappedFilesOpen(t *testing.T) {
	const files = 4 * maxOpenFiles
	c := newContainer(t)
	for i := range files {
		name := strconv.Itoa(i)
		c.write(t, name, "file")
		c.maps(t, name, filepath.Join(c.root, name))
	}
	m, err := c.proc.OpenMem(containerPID, c.vmas)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before := openDescriptors(t)
	for round := range 2 {
		m.Forget()
		for i := range c.vmas {
			var b [4]byte
			if err := m.ReadMem(b[:], c.vmas[i].Start); err != nil || string(b[:]) != "file" {
				t.Fatalf("round %d, file %d: %q, %v", round, i, b, err)
			}
		}
	}
	if n := openDescriptors(t) - before; n > maxOpenFiles+1 {
		t.Errorf("%d descriptors open, want at most %d", n, maxOpenFiles+1)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
