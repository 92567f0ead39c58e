package runner

import (
	"os/exec"
	"path/filepath"
)

// TestGroup is a group that tests make by the runner's own means.
type TestGroup struct{ g group }

// MakeGroup makes a group as Start does.
func MakeGroup(c *Cgroup, l Limits) (*TestGroup, error) {
	g, err := c.hierarchy.create(c.nextName(), l)
	return &TestGroup{g}, err
}

// Dirs are the group's directories.
func (g *TestGroup) Dirs() []string { return g.g.dirs() }

// Run runs a command in the group.
func (g *TestGroup) Run(cmd *exec.Cmd) error {
	ended := make(chan struct{})
	defer close(ended)
	if err := spawn(cmd, g.g, false, ended); err != nil {
		return err
	}
	return cmd.Wait()
}

// Remove kills what is in the group and removes it.
func (g *TestGroup) Remove() error { return destroy(g.Dirs()) }

// NextDirs are the directories that the next group may have.
func NextDirs(c *Cgroup) []string {
	name := c.owner.groupName(sequence.Load() + 1)
	if h, ok := c.hierarchy.(*v1); ok {
		var dirs []string
		for _, parent := range h.parents {
			dirs = append(dirs, filepath.Join(parent, name))
		}
		return dirs
	}
	return []string{filepath.Join(c.hierarchy.(*v2).parent, name)}
}

// GroupDirs are the directories of a process's group.
func GroupDirs(p Process) []string { return p.(*process).group.dirs() }

// Hold holds a group as its owner does.
func Hold(dir string) (release func(), err error) {
	var h held
	return h.release, h.hold(dir)
}

// PID is the process's id.
func PID(p Process) int { return p.(*process).pid }

// LeftoverName is the name of a group whose owner of the PID has ended.
func LeftoverName(c *Cgroup, pid int, leaf bool) string {
	o := c.owner
	o.pid, o.start = pid, 1
	if leaf {
		return o.leafName()
	}
	return o.groupName(1)
}

// ForeignName is the name of a group of another PID namespace.
func ForeignName(c *Cgroup) string {
	o := c.owner
	o.pidns, o.start = o.pidns+1, 1
	return o.groupName(1)
}

// LeftoverDocker, ForeignDocker and NextDocker are names of containers as the
// functions and types of like names are of groups.
func LeftoverDocker(d *Docker) string {
	o := d.owner
	o.pid, o.start = 1<<30, 1
	return o.groupName(1)
}

func ForeignDocker(d *Docker) string {
	o := d.owner
	o.pidns, o.start = o.pidns+1, 1
	return o.groupName(1)
}

func NextDocker(d *Docker) string { return d.owner.groupName(sequence.Load() + 1) }

// DockerWithCopy is a Docker runner without an engine, which knows a file of its image.
func DockerWithCopy(name, copied string) *Docker {
	return &Docker{copies: map[string]string{name: copied}}
}
