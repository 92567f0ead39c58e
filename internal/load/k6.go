package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// checkK6 refuses flags that keep the summary from the file that is named by
// the environment.
func checkK6(words []string) error {
	if hasFlag(words, "--summary-export", "--no-summary", "--summary-trend-stats") {
		return errors.New("load command k6: leave out --summary-export, --summary-trend-stats and --no-summary: the summary is needed here")
	}
	return nil
}

// k6Metric is a metric of k6's --summary-export. What k6 calls passes of
// http_req_failed is how often it was true.
type k6Metric struct {
	Count  *float64 `json:"count"`
	Rate   *float64 `json:"rate"`
	Passes *float64 `json:"passes"`
	Avg    *float64 `json:"avg"`
	Med    *float64 `json:"med"`
	P90    *float64 `json:"p(90)"`
	P99    *float64 `json:"p(99)"`
	P999   *float64 `json:"p(99.9)"`
	Max    *float64 `json:"max"`
}

// parseK6 reads the JSON of --summary-export. A request that timed out is in
// http_req_duration with its timeout, and one that could not connect with 0;
// so each quantile is the longer of that over all requests and that over the
// good ones.
func parseK6(text []byte, _ []string) (Result, error) {
	var s struct {
		Metrics map[string]k6Metric `json:"metrics"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Result{}, fmt.Errorf("its summary is not k6's: %w", oneLine(err))
	}
	requests := s.Metrics["http_reqs"]
	if requests.Count == nil {
		return Result{}, errors.New("its summary counts no HTTP requests (http_reqs)")
	}
	var r Result
	var err error
	if r.Sent, err = wholeNumber(*requests.Count); err != nil {
		return Result{}, err
	}
	if n := s.Metrics["http_req_failed"].Passes; n == nil {
		r.NoFailures = true
	} else if r.Failed, err = wholeNumber(*n); err != nil {
		return Result{}, err
	}
	if rate := requests.Rate; rate != nil && *rate > 0 && r.Sent > 0 {
		if r.Elapsed, err = inDay(*requests.Count / *rate, time.Second); err != nil {
			return Result{}, err
		}
	}
	all, good := s.Metrics["http_req_duration"], s.Metrics["http_req_duration{expected_response:true}"]
	l := &r.Latency
	for _, t := range []struct {
		to        *Time
		all, good *float64
	}{{&l.Mean, all.Avg, good.Avg}, {&l.P50, all.Med, good.Med}, {&l.P90, all.P90, good.P90}, {&l.P99, all.P99, good.P99},
		{&l.P999, all.P999, good.P999}, {&l.Max, all.Max, good.Max}} {
		for _, ms := range []*float64{t.all, t.good} {
			if ms == nil {
				continue
			}
			d, err := inDay(*ms, time.Millisecond)
			if err != nil {
				return Result{}, err
			}
			*t.to = TimeOf(max(t.to.d, d))
		}
	}
	return checked(r)
}

func wholeNumber(v float64) (int64, error) {
	if !(v >= 0 && v <= float64(maxSummary)) || v != float64(int64(v)) {
		return 0, fmt.Errorf("%g is no count of requests", v)
	}
	return int64(v), nil
}

// inDay is a time of at most a day.
func inDay(v float64, unit time.Duration) (time.Duration, error) {
	if !(v >= 0 && v <= float64(maxTime/unit)) {
		return 0, fmt.Errorf("%g is no time of at most a day", v)
	}
	return inUnits(v, unit).d, nil
}
