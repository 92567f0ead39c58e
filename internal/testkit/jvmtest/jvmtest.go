// Package jvmtest starts real JVMs for tests.
package jvmtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/cachedir"
	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/testkit/alone"
)

// Java is the java launcher of a major version.
func Java(t testing.TB, major int) string {
	t.Helper()
	return filepath.Join(Home(t, major), "bin", "java")
}

// NativeImage is a program that is a GraalVM native image, which
// scripts/foreign.sh put into the cache. It waits for its standard input.
func NativeImage(t testing.TB) string {
	t.Helper()
	alone.Uses(t, "a native image")
	found, err := filepath.Glob(filepath.Join(Cache(t), "foreign", "closure-*"))
	if err != nil || len(found) == 0 {
		t.Fatal("there is no native image in the cache: run scripts/foreign.sh")
	}
	return found[len(found)-1]
}

// Cache is the folder that the scripts of this tree download into.
func Cache(t testing.TB) string {
	t.Helper()
	dir, err := cachedir.Path()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Root is the root of the source tree.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}

// Jar is a jar that make build leaves in bin, such as "workloads.jar". A short
// run goes on without it.
func Jar(t testing.TB, name string) string {
	t.Helper()
	jar := filepath.Join(Root(t), "bin", name)
	if _, err := os.Stat(jar); err != nil {
		if testing.Short() {
			t.Skipf("-short: it needs bin/%s, which is not built", name)
		}
		t.Fatalf("bin/%s is missing: run make build", name)
	}
	return jar
}

// FreePort is a TCP port of the loopback that nobody listened on a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// StartTimeout bounds how long a program may take until it is ready.
const StartTimeout = 2 * time.Minute

// Process is a started program.
type Process struct {
	*exec.Cmd
	mu    sync.Mutex
	lines []string
	seen  chan struct{} // signalled at each line
	ended chan struct{}
}

// Start starts a program and ends it with the test.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	return start(t, exec.Command(name, args...))
}

func start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	alone.Uses(t, cmd.Path)
	p := &Process{Cmd: cmd, seen: make(chan struct{}, 1), ended: make(chan struct{})}
	out, w := io.Pipe()
	p.Stdout, p.Stderr = w, w
	if err := deathsig.Start(p.Cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	go p.collect(out)
	go func() {
		_ = p.Wait()
		w.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		removeSocket(p.PID())
	})
	return p
}

// removeSocket removes the socket that a killed JVM leaves when it was asked something. With it
// no JVM of another user that gets the same id can be asked: that user may not replace it.
func removeSocket(pid int) { _ = os.Remove(fmt.Sprintf("/tmp/.java_pid%d", pid)) }

func (p *Process) collect(r io.Reader) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, sc.Text())
		p.mu.Unlock()
		select {
		case p.seen <- struct{}{}:
		default:
		}
	}
}

// Output is what the program wrote so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// PID is the program's process id.
func (p *Process) PID() int { return p.Process.Pid }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Await waits until the program has written a line that contains text, and
// returns that line.
func (p *Process) Await(t testing.TB, text string) string {
	t.Helper()
	deadline := time.After(StartTimeout)
	for {
		p.mu.Lock()
		for _, l := range p.lines {
			if strings.Contains(l, text) {
				p.mu.Unlock()
				return l
			}
		}
		p.mu.Unlock()
		select {
		case <-p.seen:
		case <-p.ended:
			t.Fatalf("%v ended before it wrote %q:\n%s", p.Args, text, p.Output())
		case <-deadline:
			t.Fatalf("%v did not write %q within %v:\n%s", p.Args, text, StartTimeout, p.Output())
		}
	}
}

// StartFiller starts the memory filler and waits until its threads stand.
func StartFiller(t testing.TB, java string, options []string, threads, heapKB, frames int) *Process {
	t.Helper()
	args := append(append([]string{}, options...), "-jar", Jar(t, "workloads.jar"),
		"memory-filler", fmt.Sprint(threads), fmt.Sprint(heapKB), fmt.Sprint(frames))
	p := Start(t, java, args...)
	p.Await(t, "ready")
	return p
}
