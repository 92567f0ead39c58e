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
	"tare.dev/tare/internal/trial"
)

// Subject is one of the two that are compared: what is run, and where.
type Subject struct {
	Name   string
	Commit string
	Run    lab.Run
	Place  lab.Place
	// Accepted are the acceptances of its own budget.
	Accepted []budget.Acceptance
}

// Check is a check that is to be made.
type Check struct {
	Budget *budget.Budget
	Head   Subject
	// Base is run in turn with the head, Earlier is the result of an earlier check in its
	// place; both are nil where all bounds are absolute.
	Base    *Subject
	Earlier *Result
	// Observe is told before each run; nil is nobody.
	Observe func(Step)

	head, base Side
	sets       int
}

// Step is a run that begins.
type Step struct {
	Side string
	// Number is the run's, from 1, among the Total of this set.
	Number, Total int
	// Fresh says that the set repeats what an earlier one has shown.
	Fresh bool
}

// RunError is a side that fails by itself.
type RunError struct {
	Side    string
	Verdict trial.Verdict
	// Evidence says why, and the last of what the program printed.
	Evidence []string
}

// Error says which side failed, and how.
func (e *RunError) Error() string {
	return strings.Join(append([]string{fmt.Sprintf("%s does not run: %s", e.Side, e.Verdict)}, e.Evidence...), "\n")
}

// Run makes the check. Errors are of a side that fails by itself (RunError), of an earlier
// result that is no base (ErrBase), or those of trial.Run.
func (c *Check) Run(ctx context.Context) (*Result, error) {
	conditions, err := c.conditions(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Schema: Schema, Time: time.Now().UTC(), Commit: c.Head.Commit, Conditions: conditions, Accepted: c.Budget.Accepted}
	var fixed []Values
	var accepted []budget.Acceptance
	switch {
	case c.Earlier != nil:
		if err := c.Earlier.asBase(conditions, c.Budget.Runs); err != nil {
			return nil, err
		}
		r.Base, fixed, accepted = &c.Earlier.Head, c.Earlier.Head.values(), c.Earlier.Accepted
	case c.Base != nil:
		accepted = c.Base.Accepted
		c.base = side(*c.Base)
		r.Base = &c.base
	}
	c.head = side(c.Head)
	most := c.Budget.MostRuns / c.Budget.Runs
	r.Findings, err = Judge(c.Budget.Against(r.Base != nil, accepted), fixed, most, func() (Set, error) { return c.set(ctx) })
	if err != nil {
		return nil, err
	}
	c.head.Holds = ranges(c.head.held)
	if c.Base != nil {
		c.base.Holds = ranges(c.base.held)
	}
	r.Verdict, r.Head = Worst(r.Findings), c.head
	if r.Base != nil {
		r.Grew = grown(*r.Base, r.Head)
	}
	r.Warnings = c.warnings()
	return r, nil
}

func (c *Check) conditions(ctx context.Context) (Conditions, error) {
	machine, err := c.Head.Place.Runner.Machine(ctx)
	if err != nil {
		return Conditions{}, fmt.Errorf("the machine: %w", err)
	}
	run := c.Head.Run
	jdk := c.Head.Place.Java.Build
	if c.Head.Place.Image != "" {
		jdk = "of the image"
	}
	return Conditions{Machine: machine, Runner: c.Head.Place.Runner.Name(), JDK: jdk, Limit: string(run.Limit), CPUs: string(run.CPUs), Cpuset: string(run.Cpuset), Load: run.Load}, nil
}

// noisyShare is from which share of the machine's processors others are told of.
const noisyShare = 0.1

func (c *Check) warnings() []string {
	busiest := 0.0
	for _, r := range slices.Concat(c.head.Runs, c.base.Runs) {
		busiest = max(busiest, r.Others)
	}
	if busiest < noisyShare {
		return nil
	}
	return []string{fmt.Sprintf("others used up to %.0f %% of the machine's processors during the runs: start takes longer, and compilers come later", 100*busiest)}
}

// set makes the runs of one set: base and head in turn, and the order of each pair the
// opposite of that before, so that what changes with time hits both alike.
func (c *Check) set(ctx context.Context) (Set, error) {
	c.sets++
	var s Set
	sides := []*Subject{&c.Head}
	if c.Base != nil {
		sides = []*Subject{c.Base, &c.Head}
	}
	number, total := 0, len(sides)*c.Budget.Runs
	for range c.Budget.Runs {
		for _, subject := range sides {
			number++
			if c.Observe != nil {
				c.Observe(Step{Side: subject.Name, Number: number, Total: total, Fresh: c.sets > 1})
			}
			run, h, err := Once(ctx, *subject)
			if err != nil {
				return s, err
			}
			run.Set = c.sets
			if subject == &c.Head {
				c.head.Runs, c.head.held = append(c.head.Runs, run), append(c.head.held, h)
				s.Head = append(s.Head, run.Values)
			} else {
				c.base.Runs, c.base.held = append(c.base.Runs, run), append(c.base.held, h)
				s.Base = append(s.Base, run.Values)
			}
		}
		slices.Reverse(sides)
	}
	return s, nil
}

// Once makes one run of a subject. A run that fails is a *RunError.
func Once(ctx context.Context, s Subject) (Run, holdings, error) {
	begin := time.Now().UTC()
	var threads []string
	seen, err := s.Run.Once(ctx, s.Place, budget.Labs(), func(ctx context.Context, p runner.Process) {
		if asked, ok := p.(runner.Asked); ok {
			threads, _ = asked.ThreadNames(ctx) // what is missing is not compared
		}
	})
	if err != nil {
		return Run{}, nil, err
	}
	t := seen.Trial
	if !t.Passed() {
		return Run{}, nil, &RunError{Side: s.Name, Verdict: t.Verdict, Evidence: append(slices.Clone(t.Evidence), last(t.Log)...)}
	}
	run := Run{Time: begin, Took: t.Took, Others: t.Others, Values: Values{}}
	for _, m := range budget.Measures() {
		if v, ok := seen.Values[m.Lab]; ok {
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

// side is what a subject consists of.
func side(s Subject) Side {
	out := Side{Name: s.Name, Commit: s.Commit, Options: slices.Clone(s.Run.Options)}
	if s.Run.JDK != "" {
		out.Options = append(out.Options, "jdk "+string(s.Run.JDK))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Run.Env)) {
		out.Options = append(out.Options, name+"="+string(s.Run.Env[name]))
	}
	if s.Place.Image == "" {
		out.Jars = jarsOf(s)
	}
	return out
}

// maxJars bounds how many jars are listed.
const maxJars = 5000

// jarsOf are the jars of a command's class path and those inside of them.
func jarsOf(s Subject) map[string]int64 {
	command, err := jvmopts.Parse(slices.Concat([]string{"java"}, s.Run.Options, s.Run.Command))
	if err != nil {
		return nil
	}
	out := map[string]int64{}
	for _, name := range command.Files() {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Place.Dir, name)
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
