package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/cachedir"
	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/linux"
)

// inside is the container of the engine that this process is in. What it gives other
// containers of its files has to be on a volume or folder that it has from the engine's
// machine, for the engine knows no other paths. Methods may be called on nil: this
// process is in no container of the engine.
type inside struct{ container docker.Container }

// ownFile is a file that an engine mounts into each container, as mountinfo names it: of
// Docker it is in a folder of the container's id.
var ownFile = lazy.Regexp(`(?m)^\d+ \d+ \S+ \S*/containers/([0-9a-f]{64})/\S+ /etc/(?:hostname|hosts|resolv\.conf) `)

const maxMountinfo = 4 << 20

// findInside finds the container that this process is in, nil for none, and makes sure
// that it can see and limit the others.
func findInside(ctx context.Context, e *docker.Engine, proc linux.FS) (*inside, error) {
	f, err := os.Open(proc.Path(os.Getpid(), "mountinfo"))
	if err != nil {
		return nil, unavailable(err, "mount /proc")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMountinfo))
	if err != nil {
		return nil, err
	}
	m := ownFile().FindSubmatch(text)
	if m == nil {
		return nil, nil
	}
	c, err := e.State(ctx, string(m[1]))
	if errors.Is(err, docker.ErrNoContainer) {
		return nil, nil // of another engine
	}
	if err != nil {
		return nil, err
	}
	in := &inside{c}
	return in, in.check(proc)
}

// check names the first right that the container lacks.
func (in *inside) check(proc linux.FS) error {
	lacks := func(what, flag string) error {
		return unavailable(fmt.Errorf("tare runs in the container %.12s, which %s", in.container.ID, what), "start it with "+flag)
	}
	switch host := in.container.HostConfig; {
	case host.PidMode != "host":
		return lacks("does not see the processes of others", "--pid host")
	case host.NetworkMode != docker.HostNetwork:
		return lacks("has a network of its own", "--network host")
	}
	status, err := proc.Status(os.Getpid())
	if err != nil {
		return err
	}
	if !status.Has(linux.CapSysPtrace) {
		return lacks("may not look into the processes of others", "--cap-add SYS_PTRACE")
	}
	g, err := linux.NewCgroupFS(proc, "/").Group(os.Getpid())
	if err == nil {
		controller := ""
		if g.Version == 1 {
			controller = "memory"
		}
		if _, ok := g.Dir(controller, "/"); !ok {
			err = errors.New("not the top of the hierarchy")
		}
	}
	if err != nil {
		return lacks("does not see the control groups of others", "--cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup")
	}
	return nil
}

// outside is the path on the engine's machine of a file or folder.
func (in *inside) outside(path string) (string, error) {
	if in == nil {
		return path, nil
	}
	best, found := "", ""
	for _, m := range in.container.Mounts {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Destination, "/"))
		if ok && (rest == "" || rest[0] == '/') && len(m.Destination) > len(best) {
			best, found = m.Destination, m.Source+rest
		}
	}
	if best == "" {
		return "", unavailable(fmt.Errorf("%s is in the container that tare runs in, where the engine does not see it", path), "start that with -v tare:"+stateInImage+", and name folders below there")
	}
	return found, nil
}

// stateInImage is what tare's own image has as a volume.
const stateInImage = "/var/lib/tare"

// program is a path of this program that other containers can be given.
func (in *inside) program(self string) (string, error) {
	if in == nil {
		return self, nil
	}
	if _, err := in.outside(self); err == nil {
		return self, nil
	}
	if err := os.MkdirAll(os.TempDir(), 0o1777); err != nil { // an empty volume has none
		return "", err
	}
	dir, err := cachedir.Path()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "program")
	if _, err := in.outside(dir); err != nil {
		return "", err
	}
	return copyProgram(self, dir)
}

// copyProgram copies a program into a folder, under the name of its digest.
func copyProgram(self, dir string) (copied string, err error) {
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	to, err := os.CreateTemp(dir, ".copy-*")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, sum), from)
	copied = filepath.Join(dir, "tare-"+hex.EncodeToString(sum.Sum(nil)))
	err = errors.Join(err, to.Chmod(0o755), to.Close())
	if err == nil {
		err = os.Rename(to.Name(), copied)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy of tare for the containers: %w", err), os.Remove(to.Name()))
	}
	return copied, nil
}
