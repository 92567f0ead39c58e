package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// twin is the key of the group in the hierarchy of cgroup v2, as in linux.Group.Dirs.
// Where that is mounted beside those of v1, as systemd's "hybrid" machines have it, it has
// no controllers, but the kernel counts pressure for its groups, which v1 has none of: the
// group in it has the same processes, and tells how long they waited for memory
// (Documentation/accounting/psi.rst).
const twin = ""

// v1 makes groups in the hierarchies of cgroup v1
// (Documentation/admin-guide/cgroup-v1/).
type v1 struct {
	parents map[string]string // directory to make groups in, by controller
	own     map[string]string // directory that this process is in, likewise
}

func (c *Cgroup) useV1(g *linux.Group, opts CgroupOptions) error {
	h := &v1{parents: map[string]string{}, own: map[string]string{}}
	for _, controller := range []string{"memory", "cpuacct", "cpu", "cpuset"} {
		own, ok := g.Dirs[controller]
		if !ok {
			if controller == "memory" || controller == "cpuacct" {
				return unavailable(fmt.Errorf("the cgroup v1 controller %s is not mounted", controller),
					"mount it below /sys/fs/cgroup")
			}
			continue
		}
		parent, root := own, g.Top(controller)
		if opts.Parent != "" {
			dir, ok := g.Dir(controller, opts.Parent)
			switch {
			case ok && isDir(dir):
				parent, root = dir, dir
			case controller == "memory":
				return fmt.Errorf("there is no memory cgroup %s; make it first, or name another", opts.Parent)
			}
		}
		h.own[controller], h.parents[controller] = own, parent
		c.own = append(c.own, own)
		c.roots = append(c.roots, root)
	}
	if own, ok := g.Dirs[twin]; ok {
		h.parents[twin] = twinParent(own, g, opts)
		c.own = append(c.own, own)
		c.roots = append(c.roots, g.Top(twin))
	}
	c.hierarchy = h
	return nil
}

// twinParent is where twins are made; "" where that cannot be done, or does not help. It
// is in this process's own group, or where the parent of groups is given and there too, in
// that.
func twinParent(own string, g *linux.Group, opts CgroupOptions) string {
	if dir, ok := g.Dir(twin, opts.Parent); ok && opts.Parent != "" && isDir(dir) {
		own = dir
	}
	top := filepath.Join(own, "cgroup.procs")
	if _, err := linux.ReadCgroupPressure(own, "memory.pressure"); err != nil || unix.Access(top, unix.W_OK) != nil {
		return ""
	}
	return own
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

func (h *v1) name() string { return "cgroup v1" }

func (h *v1) close() error { return nil }

// v1Group is one group in each hierarchy that its limits need.
type v1Group struct {
	held
	dir     map[string]string // by controller; two controllers may share one
	own     map[string]string // where the process that starts it comes from
	entered []string          // directories that the thread must go back to
	birthplace
}

func (h *v1) create(name string, l Limits) (group, error) {
	controllers := []string{"memory", "cpuacct"}
	if l.CPUs != 0 {
		controllers = append(controllers, "cpu")
	}
	if l.Cpuset != "" {
		controllers = append(controllers, "cpuset")
	}
	g := &v1Group{dir: map[string]string{}, own: map[string]string{}}
	if h.parents[twin] != "" {
		controllers = append(controllers, twin)
	}
	var made []string
	err := func() error {
		for _, c := range controllers {
			parent, ok := h.parents[c]
			if !ok {
				return unavailable(fmt.Errorf("the cgroup v1 controller %s is not mounted", c), "mount it below /sys/fs/cgroup")
			}
			dir := filepath.Join(parent, name)
			g.dir[c], g.own[c] = dir, h.own[c]
			if slices.Contains(made, dir) {
				continue
			}
			if err := makeGroup(dir); err != nil {
				return err
			}
			made = append(made, dir)
			if err := g.hold(dir); err != nil {
				return err
			}
		}
		return g.limit(l)
	}()
	if err != nil {
		defer g.release()
		return nil, also(err, removeTrees(made, killTime))
	}
	return g, nil
}

func (g *v1Group) limit(l Limits) error {
	if l.MemoryBytes != 0 {
		if err := g.setMemoryLimit(l.MemoryBytes); err != nil {
			return err
		}
	}
	if l.CPUs != 0 {
		dir := g.dir["cpu"]
		if err := writeFile(dir, "cpu.cfs_period_us", strconv.FormatInt(cpuPeriod.Microseconds(), 10)); err != nil {
			return err
		}
		if err := writeFile(dir, "cpu.cfs_quota_us", strconv.FormatInt(l.quota(), 10)); err != nil {
			return fmt.Errorf("CPU quota %v: %w", l.CPUs, err)
		}
	}
	if l.Cpuset != "" {
		return g.pin(l.Cpuset)
	}
	return nil
}

// pin sets the processors; a new group has none, and no memory nodes.
func (g *v1Group) pin(cpus string) error {
	dir := g.dir["cpuset"]
	nodes, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "cpuset.effective_mems"))
	if err != nil {
		return err
	}
	if err := writeFile(dir, "cpuset.mems", strings.TrimSpace(string(nodes))); err != nil {
		return err
	}
	if err := writeFile(dir, "cpuset.cpus", cpus); err != nil {
		usable, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "cpuset.effective_cpus"))
		return fmt.Errorf("cpuset %s: of %s can be used here: %w", cpus, strings.TrimSpace(string(usable)), err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "cpuset.effective_cpus"))
	if err != nil {
		return err
	}
	return checkPinned(cpus, strings.TrimSpace(string(got)))
}

// setMemoryLimit keeps memory plus swap at or above memory at each step, as the
// kernel demands. Without swap accounting there is only memory.
func (g *v1Group) setMemoryLimit(bytes int64) error {
	const memory, withSwap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	dir := g.dir["memory"]
	if bytes == 0 {
		bytes = -1
	}
	old, limited, err := linux.MemoryGroup{Version: 1, Dir: dir}.Limit()
	if err != nil {
		return err
	}
	if !limited {
		old = -1
	}
	order := []string{memory, withSwap}
	if bytes == -1 || old != -1 && bytes > old {
		order = []string{withSwap, memory}
	}
	for i, name := range order {
		err := writeFile(dir, name, strconv.FormatInt(bytes, 10))
		if name == withSwap && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			if errors.Is(err, syscall.EBUSY) {
				err = fmt.Errorf("more is in use than the kernel can reclaim: %w", err)
			}
			if i == 1 {
				err = also(err, writeFile(dir, order[0], strconv.FormatInt(old, 10)))
			}
			return fmt.Errorf("memory limit %d: %w", bytes, err)
		}
	}
	return nil
}

// enter moves the calling thread, not the process, so that its child is born
// inside. Memory goes on being charged to the group of the process's main
// thread, and the child's from its exec on to the child's own.
func (g *v1Group) enter(cmd *exec.Cmd) error {
	for c, dir := range g.dir {
		if c == twin {
			// A thread of this process cannot be there alone: the child is born in it.
			if err := g.cloneInto(cmd, dir); err != nil {
				return err
			}
			continue
		}
		if slices.Contains(g.entered, g.own[c]) {
			continue // of the same hierarchy as another controller
		}
		if err := writeFile(dir, "tasks", "0"); err != nil {
			return fmt.Errorf("enter the group: %w", err)
		}
		g.entered = append(g.entered, g.own[c])
	}
	return nil
}

func (g *v1Group) leave() error {
	var failed error
	for _, dir := range g.entered {
		if err := writeFile(dir, "tasks", "0"); err != nil {
			failed = also(failed, fmt.Errorf("leave the group: %w", err))
		}
	}
	g.entered = nil
	if g.fd != nil {
		failed = also(failed, g.fd.Close())
		g.fd = nil
	}
	return failed
}

// dropTwin removes the twin of a group that nothing runs in yet, where it has one.
func (g *v1Group) dropTwin() (had bool, err error) {
	dir, had := g.dir[twin]
	if !had {
		return false, nil
	}
	delete(g.dir, twin)
	return true, removeTrees([]string{dir}, killTime)
}

func (g *v1Group) dirs() []string {
	return slices.Compact(slices.Sorted(maps.Values(g.dir)))
}

func (g *v1Group) kill() error { return killTree(g.dirs(), killTime) }

func (g *v1Group) usage() (Usage, error) {
	u := Usage{Time: time.Now()}
	m := linux.MemoryGroup{Version: 1, Dir: g.dir["memory"]}
	if err := u.readMemory(m); err != nil {
		return u, err
	}
	ns, _, err := linux.ReadCgroupValue(g.dir["cpuacct"], "cpuacct.usage")
	if err != nil {
		return u, err
	}
	u.CPUTime = time.Duration(ns)
	if dir, ok := g.dir["cpu"]; ok {
		stat, err := linux.ReadCgroupKeyed(dir, "cpu.stat")
		if err != nil {
			return u, err
		}
		u.Throttled = time.Duration(stat["throttled_time"])
	}
	if dir, ok := g.dir[twin]; ok {
		u.Stalled, err = stalled(dir)
	}
	return u, err
}

// readMemory reads what both versions tell.
func (u *Usage) readMemory(m linux.MemoryGroup) (err error) {
	if u.UsageBytes, err = m.Usage(); err != nil {
		return err
	}
	if u.LimitBytes, _, err = m.Limit(); err != nil {
		return err
	}
	if u.Stat, err = m.Stat(); err != nil {
		return err
	}
	u.RefaultBytes = int64(os.Getpagesize()) * max(u.Stat["workingset_refault_file"], u.Stat["workingset_refault"])
	if u.OOMKills, err = m.OOMKills(); err != nil {
		return err
	}
	if u.LimitHits, err = limitHits(m); err != nil {
		return err
	}
	u.PeakBytes, err = m.Peak()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
