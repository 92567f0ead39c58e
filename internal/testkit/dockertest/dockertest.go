// Package dockertest runs a real Docker Engine for tests, of their own: its
// data, its socket and its control groups are apart from any other on the
// machine, and go with the test. It needs root and Debian's docker.io, which
// scripts/setup.sh installs.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/testkit/alone"
)

// Engine is a running Docker Engine.
type Engine struct {
	// Host is its address, as DOCKER_HOST has it.
	Host   string
	parent string // control group of the containers
	log    string
}

const (
	startTimeout = time.Minute
	poll         = 50 * time.Millisecond
)

// Start starts an engine and ends it with the test. Its containers have no
// network but the host's: no bridge is made, no packet filter changed.
func Start(t testing.TB) *Engine {
	t.Helper()
	alone.Uses(t, "a Docker Engine")
	dir, err := os.MkdirTemp("", "dockertest") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	parent, err := ownGroup()
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{
		Host: "unix://" + dir + "/docker.sock", parent: filepath.Join(parent, filepath.Base(dir)),
		log: filepath.Join(dir, "log"),
	}
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("dockerd", "--host", e.Host, "--data-root", dir+"/data", "--exec-root", dir+"/exec",
		"--pidfile", dir+"/pid", "--bridge", "none", "--iptables=false", "--cgroup-parent", e.parent)
	cmd.Stdout, cmd.Stderr = log, log
	if err := deathsig.Start(cmd, syscall.SIGTERM); err != nil {
		t.Fatalf("%v: run scripts/setup.sh test", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { e.stop(t, cmd, ended, dir) })
	e.await(t, ended)
	return e
}

func (e *Engine) await(t testing.TB, ended chan error) {
	t.Helper()
	deadline := time.After(startTimeout)
	for {
		if exec.Command("docker", "--host", e.Host, "version").Run() == nil {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the engine ended: %v\n%s", err, e.tail())
		case <-deadline:
			t.Fatalf("the engine does not answer\n%s", e.tail())
		case <-time.After(poll):
		}
	}
}

func (e *Engine) tail() string {
	text, _ := os.ReadFile(e.log)
	return string(text[max(0, len(text)-4096):])
}

// stop removes the containers, ends the engine, which ends its containerd, and
// removes what both leave.
func (e *Engine) stop(t testing.TB, cmd *exec.Cmd, ended chan error, dir string) {
	if ids, err := e.docker("ps", "--all", "--quiet"); err == nil && ids != "" {
		if _, err := e.docker(append([]string{"rm", "--force"}, strings.Fields(ids)...)...); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.docker("network", "prune", "--force"); err != nil { // a bridge outlives its engine
		t.Error(err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(startTimeout):
		t.Errorf("the engine did not end\n%s", e.tail())
		_ = cmd.Process.Kill()
		<-ended
	}
	removeGroups(e.parent)
	unmountBelow(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// docker runs the engine's command line.
func (e *Engine) docker(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("docker", append([]string{"--host", e.Host}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Docker runs the engine's command line and fails the test if that fails.
func (e *Engine) Docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := e.docker(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// AwaitLog waits until a container has written text.
func (e *Engine) AwaitLog(t testing.TB, container, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, "docker", "--host", e.Host, "logs", container).CombinedOutput()
		if err == nil && strings.Contains(string(out), text) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("container %s did not write %q:\n%s", container, text, out)
		case <-time.After(poll):
		}
	}
}

// Import makes an image of files and directories of this machine, by their
// paths in the image, and of the libraries that the programs among them need. A
// directory /tmp is added. Changes are lines of a Dockerfile, such as ENV and
// ENTRYPOINT.
func (e *Engine) Import(t testing.TB, name string, files map[string]string, changes ...string) {
	t.Helper()
	args := []string{"--host", e.Host, "import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	cmd := exec.Command("docker", append(args, "-", name)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(WriteRoot(in, files), in.Close())
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out.String())
	}
}

// notInImages are the parts of a JDK that running a program does not need.
var notInImages = []string{"jmods", "include", "man", "demo", "src.zip", "ct.sym"}

// WriteRoot writes the file system of Import as a tar archive.
func WriteRoot(w io.Writer, files map[string]string) error {
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return err
	}
	libraries := map[string]bool{}
	for inside, outside := range files {
		err := filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if slices.Contains(notInImages, d.Name()) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(outside, path)
			if err != nil {
				return err
			}
			if d.Name() == "java" || filepath.Base(filepath.Dir(path)) == "bin" || strings.HasSuffix(d.Name(), ".so") {
				addLibraries(libraries, path)
			}
			return writeFile(tw, filepath.Join(inside, rel), path)
		})
		if err != nil {
			return err
		}
	}
	for lib := range libraries {
		if err := writeFile(tw, lib, lib); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeFile adds what path leads to, if that is a file or a directory.
func writeFile(tw *tar.Writer, name, path string) error {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil // a link into a part that is left out
	}
	h, err := tar.FileInfoHeader(fi, "")
	if err != nil {
		return err
	}
	h.Name = strings.TrimPrefix(name, "/")
	if fi.IsDir() {
		h.Name += "/"
		return tw.WriteHeader(h)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// libraryPath finds the system's libraries in what ldd prints; those of the JDK
// are in the image already.
var libraryPath = regexp.MustCompile(`(/(?:usr/)?lib(?:64)?/\S+\.so\S*) \(`)

func addLibraries(to map[string]bool, program string) {
	out, _ := exec.Command("ldd", program).Output() // of what it cannot resolve, ldd names the rest
	for _, m := range libraryPath.FindAllStringSubmatch(string(out), -1) {
		to[m[1]] = true
	}
}

// ownGroup is the group of this process in the memory controller's hierarchy:
// containers go below it.
func ownGroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := "/"
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "memory") {
			return f[2], nil
		}
		if len(f) == 3 && f[0] == "0" {
			path = f[2]
		}
	}
	return path, nil
}

// removeGroups removes the containers' parent group from every hierarchy, and
// the empty groups above it that the engine had to make.
func removeGroups(parent string) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*")
	for _, root := range append(roots, "/sys/fs/cgroup") {
		for dir := parent; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
			if unix.Rmdir(filepath.Join(root, dir)) != nil {
				break // in use, or not there
			}
		}
	}
}

// unmountBelow unmounts what the engine left mounted.
func unmountBelow(dir string) {
	text, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}
