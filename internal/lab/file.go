// Package lab runs experiments that are written down as files: a program, the
// factors that are varied, what is measured, what was published, and what is
// claimed. It knows matrices and results; how one run goes is package trial's.
package lab

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/yamlfile"
)

// Bounds of an experiment file.
const (
	maxCells   = 10_000
	maxRepeats = 1000
	maxFactors = 12
)

// Experiment is an experiment file. experiment.schema.json says the same to
// editors.
type Experiment struct {
	Title    string `yaml:"title"`
	Question string `yaml:"question"`
	// Source is where the claims were published.
	Source string `yaml:"source"`
	Run    Run    `yaml:"run"`
	// Factors are varied: every value of one with every value of the others.
	Factors []Factor `yaml:"factors"`
	// Exclude leaves out the cells that match all values of an entry;
	// Include adds cells, with a value for every factor.
	Exclude []Where `yaml:"exclude"`
	Include []Where `yaml:"include"`
	// Repeats is how often each cell runs: in rounds, each in an order of
	// its own that Seed decides on.
	Repeats int    `yaml:"repeats"`
	Seed    uint64 `yaml:"seed"`
	// MostRepeats is how often the cells of a claim run that is unclear after
	// the Repeats: a round more at a time, until it is clear. None when 0.
	MostRepeats int `yaml:"mostRepeats"`
	// Search looks for a limit instead of running a cell once.
	Search  *Search  `yaml:"search"`
	Measure []string `yaml:"measure"`
	// Columns is the factor that tables have their columns from; the last
	// one when empty.
	Columns   string      `yaml:"columns"`
	Published []Published `yaml:"published"`
	Claims    []Claim     `yaml:"claims"`
	// Remarks are a reader's notes to the results, in Markdown.
	Remarks string `yaml:"remarks"`

	only Where
}

// Restrict leaves only the cells with these values, and at most so many rounds
// unless that is 0. The results count for the whole experiment.
func (e *Experiment) Restrict(only Where, rounds int) error {
	for name, value := range only {
		f := e.factor(name)
		if f == nil {
			return fmt.Errorf("%q is no factor", name)
		}
		if !slices.ContainsFunc(e.Cells(), func(c Cell) bool { return e.matches(c.Labels, Where{name: value}) }) {
			return fmt.Errorf("factor %s has no value %q: it has %s", name, value, strings.Join(f.labels(), ", "))
		}
	}
	e.only = only
	if rounds > 0 {
		e.Repeats = min(e.Repeats, rounds)
		e.MostRepeats = min(e.MostRepeats, rounds)
	}
	if len(e.Cells()) == 0 {
		return errors.New("no cell has all of these values")
	}
	return nil
}

// Run is what runs in every cell. Its texts may hold the names of factors in
// braces, such as {jdk}, and {port}, a free port of the loopback.
type Run struct {
	// Workload is what kind of program it is: one that keeps running when it
	// is empty, or JMHWorkload.
	Workload string `yaml:"workload" json:",omitempty"`
	// JDK is a major version, looked for where tare jdks looks, or the path of
	// a java launcher.
	JDK Scalar `yaml:"jdk"`
	// Runner is cgroup, or docker with the Image that the program is in: JDK,
	// environment and paths are then the image's.
	Runner Scalar `yaml:"runner" json:",omitempty"`
	Image  Scalar `yaml:"image" json:",omitempty"`
	// Launcher is what starts the java launcher in its place, such as
	// [../bin/tare-exec, --]. It must replace itself by what it starts.
	Launcher []string `yaml:"launcher" json:",omitempty"`
	// Options are the JVM's, Command what follows them: -jar and a jar, or a
	// main class, and arguments. Relative paths start at the file's folder.
	// {archive} is what Train makes.
	Options []string          `yaml:"options"`
	Command []string          `yaml:"command"`
	Env     map[string]Scalar `yaml:"env"`
	// Limit is the memory limit, such as 512m; CPUs a quota.
	Limit  Scalar `yaml:"limit"`
	CPUs   Scalar `yaml:"cpus"`
	Cpuset Scalar `yaml:"cpuset"`
	// Ready is as tare fit's --ready; the first URL when empty. ReadyTimeout
	// is also how long benchmarks may take, an hour when 0.
	Ready        string   `yaml:"ready"`
	ReadyTimeout Duration `yaml:"readyTimeout"`
	Load         *Load    `yaml:"load"`
	// Settle is how long a program without load idles before it is measured.
	Settle Duration `yaml:"settle"`
	// SLO is what a run must keep to pass, as tare fit's --slo.
	SLO string `yaml:"slo"`
	// Train makes the file that {archive} stands for, before the run.
	Train *Train `yaml:"train" json:",omitempty"`
	// Machine is where it runs; this machine without one.
	Machine *Machine `yaml:"machine" json:",omitempty"`
}

// Train makes a class archive. Its runs have the options of the run that do not
// name {archive}, and their own.
type Train struct {
	// Options are those of a run without memory limit, under the run's load,
	// that is ended in good order.
	Options []string `yaml:"options"`
	// Then are those of a run afterwards that ends by itself, such as
	// -Xshare:dump; none when empty.
	Then []string `yaml:"then" json:",omitempty"`
}

// Load is the load of a run.
type Load struct {
	// URLs are "[METHOD ]URL", sent in turn.
	URLs        []string `yaml:"urls"`
	Concurrency int      `yaml:"concurrency"`
	// Rate is requests per second; 0 is a closed loop.
	Rate     float64  `yaml:"rate"`
	Warmup   Duration `yaml:"warmup"`
	Duration Duration `yaml:"duration"`
	// Requests end the measured load before Duration does, so that runs compare by the
	// processor time of the same work; 0 is a load of Duration.
	Requests int64 `yaml:"requests" json:",omitempty"`
	// WarmupRequests end the warm-up before Warmup does.
	WarmupRequests int64 `yaml:"warmupRequests" json:",omitempty"`
}

// Factor is varied: by values that are put in for its name, or by variants.
type Factor struct {
	Name     string    `yaml:"name"`
	Values   []Scalar  `yaml:"values"`
	Variants []Variant `yaml:"variants"`
}

// Variant is a named change of the run: options and environment that are added,
// and what replaces the run's own.
type Variant struct {
	Name     string            `yaml:"name"`
	JDK      Scalar            `yaml:"jdk"`
	Image    Scalar            `yaml:"image"`
	Launcher []string          `yaml:"launcher"`
	Options  []string          `yaml:"options"`
	Env      map[string]Scalar `yaml:"env"`
	Limit    Scalar            `yaml:"limit"`
	CPUs     Scalar            `yaml:"cpus"`
	Cpuset   Scalar            `yaml:"cpuset"`
	Train    *Train            `yaml:"train"`
	Machine  *Machine          `yaml:"machine"`
}

// Where picks cells by the values of factors.
type Where map[string]Scalar

// Search finds the smallest memory limit that passes, or the largest number
// that may be put in for a name.
type Search struct {
	// Find is "smallest limit" or "largest NAME"; {NAME} must then stand in
	// the run.
	Find string `yaml:"find"`
	// From and To bound a number; a limit is looked for between what no JVM
	// starts in and the run's own limit.
	From int64 `yaml:"from"`
	To   int64 `yaml:"to"`
	// Tolerance is how near what passes and what fails are brought together,
	// as a share, 0.02 when 0.
	Tolerance float64 `yaml:"tolerance"`
	// Confirmations is how many fresh runs must pass at a limit that was
	// found, 3 when 0.
	Confirmations int `yaml:"confirmations" json:",omitempty"`
}

// Published is a result that somebody else published.
type Published struct {
	Where   Where  `yaml:"where"`
	Measure string `yaml:"measure"`
	Value   Scalar `yaml:"value"`
	Note    string `yaml:"note"`
	// Why says why what was measured differs, or that it does not.
	Why string `yaml:"why"`
}

// Claim is a sentence, and what must be measured for it to hold.
type Claim struct {
	Text    string `yaml:"text"`
	Measure string `yaml:"measure"`
	// Compare names a factor and two of its values: the ratio of the first
	// to the second is judged. Without it the value itself is.
	Compare map[string][]Scalar `yaml:"compare"`
	Where   Where               `yaml:"where"`
	// Expect is "<= X", ">= X" or "X .. Y".
	Expect string `yaml:"expect"`
	// Why says why it holds, or does not.
	Why string `yaml:"why"`
}

// Scalar is a number, a text or a truth value, as text.
type Scalar string

// UnmarshalYAML takes a scalar of any kind.
func (s *Scalar) UnmarshalYAML(unmarshal func(any) error) error {
	var v any
	if err := unmarshal(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*s = Scalar(v)
	case bool:
		*s = Scalar(strconv.FormatBool(v))
	case int64:
		*s = Scalar(strconv.FormatInt(v, 10))
	case uint64:
		*s = Scalar(strconv.FormatUint(v, 10))
	case float64:
		*s = Scalar(strconv.FormatFloat(v, 'g', -1, 64))
	default:
		return fmt.Errorf("want a number or a text, got %T", v)
	}
	return nil
}

// Duration is a time such as "5s".
type Duration time.Duration

// UnmarshalYAML takes what time.ParseDuration takes, but no negative time.
func (d *Duration) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 || v > 24*time.Hour {
		return fmt.Errorf("%q is no time up to a day: write it as 5s or 2m", text)
	}
	*d = Duration(v)
	return nil
}

// FileError is a mistake in an experiment file.
type FileError = yamlfile.Error

// format is that of experiment files.
var format = yamlfile.Format{Name: "an experiment file", Page: "docs/lab.md"}

// Read reads an experiment file of this name and checks it: what it accepts can
// be run. Its errors are *FileError.
func Read(r io.Reader, name string) (*Experiment, error) {
	data, err := format.Read(r, name)
	if err != nil {
		return nil, err
	}
	e := &Experiment{}
	if err := format.Decode(data, name, e); err != nil {
		return nil, err
	}
	c := &checker{name: name, data: data, e: e}
	c.check()
	if c.err != nil {
		return nil, c.err
	}
	return e, nil
}

// checker checks an experiment; the first mistake is kept.
type checker struct {
	name string
	data []byte
	e    *Experiment
	err  *FileError
}

// fail notes a mistake at a path of the file, such as $.factors[0].name.
func (c *checker) fail(path, format string, args ...any) {
	if c.err != nil {
		return
	}
	c.err = yamlfile.Mistake(c.data, c.name, path, format, args...)
}

var factorName = lazy.Regexp(`^[a-z][a-z0-9-]{0,31}$`)

func (c *checker) check() {
	e := c.e
	if e.Title == "" {
		c.fail("$", "title is missing")
	}
	c.checkFactors()
	if e.Repeats == 0 {
		e.Repeats = 3
	}
	if e.Repeats < 1 || e.Repeats > maxRepeats {
		c.fail("$.repeats", "repeats %d: give 1 to %d", e.Repeats, maxRepeats)
	}
	if e.MostRepeats != 0 && (e.MostRepeats < e.Repeats || e.MostRepeats > maxRepeats) {
		c.fail("$.mostRepeats", "mostRepeats %d: give %d, the repeats, to %d", e.MostRepeats, e.Repeats, maxRepeats)
	}
	if e.Columns == "" && len(e.Factors) > 0 {
		e.Columns = e.Factors[len(e.Factors)-1].Name
	}
	if e.Columns != "" && e.factor(e.Columns) == nil {
		c.fail("$.columns", "%q is no factor", e.Columns)
	}
	c.checkRun()
	c.checkSearch()
	c.checkMeasures()
	c.checkPublished()
	c.checkClaims()
	c.checkCells()
}

// ownNames are taken by tare itself: no factor and no number that is looked for
// can have them.
var ownNames = []string{"port", "limit", archiveName}

func (c *checker) checkFactors() {
	seen := map[string]bool{}
	for _, name := range ownNames {
		seen[name] = true
	}
	if len(c.e.Factors) > maxFactors {
		c.fail("$.factors", "%d factors: give at most %d", len(c.e.Factors), maxFactors)
		return
	}
	for i, f := range c.e.Factors {
		path := fmt.Sprintf("$.factors[%d]", i)
		switch {
		case !factorName().MatchString(f.Name):
			c.fail(path, "factor name %q: write it in small letters, digits and hyphens", f.Name)
		case seen[f.Name]:
			c.fail(path+".name", "%q is taken already", f.Name)
		case (len(f.Values) == 0) == (len(f.Variants) == 0):
			c.fail(path, "factor %s: give it values or variants, and not both", f.Name)
		}
		seen[f.Name] = true
		labels := f.labels()
		for j, l := range labels {
			if l == "" || slices.Contains(labels[:j], l) {
				c.fail(path, "factor %s: value %q is empty or there twice", f.Name, l)
			}
		}
	}
	for list, entries := range map[string][]Where{"exclude": c.e.Exclude, "include": c.e.Include} {
		for i, w := range entries {
			path := fmt.Sprintf("$.%s[%d]", list, i)
			c.checkWhere(path, w, list == "include")
			if list == "include" && len(w) != len(c.e.Factors) {
				c.fail(path, "an included cell needs a value for each of the %d factors", len(c.e.Factors))
			}
		}
	}
}

// checkWhere checks that names are factors and, unless any value will do, that
// the values are theirs.
func (c *checker) checkWhere(path string, w Where, anyValue bool) {
	for name, value := range w {
		f := c.e.factor(name)
		if f == nil {
			c.fail(path, "%q is no factor", name)
			continue
		}
		included := slices.ContainsFunc(c.e.Include, func(i Where) bool { return i[name] == value })
		if anyValue && len(f.Variants) == 0 || included {
			continue
		}
		if !slices.Contains(f.labels(), string(value)) {
			c.fail(path, "factor %s has no value %q: it has %s", name, value, strings.Join(f.labels(), ", "))
		}
	}
}

func (c *checker) checkPublished() {
	for i, p := range c.e.Published {
		path := fmt.Sprintf("$.published[%d]", i)
		c.checkWhere(path+".where", p.Where, false)
		m, ok := MeasureNamed(p.Measure)
		if !ok {
			c.fail(path+".measure", "measure %q is not known: one of %s", p.Measure, measureHelp)
			continue
		}
		if _, err := ParseValue(string(p.Value), m.Unit); err != nil {
			c.fail(path+".value", "%v", err)
		}
	}
}

func (c *checker) checkClaims() {
	for i, cl := range c.e.Claims {
		path := fmt.Sprintf("$.claims[%d]", i)
		if cl.Text == "" {
			c.fail(path, "a claim needs a text")
		}
		if !slices.Contains(c.e.Measure, cl.Measure) {
			c.fail(path, "measure %q is not among those of the experiment", cl.Measure)
			continue
		}
		c.checkWhere(path+".where", cl.Where, false)
		if len(cl.Compare) > 1 {
			c.fail(path+".compare", "compare takes one factor")
		}
		for name, values := range cl.Compare {
			if len(values) != 2 {
				c.fail(path+".compare", "compare takes two values of factor %s: the ratio is of the first to the second", name)
			}
			for _, v := range values {
				c.checkWhere(path+".compare", Where{name: v}, false)
			}
		}
		m, _ := MeasureNamed(cl.Measure)
		if _, err := parseExpectation(cl.Expect, cl.unit(m)); err != nil {
			c.fail(path+".expect", "%v", err)
		}
	}
}

func (c *checker) checkMeasures() {
	if len(c.e.Measure) == 0 {
		c.fail("$", "measure is missing: one or more of %s", measureHelp)
	}
	for i, name := range c.e.Measure {
		path := fmt.Sprintf("$.measure[%d]", i)
		m, ok := MeasureNamed(name)
		var misfit error
		if ok {
			misfit = m.fits(c.e.Run)
		}
		switch {
		case !ok:
			c.fail(path, "measure %q is not known: one of %s", name, measureHelp)
		case misfit != nil:
			c.fail(path, "%v", misfit)
		case name == limitMeasure && (c.e.Search == nil || c.e.Search.Find != smallestLimit):
			c.fail(path, "limit is what a search for the %s finds: give search", smallestLimit)
		}
	}
	found := slices.Contains(c.e.Measure, foundMeasure) || slices.Contains(c.e.Measure, limitMeasure)
	if found != (c.e.Search != nil) {
		c.fail("$.measure", "found is what a search finds, and limit a limit that it finds: give both search and one of them, or neither")
	}
}

func (c *checker) checkCells() {
	if c.err != nil {
		return
	}
	total := 1
	for _, f := range c.e.Factors {
		if total *= len(f.labels()); total > maxCells {
			c.fail("$.factors", "more than %d cells", maxCells)
			return
		}
	}
	if len(c.e.Cells()) == 0 {
		c.fail("$.exclude", "nothing is left to run")
	}
}

func (e *Experiment) factor(name string) *Factor {
	for i := range e.Factors {
		if e.Factors[i].Name == name {
			return &e.Factors[i]
		}
	}
	return nil
}

// labels are the names of a factor's values.
func (f *Factor) labels() []string {
	out := make([]string, 0, len(f.Values)+len(f.Variants))
	for _, v := range f.Values {
		out = append(out, string(v))
	}
	for _, v := range f.Variants {
		out = append(out, v.Name)
	}
	return out
}

func (f *Factor) variant(label string) (Variant, bool) {
	for _, v := range f.Variants {
		if v.Name == label {
			return v, true
		}
	}
	return Variant{}, false
}

var sizeUnits = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9}

// ParseValue reads a number with a unit that fits: bytes as 300MiB or 300MB,
// times as 9.9s or 20ms, the rest without.
func ParseValue(text string, u Unit) (float64, error) {
	end := len(text)
	for end > 0 && !strings.ContainsRune("0123456789.", rune(text[end-1])) {
		end--
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text[:end]), 64)
	unit := strings.TrimSpace(text[end:])
	if err == nil && !math.IsInf(n, 0) && n >= 0 {
		switch u {
		case Bytes:
			if f, ok := sizeUnits[unit]; ok {
				return n * f, nil
			}
		case Seconds:
			if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil {
				return d.Seconds(), nil
			}
		default:
			if unit == "" || u == PerSecond && unit == "/s" {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no %s", text, unitHelp[u])
}

var unitHelp = map[Unit]string{Bytes: "size: write it as 300MiB, 300MB or bytes", Seconds: "time: write it as 9.9s or 20ms",
	PerSecond: "rate: write it as 1003 or 1003/s", Share: "share: write it as 0.05", Count: "number", Number: "number", Ratio: "ratio: write it as 1.05"}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// FileSchema is the JSON Schema of experiment files.
//
//go:embed experiment.schema.json
var FileSchema string
