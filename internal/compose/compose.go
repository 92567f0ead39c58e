// Package compose reads a Compose file (https://compose-spec.io) for a fit of one of
// its services: how that is started, and the services that it depends on, which it
// starts beside, in a network of their own.
package compose

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/linux"
)

// Project is what a fit needs of a Compose file.
type Project struct {
	App App
	// Others are the services that the application depends on, each behind those that
	// it depends on itself.
	Others []Service
	// Volumes are those that a service names.
	Volumes map[string]Volume
}

// App is the service that is fitted.
type App struct {
	Name, Image string
	// Args are the service's command, nil for the image's.
	Args []string
	Env  []string
	// Run has all but the network and the volumes of the project.
	Run docker.Run
	// Mounts are volumes of the project.
	Mounts []Mount
	// CPUs and Cpuset are 0 and "" where the file sets none.
	CPUs   float64
	Cpuset string
	// After is as of a Service.
	After map[string]Condition
	Trial
}

// Service is one that runs beside.
type Service struct {
	Name string
	// Spec has all but the name, labels, network and volumes of the project.
	Spec   docker.Spec
	Mounts []Mount
	// After is what has to hold of other services before this one starts.
	After map[string]Condition
	Trial
}

// Trial is what happens to a service between trials: the extension x-tare, or flags.
type Trial struct {
	// Fresh says that it is made anew, with its volumes, before each trial. So is what
	// depends on it.
	Fresh bool
	// Reset is a shell command that runs in its container before each trial.
	Reset string
}

// Mount is a volume of the project in a container.
type Mount struct {
	Volume, Target string
	ReadOnly       bool
}

// Volume is a volume that a service names. External is the engine's volume that it is a
// copy of; "" is none, and it begins empty.
type Volume struct{ External string }

// Condition is one of depends_on.
type Condition string

const (
	started   Condition = types.ServiceConditionStarted
	healthy   Condition = types.ServiceConditionHealthy
	completed Condition = types.ServiceConditionCompletedSuccessfully
)

// Options say what is read.
type Options struct {
	// File is the Compose file, Service the one that is fitted.
	File, Service string
	// Fresh names services that are made anew before each trial. Resets are
	// "SERVICE: COMMAND".
	Fresh, Resets []string
}

// maxFile bounds a Compose file.
const maxFile = 1 << 20

// extension is the key of a service that a Trial is read from.
const extension = "x-tare"

// Read reads a Compose file, with the variables of the environment and of the file .env
// beside it. What of it cannot be done here is an error that names it.
func Read(ctx context.Context, o Options) (*Project, error) {
	p, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &Project{Volumes: map[string]Volume{}}
	order, err := inOrder(p, o.Service)
	if err != nil {
		return nil, err
	}
	trials, err := trialsOf(p, order, o)
	if err != nil {
		return nil, err
	}
	for _, name := range order {
		r := reader{project: p, service: p.Services[name], out: out, trial: trials[name]}
		if err := cmp.Or(r.check(name == o.Service), r.read(name == o.Service)); err != nil {
			return nil, fmt.Errorf("%s: service %s: %w", o.File, name, err)
		}
	}
	return out, out.checkFresh()
}

func load(ctx context.Context, o Options) (*types.Project, error) {
	st, err := os.Stat(o.File)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--compose: %w", err)
	case !st.Mode().IsRegular() || st.Size() > maxFile:
		return nil, fmt.Errorf("--compose %s: no file of up to %d MiB", o.File, maxFile>>20)
	}
	file, err := filepath.Abs(o.File)
	if err != nil {
		return nil, err
	}
	// The library tells of variables that are not set by the logger of everyone.
	logrus.SetOutput(io.Discard)
	defer logrus.SetOutput(os.Stderr)
	var p *types.Project
	options, err := cli.NewProjectOptions([]string{file}, cli.WithWorkingDirectory(filepath.Dir(file)), cli.WithOsEnv, cli.WithDotEnv)
	if err == nil {
		p, err = options.LoadProject(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("--compose %s: %s", o.File, strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " "))
	}
	if _, ok := p.Services[o.Service]; !ok {
		return nil, fmt.Errorf("%s has no service %.100q: it has %s", o.File, o.Service, strings.Join(slices.Sorted(maps.Keys(p.Services)), ", "))
	}
	return p, nil
}

// inOrder are a service and those that it depends on, each behind its own. The loader
// has made sure that there are no circles.
func inOrder(p *types.Project, name string) (order []string, err error) {
	s, ok := p.Services[name]
	if !ok {
		return nil, fmt.Errorf("a service depends on %.100q, which the file has not, or only in a profile", name)
	}
	for _, dep := range slices.Sorted(maps.Keys(s.DependsOn)) {
		if _, ok := p.Services[dep]; !ok && !s.DependsOn[dep].Required {
			continue
		}
		before, err := inOrder(p, dep)
		if err != nil {
			return nil, err
		}
		for _, b := range before {
			if !slices.Contains(order, b) {
				order = append(order, b)
			}
		}
	}
	return append(order, name), nil
}

// trialsOf is what happens to each service between trials: by flags, else as the file says.
func trialsOf(p *types.Project, order []string, o Options) (map[string]Trial, error) {
	out := map[string]Trial{}
	for _, name := range order {
		t, err := trialOf(p.Services[name].Extensions[extension])
		if err != nil {
			return nil, fmt.Errorf("%s: service %s: %w", o.File, name, err)
		}
		out[name] = t
	}
	for _, name := range o.Fresh {
		if !slices.Contains(order, name) {
			return nil, fmt.Errorf("--fresh %.100q: %s depends on no such service", name, o.Service)
		}
		out[name] = Trial{Fresh: true, Reset: out[name].Reset}
	}
	for _, text := range o.Resets {
		name, command, ok := strings.Cut(text, ":")
		command = strings.TrimSpace(command)
		if !ok || command == "" {
			return nil, fmt.Errorf("--reset %.100q: write it as SERVICE: COMMAND", text)
		}
		if !slices.Contains(order, name) || name == o.Service {
			return nil, fmt.Errorf("--reset %.100q: %s depends on no service %.100q", text, o.Service, name)
		}
		out[name] = Trial{Fresh: out[name].Fresh, Reset: command}
	}
	for _, name := range order[:len(order)-1] { // what depends on one that is made anew has to be as well
		for dep := range p.Services[name].DependsOn {
			if out[dep].Fresh {
				out[name] = Trial{Fresh: true, Reset: out[name].Reset}
			}
		}
	}
	if out[o.Service].Reset != "" {
		return nil, fmt.Errorf("service %s: %s: reset is for the services beside it: this one starts anew with each trial", o.Service, extension)
	}
	return out, nil
}

// trialOf reads the extension of a service.
func trialOf(value any) (t Trial, err error) {
	if value == nil {
		return t, nil
	}
	const help = "%s: give fresh: true, or reset: COMMAND"
	keys, ok := value.(map[string]any)
	if !ok {
		return t, fmt.Errorf(help, extension)
	}
	for key, v := range keys {
		switch key {
		case "fresh":
			t.Fresh, ok = v.(bool)
		case "reset":
			t.Reset, ok = v.(string)
		default:
			ok = false
		}
		if !ok {
			return t, fmt.Errorf(help, extension+"."+linux.PrintableName(key))
		}
	}
	return t, nil
}

// checkFresh refuses a volume that one service is to have anew, and another not.
func (p *Project) checkFresh() error {
	fresh := map[string]bool{}
	for _, s := range p.Others {
		for _, m := range s.Mounts {
			if was, ok := fresh[m.Volume]; ok && was != s.Fresh {
				return fmt.Errorf("volume %s: a service that is made anew before each trial shares it with one that is not: give --fresh for both", m.Volume)
			}
			fresh[m.Volume] = s.Fresh
		}
	}
	for _, m := range p.App.Mounts {
		if was, ok := fresh[m.Volume]; ok && was != p.App.Fresh {
			return fmt.Errorf("volume %s: %s shares it with a service beside it: give --fresh for both, or for none", m.Volume, p.App.Name)
		}
	}
	return nil
}

// Digest is one of all that a project says but for the application's environment, which
// a fit compares by itself.
func (p *Project) Digest() string {
	q := *p
	q.App.Env = nil
	text, err := json.Marshal(q)
	if err != nil { // of strings and numbers
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// errNotHere is why something of a Compose file is refused.
var errNotHere = errors.New("cannot be done here")
