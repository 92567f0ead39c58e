package lab

import (
	"math"
	"strings"
	"testing"
)

// set has, for each value of factor f, a sample of rss by round.
func set(t *testing.T, claims string, samples map[string][]float64) *Set {
	t.Helper()
	return setOf(t, "rss", "run: {command: [a, '{f}'], ready: 'tcp:1'}\nmeasure: [rss]\n", claims, samples)
}

// setOf is a set of another measure, by a file with other text.
func setOf(t *testing.T, measure, file, claims string, samples map[string][]float64) *Set {
	t.Helper()
	text := "title: x\nfactors: [{name: f, values: [a, b]}]\n" + file + "claims:\n" + claims
	e, err := Read(strings.NewReader(text), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &Results{have: map[runKey]bool{}}
	for _, c := range e.Cells() {
		for i, v := range samples[c.Labels[0]] {
			r.add(Record{Schema: Schema, Hash: e.Hash(c), Round: i + 1, Verdict: "passed", Values: map[string]float64{measure: v}})
		}
	}
	r.add(Record{Schema: Schema, Hash: "of another file", Round: 1, Values: map[string]float64{"rss": 1e9}})
	return Analyse(e, r)
}

func TestJudge(t *testing.T) {
	compare := func(expect string) string {
		return "  - {text: t, measure: rss, compare: {f: [a, b]}, expect: '" + expect + "'}\n"
	}
	twice := map[string][]float64{"a": {200, 202, 198}, "b": {100, 101, 99}}
	noisy := map[string][]float64{"a": {200, 120, 300}, "b": {100, 110, 90}}
	tests := []struct {
		name, claim string
		samples     map[string][]float64
		want        Judgement
		center      float64
	}{
		{"as expected", compare("1.9 .. 2.1"), twice, Confirmed, 2},
		{"at least", compare(">= 1.5"), twice, Confirmed, 2},
		{"not so", compare("<= 1.5"), twice, Refuted, 2},
		{"noise", compare("<= 2"), noisy, Unclear, 0},
		{"one round", compare("<= 2"), map[string][]float64{"a": {1}, "b": {1}}, Unmeasured, 0},
		{"rounds apart", compare("<= 2"), map[string][]float64{"a": {1, 2}}, Unmeasured, 0},
		{"value", "  - {text: t, measure: rss, where: {f: a}, expect: '<= 300B'}\n", twice, Confirmed, 200},
		{"one cell of two", "  - {text: t, measure: rss, expect: '<= 150B'}\n", twice, Refuted, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := set(t, tt.claim, tt.samples).Judge()
			if len(got) != 1 || got[0].Judgement != tt.want {
				t.Fatalf("got %+v, want %s", got, tt.want)
			}
			c := got[0].Checks[0].Value
			if tt.center > 0 && math.Abs(c.Center/tt.center-1) > 0.001 || c.Low > c.Center || c.High < c.Center {
				t.Errorf("interval %+v, want about %g", c, tt.center)
			}
		})
	}
}

// More rounds do not help where the search itself is too coarse for the claim.
func TestUnclearForGood(t *testing.T) {
	const file = "run: {command: [a, '{f}'], ready: 'tcp:1', limit: 1g}\nmeasure: [limit]\nsearch: {find: smallest limit, tolerance: 0.1}\n"
	samples := map[string][]float64{"a": {110 << 20, 90 << 20, 100 << 20}, "b": {100 << 20, 101 << 20, 99 << 20}}
	for expect, cells := range map[string]int{"0.95 .. 1.05": 0, "0.85 .. 1.15": 2, "0.1 .. 9": 0} {
		s := setOf(t, "limit", file, "  - {text: t, measure: limit, compare: {f: [a, b]}, expect: "+expect+"}\n", samples)
		if got := s.unclear(); len(got) != cells {
			t.Errorf("%s: %d cells run on, want %d: %+v", expect, len(got), cells, s.Judge())
		}
	}
}

// What a search found is known no better than it looked, however well rounds agree.
func TestSearchedIntervals(t *testing.T) {
	const (
		smallest = "run: {command: [a, '{f}'], ready: 'tcp:1', limit: 1g}\nmeasure: [limit, rss]\nsearch: {find: smallest limit, tolerance: 0.1}\n"
		largest  = "run: {command: [a, '{f}', '{n}'], ready: 'tcp:1'}\nmeasure: [found]\nsearch: {find: largest n, from: 1, to: 2000, tolerance: 0.1}\n"
	)
	limits := map[string][]float64{"a": {200 << 20, 200 << 20, 200 << 20}, "b": {100 << 20, 100 << 20, 100 << 20}}
	small := map[string][]float64{"a": {4 << 20, 4 << 20}}
	numbers := map[string][]float64{"a": {1000, 1000, 1000}, "b": {4, 4, 4}}
	ratio := func(measure, expect string) string {
		return "  - {text: t, measure: " + measure + ", compare: {f: [a, b]}, expect: '" + expect + "'}\n"
	}
	value := func(measure, expect string) string {
		return "  - {text: t, measure: " + measure + ", where: {f: a}, expect: '" + expect + "'}\n"
	}
	tests := []struct {
		measure, search, claim string
		samples                map[string][]float64
		low, high              float64
	}{
		{"limit", smallest, ratio("limit", "<= 1"), limits, 1.8, 2 / 0.9},
		{"limit", smallest, value("limit", "<= 1MiB"), limits, 180 << 20, 200 << 20},
		{"limit", smallest, value("limit", "<= 1MiB"), small, 3 << 20, 4 << 20}, // a step is more than a tenth
		{"found", largest, ratio("found", "<= 1"), numbers, 200, 275},           // 5 of the 4 is not tried
		{"found", largest, value("found", "<= 1"), numbers, 1000, 1100},
		{"rss", smallest, value("rss", "<= 1MiB"), limits, 200 << 20, 200 << 20},
	}
	for _, tt := range tests {
		got := setOf(t, tt.measure, tt.search, tt.claim, tt.samples).Judge()[0].Checks[0].Value
		if math.Abs(got.Low/tt.low-1) > 1e-9 || math.Abs(got.High/tt.high-1) > 1e-9 {
			t.Errorf("%s %s: %+v, want %g to %g", tt.measure, tt.claim, got, tt.low, tt.high)
		}
	}
}

func TestParseValue(t *testing.T) {
	tests := []struct {
		text string
		unit Unit
		want float64
	}{
		{"300MiB", Bytes, 300 << 20}, {"315.1 MiB", Bytes, 315.1 * (1 << 20)}, {"12", Bytes, 12}, {"1MB", Bytes, 1e6},
		{"9.9s", Seconds, 9.9}, {"20ms", Seconds, 0.02}, {"1003/s", PerSecond, 1003}, {"0.05", Share, 0.05}, {"7100", Count, 7100},
		{"", Bytes, -1}, {"MiB", Bytes, -1}, {"-1", Bytes, -1}, {"NaN", Count, -1}, {"1e999", Count, -1}, {"3 apples", Count, -1}, {"9.9", Seconds, -1},
	}
	for _, tt := range tests {
		got, err := ParseValue(tt.text, tt.unit)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%q as %s: %g, %v; want %g", tt.text, tt.unit, got, err, tt.want)
		}
	}
}
