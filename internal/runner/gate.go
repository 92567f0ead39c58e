package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/linux"
)

// A container begins with a gate: this program itself, which the container has
// at InContainer. It connects to the runner, is told what to run, and becomes
// that by execve(2). So the runner knows process and group before the
// application begins, however short it lives, and the start's errors are the
// kernel's. What the gate needs of memory is gone with its execve.
//
// The socket has an abstract name (unix(7)), which a container reaches that has
// the machine's network; for one in another network it is a file that the container
// has too. Neither is a secret: the kernel says who connects.

// InContainer is where a container of the Docker runner has this program.
const InContainer = "/.tare"

const (
	gateCommand = "container-gate"
	// gateFailed is the exit code of a gate that was told nothing.
	gateFailed = 120
	// gateTimeout bounds the time from the start of a container to its gate's
	// call.
	gateTimeout = 2 * time.Minute
	maxFailure  = 64 << 10
)

// gateRequest is what a gate is to become.
type gateRequest struct {
	Args, Env []string
	Dir       string
	Cold      Cold
	// NoHugePages is as in Spec.
	NoHugePages bool
	// Inherit says that Env comes on top of the container's own environment.
	Inherit bool
	// OneOutput says that stderr is to be stdout, so that one writer gets both
	// in their order.
	OneOutput bool
}

// gateFailure is why it could not.
type gateFailure struct {
	Op, Path string
	// Errno is 0 where Text says it, and where a command is not in PATH.
	Errno    syscall.Errno
	NotFound bool
	Text     string
}

func (f gateFailure) err() error {
	switch {
	case f.NotFound:
		return &exec.Error{Name: f.Path, Err: exec.ErrNotFound}
	case f.Errno != 0:
		return &fs.PathError{Op: f.Op, Path: f.Path, Err: f.Errno}
	}
	return fmt.Errorf("%s %s: %s", f.Op, f.Path, linux.PrintableName(f.Text))
}

func failureOf(op, path string, err error) gateFailure {
	f := gateFailure{Op: op, Path: path, Text: err.Error(), NotFound: errors.Is(err, exec.ErrNotFound)}
	switch {
	case errors.As(err, &f.Errno):
	case errors.Is(err, fs.ErrPermission):
		f.Errno = syscall.EACCES
	case errors.Is(err, fs.ErrNotExist):
		f.Errno = syscall.ENOENT
	}
	return f
}

// A gate is traced in a pod by its first thread: that must be the one that calls
// execve(2), for another one would take its place untraced (ptrace(2), "execve(2) under
// ptrace").
func init() {
	if isGate(os.Args) {
		runtime.LockOSThread()
	}
}

func isGate(args []string) bool {
	return len(args) == 3 && (args[0] == InContainer || args[0] == PodProgram) && args[1] == gateCommand
}

// Gate is called first by every program that uses a Docker runner. Where the
// program was started as a gate, it does not return. args are os.Args.
func Gate(args []string) {
	if !isGate(args) {
		return
	}
	if err := pass(args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "tare: the gate of the container:", err)
	}
	os.Exit(gateFailed)
}

// pass returns only when it fails.
func pass(socket string) error {
	conn, err := dialGate(socket)
	if err != nil {
		return err
	}
	var r gateRequest
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	if len(r.Args) == 0 {
		return errors.New("told to run nothing")
	}
	r.Cold.drop()
	// The connection is closed by a successful execve.
	return json.NewEncoder(conn).Encode(become(r))
}

// podGreeting comes with the descriptors of stdout and stderr.
const podGreeting = 1

// dialGate calls the runner. The agent of a pod may not listen yet; it gives the gate
// its outputs first.
func dialGate(socket string) (net.Conn, error) {
	if socket != podSocket {
		return net.Dial("unix", socket)
	}
	var conn *net.UnixConn
	ok, err := retry(gateTimeout, func() (bool, error) {
		var err error
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		return err == nil, nil
	})
	if err != nil || !ok {
		return nil, cmp.Or(err, fmt.Errorf("no agent listens on %s", socket))
	}
	greeting, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(2*4))
	_, n, _, _, err := conn.ReadMsgUnix(greeting, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no outputs from the agent: %w", err)
	}
	outputs, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(outputs) != 2 {
		return nil, fmt.Errorf("outputs from the agent: %w", err)
	}
	for i, fd := range outputs {
		if err := errors.Join(unix.Dup3(fd, i+1, 0), unix.Close(fd)); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

// become returns only when it fails.
func become(r gateRequest) gateFailure {
	if r.Dir != "" {
		if err := os.Chdir(r.Dir); err != nil {
			return failureOf("chdir", r.Dir, err)
		}
	}
	if r.OneOutput {
		if err := unix.Dup3(1, 2, 0); err != nil {
			return failureOf("dup", "stdout", err)
		}
	}
	if r.NoHugePages {
		if err := switchHugePages(1); err != nil {
			return gateFailure{Op: "prctl", Path: "PR_SET_THP_DISABLE", Text: err.Error()}
		}
	}
	if r.Inherit {
		r.Env = Environ(os.Environ(), r.Env)
	}
	os.Setenv("PATH", pathIn(r.Env))
	path, err := exec.LookPath(r.Args[0])
	if err != nil {
		return failureOf("exec", r.Args[0], err)
	}
	return failureOf("exec", path, syscall.Exec(path, r.Args, r.Env))
}

// DefaultPath is the PATH of a container whose image sets none, as Docker has
// it.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func pathIn(env []string) string {
	for _, e := range slices.Backward(env) {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return DefaultPath
}

// gatehouse awaits the call of one gate.
type gatehouse struct {
	listener *net.UnixListener
	address  string
	// dir has the socket that is a file; else it is "".
	dir string
}

// socketInContainer is where a container in another network has the socket.
const socketInContainer = "/.tare-gate"

// newGatehouse awaits a container that shares the machine's network, or does not.
func newGatehouse(shares bool) (*gatehouse, error) {
	if !shares {
		return newFileGatehouse()
	}
	address := "@tare-gate-" + rand.Text()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket for the container: %w", err)
	}
	return &gatehouse{listener: l, address: address}, nil
}

// newFileGatehouse makes a socket that every user of the container may connect to, in
// a folder that no other user of this machine may enter.
func newFileGatehouse() (*gatehouse, error) {
	dir, err := os.MkdirTemp("", "tare-gate-")
	if err != nil {
		return nil, fmt.Errorf("socket for the container: %w", err)
	}
	g := &gatehouse{address: socketInContainer, dir: dir}
	if g.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: g.socket(), Net: "unix"}); err == nil {
		err = os.Chmod(g.socket(), 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("socket for the container: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	return g, nil
}

func (g *gatehouse) socket() string { return filepath.Join(g.dir, "socket") }

// binds are what the container is to have.
func (g *gatehouse) binds() []docker.Bind {
	if g.dir == "" {
		return nil
	}
	return []docker.Bind{{Source: g.socket(), Target: socketInContainer}}
}

func (g *gatehouse) close() {
	g.listener.Close()
	if g.dir != "" {
		_ = os.RemoveAll(g.dir) // an empty folder in a temporary one
	}
}

// command is what the container begins with.
func (g *gatehouse) command() []string { return []string{InContainer, gateCommand, g.address} }

// await returns the call of the container's first process, and its PID. It
// returns no call when the container ended before.
func (g *gatehouse) await(ctx context.Context, proc linux.FS, id string, ended <-chan struct{}) (conn *net.UnixConn, pid int, err error) {
	stop := context.AfterFunc(ctx, g.close)
	defer stop()
	came := make(chan struct{})
	defer close(came)
	go func() {
		select {
		case <-ended:
			g.close()
		case <-came:
		}
	}()
	if err := g.listener.SetDeadline(time.Now().Add(gateTimeout)); err != nil {
		return nil, 0, err
	}
	for {
		conn, err := g.listener.AcceptUnix()
		if err != nil {
			select {
			case <-ended:
				return nil, 0, nil
			default:
			}
			return nil, 0, cmp.Or(ctx.Err(), fmt.Errorf("the container does not call: %w", err))
		}
		pid, err := peer(conn)
		if err == nil && pid == 0 {
			conn.Close()
			return nil, 0, fmt.Errorf("the container %w: its process cannot be seen here; run tare where the engine runs (docker run --pid host)", docker.ErrElsewhere)
		}
		if mine, groupErr := linux.NewCgroupFS(proc, "/").InGroupNamed(pid, id[:12]); err == nil && groupErr == nil && mine {
			return conn, pid, nil
		}
		conn.Close() // somebody else's call
	}
}

// peer is the process at the other end, 0 when it is none of this PID
// namespace.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}

// open tells the gate what to become, and returns when it has, or has ended.
func open(ctx context.Context, conn *net.UnixConn, r gateRequest) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // it has ended, which the container's end tells
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxFailure))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || len(text) == 0 {
		return nil
	}
	var f gateFailure
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("the gate of the container: %w", err)
	}
	return f.err()
}
