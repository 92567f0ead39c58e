package runner

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/linux"
)

// DockerOptions say in what a Docker runner runs.
type DockerOptions struct {
	Engine *docker.Engine
	// Image is the name or id of an image that the engine has.
	Image string
	// Binds are files and folders of this machine that containers have too.
	Binds []docker.Bind
	// Run is how containers are started.
	Run docker.Run
}

// Docker runs processes in containers of one image, made by a Docker Engine on
// this machine. It needs root, as reading what a container uses does.
//
// Where DockerOptions do not say otherwise, a container uses the machine's network:
// a port of the process is a port of this machine. The limit holds for memory and for memory plus swap. The process
// is the first one of a PID namespace: when it ends, all others end, and a signal
// that it does not handle does not end it, unless it is SIGKILL
// (pid_namespaces(7)). When this process is killed, the container lives on until
// the next Sweep.
//
// The engine removes the group of a container when that has ended. What it used
// is read in the moment before: the end of its process is seen by pidfd, and
// the engine is kept from removing the group by holding the container's stdout
// open, for the end of which it waits first.
type Docker struct {
	wholeMachine
	ImageArchives // its methods stand above those of the host
	engine        *docker.Engine
	image         docker.Image
	binds         []docker.Bind
	// copies are files of the image, by what processes call them, and what CopyOut made
	// of them in the folder scratch.
	copies  map[string]string
	scratch string
	// uid and gid are those of RunAs.
	uid, gid int
	run      docker.Run
	self     string
	inside   *inside // nil: not in a container of the engine
	proc     linux.FS
	owner    owner
	// prepare is Prepare; nil does nothing.
	prepare func(context.Context) error
}

var (
	_ Runner   = (*Docker)(nil)
	_ Preparer = (*Docker)(nil)
)

// ownerLabel is the label of containers that a Docker runner made; its value is
// the name that owner.groupName gives.
const ownerLabel = "dev.tare.owner"

// NewDocker returns a runner for an image that the engine has.
func NewDocker(ctx context.Context, opts DockerOptions) (*Docker, error) {
	proc := linux.NewFS("/proc")
	self, err := thisProcess(proc)
	if err != nil {
		return nil, unavailable(err, "mount /proc")
	}
	if os.Geteuid() != 0 {
		return nil, unavailable(errors.New("what a container uses cannot be read"), "run tare as root")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := checkStatic(program); err != nil {
		return nil, err
	}
	in, err := findInside(ctx, opts.Engine, proc)
	if err != nil {
		return nil, err
	}
	if program, err = in.program(program); err != nil {
		return nil, err
	}
	image, err := opts.Engine.Image(ctx, opts.Image)
	if err != nil {
		return nil, err
	}
	if image.Architecture != "" && image.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("image %.100q is for %s, this machine is %s: give one for it", opts.Image, linux.PrintableName(image.Architecture), runtime.GOARCH)
	}
	return &Docker{engine: opts.Engine, image: image, binds: opts.Binds, run: opts.Run, self: program, inside: in, proc: proc, owner: self}, nil
}

// Name is "docker".
func (d *Docker) Name() string { return "docker" }

// Image is what the engine says of the runner's image.
func (d *Docker) Image() docker.Image { return d.image }

// Engine is the engine that makes the containers.
func (d *Docker) Engine() *docker.Engine { return d.engine }

// Beside has the containers that are started from now on run beside others: in their
// network, and with prepare called before each trial.
func (d *Docker) Beside(run docker.Run, prepare func(context.Context) error) {
	d.run, d.prepare = run, prepare
}

// Prepare makes what is beside the application as a trial is to find it.
func (d *Docker) Prepare(ctx context.Context) error {
	if d.prepare == nil {
		return nil
	}
	return d.prepare(ctx)
}

// Of is a runner as this one for another image of the engine.
func (d *Docker) Of(ctx context.Context, image string) (*Docker, error) {
	of := *d
	of.binds, of.copies, of.scratch, of.ImageArchives = nil, nil, "", ImageArchives{}
	var err error
	of.image, err = d.engine.Image(ctx, image)
	return &of, err
}

// Owned is a name for something that is made in the engine, and the labels by which a
// later Sweep finds it.
func (d *Docker) Owned() (name string, labels map[string]string) {
	name = d.owner.groupName(sequence.Add(1))
	return name, map[string]string{ownerLabel: name}
}

// CopyOut copies a file of the image, which may not be a link, to this machine, where it
// gets a time of change. From now on ClassPath, File and Extract know by name what it
// holds, until Close.
func (d *Docker) CopyOut(ctx context.Context, path, name string, changed time.Time) (err error) {
	if d.scratch == "" {
		if d.scratch, err = os.MkdirTemp("", "tare-image-*"); err != nil {
			return err
		}
	}
	to := filepath.Join(d.scratch, filepath.Base(name))
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := also(d.readOut(ctx, path, f), f.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(to, changed, changed); err != nil {
		return err
	}
	if d.copies == nil {
		d.copies = map[string]string{}
	}
	d.copies[name] = to
	return nil
}

// readOut writes what a file of the image holds: the engine gives files of containers
// alone.
func (d *Docker) readOut(ctx context.Context, path string, to io.Writer) (err error) {
	name, labels := d.Owned()
	id, err := d.engine.Create(context.WithoutCancel(ctx), docker.Spec{Name: name, Image: d.image.ID, Entrypoint: []string{InContainer}, Labels: labels})
	if err != nil {
		return err
	}
	defer func() { err = also(err, d.engine.Remove(context.WithoutCancel(ctx), id)) }()
	r, err := d.engine.CopyFrom(ctx, id, path)
	if err != nil {
		return err
	}
	defer r.Close()
	t := tar.NewReader(r)
	h, err := t.Next()
	if err == nil && h.Typeflag != tar.TypeReg {
		err = errors.New("no file")
	}
	if err == nil {
		_, err = io.Copy(to, t)
	}
	if err != nil {
		return fmt.Errorf("%s in the image: %w", path, err)
	}
	return nil
}

// Close removes what CopyOut made.
func (d *Docker) Close() error {
	if d.scratch == "" {
		return nil
	}
	return os.RemoveAll(d.scratch)
}

// Start starts the process of the spec in a fresh container.
func (d *Docker) Start(ctx context.Context, spec Spec) (Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := spec.Limits.check(); err != nil {
		return nil, err
	}
	if len(spec.Args) == 0 {
		return nil, errors.New("no command to start")
	}
	gate, err := newGatehouse(d.run.Shares())
	if err != nil {
		return nil, err
	}
	defer gate.close()
	s, err := d.containerSpec(spec, gate)
	if err != nil {
		return nil, err
	}
	// Not to be cut off: the engine would go on making it, and nobody had its id.
	id, err := d.engine.Create(context.WithoutCancel(ctx), s)
	if errors.Is(err, docker.ErrNameTaken) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err != nil {
		return nil, err
	}
	c := newContainer(d, id, spec.Limits)
	if err := c.start(ctx, spec, gate); err != nil {
		return nil, also(err, c.Close())
	}
	return c, nil
}

func (d *Docker) containerSpec(spec Spec, gate *gatehouse) (docker.Spec, error) {
	name, labels := d.Owned()
	s := docker.Spec{
		Name: name, Image: d.image.ID, Entrypoint: gate.command(), Env: spec.Env, Labels: labels,
		Binds: slices.Concat(d.binds, []docker.Bind{{Source: d.self, Target: InContainer, ReadOnly: true}}, gate.binds()), Run: d.run,
		MemoryBytes: spec.Limits.MemoryBytes, Cpuset: spec.Limits.Cpuset,
	}
	if d.dir != "" {
		s.Binds = append(s.Binds, docker.Bind{Source: d.dir, Target: InImage})
	}
	if spec.Limits.CPUs != 0 {
		s.QuotaMicros, s.PeriodMicros = spec.Limits.quota(), cpuPeriod.Microseconds()
	}
	for i := range s.Binds {
		var err error
		if s.Binds[i].Source, err = d.inside.outside(s.Binds[i].Source); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Sweep removes the containers, of any image, and then the networks and volumes, whose
// owner has ended, and returns their names.
func (d *Docker) Sweep(ctx context.Context) (removed []string, err error) {
	for _, kind := range []struct {
		name   string
		list   func(context.Context, string) (map[string]string, error)
		remove func(context.Context, string) error
	}{
		{"container", d.engine.Labelled, d.engine.Remove},
		{"network", d.engine.LabelledNetworks, d.engine.RemoveNetwork},
		{"volume", d.engine.LabelledVolumes, d.engine.RemoveVolume},
	} {
		all, listErr := kind.list(ctx, ownerLabel)
		if listErr != nil {
			err = also(err, fmt.Errorf("look for leftovers: %w", listErr))
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			o, ok := ownerOf(all[id])
			if !ok || strings.HasPrefix(all[id], "tare-self-") || !o.gone(d.proc, d.owner) {
				continue
			}
			if e := kind.remove(ctx, id); e != nil {
				err = also(err, fmt.Errorf("remove leftover %s: %w", all[id], e))
				continue
			}
			removed = append(removed, kind.name+" "+all[id])
		}
	}
	return removed, err
}

// container is a process in a container.
type container struct {
	jvm
	docker *Docker
	id     string
	limits Limits
	hangUp context.CancelFunc // ends the conversations with the engine

	drained chan struct{} // every writer has everything
	ended   chan struct{} // the engine says so
	final   chan struct{} // the group has been read for the last time
	done    chan struct{}
	exit    Exit

	mu     sync.Mutex
	group  group // nil before and after its life
	last   Usage
	began  time.Time
	closed bool
}

func newContainer(d *Docker, id string, limits Limits) *container {
	return &container{jvm: jvm{proc: d.proc}, docker: d, id: id, began: time.Now(), limits: limits, last: Usage{Time: time.Now(), LimitBytes: limits.MemoryBytes}, hangUp: func() {},
		drained: make(chan struct{}), ended: make(chan struct{}), final: make(chan struct{}), done: make(chan struct{})}
}

// start starts the container and its process. On an error the container is
// for Close.
func (c *container) start(ctx context.Context, spec Spec, gate *gatehouse) error {
	// What is asked now is answered when the container ends.
	var long context.Context
	long, c.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	output, err := c.docker.engine.Attach(long, c.id)
	if err != nil {
		return c.never(err)
	}
	go func() {
		defer close(c.drained)
		defer output.Close()
		_ = docker.Demux(output, spec.Stdout, spec.Stderr) // what breaks off, ends
	}()
	wait, err := c.docker.engine.Ending(long, c.id)
	if err != nil {
		return c.never(err)
	}
	if err := c.docker.engine.Start(context.WithoutCancel(ctx), c.id); err != nil {
		return c.never(err)
	}
	go c.awaitEnd(wait)
	return c.enter(ctx, spec, gate)
}

// never says that the container never ran.
func (c *container) never(err error) error {
	close(c.ended)
	close(c.final)
	close(c.done)
	return err
}

// enter lets the process through the gate, once it is watched.
func (c *container) enter(ctx context.Context, spec Spec, gate *gatehouse) error {
	conn, pid, err := gate.await(ctx, c.docker.proc, c.id, c.ended)
	if err != nil || conn == nil {
		close(c.final)
		if err == nil && c.exit.Code == gateFailed {
			err = errors.New("the container cannot call tare: is it confined by a security module?")
		}
		return err
	}
	c.pid, c.began = pid, time.Now()
	if err := c.watch(); err != nil {
		conn.Close()
		return err
	}
	return open(ctx, conn, gateRequest{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Cold: spec.Cold, NoHugePages: spec.NoHugePages,
		OneOutput: SameWriter(spec.Stdout, spec.Stderr)})
}

// watch finds the group of the process, which stands at the gate, and reads it
// for the last time when the process ends.
func (c *container) watch() error {
	fd, err := unix.PidfdOpen(c.pid, 0)
	if err != nil {
		close(c.final)
		return fmt.Errorf("pidfd of process %d: %w; Linux 5.3 has it", c.pid, err)
	}
	g, err := findGroupOf(c.docker.proc, c.pid)
	if err == nil {
		c.group, c.dirs = g, g.dirs()
		c.last, err = g.usage()
	}
	// The write end of a pipe that the engine's helper reads to its end.
	hold, holdErr := os.OpenFile(c.docker.proc.Path(c.pid, "fd", "1"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	go func() {
		defer unix.Close(fd)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		c.readLast()
		if holdErr == nil {
			hold.Close()
		}
	}()
	return err
}

// readLast reads the group of a process that has ended just now. Where the
// engine was faster, the last reading stands, and whether the kernel killed is
// the engine's word.
func (c *container) readLast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(c.final)
	if c.group == nil { // it was not found: the start has failed
		return
	}
	if u, err := c.group.usage(); err == nil {
		c.keep(u)
	} else {
		c.last.Age = time.Since(c.began)
		c.askOOM()
	}
	c.group = nil
}

// keep takes a reading; c.mu is held.
func (c *container) keep(u Usage) {
	u.PeakBytes, u.Age = max(c.last.PeakBytes, u.UsageBytes, u.PeakBytes), time.Since(c.began)
	c.last = u
}

// askOOM asks the engine whether the kernel killed; c.mu is held.
func (c *container) askOOM() {
	if state, err := c.docker.engine.State(context.Background(), c.id); err == nil && state.State.OOMKilled {
		// It does not say for whose limit: most often for the container's.
		c.last.OOMKills, c.last.LimitHits = max(1, c.last.OOMKills), max(1, c.last.LimitHits)
	}
}

func (c *container) awaitEnd(wait func() (int, error)) {
	code, err := wait()
	if err != nil {
		code = -1
	}
	c.exit = exitOfContainer(code)
	close(c.ended)
	<-c.final
	if c.pid == 0 { // it never reached the gate
		c.mu.Lock()
		c.askOOM()
		c.mu.Unlock()
	}
	select {
	case <-c.drained:
	case <-time.After(killTime):
	}
	close(c.done)
}

// endings are the signals that programs do not end by themselves with 128 more.
var endings = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS}

// exitOfContainer reads the exit code of an engine, or -1 when it is unknown.
func exitOfContainer(code int) Exit {
	if s := syscall.Signal(code - 128); slices.Contains(endings, s) {
		return Exit{Code: -1, Signal: s}
	}
	return Exit{Code: code}
}

func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) Exit() Exit {
	select {
	case <-c.done:
		return c.exit
	default:
		return Exit{}
	}
}

func (c *container) Usage(ctx context.Context) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, err
	}
	u, living, err := c.read()
	if living && vanished(err) {
		// It is ending: the last reading is under way.
		<-c.final
		u, _, err = c.read()
	}
	if err != nil {
		return Usage{}, fmt.Errorf("usage of container %.12s: %w", c.id, err)
	}
	return u, nil
}

func (c *container) read() (u Usage, living bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return Usage{}, false, os.ErrClosed
	}
	if c.group == nil {
		return c.last, false, nil
	}
	if u, err = c.group.usage(); err != nil {
		return u, true, err
	}
	c.keep(u)
	return c.last, true, nil
}

func (c *container) Times(ctx context.Context) (Times, error) {
	c.mu.Lock()
	living := c.group != nil
	c.mu.Unlock()
	return c.threads.of(ctx, c.proc, c.worker(), living, c.Usage)
}

func (c *container) SetMemoryLimit(ctx context.Context, bytes int64) error {
	if err := cmp.Or(ctx.Err(), checkMemory(bytes)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("memory limit of container %.12s: %w", c.id, os.ErrClosed)
	}
	if c.group == nil {
		return nil
	}
	if err := c.group.setMemoryLimit(bytes); err != nil && !vanished(err) {
		return err
	}
	return nil
}

func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	grace = c.endFirst(ctx, grace)
	always := context.WithoutCancel(ctx)
	if err := c.docker.engine.Kill(always, c.id, "SIGTERM"); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-c.ended:
	default:
		if err := c.docker.engine.Kill(always, c.id, "SIGKILL"); err != nil {
			return err
		}
	}
	<-c.done
	return nil
}

func (c *container) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil
	}
	if err := c.docker.engine.Remove(context.Background(), c.id); err != nil {
		return err // not closed: a later call may have more luck
	}
	<-c.done
	c.hangUp()
	c.jvm.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}
