package runnertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

// The environment that makes a helper of the test binary, and by which the
// suite finds the processes that it started, in whatever PID namespace.
const (
	helperEnv = "TARE_RUNNERTEST_HELPER"
	markEnv   = "TARE_RUNNERTEST_MARK"
	ownerEnv  = "TARE_RUNNERTEST_OWNER"
)

// Main is what TestMain of a package that calls Run must do: the processes
// that the suite starts are the test binary itself, so nothing else need be
// where they run.
func Main(m *testing.M) {
	runner.Gate(os.Args)
	if os.Getenv(helperEnv) == "" {
		os.Exit(m.Run())
	}
	if err := helper(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(99)
	}
}

func helper(mode string, args []string) error {
	switch mode {
	case "exit":
		os.Exit(number(args[0]))
	case "print":
		fmt.Fprint(os.Stdout, args[0])
		fmt.Fprint(os.Stderr, args[1])
	case "where":
		dir, err := os.Getwd()
		fmt.Println(dir)
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return err
	case "cgroup":
		return printCgroup()
	case "available":
		n, err := runner.ThisHost().Available(context.Background())
		fmt.Println(n)
		return err
	case "eat":
		return eat(int64(number(args[0])))
	case "cache":
		return fillCache(args[0], number(args[1]))
	case "read":
		return read(args[0])
	case "reread":
		return reread(args[0])
	case "burn":
		burn(time.Duration(number(args[0])) * time.Millisecond)
	case "threads":
		return burnInThreads(args)
	case "hugepages":
		off, err := hugePagesOff()
		fmt.Println(off)
		return err
	case "affinity":
		return printAffinity()
	case "hold":
		hold()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		hold()
	case "tree":
		return tree(args[0])
	default:
		return fmt.Errorf("unknown mode %q", mode)
	}
	return nil
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// hold tells that the process is there and stays until a signal ends it.
func hold() {
	fmt.Println("ready")
	wait()
}

// wait waits for a signal, but not for ever.
func wait() { time.Sleep(10 * time.Minute) }

// printCgroup prints the limit that the process sees at its start, and whether
// it has a session of its own.
func printCgroup() error {
	m, err := linux.NewCgroupFS(linux.NewFS("/proc"), "/").MemoryOf(os.Getpid())
	if err != nil {
		return err
	}
	session, err := unix.Getsid(0)
	fmt.Printf("limit %d\nleader %v\n", m.LimitBytes, session == os.Getpid())
	return err
}

// eat touches so many bytes of anonymous memory, a megabyte at a time.
func eat(size int64) error {
	const step = 1 << 20
	for range size / step {
		p, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := 0; i < step; i += os.Getpagesize() {
			p[i] = 1
		}
	}
	hold()
	return nil
}

// fillCache writes a file, whose pages are then in the page cache.
func fillCache(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	part := bytes.Repeat([]byte("tare"), 16<<10)
	for ; size > 0 && err == nil; size -= len(part) {
		_, err = f.Write(part)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	hold()
	return nil
}

// read reads a file, whose pages are in the page cache then, and keeps nothing
// of it in memory of its own. It prints how many bytes came from storage.
func read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := fetched()
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, f); err != nil {
		return err
	}
	after, err := fetched()
	fmt.Println("fetched", after-before)
	hold()
	return err
}

// reread reads a file again and again.
func reread(path string) error {
	f, err := os.Open(path)
	for err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			_, err = io.Copy(io.Discard, f)
		}
	}
	return err
}

// fetched is what this process has caused to be fetched from storage, in bytes
// (Documentation/filesystems/proc.rst, 3.3).
func fetched() (int64, error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(text), "\nread_bytes: ")
	value, _, _ = strings.Cut(value, "\n")
	return strconv.ParseInt(value, 10, 64)
}

// burn uses so much processor time, on every processor at once.
func burn(d time.Duration) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	done := make(chan struct{})
	for range runtime.NumCPU() {
		go func() {
			for used() < d {
				for i := range 1 << 16 {
					_ = i
				}
			}
			done <- struct{}{}
		}()
	}
	for range runtime.NumCPU() {
		<-done
	}
}

// threadBurn is the processor time that each thread of burnInThreads uses.
const threadBurn = 100 * time.Millisecond

// burnInThreads has a thread of each name use threadBurn, and keeps them all.
func burnInThreads(names []string) error {
	failed := make(chan error)
	for _, name := range names {
		go func() {
			runtime.LockOSThread()
			text, err := unix.BytePtrFromString(name)
			if err == nil {
				err = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(text)), 0, 0, 0)
			}
			var now unix.Timespec
			for err == nil && time.Duration(now.Nano()) < threadBurn {
				err = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
			}
			failed <- err
			select {}
		}()
	}
	for range names {
		if err := <-failed; err != nil {
			return err
		}
	}
	hold()
	return nil
}

// hugePagesOff is 1 when this process has transparent huge pages switched off
// (prctl(2), PR_GET_THP_DISABLE).
func hugePagesOff() (int, error) {
	return unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
}

func printAffinity() error {
	cpus, err := affinity()
	fmt.Println(cpus)
	return err
}

// affinity is the list of processors that this thread may run on.
func affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for i := range 1024 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

// tree starts a grandchild in a session of its own, which inherits stdout, and
// lives on, or not ("leave").
func tree(mode string) error {
	cmd := exec.Command(os.Args[0], "stubborn")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if mode == "stay" {
		hold()
	}
	return nil
}

// marked lists the living processes that have the mark in their environment;
// those that have ended and were not waited for have none.
func marked(mark string) ([]int, error) {
	proc := linux.NewFS("/proc")
	pids, err := proc.PIDs()
	if err != nil {
		return nil, err
	}
	var out []int
	for _, pid := range pids {
		env, err := os.ReadFile(proc.Path(pid, "environ"))
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), markEnv+"="+mark) {
			out = append(out, pid)
		}
	}
	return out, nil
}
