package jmh

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func caches(t testing.TB) []Result {
	t.Helper()
	file, err := os.Open("testdata/caches.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results, err := Read(file, "caches.json")
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// The interval is that of Student's t: 31.598 is its 0.9995 quantile with two
// degrees of freedom.
func TestEstimate(t *testing.T) {
	e := Metric{Forks: [][]float64{{1, 3}, {3, 3}, {4, 4}}}.Estimate()
	if !e.PerFork || !slices.Equal(e.Values, []float64{2, 3, 4}) || math.Abs(e.Center-3) > 1e-12 ||
		math.Abs(e.Margin()-31.598/math.Sqrt(3)) > 0.01 {
		t.Errorf("%+v ± %v", e, e.Margin())
	}
	if e := (Metric{Forks: [][]float64{{1, 3}, {3, 3}}}).Estimate(); e.PerFork || len(e.Values) != 4 {
		t.Errorf("iterations of two forks: %+v", e)
	}
	if e := (Metric{Forks: [][]float64{{1, 5}, {2, 7}}, Peak: true}).Estimate(); !slices.Equal(e.Values, []float64{5, 7}) {
		t.Errorf("peaks: %+v", e)
	}
	if e := (Metric{Forks: [][]float64{{1}}}).Estimate(); e.Low != nil || !math.IsNaN(e.Margin()) {
		t.Errorf("an interval of one value: %+v", e)
	}
}

func TestPeaksAreKnown(t *testing.T) {
	for _, r := range caches(t) {
		if !r.Metrics["mem.peak.used"].Peak || r.Metrics["mem.retained"].Peak || r.Metrics[Score].Peak {
			t.Errorf("peak: %v, retained: %v", r.Metrics["mem.peak.used"].Peak, r.Metrics["mem.retained"].Peak)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{
		"", "[]", "{}", `[{"benchmark":"a.b"}]`, `[{"benchmark":"a.b","mode":"ss","primaryMetric":{"score":"much"}}]`, `[1]`, "[{]",
	} {
		if _, err := Read(strings.NewReader(text), "x.json"); err == nil || !strings.Contains(err.Error(), "x.json") {
			t.Errorf("%q: %v", text, err)
		}
	}
	const nan = `[{"benchmark":"a.B.c","mode":"ss","primaryMetric":{"score":1,"scoreError":"NaN","scoreUnit":"s","rawData":[["NaN",1],["+INF"]]}}]`
	results, err := Read(strings.NewReader(nan), "x.json")
	if err != nil || len(results[0].Metrics[Score].Forks) != 1 {
		t.Errorf("%+v, %v", results, err)
	}
}

// Whatever a file says, its values are finite, and the bounds of estimates are
// in order.
func FuzzRead(f *testing.F) {
	text, err := os.ReadFile("testdata/caches.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`[{"benchmark":"a.B.c","mode":"thrpt","primaryMetric":{"score":1e308,"scoreUnit":"s","rawData":[[1e308,-1e308],[]]}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		results, err := Read(bytes.NewReader(text), "x")
		if err != nil {
			return
		}
		for _, r := range results {
			for name, m := range r.Metrics {
				for _, v := range slices.Concat(m.Forks...) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s is %v", name, v)
					}
				}
				if len(m.Forks) == 0 {
					continue
				}
				if e := m.Estimate(); len(e.Values) == 0 || e.Low != nil && *e.Low > *e.High {
					t.Errorf("%s: %+v", name, e)
				}
			}
		}
	})
}
