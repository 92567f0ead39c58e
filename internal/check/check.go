package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/runner"
)

// Subject is one of the two that are compared.
type Subject struct {
	Name   string
	Commit string
	// What is run.
	What Source
	// Accepted are the acceptances of its own budget.
	Accepted []budget.Acceptance
}

// Source is what a side runs: a Program, or a Measured.
type Source interface {
	// Once makes one run, and says what it holds. A run that fails by itself is a *RunError.
	Once(ctx context.Context, side string) (Run, holdings, error)
	// conditions are what its memory depends on besides the program; the JDK may be known by
	// its runs alone.
	conditions(ctx context.Context) (Conditions, error)
	// describe says what it consists of: options, jars.
	describe(*Side)
	// lacks says why a measure cannot be taken here; "" is no reason.
	lacks(budget.Measure) string
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
	// jdk is that of all runs, once it is known.
	jdk string
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
	Side string
	// Verdict is that of the trial, or what went wrong with a command.
	Verdict string
	// Evidence says why, and the last of what the program printed.
	Evidence []string
}

// Error says which side failed, and how.
func (e *RunError) Error() string {
	return strings.Join(append([]string{fmt.Sprintf("%s does not run: %s", e.Side, e.Verdict)}, e.Evidence...), "\n")
}

// Run makes the check. Errors are of a side that fails by itself (RunError), of an earlier
// result that is no base (ErrBase), of bounds none of which can be measured here
// (runner.ErrUnavailable), or those of trial.Run.
func (c *Check) Run(ctx context.Context) (*Result, error) {
	conditions, err := c.Head.What.conditions(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Schema: Schema, Time: time.Now().UTC(), Commit: c.Head.Commit, Conditions: conditions, Accepted: c.Budget.Accepted}
	c.jdk = conditions.JDK
	var fixed []Values
	var accepted []budget.Acceptance
	switch {
	case c.Earlier != nil:
		c.jdk = cmp.Or(c.jdk, c.Earlier.Conditions.JDK)
		r.Conditions.JDK = c.jdk
		if err := c.Earlier.asBase(r.Conditions, c.Budget.Runs); err != nil {
			return nil, err
		}
		r.Base, fixed, accepted = &c.Earlier.Head, c.Earlier.Head.values(), c.Earlier.Accepted
	case c.Base != nil:
		accepted = c.Base.Accepted
		c.base = side(*c.Base)
		r.Base = &c.base
	}
	c.head = side(c.Head)
	bounds, unmeasured := c.bounds(r.Base != nil, accepted)
	if len(bounds) == 0 && len(unmeasured) > 0 {
		return nil, fmt.Errorf("%w: nothing that the budget bounds can be measured: of %s, %s", runner.ErrUnavailable, unmeasured[0].Measure, unmeasured[0].Why)
	}
	most := c.Budget.MostRuns / c.Budget.Runs
	r.Findings, err = Judge(bounds, fixed, most, func() (Set, error) { return c.set(ctx) })
	if err != nil {
		return nil, err
	}
	r.Findings = append(r.Findings, unmeasured...)
	c.head.Holds = ranges(c.head.held)
	if c.Base != nil {
		c.base.Holds = ranges(c.base.held)
	}
	r.Verdict, r.Head, r.Conditions.JDK = Worst(r.Findings), c.head, c.jdk
	if r.Base != nil {
		r.Grew = grown(*r.Base, r.Head)
	}
	r.Warnings = c.warnings()
	return r, nil
}

// bounds are those that are judged, and findings of those that cannot be measured here.
func (c *Check) bounds(hasBase bool, accepted []budget.Acceptance) (out []budget.Bound, unmeasured []Finding) {
	for _, b := range c.Budget.Against(hasBase, accepted) {
		if why := c.Head.What.lacks(b.Measure); why != "" {
			unmeasured = append(unmeasured, Finding{Measure: b.Measure.Name, Unit: string(b.Measure.Unit), Growth: b.Growth, Limit: b.Most, P: 1, Verdict: Unknown, Why: why})
			continue
		}
		out = append(out, b)
	}
	return out, unmeasured
}

// noisyShare is from which share of the machine's processors others are told of.
const noisyShare = 0.1

func (c *Check) warnings() []string {
	var out []string
	runs := slices.Concat(c.head.Runs, c.base.Runs)
	busiest, lacking := 0.0, []Run(nil)
	for _, r := range runs {
		busiest = max(busiest, r.Others)
		if len(r.Warnings) > 0 {
			lacking = append(lacking, r)
		}
	}
	if len(lacking) > 0 {
		out = append(out, fmt.Sprintf("%d of %d runs have warnings, the first: %s", len(lacking), len(runs), strings.Join(lacking[0].Warnings, "; ")))
	}
	if busiest >= noisyShare {
		out = append(out, fmt.Sprintf("others used up to %.0f %% of the machine's processors during the runs: start takes longer, and compilers come later", 100*busiest))
	}
	return out
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
			run, h, err := subject.What.Once(ctx, subject.Name)
			if err != nil {
				return s, err
			}
			if err := c.sameJDK(subject.Name, run.JDK); err != nil {
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

// sameJDK refuses a run on another JDK than that of the runs before; "" is that of the
// conditions.
func (c *Check) sameJDK(side, jdk string) error {
	switch {
	case jdk == "":
		return nil
	case c.jdk == "":
		c.jdk = jdk
	case c.jdk != jdk:
		return fmt.Errorf("%w: JDK: %s before, and %s in %s: run all with one", ErrBase, c.jdk, jdk, side)
	}
	return nil
}

// side is what a subject consists of.
func side(s Subject) Side {
	out := Side{Name: s.Name, Commit: s.Commit}
	s.What.describe(&out)
	return out
}
