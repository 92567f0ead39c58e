package fit

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/outdir"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// Config says what to fit, and how to try it.
type Config struct {
	Runner  runner.Runner
	Command jvmopts.Command
	// Image is what the application is in, nil where that is no image.
	Image *Image
	// Given are the user's options, from all sources.
	Given jvmopts.Options
	Java  Java
	// Machine is where the trials run, ReadAheadBytes how much the disk of the
	// JDK reads at a time, 0 where that is not known. NestedJars says that the
	// application's jar holds jars. See Survey.
	Machine        Machine
	ReadAheadBytes int64
	NestedJars     bool
	// ClassPath is what of the application's class path decides which levers there
	// are; Survey finds it.
	ClassPath runner.ClassPath
	// Env is the application's environment, Dir the folder that it starts in.
	// AddedEnv is the part of it that was given for this application.
	Env      []string
	AddedEnv []string
	Dir      string
	// Inherits is as in Facts.
	Inherits bool
	// From is the folder that the fit was started in.
	From string
	// CPUs and Cpuset are as in runner.Limits.
	CPUs   float64
	Cpuset string

	Ready        trial.Ready
	ReadyTimeout time.Duration
	// Job is as in trial.Spec.
	Job      bool
	Load     Load
	Warmup   time.Duration
	Duration time.Duration
	// Requests end the measured load, within Duration; 0 is a load of Duration.
	Requests int64
	SLO      trial.SLO

	// AmpleBytes and MostAmpleBytes are as in Search.
	AmpleBytes, MostAmpleBytes int64

	Levers []Lever
	// Terms are the terms of the search.
	Terms

	// Out keeps logs and footprints of all trials; nil keeps none.
	Out *outdir.Dir
	// ArchiveDir is where class archives are made; one that is part of the
	// recommendation stays there. ArchivesInside is the path by which the application
	// knows the folder. They are of a runner.Archives; see UseArchives.
	ArchiveDir     string
	ArchivesInside string
	// Weigh says that footprints are taken.
	Weigh bool
	// Observe and Stage are told of each step; nil is nobody.
	Observe func(Event)
	Stage   func(trial.Stage)
	// Journal keeps each step as it ends, and gives those of a fit that goes
	// on; nil keeps nothing.
	Journal Journal
}

// Image is the container image that an application is in.
type Image struct {
	Name string
	// ID is the digest of all that is in it.
	ID string
	// Args are what follows the image's name in docker run.
	Args []string `json:",omitempty"`
	// ByVariable says that options go to the JVM by JAVA_TOOL_OPTIONS, for the
	// image's command is not java's.
	ByVariable bool `json:",omitempty"`
	// Run is how its containers are started.
	Run docker.Run `json:",omitzero"`
	// Compose is where Run and what runs beside come from; nil is nowhere.
	Compose *Compose `json:",omitempty"`
}

// Compose is the Compose file that an application in an image is a service of.
type Compose struct {
	File    string   `json:"file"`
	Service string   `json:"service"`
	Fresh   []string `json:"fresh,omitempty"`
	Reset   []string `json:"reset,omitempty"`
	// Digest is one of all that was taken from the file.
	Digest string `json:"digest"`
}

// Terms decide how far a search goes; all are as in Search, and Allow as in
// Facts.
type Terms struct {
	Baselines     int
	Confirmations int
	MaxTrials     int           `json:",omitempty"`
	Budget        time.Duration `json:",omitempty"`
	Margin        float64       `json:",omitempty"`
	Prefer        Prefer
	// WarmBlocks is for how many times the warm-up a first baseline may go on until the
	// application has warmed up (trial.Spec.WarmBlocks); later trials do as much work. 0 is
	// a warm-up as it was asked for.
	WarmBlocks int `json:",omitempty"`
	// Stress is as in Search.
	Stress    bool `json:",omitempty"`
	HeapCurve bool
	Ablation  bool   `json:",omitempty"`
	Seed      uint64 `json:",omitempty"`
	Allow     []Mark `json:",omitempty"`
	// Parallel is on how many nodes trials are made at once; 0 is one at a time.
	Parallel int `json:",omitempty"`
}

// Load is the load of a fit.
type Load struct {
	// Loader is nil where no load is put, and in the Config of a stored plan.
	Loader load.Loader
	// Description is the Loader's.
	load.Description
}

// NewLoad is the load of a loader; nil is none.
func NewLoad(l load.Loader) Load {
	if l == nil {
		return Load{}
	}
	return Load{l, l.Describe()}
}

// Search is the search that the config asks for, by trials that t makes.
func (c Config) Search(t Trier) *Search {
	facts := Facts{Release: jvmopts.ParseRelease(c.Java.Version), JavaHome: c.Java.Home, Given: c.Given, ByVariable: !c.Command.IsJava(), Allow: c.Allow, CPUs: c.CPUs, Processors: int(math.Ceil(c.processors())), Nested: c.NestedJars,
		Application:    c.application(),
		ReadAheadBytes: c.ReadAheadBytes, Inherits: c.Inherits}
	return &Search{Trier: t, Levers: c.Levers, Facts: facts, AmpleBytes: c.AmpleBytes, MostAmpleBytes: c.MostAmpleBytes, Baselines: c.Baselines, Confirmations: c.Confirmations,
		MaxTrials: c.MaxTrials, Budget: c.Budget, Margin: c.Margin, Prefer: c.Prefer, ShowFailure: true, Ablation: c.Ablation, HeapCurve: c.HeapCurve,
		Stress: c.Stress, FullHeap: true, Job: c.Job, OpenLoop: c.Load.Rate > 0, Spare: c.SLO.Spare(), ByWork: c.SLO.Needs(trial.Cost) && !c.SLO.Needs(trial.Throughput), Seed: c.Seed, Observe: c.Observe}
}

// processors are those that the application may use.
func (c Config) processors() float64 {
	if c.CPUs > 0 {
		return c.CPUs
	}
	if list, err := linux.ParseCPUList(c.Cpuset); err == nil && len(list) > 0 {
		return float64(len(list))
	}
	return float64(c.Machine.CPUs)
}

// Work is what each trial has to do.
func (c Config) Work() trial.Work { return trial.Work{Measured: c.Requests, Due: c.Requests > 0} }

// JarPath is the application's jar where the trials run, or "".
func (c Config) JarPath() string {
	jar := c.Command.Jar()
	if jar == "" {
		return ""
	}
	return c.path(jar)
}

// path is a path that the command names.
func (c Config) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.Dir, name)
}

// started is what runs with a setup, and its environment. To a command that is not
// java's options go by JAVA_TOOL_OPTIONS always.
func (c Config) started(s Setup, byVariable bool) (args, env []string) {
	command := c.Command
	env = slices.Concat(c.Env, s.Env)
	if command.IsJava() {
		command.Java = c.Java.Path
	} else {
		byVariable = true
	}
	if !byVariable {
		return s.Command(command), env
	}
	if len(s.Options) > 0 {
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "JAVA_TOOL_OPTIONS=") })
		env = append(env, "JAVA_TOOL_OPTIONS="+toolOptions(c.Env, s.Options))
	}
	return command.With(), env
}

// paths are the files that a command names to start from, a script of this machine among them.
func (c Config) paths(command jvmopts.Command) []string {
	files := command.Files()
	if c.Image == nil && !command.IsJava() && strings.Contains(command.Java, "/") {
		files = append(files, command.Java)
	}
	for i, f := range files {
		files[i] = c.path(f)
	}
	return files
}

// files are the files that a command starts from: those that it names, and those that
// they name, as far as the runner knows.
func (c Config) files(ctx context.Context, command jvmopts.Command) ([]string, error) {
	found, err := c.Runner.ClassPath(ctx, runner.ClassPathQuery{Paths: c.paths(command)})
	if err != nil {
		return nil, fmt.Errorf("class path: %w", err)
	}
	return found.Files, nil
}
