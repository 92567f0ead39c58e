package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/lazy"
)

// Cell is one combination of the factors' values.
type Cell struct {
	// Labels are the values, in the order of the factors.
	Labels []string
	// Run is what runs: all names of factors are replaced, all variants
	// applied. {port} and what is searched for still stand in it.
	Run Run
}

// Key names the cell in results: "jdk=17 xss=512k".
func (e *Experiment) Key(c Cell) string {
	parts := make([]string, len(c.Labels))
	for i, l := range c.Labels {
		parts[i] = e.Factors[i].Name + "=" + l
	}
	return strings.Join(parts, " ")
}

// Hash tells cells that run different things from each other. Results of a
// cell that was changed in the file do not count for the new one.
func (e *Experiment) Hash(c Cell) string {
	b, err := json.Marshal(struct {
		Run    Run
		Search *Search
	}{c.Run, e.Search})
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Cells are all cells of the experiment, in the order of the file.
func (e *Experiment) Cells() []Cell {
	combinations := [][]string{{}}
	for i := range e.Factors {
		var next [][]string
		for _, c := range combinations {
			for _, l := range e.Factors[i].labels() {
				next = append(next, append(slices.Clone(c), l))
			}
		}
		combinations = next
	}
	combinations = slices.DeleteFunc(combinations, func(labels []string) bool {
		return slices.ContainsFunc(e.Exclude, func(w Where) bool { return e.matches(labels, w) })
	})
	for _, w := range e.Include {
		labels := make([]string, len(e.Factors))
		for i, f := range e.Factors {
			labels[i] = string(w[f.Name])
		}
		combinations = append(combinations, labels)
	}
	combinations = slices.DeleteFunc(combinations, func(labels []string) bool { return !e.matches(labels, e.only) })
	cells := make([]Cell, len(combinations))
	for i, labels := range combinations {
		cells[i] = Cell{labels, e.resolve(labels)}
	}
	return cells
}

// matches says that a cell has all the values of w.
func (e *Experiment) matches(labels []string, w Where) bool {
	for i, f := range e.Factors {
		if v, ok := w[f.Name]; ok && string(v) != labels[i] {
			return false
		}
	}
	return true
}

// resolve is the run of a cell.
func (e *Experiment) resolve(labels []string) Run {
	run, names := e.Run, map[string]string{}
	run.Options = slices.Clone(run.Options)
	env := map[string]Scalar{}
	for k, v := range e.Run.Env {
		env[k] = v
	}
	for i := range e.Factors {
		f := &e.Factors[i]
		names[f.Name] = labels[i]
		v, ok := f.variant(labels[i])
		if !ok {
			continue
		}
		run.Options = append(run.Options, v.Options...)
		if v.Launcher != nil {
			run.Launcher = v.Launcher
		}
		if v.Train != nil {
			run.Train = v.Train
		}
		for k, value := range v.Env {
			env[k] = value
		}
		for _, r := range []struct {
			to   *Scalar
			from Scalar
		}{{&run.JDK, v.JDK}, {&run.Image, v.Image}, {&run.Limit, v.Limit}, {&run.CPUs, v.CPUs}, {&run.Cpuset, v.Cpuset}} {
			if r.from != "" {
				*r.to = r.from
			}
		}
		if v.Machine != nil {
			run.Machine = v.Machine
		}
	}
	run.Env = env
	return run.replace(func(name string) (string, bool) {
		value, ok := names[name]
		return value, ok
	})
}

var placeholder = lazy.Regexp(`\{([a-z][a-z0-9-]*)\}`)

// replace puts in what the names in braces stand for; names that value does
// not know stay.
func (r Run) replace(value func(name string) (string, bool)) Run {
	put := func(text string) string {
		return placeholder().ReplaceAllStringFunc(text, func(m string) string {
			if v, ok := value(m[1 : len(m)-1]); ok {
				return v
			}
			return m
		})
	}
	return r.apply(put)
}

// apply is the run with each of its texts changed.
func (r Run) apply(put func(string) string) Run {
	list := func(texts []string) []string {
		out := make([]string, len(texts))
		for i, t := range texts {
			out[i] = put(t)
		}
		return out
	}
	r.Launcher, r.Options, r.Command = list(r.Launcher), list(r.Options), list(r.Command)
	if r.Train != nil {
		r.Train = &Train{list(r.Train.Options), list(r.Train.Then)}
	}
	env := make(map[string]Scalar, len(r.Env))
	for k, v := range r.Env {
		env[k] = Scalar(put(string(v)))
	}
	r.Env = env
	for _, s := range []*Scalar{&r.JDK, &r.Image, &r.Limit, &r.CPUs, &r.Cpuset} {
		*s = Scalar(put(string(*s)))
	}
	r.Ready, r.SLO = put(r.Ready), put(r.SLO)
	if r.Machine != nil {
		m := *r.Machine
		m.Settings = make(map[string]Scalar, len(r.Machine.Settings))
		for k, v := range r.Machine.Settings {
			m.Settings[k] = Scalar(put(string(v)))
		}
		for _, s := range []*Scalar{&m.Kernel, &m.Memory, &m.CPUs} {
			*s = Scalar(put(string(*s)))
		}
		r.Machine = &m
	}
	if r.Load != nil {
		l := *r.Load
		l.URLs = list(l.URLs)
		r.Load = &l
	}
	return r
}

// names are the names in braces in all texts of a run.
func (r Run) names() []string {
	var out []string
	r.apply(func(text string) string {
		for _, m := range placeholder().FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return text
	})
	return out
}

// Job is one run that is to be made: a cell, and the round it belongs to.
type Job struct {
	Cell  Cell
	Round int // from 1
}

// Plan is all jobs in the order they are run in: round by round, so that what
// changes on the machine in the meantime hits all cells alike, and within a
// round in an order that the seed decides on.
func (e *Experiment) Plan() []Job { return e.plan(e.Repeats) }

func (e *Experiment) plan(rounds int) []Job {
	cells := e.Cells()
	rng := rand.New(rand.NewPCG(e.Seed, 0x7461_7265))
	jobs := make([]Job, 0, len(cells)*rounds)
	for round := 1; round <= rounds; round++ {
		for _, i := range rng.Perm(len(cells)) {
			jobs = append(jobs, Job{cells[i], round})
		}
	}
	return jobs
}

func (c *checker) checkRun() {
	known := []string{"port", archiveName}
	for _, f := range c.e.Factors {
		known = append(known, f.Name)
	}
	if name := c.e.Search.variable(); name != "" {
		known = append(known, name)
	}
	runs := []Run{c.e.Run}
	for _, f := range c.e.Factors {
		for _, v := range f.Variants {
			runs = append(runs, Run{JDK: v.JDK, Image: v.Image, Launcher: v.Launcher, Options: v.Options, Env: v.Env, Limit: v.Limit, CPUs: v.CPUs, Cpuset: v.Cpuset,
				Train: v.Train, Machine: v.Machine})
		}
	}
	for _, r := range runs {
		for _, name := range r.names() {
			if !slices.Contains(known, name) {
				c.fail("$.run", "{%s} is not known: one of %s", name, strings.Join(known, ", "))
			}
		}
	}
	if len(c.e.Run.Command) == 0 {
		c.fail("$.run", "command is missing: -jar and a jar, or a main class, and arguments")
	}
	if c.err == nil {
		for _, cell := range c.e.Cells() {
			err := cell.Run.Check()
			if err == nil {
				err = cell.Run.checkTraining()
			}
			if err == nil && cell.Run.Machine != nil {
				_, err = cell.Run.Machine.options()
			}
			if err != nil {
				c.fail("$.run", "%s: %v", c.e.Key(cell), err)
			}
		}
	}
	for i, f := range c.e.Factors {
		if len(f.Values) > 0 && !slices.Contains(c.e.Run.names(), f.Name) && c.err == nil {
			c.fail(fmt.Sprintf("$.factors[%d]", i), "factor %s changes nothing: {%s} stands nowhere", f.Name, f.Name)
		}
	}
}

func (c *checker) checkSearch() {
	s := c.e.Search
	if s == nil {
		return
	}
	if s.Tolerance == 0 {
		s.Tolerance = fit.DefaultTolerance
	}
	name := s.variable()
	switch {
	case s.Find == smallestLimit:
		if c.e.Run.Limit == "" {
			c.fail("$.search", "a limit is looked for from the run's own limit down: give run.limit")
		}
	case name == "":
		c.fail("$.search.find", "%q: write %q or \"largest NAME\"", s.Find, smallestLimit)
	case slices.Contains(ownNames, name) || c.e.factor(name) != nil:
		c.fail("$.search.find", "%q is taken already: give the number a name of its own", name)
	case !slices.Contains(c.e.Run.names(), name):
		c.fail("$.search.find", "{%s} stands nowhere in the run", name)
	case s.From < 1 || s.To <= s.From || s.To > mostNumber:
		c.fail("$.search", "from %d to %d: give a range of numbers from 1 to %d", s.From, s.To, int64(mostNumber))
	}
	if !(s.Tolerance >= 0.001 && s.Tolerance <= 0.5) {
		c.fail("$.search.tolerance", "tolerance %g: give a share from 0.001 to 0.5", s.Tolerance)
	}
	switch {
	case s.Confirmations < 0 || s.Confirmations > mostConfirmations:
		c.fail("$.search.confirmations", "%d confirmations: give a number from 1 to %d", s.Confirmations, mostConfirmations)
	case s.Confirmations > 0 && s.Find != smallestLimit:
		c.fail("$.search.confirmations", "a limit is confirmed; a number that is looked for is not")
	}
}

const smallestLimit = "smallest limit"

// mostNumber is the largest that results hold exactly: they are float64.
const mostNumber = 1 << 53

// variable is the name of the number that is looked for, "" for a limit.
func (s *Search) variable() string {
	if s == nil {
		return ""
	}
	name, ok := strings.CutPrefix(s.Find, "largest ")
	if !ok || !factorName().MatchString(name) {
		return ""
	}
	return name
}

// String says what is looked for.
func (s *Search) String() string {
	if s.variable() == "" {
		return s.Find
	}
	return fmt.Sprintf("%s from %d to %d", s.Find, s.From, s.To)
}
