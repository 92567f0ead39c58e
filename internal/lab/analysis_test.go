package lab

import (
	"math"
	"strings"
	"testing"
)

// set has, for each value of factor f, a sample of rss by round.
func set(t *testing.T, claims string, samples map[string][]float64) *Set {
	t.Helper()
	text := "title: x\nrun: {command: [a, '{f}'], ready: 'tcp:1'}\nfactors: [{name: f, values: [a, b]}]\nmeasure: [rss]\nclaims:\n" + claims
	e, err := Read(strings.NewReader(text), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &Results{have: map[string]bool{}}
	for _, c := range e.Cells() {
		for i, v := range samples[c.Labels[0]] {
			r.add(Record{Schema: Schema, Hash: e.Hash(c), Round: i + 1, Verdict: "passed", Values: map[string]float64{"rss": v}})
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
		got, err := parseValue(tt.text, tt.unit)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%q as %s: %g, %v; want %g", tt.text, tt.unit, got, err, tt.want)
		}
	}
}
