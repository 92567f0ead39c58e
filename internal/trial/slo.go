package trial

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/load"
)

// Metric is what a clause of an SLO looks at.
type Metric string

// The metrics of an SLO.
const (
	P50        Metric = "p50"
	P90        Metric = "p90"
	P99        Metric = "p99"
	P999       Metric = "p999"
	MeanTime   Metric = "mean"
	MaxTime    Metric = "max"
	ErrorCount Metric = "errors"
	Throughput Metric = "throughput"
	// Cost is the processor time of a good answer, or of a whole job. What waited for
	// memory meanwhile counts as if it had worked: processor time is blind to that.
	Cost      Metric = "cost"
	StartTime Metric = "start"
	JobTime   Metric = "time" // of a job, from its start to its end
)

// Unit is the unit of a clause's value.
type Unit string

// The units: Ratio compares with the baseline, Percent (of the requests due)
// belongs to errors alone.
const (
	Ratio     Unit = "x"
	Percent   Unit = "%"
	Count     Unit = ""
	PerSecond Unit = "/s"
	Duration  Unit = "duration"
)

// Clause is one demand of an SLO.
type Clause struct {
	Metric Metric
	Op     string // "<", "<=", ">", ">=", "="
	// Value is in the unit: seconds for Duration.
	Value float64
	Unit  Unit
	text  string
}

// String is the clause as it was written.
func (c Clause) String() string { return c.text }

// SLO is a service level objective: all clauses must hold.
type SLO []Clause

// DefaultSLO is the objective where load is put on the service.
const DefaultSLO = "errors=0 cost<=1.1x"

// DefaultStartSLO is the objective without load: only the start can be judged.
const DefaultStartSLO = "start<=2x"

// ByTime is the objective of an application whose processor time does not tell what its
// work costs, for it uses processors when it has nothing to do: what is said of cost beside
// the baseline's is then said of throughput.
func (s SLO) ByTime() SLO {
	out := slices.Clone(s)
	for i, c := range out {
		if c.Metric == Cost && c.Unit == Ratio && !s.Needs(Throughput) {
			v := math.Round(100/c.Value) / 100
			out[i] = Clause{Metric: Throughput, Op: ">=", Value: v, Unit: Ratio, text: fmt.Sprintf("throughput>=%gx", v)}
		}
	}
	return out
}

// Spare is the share of the baseline's speed that the objective leaves to lose: the least
// of its clauses on speed that compare with it, 0 without one.
func (s SLO) Spare() float64 {
	spare := 0.0
	for _, c := range s {
		left := 0.0
		switch {
		case c.Unit != Ratio:
		case c.Metric == Throughput:
			left = 1 - c.Value
		case c.Metric == JobTime || c.Metric == Cost:
			left = 1 - 1/c.Value
		}
		if left > 0 && (spare == 0 || left < spare) {
			spare = left
		}
	}
	return spare
}

const sloHelp = `write clauses such as "p99<200ms errors=0 throughput>=0.9x start<30s", where x is relative to the baseline`

const (
	maxSLOText    = 1000
	maxSLOClauses = 16
	maxSLOValue   = 1e9
)

// String is the SLO as ParseSLO reads it.
func (s SLO) String() string {
	words := make([]string, len(s))
	for i, c := range s {
		words[i] = c.text
	}
	return strings.Join(words, " ")
}

// Needs tells whether some clause looks at one of the metrics.
func (s SLO) Needs(metrics ...Metric) bool {
	for _, c := range s {
		for _, m := range metrics {
			if c.Metric == m {
				return true
			}
		}
	}
	return false
}

// ParseSLO reads clauses separated by white space or commas: a metric (p50,
// p90, p99, p999, mean, max, errors, throughput, cost, start, time), an operator, and a
// value: a duration, requests per second, a number or percentage of errors, or
// a ratio to the baseline such as 0.9x. Each metric may stand once.
func ParseSLO(s string) (SLO, error) {
	if len(s) > maxSLOText {
		return nil, fmt.Errorf("SLO of %d bytes is too long: %s", len(s), sloHelp)
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
	if len(words) == 0 {
		return nil, fmt.Errorf("SLO is empty: %s", sloHelp)
	}
	if len(words) > maxSLOClauses {
		return nil, fmt.Errorf("SLO has %d clauses, more than %d: %s", len(words), maxSLOClauses, sloHelp)
	}
	var slo SLO
	seen := make(map[Metric]bool)
	for _, w := range words {
		c, err := parseClause(w)
		if err == nil && seen[c.Metric] {
			err = errors.New("it stands twice")
		}
		if err != nil {
			return nil, fmt.Errorf("SLO clause %q: %w: %s", w, err, sloHelp)
		}
		seen[c.Metric] = true
		slo = append(slo, c)
	}
	return slo, nil
}

func parseClause(w string) (Clause, error) {
	i := strings.IndexAny(w, "<>=")
	if i < 0 {
		return Clause{}, errors.New("no operator out of < <= > >= =")
	}
	c := Clause{Metric: Metric(w[:i]), Op: w[i : i+1], text: w}
	rest := w[i+1:]
	if c.Op != "=" && strings.HasPrefix(rest, "=") {
		c.Op, rest = c.Op+"=", rest[1:]
	}
	allowed, ok := map[Metric]string{
		P50: "< <=", P90: "< <=", P99: "< <=", P999: "< <=", MeanTime: "< <=", MaxTime: "< <=",
		ErrorCount: "= < <=", Throughput: "> >=", Cost: "< <=", StartTime: "< <=", JobTime: "< <=",
	}[c.Metric]
	if !ok {
		return Clause{}, fmt.Errorf("unknown metric %q", w[:i])
	}
	if !strings.Contains(" "+allowed+" ", " "+c.Op+" ") {
		return Clause{}, fmt.Errorf("%s takes %s", c.Metric, strings.Join(strings.Fields(allowed), " or "))
	}
	var err error
	c.Value, c.Unit, err = parseValue(c.Metric, rest)
	return c, err
}

func parseValue(m Metric, s string) (float64, Unit, error) {
	if n, ok := strings.CutSuffix(s, "x"); ok && m != ErrorCount {
		v, err := parseNumber(n)
		if err == nil && v == 0 {
			err = errors.New("a ratio of 0 demands nothing or all")
		}
		return v, Ratio, err
	}
	switch m {
	case ErrorCount:
		if n, ok := strings.CutSuffix(s, "%"); ok {
			v, err := parseNumber(n)
			if err == nil && v > 100 {
				err = errors.New("more than 100 %")
			}
			return v, Percent, err
		}
		v, err := parseNumber(s)
		return v, Count, err
	case Throughput:
		v, err := parseNumber(strings.TrimSuffix(s, "/s"))
		return v, PerSecond, err
	default:
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 || d > 24*time.Hour {
			return 0, Duration, fmt.Errorf("%q is no duration such as 200ms or 1.5s", s)
		}
		return d.Seconds(), Duration, nil
	}
}

// parseNumber reads digits with at most one point: no sign, exponent, Inf.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no number", s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v > maxSLOValue {
		return 0, fmt.Errorf("%q is no number up to %g", s, maxSLOValue)
	}
	return v, nil
}

// Measured is what an SLO is checked against.
type Measured struct {
	// Load is nil when no load was put on the service.
	Load *load.Result
	// Warmup counts the requests that were sent before that load.
	Warmup int64 `json:",omitempty"`
	// WarmBlocks counts the blocks that they were sent in, which took WarmTime; both are 0 where
	// the warm-up was one.
	WarmBlocks int           `json:",omitempty"`
	WarmTime   time.Duration `json:",omitempty"`
	Start      time.Duration
	// Cost is what a clause on Cost looks at; 0 where it was not measured.
	Cost time.Duration `json:",omitempty"`
	// Pace is as in Result.
	Pace time.Duration `json:",omitempty"`
	// Time is how long a job took, 0 for a service.
	Time time.Duration
}

// Broken is a clause that does not hold.
type Broken struct {
	Clause Clause
	// Text says what was measured, and what was asked for.
	Text string
	// Bar is what was asked for, in the metric's own unit, and Miss how far off
	// it is, relative to the bar: 0.05 is 5 % beyond.
	Bar, Miss float64
	// Unmeasured says that the load did not tell what the clause looks at.
	Unmeasured bool
}

// Measures are what the load must measure for this objective.
func (s SLO) Measures() load.Measures {
	var m load.Measures
	for _, c := range s {
		m |= c.measures()
	}
	return m
}

func (c Clause) measures() load.Measures {
	switch {
	case c.Metric == Throughput || c.Metric == Cost || c.Metric == ErrorCount && c.Unit == Percent:
		return load.Requests | load.Failures
	case c.Metric == ErrorCount:
		return load.Failures
	}
	return map[Metric]load.Measures{P50: load.P50, P90: load.P90, P99: load.P99, P999: load.P999, MeanTime: load.Mean, MaxTime: load.Max}[c.Metric]
}

// CheckLoader refuses a load that cannot tell what a clause looks at; l is nil
// where there is none.
func (s SLO) CheckLoader(l load.Loader) error {
	for _, c := range s {
		need := c.measures()
		switch {
		case need == 0:
		case l == nil:
			return fmt.Errorf("SLO clause %q looks at load, and there is none", c)
		case need&^l.Measures() != 0:
			return fmt.Errorf("SLO clause %q looks at %s, and %s does not tell it (it tells %s): ask for what it tells, or use another load",
				c, need&^l.Measures(), l.Describe().Generator, l.Measures())
		}
	}
	return nil
}

// Check returns the clauses that do not hold; one about load also does not hold
// where what it looks at was not measured, and a load that did not come to its
// end is one more. Clauses relative to a baseline are
// left out where base is nil, and those about load where there was none.
func (s SLO) Check(m Measured, base *Measured) []Broken {
	var broken []Broken
	if m.Load != nil && m.Load.Incomplete != "" {
		broken = append(broken, Broken{Clause: Clause{Metric: ErrorCount}, Text: m.Load.Incomplete, Miss: math.Inf(1), Unmeasured: true})
	}
	for _, c := range s {
		if b, ok := c.check(m, base); !ok {
			broken = append(broken, b)
		}
	}
	return broken
}

func (c Clause) check(m Measured, base *Measured) (b Broken, holding bool) {
	got, why := m.value(c)
	if why == notAsked {
		return b, true
	}
	if why != "" {
		return c.unmeasured(why), false
	}
	bar := c.Value
	if c.Unit == Ratio {
		if base == nil {
			return b, true
		}
		ref, why := base.value(c)
		if why == notAsked || why == "" && ref == 0 {
			return b, true
		}
		if why != "" {
			return c.unmeasured("of the baseline: " + why), false
		}
		bar *= ref
		if c.Metric == Cost { // what slows other work is not the application's; it need not feel what makes that faster
			bar *= max(1, paceRatio(base.Pace, m.Pace))
		}
	}
	return Broken{Clause: c, Text: c.describe(got, bar), Bar: bar, Miss: miss(got, bar)}, holds(got, c.Op, bar)
}

// unmeasured is a clause that does not hold because nobody can tell.
func (c Clause) unmeasured(why string) Broken {
	return Broken{Clause: c, Text: fmt.Sprintf("%s was not measured (%s): %s", c.Metric, c.text, why), Miss: math.Inf(1), Unmeasured: true}
}

func holds(got float64, op string, bar float64) bool {
	switch op {
	case "<":
		return got < bar
	case "<=":
		return got <= bar
	case ">":
		return got > bar
	case ">=":
		return got >= bar
	}
	return got == bar
}

func miss(got, bar float64) float64 {
	if bar == 0 {
		return math.Inf(1)
	}
	return math.Abs(got-bar) / bar
}

// notAsked is why a value is missing that nobody has to measure.
const notAsked = "not asked for"

// value is the measured value in the unit of the clause, a ratio's in the
// metric's own unit; or why there is none.
func (m Measured) value(c Clause) (v float64, why string) {
	switch {
	case c.Metric == StartTime:
		return m.Start.Seconds(), ""
	case c.Metric == JobTime && m.Time > 0:
		return m.Time.Seconds(), ""
	case c.Metric == Cost && m.Cost > 0:
		return m.Cost.Seconds(), ""
	case c.Metric == JobTime || m.Load == nil || m.Load.Incomplete != "":
		return 0, notAsked
	case !m.Load.NoRequests && m.Load.Due == 0:
		return 0, "no request was sent"
	}
	switch c.Metric {
	case ErrorCount:
		return errorsOf(m.Load, c.Unit)
	case Cost:
		return 0, "no request was answered well"
	case Throughput:
		return throughputOf(m.Load, c.Unit)
	}
	return latencyOf(m.Load, c.Metric)
}

func errorsOf(l *load.Result, u Unit) (float64, string) {
	n, measured := l.Unanswered()
	switch {
	case !measured:
		return 0, "the load does not count failed requests"
	case u == Percent && l.NoRequests:
		return 0, "the load does not count requests"
	case u == Percent:
		return 100 * float64(n) / float64(l.Due), ""
	}
	return float64(n), ""
}

func throughputOf(l *load.Result, u Unit) (float64, string) {
	v, measured := l.Throughput()
	switch {
	case !measured:
		return 0, "the load does not count good answers"
	case v == 0 && u == Ratio:
		return 0, "no request was answered well"
	}
	return v, ""
}

func latencyOf(l *load.Result, m Metric) (float64, string) {
	d, measured := map[Metric]load.Time{P50: l.Latency.P50, P90: l.Latency.P90, P99: l.Latency.P99,
		P999: l.Latency.P999, MeanTime: l.Latency.Mean, MaxTime: l.Latency.Max}[m].Value()
	switch {
	case measured:
		return d.Seconds(), ""
	case l.NoLatency != "":
		return 0, l.NoLatency
	case l.OK == 0:
		return 0, "no request was answered well"
	}
	return 0, "the load does not tell it"
}

func (c Clause) describe(got, bar float64) string {
	format := func(v float64) string {
		switch {
		case c.Metric == ErrorCount && c.Unit == Percent:
			return strconv.FormatFloat(v, 'f', 2, 64) + " %"
		case c.Metric == ErrorCount:
			return strconv.FormatFloat(v, 'f', -1, 64)
		case c.Metric == Throughput:
			return strconv.FormatFloat(v, 'f', 1, 64) + "/s"
		}
		d := time.Duration(v * float64(time.Second))
		if d < time.Millisecond { // a broker uses some microseconds for a record
			return d.Round(100 * time.Nanosecond).String()
		}
		return d.Round(10 * time.Microsecond).String()
	}
	return fmt.Sprintf("%s is %s, wanted %s %s (%s)", c.Metric, format(got), c.Op, format(bar), c.text)
}
