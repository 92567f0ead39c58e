package linux

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// CgroupFS is where control groups are read: processes from a proc file
// system, directories from the cgroup mounts that this process sees.
type CgroupFS struct {
	proc FS
	root string
}

// NewCgroupFS reads processes from proc, and puts root before every mount
// point: "/" on a live machine, the directory of a recorded tree in tests.
func NewCgroupFS(proc FS, root string) CgroupFS { return CgroupFS{proc: proc, root: root} }

// Group is the control group that a process is in.
type Group struct {
	// Version says which hierarchy the memory controller is on: 1 or 2.
	Version int
	// Path is the memory controller's group as /proc/PID/cgroup names it,
	// relative to the reader's cgroup namespace; for one that was found from
	// above that namespace it is the path from the mount that shows it.
	Path string
	// Dirs is the directory of the group by controller, for every controller
	// of cgroup v1 that is mounted; "" is the group in the v2 hierarchy.
	Dirs map[string]string

	mounts map[string]cgroupMount // the mount that Dirs was found under
}

// Dir is the directory that a group path has in the hierarchy of a controller
// ("" is the v2 hierarchy), whether it exists or not; false when the hierarchy
// is not mounted or the path is not below what the mount shows.
func (g *Group) Dir(controller, path string) (string, bool) {
	m, ok := g.mounts[controller]
	if !ok {
		return "", false
	}
	rel, ok := relativeTo(m.root, path)
	return filepath.Join(m.point, rel), ok
}

// Top is the topmost directory of a controller's hierarchy that is visible
// here, or "".
func (g *Group) Top(controller string) string { return g.mounts[controller].point }

// Hierarchy is one line of /proc/PID/cgroup: the group of a process in one
// hierarchy. See Documentation/admin-guide/cgroup-v1/cgroups.rst, section 1.2,
// and cgroups(7).
type Hierarchy struct {
	// ID is 0 for the v2 hierarchy.
	ID int
	// Controllers is empty for the v2 hierarchy; a named v1 hierarchy has
	// "name=systemd".
	Controllers []string
	Path        string
}

// ParseProcCgroup parses /proc/PID/cgroup.
func ParseProcCgroup(r io.Reader) ([]Hierarchy, error) {
	var out []Hierarchy
	err := eachLine(r, func(line string) error {
		id, rest, ok := strings.Cut(line, ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 {
			return errors.New("want hierarchy:controllers:path")
		}
		n, err := strconv.Atoi(id)
		if err != nil || n < 0 {
			return errors.New("bad hierarchy number")
		}
		if !strings.HasPrefix(path, "/") {
			return errors.New("the path does not begin with /")
		}
		if (n == 0) != (controllers == "") {
			return errors.New("hierarchy 0, and no other, has no controllers")
		}
		h := Hierarchy{ID: n, Path: path}
		if controllers != "" {
			h.Controllers = strings.Split(controllers, ",")
		}
		out = append(out, h)
		return nil
	})
	return out, err
}

// Hierarchies reads the groups of process pid, one for each hierarchy.
func (c CgroupFS) Hierarchies(pid int) ([]Hierarchy, error) {
	return open(c.proc, pid, "cgroup", ParseProcCgroup)
}

// cgroupMount is a mounted hierarchy, or a part of one.
type cgroupMount struct {
	version int
	// root is the group that is visible at point, relative to the reader's
	// cgroup namespace like the paths of /proc/PID/cgroup.
	root    string
	point   string
	options []string
}

// parseCgroupMounts returns the cgroup mounts of /proc/PID/mountinfo
// (Documentation/filesystems/proc.rst, section 3.5).
func parseCgroupMounts(r io.Reader) ([]cgroupMount, error) {
	var out []cgroupMount
	err := eachLine(r, func(line string) error {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
		before, after, ok := strings.Cut(line, " - ")
		if !ok {
			return errors.New("no separator")
		}
		// The source may be empty, which leaves two blanks.
		kind := strings.SplitN(after, " ", 3)
		var m cgroupMount
		switch kind[0] {
		case "cgroup":
			m.version = 1
		case "cgroup2":
			m.version = 2
		default:
			return nil
		}
		fields := strings.Split(before, " ")
		if len(kind) != 3 || len(fields) < 6 {
			return errors.New("too few fields")
		}
		m.root, m.point = unescapeMount(fields[3]), unescapeMount(fields[4])
		if !strings.HasPrefix(m.root, "/") || !strings.HasPrefix(m.point, "/") {
			return errors.New("root or mount point does not begin with /")
		}
		m.options = strings.Split(kind[2], ",")
		out = append(out, m)
		return nil
	})
	return out, err
}

// unescapeMount undoes the octal escapes of blanks, tabs, newlines and
// backslashes (show_mountinfo in the kernel's fs/proc_namespace.c).
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mounts reads the cgroup mounts of this process: the paths of all processes
// lead through what the reader sees.
func (c CgroupFS) mounts() ([]cgroupMount, error) {
	return readFile(filepath.Join(c.proc.root, "self", "mountinfo"), parseCgroupMounts)
}

// Group finds the group that process pid is in.
func (c CgroupFS) Group(pid int) (*Group, error) {
	hierarchies, err := c.Hierarchies(pid)
	if err != nil {
		return nil, err
	}
	mounts, err := c.mounts()
	if err != nil {
		return nil, err
	}
	g := &Group{Dirs: map[string]string{}, mounts: map[string]cgroupMount{}}
	for i := range hierarchies {
		h := &hierarchies[i]
		if h.ID == 0 && !c.place(g, "", *h, mounts) {
			c.placeFromAbove(g, h, mounts, pid)
		}
		for _, controller := range h.Controllers {
			c.place(g, controller, *h, mounts)
		}
	}
	return g, g.locateMemory(hierarchies, pid)
}

// locateMemory sets Version and Path.
func (g *Group) locateMemory(hierarchies []Hierarchy, pid int) error {
	controller := ""
	g.Version = 2
	if slices.ContainsFunc(hierarchies, func(h Hierarchy) bool { return slices.Contains(h.Controllers, "memory") }) {
		controller, g.Version = "memory", 1
	}
	for _, h := range hierarchies {
		if h.ID == 0 && controller == "" || slices.Contains(h.Controllers, "memory") {
			g.Path = h.Path
		}
	}
	if g.Path == "" {
		return fmt.Errorf("process %d is in no cgroup with a memory controller", pid)
	}
	if g.Dirs[controller] == "" {
		return fmt.Errorf("the cgroup v%d memory group %s of process %d is not visible here; mount it below /sys/fs/cgroup",
			g.Version, g.Path, pid)
	}
	return nil
}

// place finds the directory of one controller's group. Of several mounts that
// show the group it takes the one that shows most of the path to the root.
func (c CgroupFS) place(g *Group, controller string, h Hierarchy, mounts []cgroupMount) bool {
	best := -1
	for i := range mounts {
		m := &mounts[i]
		if !m.shows(controller) || best >= 0 && len(m.root) >= len(mounts[best].root) {
			continue
		}
		rel, ok := relativeTo(m.root, h.Path)
		if !ok {
			continue
		}
		// A mount may be hidden under a later one.
		dir := filepath.Join(c.root, m.point, rel)
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			best = i
			g.Dirs[controller] = dir
			g.mounts[controller] = cgroupMount{version: m.version, root: m.root, point: filepath.Join(c.root, m.point)}
		}
	}
	return best >= 0
}

// placeFromAbove finds a v2 group outside of the reader's cgroup namespace, as that of
// another container of a pod, where a mount shows what is above that namespace: its root is
// then such as /../../.. (cgroup_namespaces(7)). The group /../ID lies two unnamed levels
// below that mount, and is the one there that holds the process. The path of h becomes
// that from the mount.
func (c CgroupFS) placeFromAbove(g *Group, h *Hierarchy, mounts []cgroupMount, pid int) {
	up, rest := levelsUp(h.Path)
	for _, m := range mounts {
		levels, below := levelsUp(m.root)
		if m.version != 2 || below != "" || up > levels || levels > maxLevels || slices.Contains(strings.Split(rest, "/"), "..") {
			continue
		}
		point := filepath.Join(c.root, m.point)
		dirs := []string{point}
		for range levels - up {
			dirs = folders(dirs)
		}
		for _, dir := range dirs {
			dir = filepath.Join(dir, rest)
			if hasProcess(dir, pid) {
				h.Path = strings.TrimPrefix(dir, point)
				g.Dirs[""], g.mounts[""] = dir, cgroupMount{version: 2, root: "/", point: point}
				return
			}
		}
	}
}

// maxLevels is how far above the reader's namespace a mount may begin.
const maxLevels = 16

// folders are the folders in all of dirs; of one that cannot be read there are none.
func folders(dirs []string) (inside []string) {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				inside = append(inside, filepath.Join(dir, e.Name()))
			}
		}
	}
	return inside
}

// levelsUp cuts the /.. off the begin of a path, and counts them; of "/" nothing is left.
func levelsUp(path string) (n int, rest string) {
	rest = strings.TrimSuffix(path, "/")
	for rest == "/.." || strings.HasPrefix(rest, "/../") {
		n, rest = n+1, rest[len("/.."):]
	}
	return n, rest
}

// hasProcess says that a process is in the group of a directory.
func hasProcess(dir string, pid int) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && slices.Contains(strings.Fields(string(text)), strconv.Itoa(pid))
}

// shows says that the controller's hierarchy is what is mounted; "" is v2.
func (m *cgroupMount) shows(controller string) bool {
	if controller == "" {
		return m.version == 2
	}
	return m.version == 1 && slices.Contains(m.options, controller)
}

// relativeTo returns path relative to root; false when path is not below root.
// Both may begin with /.. when they lie outside of the cgroup namespace.
func relativeTo(root, path string) (string, bool) {
	root, path = strings.TrimSuffix(root, "/"), strings.TrimSuffix(path, "/")
	rel, ok := strings.CutPrefix(path, root)
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}
	rel = strings.TrimPrefix(rel, "/")
	if slices.Contains(strings.Split(rel, "/"), "..") {
		return "", false
	}
	return rel, true
}

// maxLine bounds a line of a kernel file: options of an overlay mount run to
// many kilobytes.
const maxLine = 1 << 20

// eachLine hands every line to f and puts its number and text before f's error.
func eachLine(r io.Reader, f func(line string) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	n := 1
	for ; sc.Scan(); n++ {
		if err := f(sc.Text()); err != nil {
			return fmt.Errorf("line %d: %w: %.200q", n, err, sc.Text())
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	return nil
}

// texts are for small files of the kernel's, of which an agent reads thousands a second; a
// larger text is not kept.
var texts = sync.Pool{New: func() any { text := make([]byte, 0, usualText); return &text }}

const usualText, largestText = 4 << 10, 64 << 10

// readFile parses the file at path, and names it in every error.
func readFile[T any](path string, parse func(io.Reader) (T, error)) (T, error) {
	var zero T
	buf := texts.Get().(*[]byte)
	text, err := readWhole(path, (*buf)[:0])
	if err != nil {
		return zero, err
	}
	if cap(text) <= largestText {
		*buf = text
		defer texts.Put(buf)
	}
	v, err := parse(bytes.NewReader(text))
	if err != nil {
		return zero, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// readWhole reads a small file of the kernel's in one piece, for such a file is made anew
// for each read. It takes half as many system calls as os.ReadFile, which asks for the size
// and whether the file can be waited for. The text is appended to the given one.
func readWhole(path string, text []byte) ([]byte, error) {
	fd, err := again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	for {
		n, err := again(func() (int, error) { return syscall.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
	}
}

// again calls do until no signal interrupts it.
func again(do func() (int, error)) (n int, err error) {
	for {
		if n, err = do(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
