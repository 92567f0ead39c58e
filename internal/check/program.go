package check

import (
	"archive/zip"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/runner"
)

// Program is a program that is started, loaded and weighed: a command, or one in an image.
type Program struct {
	Run   lab.Run
	Place lab.Place
}

var _ Source = Program{}

// ofGroup are measures that a control group counts, and nobody else.
var ofGroup = []string{"needed", "peak"}

// lacks is of what cannot be measured without a control group.
func (p Program) lacks(m budget.Measure) string {
	if _, without := p.Place.Runner.(*runner.Ungrouped); without && slices.Contains(ofGroup, m.Name) {
		return "it is what a control group counts, and none can be made here"
	}
	return ""
}

// Once starts the program, loads it and weighs it.
func (p Program) Once(ctx context.Context, side string) (Run, holdings, error) {
	begin := time.Now().UTC()
	var threads []string
	seen, err := p.Run.Once(ctx, p.Place, budget.Labs(), func(ctx context.Context, p runner.Process) {
		if asked, ok := p.(runner.Asked); ok {
			threads, _ = asked.ThreadNames(ctx) // what is missing is not compared
		}
	})
	if err != nil {
		return Run{}, nil, err
	}
	t := seen.Trial
	if !t.Passed() {
		return Run{}, nil, &RunError{Side: side, Verdict: string(t.Verdict), Evidence: append(slices.Clone(t.Evidence), last(t.Log)...)}
	}
	run := Run{Time: begin, Took: t.Took, Others: t.Others, Values: Values{}, Warnings: t.Warnings}
	for _, m := range budget.Measures() {
		if v, ok := seen.Values[m.Lab]; ok && p.lacks(m) == "" {
			run.Values[m.Name] = v
		}
	}
	return run, held(t.End, seen.Objects, threads), nil
}

// last are the last lines of what a program printed.
func last(log []string) []string {
	const few = 5
	return log[max(0, len(log)-few):]
}

func (p Program) conditions(ctx context.Context) (Conditions, error) {
	machine, err := p.Place.Runner.Machine(ctx)
	if err != nil {
		return Conditions{}, fmt.Errorf("the machine: %w", err)
	}
	jdk := p.Place.Java.Build
	if p.Place.Image != "" {
		jdk = "of the image"
	}
	r := p.Run
	return Conditions{Machine: machine, Runner: p.Place.Runner.Name(), JDK: jdk, Limit: string(r.Limit), CPUs: string(r.CPUs), Cpuset: string(r.Cpuset), Load: r.Load}, nil
}

func (p Program) describe(s *Side) {
	s.Options = slices.Clone(p.Run.Options)
	if p.Run.JDK != "" {
		s.Options = append(s.Options, "jdk "+string(p.Run.JDK))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Run.Env)) {
		s.Options = append(s.Options, name+"="+string(p.Run.Env[name]))
	}
	if p.Place.Image == "" {
		s.Jars = p.jars()
	}
}

// maxJars bounds how many jars are listed.
const maxJars = 5000

// jars are those of the command's class path, and those inside of them.
func (p Program) jars() map[string]int64 {
	command, err := jvmopts.Parse(slices.Concat([]string{"java"}, p.Run.Options, p.Run.Command))
	if err != nil {
		return nil
	}
	out := map[string]int64{}
	for _, name := range command.Files() {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Place.Dir, name)
		}
		names := []string{name}
		if dir, ok := strings.CutSuffix(name, "/*"); ok {
			names, _ = filepath.Glob(filepath.Join(dir, "*.jar"))
		}
		for _, n := range names {
			addJar(out, n)
		}
	}
	return out
}

func addJar(out map[string]int64, name string) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return // a folder, or nothing that holds classes
	}
	defer z.Close()
	size := int64(0)
	for _, f := range z.File {
		size += int64(f.CompressedSize64)
		if strings.HasSuffix(f.Name, ".jar") && len(out) < maxJars {
			out[jarName(f.Name)] = int64(f.UncompressedSize64)
		}
	}
	out[jarName(name)] = size
}
