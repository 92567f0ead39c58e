package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"tare.dev/tare/internal/linux"
)

// CgroupOptions say where the cgroup runner makes its groups.
type CgroupOptions struct {
	// Parent is the group below which groups are made, as /proc/PID/cgroup
	// names it; empty is the group that this process is in. It must exist.
	// On cgroup v1 it is the memory controller's group; the other controllers
	// use their group of the same path, or where they have none the group
	// that this process is in.
	Parent string
}

// Cgroup runs processes in control groups of this machine: version 1 or 2,
// whichever the memory controller is on. It works as root, and without root in
// a subtree that is delegated to the user.
//
// The kernel charges a page to the group of the process that touches it first.
// So a group pays for every page that its processes touch, except for pages of
// files that were in the page cache already.
//
// When the group reaches its limit, cgroup v2 kills all processes of the group
// (memory.oom.group): a trial has no use for a tree that lost one process, and
// its end is seen at once. Cgroup v1 cannot do this; it kills the largest
// process. A process that is being killed may exceed the limit by a few pages,
// and the peak shows that.
//
// The kernel updates memory.stat up to two seconds late, and the figures may
// lack some hundred kilobytes. Usage and peak are exact to a few pages.
//
// A process is killed when the process that started it ends
// (PR_SET_PDEATHSIG). The next Sweep ends its children and removes the group.
type Cgroup struct {
	thisHost
	hierarchy hierarchy
	proc      linux.FS
	owner     owner
	// roots is where Sweep looks; own are the groups that this process is in.
	roots, own []string
}

// hierarchy is what cgroup v1 and v2 differ in.
type hierarchy interface {
	name() string
	// create makes a group. On error nothing is left behind.
	create(name string, l Limits) (group, error)
	// close undoes what was made beside groups.
	close() error
}

var _ Runner = (*Cgroup)(nil)

// NewCgroup returns a *Cgroup. To find out whether it can work, it makes a group
// and removes it.
// On v2 it enables the controllers that groups need; where only this process
// is in the way, it moves itself to a group of its own below, which Cgroup.Close
// undoes. An error that wraps ErrUnavailable says what would make it work.
func NewCgroup(opts CgroupOptions) (Runner, error) {
	c, err := newCgroup(opts)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newCgroup(opts CgroupOptions) (*Cgroup, error) {
	proc := linux.NewFS("/proc")
	self, err := thisProcess(proc)
	if err != nil {
		return nil, unavailable(err, "mount /proc")
	}
	groups := linux.NewCgroupFS(proc, "/")
	g, err := groups.Group(os.Getpid())
	if err != nil {
		return nil, unavailable(err, "mount cgroups below /sys/fs/cgroup")
	}
	c := &Cgroup{proc: proc, owner: self}
	if g.Version == 1 {
		err = c.useV1(g, opts)
	} else {
		err = c.useV2(g, opts)
	}
	if err != nil {
		return nil, err
	}
	return c, c.try()
}

// try makes a group and removes it.
func (c *Cgroup) try() error {
	g, err := c.hierarchy.create(c.nextName(), Limits{})
	if err != nil {
		return also(err, c.Close())
	}
	defer g.release()
	return removeTrees(g.dirs(), killTime)
}

// sequence numbers the groups of this process.
var sequence atomic.Uint64

func (c *Cgroup) nextName() string { return c.owner.groupName(sequence.Add(1)) }

// Name is "cgroup v1" or "cgroup v2".
func (c *Cgroup) Name() string { return c.hierarchy.name() }

// Start starts the process of the spec in a fresh group.
func (c *Cgroup) Start(ctx context.Context, spec Spec) (Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := spec.Limits.check(); err != nil {
		return nil, err
	}
	g, err := c.hierarchy.create(c.nextName(), spec.Limits)
	if err != nil {
		return nil, err
	}
	spec.Cold.drop()
	p, err := start(spec, g)
	if v1, ok := g.(*v1Group); ok && noBirthplace(err) {
		// A kernel or a filter that has no clone3(2): pressure is not worth a process.
		if had, dropErr := v1.dropTwin(); had && dropErr == nil {
			p, err = start(spec, g)
		}
	}
	if err != nil {
		defer g.release()
		return nil, also(err, destroy(g.dirs()))
	}
	return p, nil
}

// noBirthplace says that a process may not have been started for being made in a group
// of cgroup v2.
func noBirthplace(err error) bool {
	for _, e := range []error{syscall.ENOSYS, syscall.EINVAL, syscall.EPERM, syscall.EACCES, syscall.EBUSY, syscall.EOPNOTSUPP, syscall.E2BIG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close moves this process back to the group that NewCgroup found it in, if it
// was moved. Call it when every process is closed. Without it an empty group
// remains, which a later Sweep removes.
func (c *Cgroup) Close() error { return c.hierarchy.close() }

// unavailable wraps ErrUnavailable, the reason, and the way out.
func unavailable(reason error, remedy string) error {
	return fmt.Errorf("%w: %w; %s", ErrUnavailable, reason, remedy)
}

// writeRemedy is the way out when groups cannot be made.
const writeRemedy = "run tare as root, or in a group delegated to this user " +
	"(systemd-run --user --scope -p Delegate=yes tare …), or in a container that may write " +
	"(docker run --privileged --cgroupns=private …)"

// makeGroup makes one directory, which must be new.
func makeGroup(dir string) error {
	err := syscall.Mkdir(dir, 0o755)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%w: %s; a leftover is removed when its owner has ended", ErrExists, dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return unavailable(fmt.Errorf("cannot make a cgroup in %s: %w", filepath.Dir(dir), err), writeRemedy)
	default:
		return fmt.Errorf("cannot make the cgroup %s: %w", dir, err)
	}
}
