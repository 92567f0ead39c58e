package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/runner"
)

// Schema names the JSON form of a Result. Fields may be added; none changes its meaning.
const Schema = "tare.check/1"

// Result is what a check found.
type Result struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`
	Verdict Verdict   `json:"verdict"`
	// Error says why there are no findings: the verdict is then broken.
	Error string `json:"error,omitempty"`
	// Budget is the digest of the budget file, Commit what was checked; "" outside of git.
	Budget string `json:"budget"`
	Commit string `json:"commit,omitempty"`
	// Conditions are what two results must have in common to be compared.
	Conditions Conditions `json:"conditions"`
	Findings   []Finding  `json:"findings"`
	// Grew is what tells the sides apart.
	Grew []Growth `json:"grew"`
	// Base is nil where all bounds are absolute.
	Base *Side `json:"base,omitempty"`
	Head Side  `json:"head"`
	// Accepted are the acceptances of the head's budget.
	Accepted []budget.Acceptance `json:"accepted,omitempty"`
	Warnings []string            `json:"warnings,omitempty"`
}

// Conditions are what memory depends on besides the program.
type Conditions struct {
	Machine runner.Machine `json:"machine"`
	Runner  string         `json:"runner"`
	// JDK is its build. In an image it is the image's, and part of what is checked.
	JDK    string    `json:"jdk"`
	Limit  string    `json:"limit,omitempty"`
	CPUs   string    `json:"cpus,omitempty"`
	Cpuset string    `json:"cpuset,omitempty"`
	Load   *lab.Load `json:"load,omitempty"`
}

// differ says what differs between the conditions of two results.
func (c Conditions) differ(other Conditions) []string {
	var out []string
	a, b := reflect.ValueOf(c), reflect.ValueOf(other)
	names := []string{"machine", "runner", "JDK", "memory limit", "processors", "processors it is pinned to", "load"}
	for i, name := range names {
		if is, was := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(is, was) {
			out = append(out, fmt.Sprintf("%s: %s there, %s here", name, inWords(was), inWords(is)))
		}
	}
	return out
}

func inWords(v any) string {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "none"
		}
		return v
	case runner.Machine:
		return fmt.Sprintf("Linux %s %s with %d processors and %d MiB", v.Kernel, v.Arch, v.CPUs, v.MemoryBytes>>20)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "unknown"
	}
	return string(b)
}

// Side is what was run, and how its runs went.
type Side struct {
	// Name is what it is called: "the working tree", a git reference, an image.
	Name   string `json:"name"`
	Commit string `json:"commit,omitempty"`
	// Options are those of the JVM, and variables.
	Options []string `json:"options,omitempty"`
	// Jars are the jars of its class path and those inside of them, with their sizes.
	Jars map[string]int64 `json:"jars,omitempty"`
	Runs []Run            `json:"runs"`
	// Holds is what its runs hold.
	Holds Holdings `json:"holds"`

	held []holdings
}

// Run is one run.
type Run struct {
	Set    int           `json:"set"`
	Time   time.Time     `json:"time"`
	Took   time.Duration `json:"tookNanos"`
	Values Values        `json:"values"`
	// JDK is what made the results that it read; "" is that of the conditions.
	JDK string `json:"jdk,omitempty"`
	// Others is the share of the machine's processor time that went to others.
	Others float64 `json:"others,omitempty"`
	// Warnings are those of its trial: what could not be measured, and why.
	Warnings []string `json:"warnings,omitempty"`
}

// values are those of all runs.
func (s Side) values() []Values {
	out := make([]Values, len(s.Runs))
	for i, r := range s.Runs {
		out[i] = r.Values
	}
	return out
}

// maxResult bounds a result file.
const maxResult = 16 << 20

// ErrBase says that a result cannot be a base.
var ErrBase = errors.New("it cannot be a base")

// ReadResult reads a result.
func ReadResult(in io.Reader, name string) (*Result, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxResult+1))
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if len(data) > maxResult {
		return nil, fmt.Errorf("%s: larger than %d bytes: no result of tare check", name, maxResult)
	}
	if err := json.Unmarshal(data, r); err != nil || r.Schema != Schema {
		return nil, fmt.Errorf("%s: no result of schema %s: make one with tare check --result FILE", name, Schema)
	}
	return r, nil
}

// asBase says why a result cannot be the base of runs under these conditions. Its error
// wraps ErrBase.
func (r *Result) asBase(c Conditions, runs int) error {
	switch {
	case r.Verdict != Passed:
		return fmt.Errorf("%w: its verdict is %q, and only what passed becomes a base", ErrBase, r.Verdict)
	case len(r.Head.Runs) < runs:
		return fmt.Errorf("%w: it has %d runs, and the budget asks for %d", ErrBase, len(r.Head.Runs), runs)
	}
	if differ := c.differ(r.Conditions); len(differ) > 0 {
		err := fmt.Errorf("%w: it was measured elsewhere", ErrBase)
		for _, d := range differ {
			err = fmt.Errorf("%w\n%s", err, d)
		}
		return err
	}
	return nil
}

// Culprits are what grew of the owner of a finding: itself where it is one, and what it
// consists of.
func (r *Result) Culprits(f Finding) []Growth {
	owner := f.owner()
	return slices.DeleteFunc(slices.Clone(r.Grew), func(g Growth) bool {
		if g.Change() <= 0 {
			return true
		}
		switch g.Kind {
		case KindOwner:
			return owner != "" && g.Name != owner
		case KindPart:
			return owner != "" && !strings.HasPrefix(g.Name, owner+": ")
		case KindClass:
			return owner != "" && owner != "java-heap"
		case KindThreads:
			return owner != "" && owner != "thread-stacks"
		case KindFile:
			return owner != "" && owner != "mapped-files"
		}
		return true
	})
}

// owner is whose memory a finding is about; "" for memory of all.
func (f Finding) owner() string {
	m, _ := budget.MeasureNamed(f.Measure)
	return string(m.Owner)
}
