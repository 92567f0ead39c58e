package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/compose"
	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/runner"
)

// checkPlaces are where the two sides run.
type checkPlaces struct {
	parent string
	stderr io.Writer
	// bounds are those of the head.
	bounds []budget.Bound
	// runner is for programs of this machine.
	runner runner.Runner
	// beside are the services of Compose files that are up.
	beside []*compose.Beside
	// checkedOut removes the folder of the base; nil is none.
	checkedOut func() error
	// notes say what is not measured here.
	notes []string
}

// withoutGroup says what is measured without the right to make control groups.
const withoutGroup = "without a control group nothing is limited or pinned, and needed and peak are not measured; rss, heap-live, owners, start and cpu-time are"

// open readies what the head of a budget needs before it is built.
func (p *checkPlaces) open(b *budget.Budget) error {
	if b.Results != nil || b.Compose != nil || b.Run.Image != "" {
		return nil
	}
	var err error
	if p.runner, err = openRunner(p.parent, p.stderr); !errors.Is(err, runner.ErrUnavailable) || p.parent != "" {
		return err
	}
	fmt.Fprintf(p.stderr, "note: %v\nnote: %s\n", err, withoutGroup)
	p.runner, p.notes = &runner.Ungrouped{}, append(p.notes, withoutGroup)
	return nil
}

// close ends what runs beside the sides, and then removes what was made for them.
func (p *checkPlaces) close() error {
	var err error
	for _, b := range p.beside {
		err = errors.Join(err, b.Down(context.Background()))
	}
	if p.checkedOut != nil {
		err = errors.Join(err, p.checkedOut())
	}
	if closer, ok := p.runner.(io.Closer); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// source is what of a budget runs in a folder; image replaces its image unless it is "".
func (p *checkPlaces) source(ctx context.Context, b *budget.Budget, dir, image string) (check.Source, error) {
	run := b.Run
	switch {
	case b.Results != nil:
		return check.Measured{Results: *b.Results, Dir: dir, Bounds: p.bounds}, nil
	case b.Compose != nil:
		return p.service(ctx, b, dir, image)
	case run.Image != "":
		if image != "" {
			run.Image = lab.Scalar(image)
		}
		place, err := findImage(ctx, string(run.Image), p.stderr)
		return check.Program{Run: run, Place: place}, err
	}
	if _, without := p.runner.(*runner.Ungrouped); without {
		run.Limit, run.CPUs, run.Cpuset = "", "", ""
	}
	java, err := findJava(ctx, string(run.JDK), p.stderr)
	return check.Program{Run: run, Place: lab.Place{Runner: p.runner, Java: java, Dir: dir, Env: os.Environ()}}, err
}

// service is the service of a budget's Compose file, with those beside it up.
func (p *checkPlaces) service(ctx context.Context, b *budget.Budget, dir, image string) (check.Source, error) {
	o := compose.Options{File: filepath.Join(dir, b.Compose.File), Service: b.Compose.Service, Fresh: b.Compose.Fresh}
	for _, name := range slices.Sorted(maps.Keys(b.Compose.Reset)) {
		o.Resets = append(o.Resets, name+": "+b.Compose.Reset[name])
	}
	project, err := compose.Read(ctx, o)
	if err != nil {
		return nil, usageError(err)
	}
	app := &project.App
	if image != "" {
		app.Image = image
	}
	d, err := openDocker(ctx, app.Image, docker.Run{}, p.stderr)
	if err != nil {
		return nil, err
	}
	env, err := applicationEnv(imageEnv(d), app.Env)
	if err != nil {
		return nil, usageError(err)
	}
	run, command, err := serviceRun(b.Run, project, d.Image())
	if err != nil {
		return nil, usageError(fmt.Errorf("%s: service %s: %w", b.Compose.File, app.Name, err))
	}
	facts, err := askImage(ctx, d, runner.InContainer, command, env)
	if err != nil {
		return nil, imageError(app.Image, err)
	}
	sayBeside(p.stderr, project)
	up, err := compose.Up(ctx, d.Engine(), project, d.Owned)
	if err != nil {
		return nil, besideError(err)
	}
	p.beside = append(p.beside, up)
	d.Beside(up.Run(app.Run), up.Refresh)
	return check.Program{Run: run, Place: lab.Place{Runner: d, Java: facts.Java, Dir: facts.Dir, Env: facts.withHome(env), Image: d.Image().ID}}, nil
}

// serviceRun is how a service is run, and the command that starts it: the one of the file,
// or else of the image, unless the budget has one. Options of the budget come behind those
// of the command; processors of the file count where the budget names none.
func serviceRun(run lab.Run, project *compose.Project, image docker.Image) (lab.Run, []string, error) {
	app := project.App
	if run.CPUs == "" && app.CPUs > 0 {
		run.CPUs = lab.Scalar(fmt.Sprintf("%g", app.CPUs))
	}
	if run.Cpuset == "" {
		run.Cpuset = lab.Scalar(app.Cpuset)
	}
	if len(run.Command) > 0 {
		return run, []string{"java"}, nil
	}
	command := image.Config.Cmd
	if app.Args != nil {
		command = app.Args
	}
	command = slices.Concat(image.Config.Entrypoint, command)
	parsed, err := jvmopts.Parse(command)
	if err != nil {
		return run, nil, fmt.Errorf("%w\nsay in run.command what follows java and its options, such as [-jar, /app.jar]", err)
	}
	run.Options, run.Command = slices.Concat(parsed.Options, run.Options), slices.Concat(parsed.Main, parsed.Args)
	return run, command, nil
}
