package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
)

// InPod is where the application's container in a pod has this program, and beside it
// the socket that its gate calls. It is a volume that the agent's container has too.
const InPod = "/.tare-pod"

const (
	// PodProgram is this program there.
	PodProgram = InPod + "/tare"
	podSocket  = InPod + "/gate"
)

// PodGate is the command that the application's container begins with.
func PodGate() []string { return []string{PodProgram, gateCommand, podSocket} }

// PodCopy is a command of the application's container that puts a file of its image into
// the pod's volume, under its own name: CopyInPod does it.
func PodCopy(file string) []string { return []string{PodProgram, "trial-agent", "--copy", file} }

// CopyInPod puts a file into the pod's volume.
func CopyInPod(ctx context.Context, file string) error { return Volume{InImage}.PutFile(ctx, file) }

// InstallInPod copies this program to InPod, for the gate.
func InstallInPod() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	copied, err := copyProgram(self, InPod)
	if err != nil {
		return err
	}
	return os.Rename(copied, PodProgram)
}

// Pod runs one process: in another container of the pod that this process is in, the
// containers of which share one PID namespace. That container begins with a gate (see
// gate.go), which is told what to become. Its group was made and limited by the kubelet;
// Limits of a Spec are not looked at.
//
// The process is traced, its first thread alone and without a stop of its own: so its
// exit is known, although it is no child of this process, and its group can be read
// before it is removed.
type Pod struct {
	NoArchives // its methods stand above those of the host
	wholeMachine
	// Volume is where the containers of the pod have class archives and jars.
	Volume
	proc linux.FS
	gate *gatehouse

	mu      sync.Mutex
	started bool
}

var _ Runner = (*Pod)(nil)

// NewPod awaits the gate of the pod's application.
func NewPod() (*Pod, error) {
	_ = os.Remove(podSocket) // of an agent that was restarted
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: podSocket, Net: "unix"})
	if err == nil {
		err = os.Chmod(podSocket, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: socket of the pod: %w", ErrUnavailable, err)
	}
	return &Pod{Volume: Volume{InImage}, proc: linux.NewFS("/proc"), gate: &gatehouse{listener: l, address: podSocket}}, nil
}

// Close listens no longer.
func (p *Pod) Close() error { return p.gate.listener.Close() }

// Name is "kubernetes".
func (p *Pod) Name() string { return "kubernetes" }

// Extract takes a jar apart in the volume.
func (p *Pod) Extract(ctx context.Context, jar, dir string) (string, error) {
	return p.TakeApart(ctx, jar, dir)
}

// Sweep has nothing to remove: a pod goes as a whole.
func (p *Pod) Sweep(context.Context) ([]string, error) { return nil, nil }

// Start tells the gate what to become. It can be done once.
func (p *Pod) Start(ctx context.Context, spec Spec) (Process, error) {
	if len(spec.Args) == 0 {
		return nil, errors.New("no command to start")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return nil, fmt.Errorf("%w: the application of a pod is started once", ErrExists)
	}
	conn, pid, err := p.await(ctx)
	if err != nil {
		return nil, err
	}
	p.started = true
	group, err := findGroupOf(p.proc, pid)
	if err != nil {
		conn.Close()
		return nil, err
	}
	q := &podProcess{jvm: jvm{pid: pid, proc: p.proc, dirs: group.dirs()}, group: group, began: time.Now(), done: make(chan struct{})}
	if err := q.connect(conn, spec); err != nil {
		conn.Close()
		return nil, err
	}
	if q.last, err = group.usage(); err != nil {
		conn.Close()
		return nil, err
	}
	traced := make(chan error)
	go q.trace(traced)
	if err := <-traced; err != nil {
		conn.Close()
		return nil, err
	}
	go q.guard()
	err = open(ctx, conn, gateRequest{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Cold: spec.Cold, NoHugePages: spec.NoHugePages,
		OneOutput: SameWriter(spec.Stdout, spec.Stderr), Inherit: true})
	if err != nil {
		return nil, also(err, q.Close())
	}
	return q, nil
}

// await is the call of the gate.
func (p *Pod) await(ctx context.Context) (*net.UnixConn, int, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.gate.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := p.gate.listener.SetDeadline(time.Now().Add(gateTimeout)); err != nil {
		return nil, 0, err
	}
	conn, err := p.gate.listener.AcceptUnix()
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		return nil, 0, fmt.Errorf("the application's container does not call: %w", err)
	}
	pid, err := peer(conn)
	if err == nil && pid == 0 {
		err = errors.New("the application's container has another PID namespace: the pod needs shareProcessNamespace")
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, pid, nil
}

// findGroupOf is the group of a process as a group of a cgroup runner.
func findGroupOf(proc linux.FS, pid int) (group, error) {
	g, err := linux.NewCgroupFS(proc, "/").Group(pid)
	if err != nil {
		return nil, err
	}
	if g.Version == 2 {
		return &v2Group{dir: g.Dirs[""]}, nil
	}
	dirs := map[string]string{}
	for _, controller := range []string{"memory", "cpuacct", "cpu"} {
		if dir, ok := g.Dirs[controller]; ok {
			dirs[controller] = dir
		}
	}
	return &v1Group{dir: dirs}, nil
}

// podProcess is the application of a pod.
type podProcess struct {
	jvm
	began time.Time
	done  chan struct{}
	exit  Exit
	once  sync.Once // closes done
	// copied is done when all output was handed on; readers are where it comes from.
	copied  sync.WaitGroup
	readers []*os.File

	mu     sync.Mutex
	group  group // nil when the process has ended
	last   Usage
	closed bool
}

// connect gives the gate pipes for the application's stdout and stderr.
func (q *podProcess) connect(conn *net.UnixConn, spec Spec) error {
	var ends []int
	for _, w := range []io.Writer{spec.Stdout, spec.Stderr} {
		if w == nil {
			w = io.Discard
		}
		r, end, err := os.Pipe()
		if err != nil {
			return err
		}
		defer end.Close()
		ends = append(ends, int(end.Fd()))
		q.readers = append(q.readers, r)
		q.copied.Go(func() {
			defer r.Close()
			_, _ = io.Copy(w, r) // what breaks off, ends
		})
	}
	_, _, err := conn.WriteMsgUnix([]byte{podGreeting}, unix.UnixRights(ends...), nil)
	return err
}

// drain waits for the rest of the output, but not for what others hold open.
func (q *podProcess) drain() {
	late := time.AfterFunc(drainTime, func() {
		for _, r := range q.readers {
			_ = r.SetReadDeadline(time.Unix(1, 0))
		}
	})
	defer late.Stop()
	q.copied.Wait()
}

// trace attaches to the process, says so, and follows it to its end. All of that is
// one thread's doing (ptrace(2)).
func (q *podProcess) trace(attached chan<- error) {
	runtime.LockOSThread() // and not unlocked: the thread ends with the tracing
	err := seize(q.pid)
	attached <- err
	if err != nil {
		return
	}
	for {
		ended, err := awaitChange(q.pid)
		if err != nil {
			q.end(Exit{Code: -1}) // somebody else reaped it: nobody knows
			return
		}
		if ended {
			q.readLast()
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(q.pid, &status, unix.WALL, nil); err != nil {
			q.end(Exit{Code: -1})
			return
		}
		switch {
		case status.Exited():
			q.end(Exit{Code: status.ExitStatus()})
			return
		case status.Signaled():
			q.end(Exit{Code: -1, Signal: status.Signal()})
			return
		case status.Stopped():
			resume(q.pid, status)
		}
	}
}

// end says that the process has ended.
func (q *podProcess) end(e Exit) {
	q.once.Do(func() {
		q.readLast()
		q.drain()
		q.exit = e
		close(q.done)
	})
}

// guard ends what its trace does not see the end of: a thread other than the first that
// calls execve(2) takes that one's place untraced.
func (q *podProcess) guard() {
	fd, err := unix.PidfdOpen(q.pid, 0)
	if err != nil {
		return // Linux before 5.3
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	q.readLast()
	select {
	case <-q.done:
	case <-time.After(killTime):
		q.end(Exit{Code: -1})
	}
}

// readLast reads the group for the last time; the ended process keeps it.
func (q *podProcess) readLast() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.group == nil {
		return
	}
	if u, err := q.group.usage(); err == nil {
		q.keep(u)
	}
	q.last.Age = time.Since(q.began)
	q.group = nil
}

// keep takes a reading; q.mu is held.
func (q *podProcess) keep(u Usage) {
	u.PeakBytes, u.Age = max(q.last.PeakBytes, u.UsageBytes, u.PeakBytes), time.Since(q.began)
	q.last = u
}

func (q *podProcess) Done() <-chan struct{} { return q.done }

func (q *podProcess) Exit() Exit {
	select {
	case <-q.done:
		return q.exit
	default:
		return Exit{}
	}
}

func (q *podProcess) Usage(ctx context.Context) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Usage{}, fmt.Errorf("usage of process %d: its group: %w", q.pid, os.ErrClosed)
	}
	if q.group == nil {
		return q.last, nil
	}
	u, err := q.group.usage()
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", q.pid, err)
	}
	q.keep(u)
	return q.last, nil
}

func (q *podProcess) Times(ctx context.Context) (Times, error) {
	q.mu.Lock()
	living := q.group != nil
	q.mu.Unlock()
	return q.threads.of(ctx, q.proc, q.worker(), living, q.Usage)
}

// SetMemoryLimit writes to the group itself: the kubelet would refuse a limit below what
// is in use, the page cache included.
func (q *podProcess) SetMemoryLimit(ctx context.Context, bytes int64) error {
	if err := errors.Join(ctx.Err(), checkMemory(bytes)); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return fmt.Errorf("memory limit of process %d: its group: %w", q.pid, os.ErrClosed)
	case q.group == nil:
		return nil
	}
	return q.group.setMemoryLimit(bytes)
}

func (q *podProcess) Stop(ctx context.Context, grace time.Duration) error {
	grace = q.endFirst(ctx, grace)
	if err := q.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-q.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return q.kill()
}

// signal sends a signal to the process, where it lives. Its id is not another's: it is
// reaped by the thread that traces it, and q.done closes then.
func (q *podProcess) signal(s syscall.Signal) error {
	select {
	case <-q.done:
		return nil
	default:
	}
	if err := syscall.Kill(q.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", q.pid, err)
	}
	return nil
}

// kill kills the process; all others of its container are ended with it, by runc.
func (q *podProcess) kill() error {
	if err := q.signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-q.done:
		return nil
	case <-time.After(killTime):
		return fmt.Errorf("process %d does not end, though killed %v ago", q.pid, killTime)
	}
}

func (q *podProcess) Close() error {
	if err := q.kill(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.jvm.forget()
	}
	return nil
}
