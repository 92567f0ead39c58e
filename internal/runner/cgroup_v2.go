package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
)

// v2 makes groups in the hierarchy of cgroup v2
// (Documentation/admin-guide/cgroup-v2.rst).
type v2 struct {
	parent string
	// leaf is where this process moved to, "" when it did not.
	leaf string
	held // the leaf
	// enabled are the controllers that children of the parent have.
	enabled []string
	// added are those of them that this process enabled.
	added []string
}

func (c *Cgroup) useV2(g *linux.Group, opts CgroupOptions) error {
	own := g.Dirs[""]
	h := &v2{parent: own}
	c.roots = []string{g.Top("")}
	switch {
	case opts.Parent != "":
		dir, ok := g.Dir("", opts.Parent)
		if !ok || !isDir(dir) {
			return fmt.Errorf("there is no cgroup %s; make it first, or name another", opts.Parent)
		}
		h.parent, c.roots = dir, []string{dir}
	case filepath.Base(own) == c.owner.leafName():
		// An earlier runner of this process has moved it.
		h.parent = filepath.Dir(own)
	}
	if err := mayMove(own, h.parent); err != nil {
		return err
	}
	if err := h.enable(c.owner); err != nil {
		return also(err, h.close())
	}
	c.own = []string{own}
	if h.leaf != "" {
		c.own = []string{h.leaf}
	}
	c.hierarchy = h
	return nil
}

// mayMove checks that processes may be moved from one group to below another:
// without root that takes write access to what the two have in common
// ("Delegation Containment").
func mayMove(from, to string) error {
	common := to
	for common != from && !strings.HasPrefix(from, strings.TrimSuffix(common, "/")+"/") {
		common = filepath.Dir(common)
	}
	procs := filepath.Join(common, "cgroup.procs")
	if err := unix.Access(procs, unix.W_OK); err != nil {
		return unavailable(fmt.Errorf("cannot move a process from cgroup %s to %s: %s: %w", from, to, procs, err), writeRemedy)
	}
	return nil
}

func (h *v2) name() string { return "cgroup v2" }

// enable makes the controllers available to children of the parent. Memory
// comes first: cpu and cpuset alone could be enabled beside processes, and
// would make a threaded subtree of the group, in which memory cannot be.
func (h *v2) enable(self owner) error {
	available, err := h.controllers("cgroup.controllers")
	if err != nil {
		return unavailable(err, writeRemedy)
	}
	if !slices.Contains(available, "memory") {
		return unavailable(fmt.Errorf("the memory controller is not available in the cgroup %s", h.parent),
			"enable it: echo +memory > "+filepath.Join(filepath.Dir(h.parent), "cgroup.subtree_control"))
	}
	if h.enabled, err = h.controllers("cgroup.subtree_control"); err != nil {
		return unavailable(err, writeRemedy)
	}
	for _, controller := range []string{"memory", "cpu", "cpuset"} {
		if slices.Contains(h.enabled, controller) || !slices.Contains(available, controller) {
			continue
		}
		err := h.add(controller)
		if controller == "memory" && (errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EOPNOTSUPP)) {
			if err := h.stepAside(self); err != nil {
				return err
			}
			err = h.add(controller)
		}
		if controller == "memory" && err != nil {
			return unavailable(err, writeRemedy)
		}
		// Without cpu or cpuset only limits on processors are not available.
	}
	return nil
}

func (h *v2) controllers(file string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(h.parent, file))
	return strings.Fields(string(text)), err
}

func (h *v2) add(controller string) error {
	err := writeFile(h.parent, "cgroup.subtree_control", "+"+controller)
	if err == nil {
		h.enabled = append(h.enabled, controller)
		h.added = append(h.added, controller)
	}
	return err
}

// stepAside moves this process out of the parent into a leaf: a group cannot
// have both processes and children with controllers ("No Internal Process
// Constraint").
func (h *v2) stepAside(self owner) error {
	pids, err := processesIn(h.parent)
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return unavailable(fmt.Errorf("the cgroup %s cannot be divided, because other processes are in it", h.parent),
			"start tare in one of its own: systemd-run --scope -p Delegate=yes tare …, or name one without processes: --cgroup-parent")
	}
	leaf := filepath.Join(h.parent, self.leafName())
	if err := makeGroup(leaf); err != nil {
		return err
	}
	h.leaf = leaf
	if err := h.hold(leaf); err != nil {
		return err
	}
	if err := writeFile(leaf, "cgroup.procs", "0"); err != nil {
		return unavailable(fmt.Errorf("cannot move to the cgroup %s: %w", leaf, err), writeRemedy)
	}
	return nil
}

// close undoes stepAside. Controllers that were enabled without it stay: other
// tares may have groups beside ours by now.
func (h *v2) close() error {
	if h.leaf == "" {
		return nil
	}
	for _, controller := range slices.Backward(h.added) {
		if err := writeFile(h.parent, "cgroup.subtree_control", "-"+controller); err != nil {
			return err
		}
	}
	h.added = nil
	if err := writeFile(h.parent, "cgroup.procs", "0"); err != nil {
		return err
	}
	err := removeTrees([]string{h.leaf}, killTime)
	if err == nil {
		h.leaf = ""
		h.release()
	}
	return err
}

// v2Group is one directory.
type v2Group struct {
	held
	dir string
	birthplace
}

// birthplace is a group that the kernel makes a process inside of (clone3(2),
// CLONE_INTO_CGROUP, Linux 5.7).
type birthplace struct{ fd *os.File }

func (b *birthplace) cloneInto(cmd *exec.Cmd, dir string) error {
	fd, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	b.fd = fd
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(fd.Fd())
	return nil
}

func (h *v2) create(name string, l Limits) (group, error) {
	for controller, wanted := range map[string]bool{"cpu": l.CPUs != 0, "cpuset": l.Cpuset != ""} {
		if wanted && !slices.Contains(h.enabled, controller) {
			return nil, unavailable(fmt.Errorf("the controller %s is not available in the cgroup %s", controller, h.parent),
				"run tare as root, delegate the controller too, or ask for no limit on processors")
		}
	}
	g := &v2Group{dir: filepath.Join(h.parent, name)}
	if err := makeGroup(g.dir); err != nil {
		return nil, err
	}
	if err := cmp.Or(g.hold(g.dir), g.limit(l)); err != nil {
		defer g.release()
		return nil, also(err, removeTrees(g.dirs(), killTime))
	}
	return g, nil
}

func (g *v2Group) limit(l Limits) error {
	// Since Linux 4.19.
	if err := writeFile(g.dir, "memory.oom.group", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l.MemoryBytes != 0 {
		if err := g.setMemoryLimit(l.MemoryBytes); err != nil {
			return err
		}
	}
	if l.CPUs != 0 {
		if err := writeFile(g.dir, "cpu.max", fmt.Sprintf("%d %d", l.quota(), cpuPeriod.Microseconds())); err != nil {
			return fmt.Errorf("CPU quota %v: %w", l.CPUs, err)
		}
	}
	if l.Cpuset == "" {
		return nil
	}
	if err := writeFile(g.dir, "cpuset.cpus", l.Cpuset); err != nil {
		return fmt.Errorf("cpuset %s: %w", l.Cpuset, err)
	}
	got, err := os.ReadFile(filepath.Join(g.dir, "cpuset.cpus.effective"))
	if err != nil {
		return err
	}
	return checkPinned(l.Cpuset, strings.TrimSpace(string(got)))
}

// setMemoryLimit forbids swap together with a limit: then memory and swap
// cannot exceed it. A kernel without swap has no memory.swap.max.
func (g *v2Group) setMemoryLimit(bytes int64) error {
	memory, swap := strconv.FormatInt(bytes, 10), "0"
	if bytes == 0 {
		memory, swap = "max", "max"
	}
	if err := writeFile(g.dir, "memory.swap.max", swap); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeFile(g.dir, "memory.max", memory); err != nil {
		return fmt.Errorf("memory limit %d: %w", bytes, err)
	}
	return nil
}

func (g *v2Group) enter(cmd *exec.Cmd) error { return g.cloneInto(cmd, g.dir) }

func (g *v2Group) leave() error {
	if g.fd == nil {
		return nil
	}
	err := g.fd.Close()
	g.fd = nil
	return err
}

func (g *v2Group) dirs() []string { return []string{g.dir} }

func (g *v2Group) kill() error { return killTree(g.dirs(), killTime) }

func (g *v2Group) usage() (Usage, error) {
	u := Usage{Time: time.Now()}
	if err := u.readMemory(linux.MemoryGroup{Version: 2, Dir: g.dir}); err != nil {
		return u, err
	}
	cpu, err := linux.ReadCgroupKeyed(g.dir, "cpu.stat")
	if err != nil {
		return u, err
	}
	// Without a quota there is no throttled_usec.
	u.CPUTime = time.Duration(cpu["usage_usec"]) * time.Microsecond
	u.Throttled = time.Duration(cpu["throttled_usec"]) * time.Microsecond
	u.Stalled, err = stalled(g.dir)
	return u, err
}

// stalled is Usage.Stalled of a group of cgroup v2.
func stalled(dir string) (*time.Duration, error) {
	pressure, err := linux.ReadCgroupPressure(dir, "memory.pressure")
	switch {
	case err == nil:
		return &pressure.Some, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP):
		return nil, nil
	}
	return nil, err
}
