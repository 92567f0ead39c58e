package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// written are settings of the whole machine that the kubelet writes: the node has
// copies of its own.
var written = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// runNode is the first process of the node's own PID and mount namespaces: when it
// ends, every container, helper and mount of the node ends with it.
func runNode(args []string) error {
	fl := flag.NewFlagSet("node", flag.ExitOnError)
	dir := fl.String("dir", "", "state directory of the cluster; containerd.toml and images are in it")
	containerd := fl.String("containerd", "/usr/bin/containerd", "")
	ctr := fl.String("ctr", "/usr/bin/ctr", "")
	cgroup := fl.String("cgroup-root", "", "parent cgroup of all pods")
	port := fl.Int("port", 10250, "kubelet port on 127.0.0.1")
	name := fl.String("name", "localhost", "node name")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("node is to be the first process of a PID namespace of its own")
	}
	if err := mountNode(*dir); err != nil {
		return err
	}
	os.Setenv("PATH", filepath.Dir(*containerd)+":/usr/sbin:/usr/bin:/sbin:/bin")
	socket := filepath.Join(*dir, "c.sock")
	engine, err := start(*dir, "containerd", *containerd, "-c", filepath.Join(*dir, "containerd.toml"))
	if err != nil {
		return err
	}
	if err := await("containerd", func() error { return exec.Command(*ctr, "-a", socket, "version").Run() }); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(*dir, "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, image := range images {
		if out, err := exec.Command(*ctr, "-a", socket, "-n", "k8s.io", "images", "import", image).CombinedOutput(); err != nil {
			return fmt.Errorf("import of %s: %w: %s", image, err, out)
		}
	}
	if err := await("the API server", func() error {
		_, err := os.Stat(filepath.Join(*dir, "ready"))
		return err
	}); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	kubelet, err := start(*dir, "kubelet", self, "kubelet", "-dir", *dir, "-cri", "unix://"+socket, "-cgroup-root", *cgroup, "-port", strconv.Itoa(*port), "-node", *name)
	if err != nil {
		return err
	}
	return reap(engine, kubelet)
}

// mountNode makes the mounts of the node; none of them is seen outside.
func mountNode(dir string) error {
	// Not private: what the kubelet mounts for a pod is to be seen by containerd's helpers.
	errs := []error{syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""),
		syscall.Mount("proc", "/proc", "proc", 0, "")}
	for _, d := range []string{"/run/containerd", "/var/lib/kubelet", "/var/log/containers"} {
		errs = append(errs, os.MkdirAll(d, 0o755), syscall.Mount("node", d, "tmpfs", 0, ""))
	}
	for _, name := range written {
		text, err := os.ReadFile("/proc/sys/" + name)
		own := filepath.Join(dir, "sysctl."+strings.ReplaceAll(name, "/", "."))
		errs = append(errs, err, os.WriteFile(own, text, 0o600), syscall.Mount(own, "/proc/sys/"+name, "", syscall.MS_BIND, ""))
	}
	return errors.Join(errs...)
}

// start starts a program that is to live as long as the node does.
func start(dir, name, program string, args ...string) (pid int, err error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

func await(what string, there func() error) error {
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = there(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not there: %w", what, err)
}

// reap waits for all children, those that others left behind as well, until one of the
// vital ones has ended.
func reap(vital ...int) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if slices.Contains(vital, pid) {
			return fmt.Errorf("process %d of the node has ended: %#x", pid, status)
		}
	}
}
