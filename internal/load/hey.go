package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// checkHey refuses a command that prints another format.
func checkHey(words []string) error {
	if hasFlag(words, "-o") {
		return errors.New("load command hey: leave out -o: the usual output is what can be read")
	}
	return nil
}

// heyTick is the resolution of the times that hey prints: 0.0000 is below it.
const heyTick = 100 * time.Microsecond

// parseHey reads what hey prints (requester/print.go). Its times are of all
// answers, whatever their status; they leave out requests that timed out.
func parseHey(text []byte, _ []string) (Result, error) {
	h := heyOutput{answers: newAnswers("hey")}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxOutput+1)
	for lines.Scan() {
		if err := h.line(strings.TrimSpace(lines.Text())); err != nil {
			return Result{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return Result{}, err
	}
	if !h.summary || h.Elapsed <= 0 {
		return Result{}, errors.New("its output is not hey's: no summary with a total time")
	}
	// hey keeps a million answers, and prints no others.
	if all := h.rate * h.Elapsed.Seconds(); math.Abs(all-float64(h.Sent)) > 1+all/100 {
		return Result{}, fmt.Errorf("its output tells of %d requests out of %.0f: load for less time", h.Sent, all)
	}
	if h.answered == 0 {
		h.Latency = Latency{}
	}
	return h.result()
}

type heyOutput struct {
	*answers
	section string
	summary bool
	rate    float64 // of all requests, per second
}

func (h *heyOutput) line(line string) error {
	if name, ok := strings.CutSuffix(line, ":"); ok {
		h.section = name
		h.summary = h.summary || name == "Summary"
		return nil
	}
	words := strings.Fields(line)
	if len(words) < 2 {
		return nil
	}
	switch h.section {
	case "Summary":
		return h.total(words)
	case "Latency distribution":
		to, ok := map[string]*Time{"50%": &h.Latency.P50, "90%": &h.Latency.P90, "99%": &h.Latency.P99}[words[0]]
		if !ok || len(words) != 4 {
			return nil
		}
		return h.time(to, words[2])
	case "Status code distribution", "Error distribution":
		return h.counts(words, line)
	}
	return nil
}

func (h *heyOutput) total(words []string) error {
	var t Time
	switch words[0] {
	case "Total:":
		err := h.time(&t, words[1])
		h.Elapsed = t.d
		return err
	case "Slowest:":
		return h.time(&h.Latency.Max, words[1])
	case "Average:":
		if words[1] == "NaN" {
			return nil
		}
		return h.time(&h.Latency.Mean, words[1])
	case "Requests/sec:":
		v, err := strconv.ParseFloat(words[1], 64)
		if err != nil || !(v >= 0 && v <= float64(maxSummary)) {
			return fmt.Errorf("rate %.20q is not hey's", words[1])
		}
		h.rate = v
	}
	return nil
}

// counts reads "[200] 22204 responses" or "[12] Get …: connection refused".
func (h *heyOutput) counts(words []string, line string) error {
	number, ok := strings.CutPrefix(words[0], "[")
	number, closed := strings.CutSuffix(number, "]")
	if !ok || !closed {
		return fmt.Errorf("%.80q is not hey's", line)
	}
	if h.section == "Status code distribution" {
		n, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%.80q is not hey's", line)
		}
		return h.addStatus(number, n)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("%.80q is not hey's", line)
	}
	return h.addError(strings.Join(words[1:], " "), n)
}

// time reads seconds with four digits behind the point.
func (h *heyOutput) time(to *Time, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("time %.20q is not hey's", text)
	}
	d, err := inDay(v, time.Second)
	*to = TimeOf(max(d, heyTick))
	return err
}
