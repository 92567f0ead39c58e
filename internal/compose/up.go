package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/linux"
)

// Beside is what runs beside an application: containers, a network, volumes.
type Beside struct {
	project *Project
	engine  *docker.Engine
	owned   func() (name string, labels map[string]string)
	network string
	// volumes are the engine's names of the project's, containers the ids of the services'.
	volumes    map[string]string
	containers map[string]string
	// used says that a trial may have changed what is fresh.
	used bool
}

const (
	poll = 200 * time.Millisecond
	// healthTime bounds how long a service may take to be healthy, or to end where
	// others wait for that.
	healthTime = 10 * time.Minute
	// stopTime is what a service that is made anew has to end in good order.
	stopTime = 10 * time.Second
	logLines = 10
)

// ServiceError says that a service beside the application does not serve.
type ServiceError struct {
	Service, What string
	// Log is the end of what it printed.
	Log string
}

// Error names the service and shows its last lines.
func (e *ServiceError) Error() string {
	text := fmt.Sprintf("service %s %s", e.Service, e.What)
	if e.Log == "" {
		return text + "\nit wrote nothing on stdout or stderr"
	}
	text += "\nits last lines:"
	for line := range strings.Lines(e.Log) {
		text += "\n  | " + linux.Printable(strings.TrimRight(line, "\r\n"))
	}
	return text
}

// Up makes the network and volumes, and starts the services. owned names each thing
// that is made, with labels that tell who made it. When it returns, each service with a
// health check is healthy, and what others wait for has ended. On an error nothing is
// left; else the caller calls Down.
func Up(ctx context.Context, e *docker.Engine, p *Project, owned func() (name string, labels map[string]string)) (*Beside, error) {
	b := &Beside{project: p, engine: e, owned: owned, volumes: map[string]string{}, containers: map[string]string{}}
	if err := b.up(ctx); err != nil {
		return nil, errors.Join(err, b.Down(ctx))
	}
	return b, nil
}

func (b *Beside) up(ctx context.Context) error {
	name, labels := b.owned()
	// What is begun is not cut off: nobody would know of it.
	if err := b.engine.CreateNetwork(context.WithoutCancel(ctx), name, labels); err != nil {
		return err
	}
	b.network = name
	for _, key := range slices.Sorted(maps.Keys(b.project.Volumes)) {
		b.volumes[key], _ = b.owned()
		if err := b.fill(ctx, key); err != nil {
			return err
		}
	}
	return b.startAll(ctx, func(Service) bool { return true })
}

// Run is how the application's containers are started, where that is run but for what
// is beside them.
func (b *Beside) Run(run docker.Run) docker.Run {
	run.Network = b.network
	run.Volumes = b.mounted(run.Volumes, b.project.App.Mounts)
	return run
}

func (b *Beside) mounted(volumes []string, mounts []Mount) []string {
	volumes = slices.Clone(volumes)
	for _, m := range mounts {
		volumes = append(volumes, bind(b.volumes[m.Volume], m.Target, m.ReadOnly))
	}
	return volumes
}

// Refresh makes the state that a trial begins with: services that are fresh anew, where
// a trial was before, and then what resets the others.
func (b *Beside) Refresh(ctx context.Context) error {
	if b.used {
		if err := b.renew(ctx); err != nil {
			return err
		}
	}
	b.used = true
	for _, s := range b.project.Others {
		if s.Reset == "" {
			continue
		}
		code, out, err := b.engine.Exec(ctx, b.containers[s.Name], []string{"/bin/sh", "-c", s.Reset})
		if err != nil {
			return fmt.Errorf("service %s: reset: %w", s.Name, err)
		}
		if code != 0 {
			return &ServiceError{s.Name, fmt.Sprintf("could not be reset: %s: exit code %d", linux.PrintableName(s.Reset), code), out}
		}
	}
	return nil
}

// renew makes what is fresh anew.
func (b *Beside) renew(ctx context.Context) error {
	fresh := func(s Service) bool { return s.Fresh }
	renewed := map[string]bool{}
	for _, s := range slices.Backward(b.project.Others) {
		if !s.Fresh {
			continue
		}
		if err := b.remove(ctx, s.Name); err != nil {
			return err
		}
		for _, m := range s.Mounts {
			renewed[m.Volume] = true
		}
	}
	if b.project.App.Fresh {
		for _, m := range b.project.App.Mounts {
			renewed[m.Volume] = true
		}
	}
	for key := range renewed {
		if err := b.engine.RemoveVolume(ctx, b.volumes[key]); err != nil {
			return err
		}
		if err := b.fill(ctx, key); err != nil {
			return err
		}
	}
	return b.startAll(ctx, fresh)
}

// fill makes a volume of the project: empty, or a copy.
func (b *Beside) fill(ctx context.Context, key string) error {
	_, labels := b.owned()
	if err := b.engine.CreateVolume(context.WithoutCancel(ctx), b.volumes[key], labels); err != nil {
		return err
	}
	from := b.project.Volumes[key].External
	if from == "" {
		return nil
	}
	there, users, err := b.engine.HasVolume(ctx, from)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("volume %s: %w of that name, and the file says that it is external: make it, or leave out external", from, errNoVolume)
	case len(users) > 0:
		return fmt.Errorf("volume %s: %s runs with it, and may write while it is copied: stop that first", from, strings.Join(users, ", "))
	}
	return b.copyVolume(ctx, from, b.volumes[key])
}

var errNoVolume = errors.New("the engine has no volume")

// inCopies is where the containers that volumes are copied by have them.
const inCopies = "/tare-volume"

// copyVolume copies by containers that never start, of any image.
func (b *Beside) copyVolume(ctx context.Context, from, to string) (err error) {
	create := func(volume string) (id string, err error) {
		name, labels := b.owned()
		return b.engine.Create(context.WithoutCancel(ctx), docker.Spec{Name: name, Image: b.project.App.Image, Entrypoint: []string{"/none"}, Labels: labels,
			Run: docker.Run{Volumes: []string{volume + ":" + inCopies}}})
	}
	var ids []string
	defer func() {
		for _, id := range ids {
			err = errors.Join(err, b.engine.Remove(context.WithoutCancel(ctx), id))
		}
	}()
	for _, volume := range []string{from, to} {
		id, err := create(volume)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	files, err := b.engine.CopyFrom(ctx, ids[0], inCopies)
	if err != nil {
		return err
	}
	defer files.Close()
	return b.engine.CopyTo(ctx, ids[1], "/", files)
}

// startAll starts services in their order, and waits for all of them.
func (b *Beside) startAll(ctx context.Context, which func(Service) bool) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	for _, s := range b.project.Others {
		if !which(s) {
			continue
		}
		for _, dep := range slices.Sorted(maps.Keys(s.After)) {
			if err := b.await(ctx, dep, s.After[dep]); err != nil {
				return err
			}
		}
		if err := b.start(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range b.project.Others {
		if err := b.await(ctx, s.Name, b.wanted(s.Name)); err != nil {
			return err
		}
	}
	return nil
}

// wanted is what has to hold of a service when the application starts.
func (b *Beside) wanted(name string) Condition {
	for _, s := range b.project.Others {
		if s.After[name] == completed {
			return completed
		}
	}
	if b.project.App.After[name] == completed {
		return completed
	}
	return healthy
}

func (b *Beside) start(ctx context.Context, s Service) error {
	spec := s.Spec
	spec.Name, spec.Labels = b.owned()
	spec.Run.Network = b.network
	spec.Run.Volumes = b.mounted(spec.Run.Volumes, s.Mounts)
	id, err := b.engine.Create(context.WithoutCancel(ctx), spec)
	if err != nil {
		return fmt.Errorf("service %s: %w", s.Name, err)
	}
	b.containers[s.Name] = id
	if err := b.engine.Start(context.WithoutCancel(ctx), id); err != nil {
		return fmt.Errorf("service %s: %w", s.Name, err)
	}
	return nil
}

// await waits for a condition of a service. One without a health check is as healthy as
// it gets when it has started.
func (b *Beside) await(ctx context.Context, name string, c Condition) error {
	for {
		state, err := b.engine.State(ctx, b.containers[name])
		if err != nil {
			return fmt.Errorf("service %s: %w", name, err)
		}
		s := state.State
		health := ""
		if s.Health != nil {
			health = s.Health.Status
		}
		ended := s.Status == "exited" || s.Status == "dead"
		switch {
		case ended && s.ExitCode != 0:
			return b.failed(ctx, name, fmt.Sprintf("ended with exit code %d", s.ExitCode))
		case ended && c == healthy && s.Health != nil && health != "none":
			return b.failed(ctx, name, "ended before it was healthy")
		case ended, c == started, c == healthy && (s.Health == nil || health == "healthy" || health == "none" || health == ""):
			return nil
		case health == "unhealthy":
			return b.failed(ctx, name, "is unhealthy")
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return b.failed(ctx, name, fmt.Sprintf("is not %s after %s", map[bool]string{true: "done", false: "healthy"}[c == completed], healthTime))
			}
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

func (b *Beside) failed(ctx context.Context, name, what string) error {
	log, _ := b.engine.Log(context.WithoutCancel(ctx), b.containers[name], logLines) // of one that cannot be read there is none
	return &ServiceError{name, what, log}
}

// remove ends and removes a service's container.
func (b *Beside) remove(ctx context.Context, name string) error {
	id, ok := b.containers[name]
	if !ok {
		return nil
	}
	if err := b.engine.Stop(ctx, id, stopTime); err != nil {
		return err
	}
	if err := b.engine.Remove(ctx, id); err != nil {
		return err
	}
	delete(b.containers, name)
	return nil
}

// Down removes everything that Up made. It tries all, and may be called again.
func (b *Beside) Down(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	for name, id := range b.containers {
		if e := b.engine.Remove(ctx, id); e != nil {
			err = errors.Join(err, e)
			continue
		}
		delete(b.containers, name)
	}
	for key, name := range b.volumes {
		if e := b.engine.RemoveVolume(ctx, name); e != nil {
			err = errors.Join(err, e)
			continue
		}
		delete(b.volumes, key)
	}
	if b.network != "" {
		if e := b.engine.RemoveNetwork(ctx, b.network); e != nil {
			return errors.Join(err, e)
		}
		b.network = ""
	}
	return err
}
