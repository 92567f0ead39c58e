package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"tare.dev/tare/internal/compose"
	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
)

// composeFlags name the Compose file that an application is a service of.
type composeFlags struct {
	file, service string
	fresh, resets []string
}

func (f *composeFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "compose", "", "Compose `file`: the application is one of its services, and those that it depends on are started beside it")
	flags.StringVar(&f.service, "service", "", "the `name` of the application in the --compose file")
	flags.StringArrayVar(&f.fresh, "fresh", nil, "`service` beside the application that is made anew, with its volumes, before each trial; repeatable")
	flags.StringArrayVar(&f.resets, "reset", nil, "`'SERVICE: COMMAND'` that a shell in that service runs before each trial; repeatable")
}

// given says whether the application is in a Compose file.
func (f *composeFlags) given() bool { return f.file != "" }

func (f *composeFlags) check(image string, r runFlags) error {
	switch {
	case !f.given() && (f.service != "" || len(f.fresh)+len(f.resets) > 0):
		return errors.New("--service, --fresh and --reset are for --compose FILE: give it too")
	case f.given() && f.service == "":
		return errors.New("--compose: which service of the file is the application? give --service NAME")
	case f.given() && image != "":
		return errors.New("the --compose file names the image: leave out the other")
	case f.given() && r.run.Network != "":
		return errors.New("--network: the services of the --compose file are in a network of their own: leave it out")
	}
	return nil
}

func (f *composeFlags) read(ctx context.Context) (*compose.Project, error) {
	return compose.Read(ctx, compose.Options{File: f.file, Service: f.service, Fresh: f.fresh, Resets: f.resets})
}

// fromCompose takes from the Compose file what the command line leaves open, and returns
// the arguments of the image's command.
func (o *fitOptions) fromCompose(ctx context.Context, args []string) (*fit.Compose, []string, error) {
	p, err := o.composeFlags.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	file, err := filepath.Abs(o.file)
	if err != nil {
		return nil, nil, err
	}
	app := p.App
	o.image, o.env = app.Image, slices.Concat(app.Env, o.env)
	run := app.Run
	run.Volumes, run.Tmpfs = slices.Concat(run.Volumes, o.run.Volumes), slices.Concat(run.Tmpfs, o.run.Tmpfs)
	if len(o.run.Ports) > 0 {
		run.Ports = o.run.Ports
	}
	if o.run.User != "" {
		run.User = o.run.User
	}
	run.ReadOnly = run.ReadOnly || o.run.ReadOnly
	o.run = run
	if o.cpus == 0 {
		o.cpus = app.CPUs
	}
	if o.cpuset == "" {
		o.cpuset = app.Cpuset
	}
	if len(args) == 0 {
		args = app.Args
	}
	return &fit.Compose{File: file, Service: o.service, Fresh: o.fresh, Reset: o.resets, Digest: p.Digest()}, args, nil
}

// startBeside starts what the Compose file of a fit has beside the application. The
// caller calls down when no trial runs any more.
func (f *composeFlags) startBeside(ctx context.Context, c *fit.Config, stderr io.Writer) (down func() error, err error) {
	down = func() error { return nil }
	if !f.given() {
		return down, nil
	}
	p, err := f.read(ctx)
	if err != nil {
		return nil, usageError(err)
	}
	if p.Digest() != c.Image.Compose.Digest {
		return nil, usageError(fmt.Errorf("%s changed just now: begin anew", f.file))
	}
	d := c.Runner.(*runner.Docker)
	sayBeside(stderr, p)
	b, err := compose.Up(ctx, d.Engine(), p, d.Owned)
	if ctx.Err() != nil {
		return nil, errors.New("interrupted: nothing is left running")
	}
	if err != nil {
		return nil, besideError(err)
	}
	d.Beside(b.Run(c.Image.Run), b.Refresh)
	return func() error { return b.Down(ctx) }, nil
}

// sayBeside says what is started beside an application.
func sayBeside(stderr io.Writer, p *compose.Project) {
	names := make([]string, len(p.Others))
	for i, s := range p.Others {
		names[i] = s.Name
	}
	if len(names) > 0 {
		fmt.Fprintf(stderr, "starting beside %s: %s\n", p.App.Name, strings.Join(names, ", "))
	}
}

// besideError gives an error of what runs beside an application its exit code.
func besideError(err error) error {
	if failed := (*compose.ServiceError)(nil); errors.As(err, &failed) {
		return &exitError{exitNotReady, err}
	}
	if errors.Is(err, docker.ErrNoImage) {
		return &exitError{exitTarget, fmt.Errorf("%w\nbuild or pull it first: docker compose pull, docker compose build", err)}
	}
	return containerError(err)
}
