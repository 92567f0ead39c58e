// Package budget is the file tare.budget.yaml: what to start, under what load, and how
// much memory it may have.
package budget

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
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
	// Run is what is started and loaded, as in an experiment file of tare lab. Of a service
	// of a Compose file it says what that leaves open.
	Run lab.Run `yaml:"run"`
	// Compose names a service of a Compose file; nil is none.
	Compose *Compose `yaml:"compose"`
	// Results are what is measured by benchmarks or tests, in the place of Run; nil is none.
	Results *Results `yaml:"results"`
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

// Compose is a service of a Compose file, beside which those run that it depends on.
type Compose struct {
	// File is the Compose file, from the folder of the budget on.
	File    string `yaml:"file"`
	Service string `yaml:"service"`
	// Fresh are services that are made anew, with their volumes, before each run.
	Fresh []string `yaml:"fresh"`
	// Reset is what a shell in a service runs before each run, by the service's name.
	Reset map[string]string `yaml:"reset"`
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

// MeasureNamed is the measure of a name: one of Measures, or of results.
func MeasureNamed(name string) (Measure, bool) {
	if strings.Contains(name, resultSeparator) {
		return resultMeasure(name)
	}
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
func (m Measure) DefaultFloor() Floor {
	switch {
	case m.OfResults(): // of any size, down to some bytes an operation
		return Floor{Share: 0.01}
	case m.Unit == lab.Bytes:
		return Floor{0.01, 128 << 10}
	case m.Unit == lab.Seconds:
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
	if err := cmp.Or(c.checkSubject(), c.checkRuns(), c.checkBounds(), c.checkAccepted()); err != nil {
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

// Under is the budget of a base as it is run against a head: what is started is its own,
// load and limits are the head's. It is an error where the two start unlike things.
func (b *Budget) Under(head *Budget) (*Budget, error) {
	if b.kind() != head.kind() {
		return nil, fmt.Errorf("its budget checks %s, and this one %s: they cannot be compared", b.kind(), head.kind())
	}
	out := *b
	run, of := &out.Run, head.Run
	run.Load, run.Limit, run.CPUs, run.Cpuset, run.Settle = of.Load, of.Limit, of.CPUs, of.Cpuset, of.Settle
	return &out, nil
}

// kind is what a budget checks, in words.
func (b *Budget) kind() string {
	switch {
	case b.Results != nil:
		return "results of " + b.Results.Format
	case b.Compose != nil:
		return "a service of a Compose file"
	case b.Run.Image != "":
		return "an image"
	}
	return "a command"
}

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

// checkSubject says what of the subject cannot be run: a program, a service of a Compose
// file, or what makes results.
func (c *checker) checkSubject() error {
	switch {
	case c.b.Results != nil && c.b.Compose != nil:
		return c.fail("$.results", "give one of run, compose and results")
	case c.b.Results != nil:
		return c.checkResults()
	case c.b.Compose != nil:
		return cmp.Or(c.checkLoad(), c.checkCompose())
	case len(c.b.Run.Command) == 0:
		return c.fail("$.run", "command is missing: -jar and a jar, or a main class, and arguments")
	}
	return cmp.Or(c.checkLoad(), c.runs(c.b.Run))
}

// runs says what of a run cannot be run.
func (c *checker) runs(r lab.Run) error {
	if err := r.Check(); err != nil {
		return c.fail("$.run", "%v", err)
	}
	return nil
}

// checkLoad says what of a run is for tare lab, and whether its load is fixed.
func (c *checker) checkLoad() error {
	r := c.b.Run
	switch {
	case r.Workload != "" || r.Train != nil || r.Machine != nil:
		return c.fail("$.run", "workload, train and machine are for tare lab: a budget starts a program that keeps running")
	case r.SLO != "":
		return c.fail("$.run.slo", "a budget bounds memory and start: leave out slo")
	case r.Load != nil && r.Load.Requests == 0:
		return c.fail("$.run.load", "requests is missing: memory is compared after the same number of requests")
	case r.Load != nil && r.Load.Warmup > 0 && r.Load.WarmupRequests == 0:
		return c.fail("$.run.load.warmup", "warmupRequests is missing: memory is compared after the same number of requests")
	}
	return nil
}

func (c *checker) checkCompose() error {
	o, r := c.b.Compose, c.b.Run
	switch {
	case o.File == "" || o.Service == "":
		return c.fail("$.compose", "give file and service: the Compose file, and which of its services is checked")
	case r.Image != "" || r.Runner != "" || r.JDK != "" || len(r.Launcher) > 0:
		return c.fail("$.run", "the service has an image, and the JDK is in it: leave out image, runner, jdk and launcher")
	case len(r.Command) == 0:
		r.Command = []string{"Main"} // in the place of the service's, which is not known yet
	}
	return c.runs(r)
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
	most, err := c.measures("most", c.b.Most)
	if err != nil {
		return err
	}
	growth, err := c.measures("growth", c.b.Growth)
	if err != nil {
		return err
	}
	for _, m := range most {
		most, err := parseAmount(string(c.b.Most[m.Name]), m.Unit)
		if err != nil {
			return c.fail(at("most", m.Name), "%v", err)
		}
		c.b.bounds = append(c.b.bounds, Bound{Measure: m, Most: most, Floor: m.DefaultFloor()})
	}
	for _, m := range growth {
		floor, err := parseFloor(string(c.b.Growth[m.Name]), m)
		if err != nil {
			return c.fail(at("growth", m.Name), "%v", err)
		}
		c.b.bounds = append(c.b.bounds, Bound{Measure: m, Growth: true, Floor: floor})
	}
	return nil
}

// measures are those that a list of the file names, in the order of reports.
func (c *checker) measures(list string, texts map[string]lab.Scalar) ([]Measure, error) {
	var out []Measure
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m, ok := MeasureNamed(name)
		switch {
		case !ok && c.b.Results != nil:
			return nil, c.fail(at(list, name), "%q is no measure of results: write it as Class.method/metric", name)
		case !ok:
			return nil, c.fail(at(list, name), "measure %q is not known: one of %s", name, measureNames())
		case m.OfResults() != (c.b.Results != nil):
			return nil, c.fail(at(list, name), "measure %q does not go with what is run: results have measures such as Class.method/metric, a program those of docs/check.md", name)
		}
		out = append(out, m)
	}
	order := Measures()
	place := func(m Measure) int {
		return slices.IndexFunc(order, func(o Measure) bool { return o.Name == m.Name })
	}
	slices.SortStableFunc(out, func(a, b Measure) int { return cmp.Compare(place(a), place(b)) })
	return out, nil
}

// at is the path of a key in a list, quoted: names of results have dots.
func at(list, name string) string {
	if strings.ContainsAny(name, "'\\") {
		return "$." + list
	}
	return "$." + list + ".'" + name + "'"
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
				return c.fail(path+"."+strings.TrimPrefix(at("growth", name), "$."), "measure %q is not known: one of %s", name, measureNames())
			}
			if _, err := parseAmount(string(text), m.Unit); err != nil {
				return c.fail(path+"."+strings.TrimPrefix(at("growth", name), "$."), "%v", err)
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
func parseFloor(text string, m Measure) (Floor, error) {
	if text == defaultGrowth {
		return m.DefaultFloor(), nil
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
		n, err := parseAmount(part, m.Unit)
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
