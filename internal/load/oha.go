package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// checkOha refuses a command that prints no JSON.
func checkOha(words []string) error {
	if words != nil && !hasFlag(words, "--output-format", "--json", "-j") {
		return errors.New("load command oha: add --no-tui --output-format json: that is what can be read")
	}
	return nil
}

// ohaDeadline is the error of requests that oha was still waiting for when its
// time was over. oha itself does not count them.
const ohaDeadline = "aborted due to deadline"

// parseOha reads the JSON of oha --output-format json. Its times are of all
// answers, whatever their status; they leave out requests that timed out.
func parseOha(text []byte, _ []string) (Result, error) {
	var s struct {
		Summary *struct {
			Total   float64  `json:"total"`
			Average *float64 `json:"average"`
			Slowest *float64 `json:"slowest"`
		} `json:"summary"`
		Latency struct {
			P50  *float64 `json:"p50"`
			P90  *float64 `json:"p90"`
			P99  *float64 `json:"p99"`
			P999 *float64 `json:"p99.9"`
		} `json:"latencyPercentiles"`
		Statuses map[string]int64 `json:"statusCodeDistribution"`
		Errors   map[string]int64 `json:"errorDistribution"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Result{}, fmt.Errorf("its output is not oha's JSON: %w", oneLine(err))
	}
	if s.Summary == nil || s.Statuses == nil {
		return Result{}, errors.New("its output is not oha's JSON: no summary and statusCodeDistribution")
	}
	a := newAnswers("oha")
	for code, n := range s.Statuses {
		if err := a.addStatus(code, n); err != nil {
			return Result{}, err
		}
	}
	for text, n := range s.Errors {
		if text == ohaDeadline {
			continue
		}
		if err := a.addError(text, n); err != nil {
			return Result{}, err
		}
	}
	var err error
	if a.Elapsed, err = inDay(s.Summary.Total, time.Second); err != nil {
		return Result{}, err
	}
	l := &a.Latency
	for to, seconds := range map[*Time]*float64{&l.Mean: s.Summary.Average, &l.Max: s.Summary.Slowest,
		&l.P50: s.Latency.P50, &l.P90: s.Latency.P90, &l.P99: s.Latency.P99, &l.P999: s.Latency.P999} {
		if seconds == nil || a.answered == 0 {
			continue
		}
		d, err := inDay(*seconds, time.Second)
		if err != nil {
			return Result{}, err
		}
		*to = TimeOf(d)
	}
	return a.result()
}

// answers is a Result of answers by status and errors by text.
type answers struct {
	Result
	generator          string
	answered, timeouts int64
}

func newAnswers(generator string) *answers {
	return &answers{Result: Result{Errors: make(map[string]int64)}, generator: generator}
}

func (a *answers) addStatus(code string, n int64) error {
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || status < 100 || status > 999 || n < 0 || n > maxSummary-a.Sent {
		return fmt.Errorf("%d answers of status %.20q", n, code)
	}
	a.Sent += n
	a.answered += n
	if status >= 400 {
		a.fail("HTTP "+code, n)
	}
	return nil
}

func (a *answers) addError(text string, n int64) error {
	if n < 0 || n > maxSummary-a.Sent {
		return fmt.Errorf("%d errors %.40q", n, text)
	}
	kind := kindOf(text)
	a.Sent += n
	if kind == timeoutKind {
		a.timeouts += n
	}
	a.fail(kind, n)
	return nil
}

func (a *answers) fail(kind string, n int64) {
	if n == 0 {
		return
	}
	if _, known := a.Errors[kind]; !known && len(a.Errors) >= MaxErrorKinds-1 {
		kind = otherKind
	}
	a.Failed += n
	a.Errors[kind] += n
}

func (a *answers) result() (Result, error) {
	a.leaveOutTimeouts()
	return checked(a.Result)
}

// leaveOutTimeouts drops the latencies where requests timed out that are not in
// them.
func (a *answers) leaveOutTimeouts() {
	if a.timeouts > 0 {
		a.Latency = Latency{}
		a.NoLatency = fmt.Sprintf("%d requests timed out, and %s leaves them out of its times", a.timeouts, a.generator)
	}
}
