package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/testkit/grouptest"
)

// jvm is a JVM that is made to end.
type jvm struct {
	*exec.Cmd
	in     io.WriteCloser
	dir    string // where it works
	groups []string
	gone   chan struct{}
	mapped int
}

// faulting is a program that writes to an address where no memory is, when it is told.
const faulting = `public class Fault {
  public static void main(String[] args) throws Exception {
    java.lang.reflect.Field f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
    f.setAccessible(true);
    System.in.read();
    ((sun.misc.Unsafe) f.get(null)).putByte(8L, (byte) 1);
  }
}
`

// start starts the JVM of a cell in groups of its own.
func start(java string, c cell) (*jvm, error) {
	j := &jvm{gone: make(chan struct{})}
	var err error
	if j.dir, err = os.MkdirTemp("/dev/shm", "tare-bench-autopsy-"); err != nil {
		return nil, err
	}
	enter := "ulimit -c 0; cd " + j.dir + "; "
	within := ""
	for _, bytes := range []int64{c.parent, c.own} {
		if bytes == 0 && (within == "" || c.parent == 0) {
			continue
		}
		group, _, err := grouptest.Make(within, bytes)
		if err != nil {
			return nil, err
		}
		j.groups = append(j.groups, group)
		within = group
	}
	if within != "" {
		enter += grouptest.Enter(within)
	}
	jar, err := filepath.Abs("bin/workloads.jar")
	if err != nil {
		return nil, err
	}
	args := append([]string{"-XX:+UseSerialGC"}, c.options...)
	if strings.HasPrefix(c.name, "write to address") {
		source := filepath.Join(j.dir, "Fault.java")
		if err := os.WriteFile(source, []byte(faulting), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-Xmx128m", source)
	} else {
		args = append(args, "-Xint", "-jar", jar, "holder", strconv.Itoa(c.threads))
	}
	j.Cmd = exec.Command("/bin/sh", append([]string{"-c", enter + `exec "$0" "$@"`, java}, args...)...)
	if j.in, err = j.StdinPipe(); err != nil {
		return nil, err
	}
	if err := j.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = j.Wait() // it ends as it is made to
		close(j.gone)
	}()
	return j, nil
}

// tell writes a line to it. A JVM that has ended takes none, which is no error.
func (j *jvm) tell(line string) error {
	if strings.Contains(line, "%s") {
		j.mapped++
		line = fmt.Sprintf(line, filepath.Join(j.dir, fmt.Sprint("mapped-", j.mapped)))
	}
	_, _ = fmt.Fprintln(j.in, line)
	return nil
}

func (j *jvm) close() error { return j.in.Close() }

func fault(j *jvm) error { return j.tell("go") }

// killOther has another process of the group take more than there is.
func killOther(j *jvm) error {
	err := exec.Command("/bin/sh", "-c", grouptest.Enter(j.groups[len(j.groups)-1])+"exec tail /dev/zero").Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return fmt.Errorf("the other process was not killed: %w", err)
	}
	return nil
}

// removeGroup removes a group whose processes may still be leaving.
func removeGroup(dir string) (err error) {
	for range 100 {
		if err = os.Remove(dir); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// remove ends it, and removes what it left.
func (j *jvm) remove() error {
	_ = j.Process.Kill() // it may have ended
	<-j.gone
	var errs error
	for i := len(j.groups) - 1; i >= 0; i-- {
		errs = errors.Join(errs, removeGroup(j.groups[i]))
	}
	return errors.Join(errs, os.RemoveAll(j.dir))
}
