// Package budget is the file tare.budget.yaml: what to start, under what load, and how
// much memory it may have.
package budget

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/yamlfile"
)

// FileName is what a budget is called where no other name is given.
const FileName = "tare.budget.yaml"

// Bounds and defaults of a budget.
const (
	DefaultRuns = 8
	// leastRuns a side is what an interval needs: of fewer it is wider than any effect.
	leastRuns, mostRuns = 4, 100
	// MaxText is the length of the longest reason, and of the longest build.
	MaxText = 2000
)

// Budget is a budget file. budget.schema.json says the same to editors.
type Budget struct {
	// Build is run by a shell in the folder of the file before the runs; none when empty.
	Build string `yaml:"build"`
	// Run is what is started and loaded, as in an experiment file of tare lab.
	Run lab.Run `yaml:"run"`
	// Runs is how often each side runs before a first judgement.
	Runs int `yaml:"runs"`
	// MostRuns is how often each side runs at most; three times Runs when 0.
	MostRuns int `yaml:"mostRuns"`
	// Most is what each measure may be: {needed: 180MiB}.
	Most map[string]lab.Scalar `yaml:"most"`
	// Growth is how much more than the base each measure may be: {needed: 2%}.
	Growth map[string]lab.Scalar `yaml:"growth"`
	// Accepted is growth that was agreed to; it counts against a base whose own file does
	// not have it.
	Accepted []Acceptance `yaml:"accepted"`

	bounds []Bound
}

// Acceptance is an agreed change of the budget.
type Acceptance struct {
	// Date is when it was, such as 2026-11-25.
	Date   string                `yaml:"date" json:"date"`
	Reason string                `yaml:"reason" json:"reason"`
	Growth map[string]lab.Scalar `yaml:"growth" json:"growth,omitempty"`
}

// Bound is what one measure may be.
type Bound struct {
	Measure Measure
	// Growth says that it bounds what the head has more than the base.
	Growth bool
	// Most is the bound of a measure itself.
	Most float64
	// Floor is the change that does not matter: growth up to it is none. Of an absolute
	// bound it is how far an interval may reach beyond.
	Floor Floor
	// Accepted is growth that was agreed to on top.
	Accepted float64
}

// Floor is the larger of a share of the base and an amount.
type Floor struct{ Share, Amount float64 }

// Of is the floor for a base.
func (f Floor) Of(base float64) float64 { return max(f.Share*math.Abs(base), f.Amount) }

// Measure is something that can be bounded.
type Measure struct {
	Name string
	// Lab is its name in tare lab.
	Lab  string
	Unit lab.Unit
	// Owner is the owner whose memory it is, or nothing.
	Owner footprint.Owner
}

// named are the measures that are no owners.
var named = []struct{ name, lab string }{
	{"needed", "cgroup-needed"}, {"peak", "cgroup-peak"}, {"rss", "rss"}, {"heap-live", "heap-reachable"}, {"direct", "direct"},
	{"start", "start"}, {"cpu-time", "cpu-time"}, {"threads", "threads"}, {"classes", "classes"},
}

// owners have a row in a footprint.
var owners = []footprint.Owner{footprint.JavaHeap, footprint.ClassSpace, footprint.Metaspace, footprint.CodeCache, footprint.ThreadStacks,
	footprint.GC, footprint.CDS, footprint.Malloc, footprint.MappedFiles, footprint.JVMOther, footprint.Unattributed}

// Measures are all that can be bounded, in the order of reports.
func Measures() []Measure {
	var out []Measure
	for _, n := range named {
		m, _ := lab.MeasureNamed(n.lab)
		out = append(out, Measure{Name: n.name, Lab: n.lab, Unit: m.Unit, Owner: ownerOf[n.name]})
	}
	for _, o := range owners {
		out = append(out, Measure{Name: string(o), Lab: "held." + string(o), Unit: lab.Bytes, Owner: o})
	}
	return out
}

var ownerOf = map[string]footprint.Owner{"heap-live": footprint.JavaHeap, "direct": footprint.Malloc, "threads": footprint.ThreadStacks, "classes": footprint.Metaspace}

// MeasureNamed is the measure of a name.
func MeasureNamed(name string) (Measure, bool) {
	all := Measures()
	if i := slices.IndexFunc(all, func(m Measure) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return Measure{}, false
}

func measureNames() string {
	var out []string
	for _, m := range Measures() {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}

// DefaultFloor is the change of a measure that does not matter where the file does not say.
func DefaultFloor(u lab.Unit) Floor {
	switch u {
	case lab.Bytes:
		return Floor{0.01, 128 << 10}
	case lab.Seconds:
		return Floor{0.1, 0.2}
	}
	return Floor{0.01, 1}
}

// defaultGrowth stands for DefaultFloor.
const defaultGrowth = "default"

// format is that of budget files.
var format = yamlfile.Format{Name: "a memory budget", Page: "docs/check.md"}

// Read reads a budget of this name and checks it. Mistakes are *yamlfile.Error.
func Read(r io.Reader, name string) (*Budget, error) {
	data, err := format.Read(r, name)
	if err != nil {
		return nil, err
	}
	return parse(data, name)
}

func parse(data []byte, name string) (*Budget, error) {
	b := &Budget{}
	if err := format.Decode(data, name, b); err != nil {
		return nil, err
	}
	if b.Runs == 0 {
		b.Runs = DefaultRuns
	}
	if b.MostRuns == 0 {
		b.MostRuns = 3 * b.Runs
	}
	c := &checker{b: b, fail: func(path, format string, args ...any) error {
		return yamlfile.Mistake(data, name, path, format, args...)
	}}
	if err := cmp.Or(c.checkRun(), c.checkRuns(), c.checkBounds(), c.checkAccepted()); err != nil {
		return nil, err
	}
	return b, nil
}

// Bounds are all bounds, in the order of Measures, the absolute ones first.
func (b *Budget) Bounds() []Bound { return slices.Clone(b.bounds) }

// Against are the bounds that count against a base with these acceptances: growth that it
// has accepted itself is in it. Without a base the bounds of growth are left out.
func (b *Budget) Against(hasBase bool, accepted []Acceptance) []Bound {
	var out []Bound
	for _, bound := range b.bounds {
		if bound.Growth && !hasBase {
			continue
		}
		for _, a := range b.Accepted {
			if text, ok := a.Growth[bound.Measure.Name]; ok && bound.Growth && !slices.ContainsFunc(accepted, a.same) {
				n, _ := parseAmount(string(text), bound.Measure.Unit) // checked when the file was read
				bound.Accepted += n
			}
		}
		out = append(out, bound)
	}
	return out
}

func (a Acceptance) same(b Acceptance) bool { return a.Date == b.Date && a.Reason == b.Reason }

// Labs are the names in tare lab of all that bounds and reports need.
func Labs() []string {
	var out []string
	for _, m := range Measures() {
		out = append(out, m.Lab)
	}
	return out
}

type checker struct {
	b    *Budget
	fail func(path, format string, args ...any) error
}

func (c *checker) checkRun() error {
	r := c.b.Run
	switch {
	case len(r.Command) == 0:
		return c.fail("$.run", "command is missing: -jar and a jar, or a main class, and arguments")
	case r.Workload != "" || r.Train != nil || r.Machine != nil:
		return c.fail("$.run", "workload, train and machine are for tare lab: a budget starts a program that keeps running")
	case r.SLO != "":
		return c.fail("$.run.slo", "a budget bounds memory and start: leave out slo")
	case r.Load != nil && r.Load.Requests == 0:
		return c.fail("$.run.load", "requests is missing: memory is compared after the same number of requests")
	case r.Load != nil && r.Load.Warmup > 0 && r.Load.WarmupRequests == 0:
		return c.fail("$.run.load.warmup", "warmupRequests is missing: memory is compared after the same number of requests")
	}
	if err := r.Check(); err != nil {
		return c.fail("$.run", "%v", err)
	}
	return nil
}

func (c *checker) checkRuns() error {
	b := c.b
	switch {
	case b.Runs < leastRuns || b.Runs > mostRuns:
		return c.fail("$.runs", "runs %d: give %d to %d; fewer cannot tell growth from noise", b.Runs, leastRuns, mostRuns)
	case b.MostRuns < 2*b.Runs || b.MostRuns > 4*mostRuns:
		return c.fail("$.mostRuns", "mostRuns %d: give %d, twice the runs, to %d: what fails must repeat on fresh ones", b.MostRuns, 2*b.Runs, 4*mostRuns)
	case len(b.Build) > MaxText:
		return c.fail("$.build", "longer than %d characters: put it into a script", MaxText)
	}
	return nil
}

func (c *checker) checkBounds() error {
	if len(c.b.Most)+len(c.b.Growth) == 0 {
		return c.fail("$", "nothing is bounded: give most or growth, such as most: {needed: 180MiB}")
	}
	for list, texts := range map[string]map[string]lab.Scalar{"most": c.b.Most, "growth": c.b.Growth} {
		for name := range texts {
			if _, ok := MeasureNamed(name); !ok {
				return c.fail("$."+list+"."+name, "measure %q is not known: one of %s", name, measureNames())
			}
		}
	}
	for _, m := range Measures() {
		text, ok := c.b.Most[m.Name]
		if !ok {
			continue
		}
		most, err := parseAmount(string(text), m.Unit)
		if err != nil {
			return c.fail("$.most."+m.Name, "%v", err)
		}
		c.b.bounds = append(c.b.bounds, Bound{Measure: m, Most: most, Floor: DefaultFloor(m.Unit)})
	}
	for _, m := range Measures() {
		text, ok := c.b.Growth[m.Name]
		if !ok {
			continue
		}
		floor, err := parseFloor(string(text), m.Unit)
		if err != nil {
			return c.fail("$.growth."+m.Name, "%v", err)
		}
		c.b.bounds = append(c.b.bounds, Bound{Measure: m, Growth: true, Floor: floor})
	}
	return nil
}

func (c *checker) checkAccepted() error {
	for i, a := range c.b.Accepted {
		path := fmt.Sprintf("$.accepted[%d]", i)
		if a.Reason == "" || len(a.Reason) > MaxText {
			return c.fail(path, "reason: give one, of at most %d characters", MaxText)
		}
		for name, text := range a.Growth {
			m, ok := MeasureNamed(name)
			if !ok {
				return c.fail(path+".growth."+name, "measure %q is not known: one of %s", name, measureNames())
			}
			if _, err := parseAmount(string(text), m.Unit); err != nil {
				return c.fail(path+".growth."+name, "%v", err)
			}
		}
	}
	return nil
}

// parseAmount reads an amount of a measure: 180MiB, 5s, 40.
func parseAmount(text string, u lab.Unit) (float64, error) {
	n, err := lab.ParseValue(text, u)
	if err == nil && n <= 0 {
		return 0, fmt.Errorf("%q: give more than 0", text)
	}
	return n, err
}

// parseFloor reads "default", "2%", "1MiB", or the larger of two: "2% or 1MiB".
func parseFloor(text string, u lab.Unit) (Floor, error) {
	if text == defaultGrowth {
		return DefaultFloor(u), nil
	}
	var f Floor
	parts := strings.Split(text, " or ")
	if len(parts) > 2 {
		return f, fmt.Errorf("%q: give a share, an amount, or one or the other, such as 2%% or 1MiB", text)
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if percent, ok := strings.CutSuffix(part, "%"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
			if err != nil || !(n > 0 && n <= 1000) {
				return f, fmt.Errorf("%q is no share above 0%%: write it as 2%%", part)
			}
			f.Share = n / 100
			continue
		}
		n, err := parseAmount(part, u)
		if err != nil {
			return f, fmt.Errorf("%w, as a share such as 2%%, or %s", err, defaultGrowth)
		}
		f.Amount = n
	}
	return f, nil
}

// Schema is the JSON Schema of budget files.
//
//go:embed budget.schema.json
var Schema string
