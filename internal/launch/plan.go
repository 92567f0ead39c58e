package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/profile"
)

// plan is what the launcher will do, and why.
type plan struct {
	java    *jdkfiles.Runtime
	budget  Budget
	profile string // the file that the sizes come from, or "none"
	// options are the user's with what was added.
	options jvmopts.Options
	advice  []Advice
	// yours are the user's settings that kept something from being added.
	yours    []Advice
	warnings []string
	// heap is the heap that was chosen and rest what was reckoned beside it.
	heap       int64
	rest       []Part
	disableTHP bool
	// decided are families that were decided without an option.
	decided []jvmopts.Family
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// add adds what is advised, unless the user has settled it; then it shows by
// what.
func (p *plan) add(a Advice) bool {
	if a.From == "" {
		a.From = FromRule
	}
	for _, text := range a.Set {
		for _, f := range jvmopts.FamiliesOf(text) {
			if slices.Contains(p.decided, f) {
				return false
			}
		}
	}
	options, conflict, ok := p.options.Add(a.Set...)
	if !ok {
		p.showYours(conflict.By)
		return false
	}
	p.options = options
	p.advice = append(p.advice, a)
	return true
}

// settled says whether the user has settled a family, and shows by what.
func (p *plan) settled(f jvmopts.Family) bool {
	by, ok := p.options.Settles(f)
	if ok {
		p.showYours(by)
	}
	return ok
}

func (p *plan) showYours(by jvmopts.Option) {
	a := Advice{Set: []string{by.Text}, From: FromUser, Why: by.Source.String()}
	if !slices.ContainsFunc(p.yours, func(y Advice) bool { return y.name() == a.name() && y.Why == a.Why }) {
		p.yours = append(p.yours, a)
	}
}

// call is what one start of a JVM is planned from.
type call struct {
	system  System
	java    *jdkfiles.Runtime
	options jvmopts.Options
	env     []string
	dir     string
	flags   Options
	// settled are flags of which nothing is to be added.
	settled []string
}

// makePlan decides. It fails only where the container is smaller than what was
// proven: else what cannot be known is left out, and said.
func makePlan(c call) (*plan, error) {
	release := jvmopts.ParseRelease(c.java.Version)
	p := &plan{java: c.java, options: c.options, profile: "none", budget: readBudget(c.system, release)}
	if p.budget.Problem != nil {
		p.warn("%v", p.budget.Problem)
	}
	for _, flag := range c.settled {
		p.decided = append(p.decided, jvmopts.FamiliesOf("-XX:"+flag+"=0")...)
	}
	f := &facts{budget: p.budget, java: c.java, release: release, env: c.env}
	if !c.java.HotSpot() || release.Feature == 0 {
		p.warn("%s is not known to be a HotSpot JVM, so no option of it is added", c.java.Java)
		arenasRule(p, f)
		return p, nil
	}
	chosen := rules
	proven, err := p.applyProfile(f, c)
	if err != nil {
		return nil, err
	}
	if proven {
		chosen = unmeasured
	} else {
		f.measure(p, c)
	}
	for _, r := range chosen {
		r(p, f)
	}
	p.diagnostics(f, c.flags)
	p.protectStacks(c.system)
	return p, nil
}

// measure fills in what the estimate depends on.
func (f *facts) measure(p *plan, c call) {
	var problems []string
	f.hints, problems = readHints(f.env)
	p.warnings = append(p.warnings, problems...)
	classes := f.hints.loadedClasses(countClasses(c.dir, classPath(c.options, c.env)))
	f.shape = shape{classes: classes, threads: f.hints.threads, relocated: f.release.Feature >= 17,
		compilers: chosenCompilers(c.options), cpus: f.budget.CPUs,
		directBytes: size(c.options, "MaxDirectMemorySize"), othersBytes: f.budget.OthersBytes}
	if names, _ := chosenCollectors(c.options); len(names) > 0 {
		f.shape.collector = names[0]
	}
	if f.shape.threads == 0 {
		f.shape.threads = threadsGuess
	}
	if archive := jdkfiles.DefaultArchive(f.java.Home); archive != "" {
		f.shape.archiveBytes = fileSize(archive)
		f.shape.archived = min(archivedClasses, classes)
	}
}

// protectStacks decides on PR_SET_THP_DISABLE.
func (p *plan) protectStacks(s System) {
	if p.disableTHP || !stacksBecomeHuge(s, p.java) || p.settled(jvmopts.HugePages) {
		return
	}
	p.withoutHugePages(Advice{From: FromRule,
		Why:    "this kernel makes huge pages of thread stacks, and this JVM does not prevent it",
		Effect: "saves up to 2 MiB for each thread; no huge pages for the heap", Source: "JDK-8312182, prctl(2)"})
}

// withoutHugePages starts the JVM with transparent huge pages switched off.
func (p *plan) withoutHugePages(why Advice) {
	p.disableTHP = true
	why.Process = "PR_SET_THP_DISABLE"
	p.advice = append(p.advice, why)
}

// commandLine is what to run, and in which environment.
func (p *plan) commandLine(java string, env []string) (args, environ []string) {
	return append([]string{java}, p.options.Args()...), slices.Concat(env, p.options.AddedEnv())
}

// applyProfile takes the settings of tare.json; false without one.
func (p *plan) applyProfile(f *facts, c call) (bool, error) {
	jar := c.options.Command.Jar()
	path, named := profilePath(c.env, jar, c.dir)
	if path == "" {
		return false, nil
	}
	if jar != "" {
		jar = absolute(jar, c.dir)
	}
	trust := profile.TrustFor(jar)
	found, err := profile.Read(path, trust)
	if err != nil {
		if named || !isNotExist(err) {
			p.warn("%v; the sizes are by rules", err)
		}
		return false, nil
	}
	p.profile = path
	return true, p.scale(f, found, filepath.Dir(path), trust, c.flags.Force)
}

// flagName is the name in an -XX option; "" in any other.
func flagName(option string) string {
	name, ok := strings.CutPrefix(option, "-XX:")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(strings.TrimLeft(name, "+-"), "=")
	return name
}
