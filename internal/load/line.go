package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

const maxSummaryLine = 4 << 10

// parseLine reads the last line with text.
func parseLine(text []byte, _ []string) (Result, error) {
	text = bytes.TrimSpace(text)
	line := bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:])
	var fields map[string]json.RawMessage
	if len(line) > maxSummaryLine || json.Unmarshal(line, &fields) != nil || fields["requests"] == nil {
		return Result{}, errors.New("its last line is no summary")
	}
	r := Result{NoFailures: true}
	for name, raw := range fields {
		if err := r.setField(name, raw); err != nil {
			return Result{}, fmt.Errorf("last line: %.40q: %w", name, err)
		}
	}
	return checked(r)
}

func (r *Result) setField(name string, raw json.RawMessage) (err error) {
	switch name {
	case "requests":
		r.Sent, err = parseCount(raw)
		return err
	case "failed":
		r.NoFailures = false
		r.Failed, err = parseCount(raw)
		return err
	}
	l := &r.Latency
	t, ok := map[string]*Time{"meanMillis": &l.Mean, "p50Millis": &l.P50, "p90Millis": &l.P90, "p99Millis": &l.P99,
		"p999Millis": &l.P999, "maxMillis": &l.Max}[name]
	if !ok {
		return errors.New("unknown: print only requests, failed, and meanMillis, p50Millis, p90Millis, p99Millis, p999Millis or maxMillis")
	}
	*t, err = parseMillis(raw)
	return err
}

// parseStatus reads nothing.
func parseStatus([]byte, []string) (Result, error) {
	return Result{NoRequests: true}, nil
}

func parseCount(raw json.RawMessage) (int64, error) {
	n, err := parseDigits(raw)
	if err != nil || n > maxSummary {
		return 0, fmt.Errorf("%.40q is not a count: print an integer from 0 to %d", raw, maxSummary)
	}
	return n, nil
}

func parseMillis(raw json.RawMessage) (Time, error) {
	var ms float64
	if strings.TrimSpace(string(raw)) == "null" || json.Unmarshal(raw, &ms) != nil || !(ms >= 0 && ms <= float64(maxTime/time.Millisecond)) {
		return Time{}, fmt.Errorf("%.40q is not a time: print milliseconds from 0 to a day", raw)
	}
	return inUnits(ms, time.Millisecond), nil
}

// inUnits is a time of at least 0 and at most a day.
func inUnits(v float64, unit time.Duration) Time {
	return TimeOf(time.Duration(math.Round(v * float64(unit))))
}
