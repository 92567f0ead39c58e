package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// wrkMeasures are without quantiles where the command does not ask for them.
func wrkMeasures(words []string) Measures {
	m := Requests | Failures | Mean | Max
	if words == nil || hasFlag(words, "-L", "--latency") {
		m |= P50 | P90 | P99
	}
	return m
}

// parseWrk reads what wrk and wrk2 print (print_stats and main in wrk.c). An
// answer that took longer than --timeout is a timeout and in no quantile;
// requests that are unanswered at the end are not counted at all.
func parseWrk(text []byte, _ []string) (Result, error) {
	w := wrkOutput{answers: newAnswers("wrk")}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxOutput+1)
	for lines.Scan() {
		if err := w.line(strings.TrimSpace(lines.Text())); err != nil {
			return Result{}, err
		}
	}
	switch {
	case lines.Err() != nil:
		return Result{}, lines.Err()
	case !w.counted:
		return Result{}, errors.New("its output is not wrk's: no line \"N requests in …\"")
	}
	return w.result()
}

type wrkOutput struct {
	*answers
	counted bool
	lists   int // of quantiles: wrk2 prints a second one, uncorrected
}

func (w *wrkOutput) line(line string) error {
	words := strings.Fields(line)
	switch {
	case len(words) >= 6 && words[1] == "requests" && words[2] == "in" && words[5] == "read":
		return w.count(words)
	case strings.HasPrefix(line, "Latency Distribution"):
		w.lists++
	case len(words) == 5 && words[0] == "Latency":
		return w.times([]*Time{&w.Latency.Mean, &w.Latency.Max}, words[1], words[3])
	case len(words) == 2 && strings.HasSuffix(words[0], "%") && w.lists == 1:
		return w.quantile(strings.TrimSuffix(words[0], "%"), words[1])
	case strings.HasPrefix(line, "Socket errors: "):
		return w.socketErrors(strings.TrimPrefix(line, "Socket errors: "))
	case strings.HasPrefix(line, "Non-2xx or 3xx responses: "):
		n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
		if err != nil || n < 0 || n > maxSummary {
			return fmt.Errorf("%.80q is not wrk's", line)
		}
		w.fail("HTTP 4xx or 5xx", n)
	}
	return nil
}

// count reads "60778 requests in 1.00s, 6.84MB read". What follows are errors.
func (w *wrkOutput) count(words []string) error {
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || n < 0 || n > maxSummary || w.counted {
		return fmt.Errorf("%.80q is not wrk's", strings.Join(words, " "))
	}
	w.counted = true
	w.Sent, w.answered = n, n
	w.Elapsed, err = wrkTime(strings.TrimSuffix(words[3], ","))
	return err
}

// socketErrors reads "connect 0, read 0, write 0, timeout 4". Timeouts are among
// the requests that are counted, as answers that came late.
func (w *wrkOutput) socketErrors(text string) error {
	for part := range strings.SplitSeq(text, ", ") {
		kind, number, _ := strings.Cut(part, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > maxSummary {
			return fmt.Errorf("socket errors %.80q are not wrk's", text)
		}
		switch kind {
		case timeoutKind:
			w.timeouts += n
			// One of them may have had a bad status too: it is one failure.
			n = min(n, max(0, w.Sent-w.Failed))
			w.fail(timeoutKind, n)
		case "connect", "read", "write":
			w.Sent += n
			w.fail("socket error: "+kind, n)
		default:
			return fmt.Errorf("socket errors %.80q are not wrk's", text)
		}
	}
	return nil
}

func (w *wrkOutput) quantile(percent, text string) error {
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil {
		return fmt.Errorf("quantile %.20q is not wrk's", percent)
	}
	l := &w.Latency
	to, ok := map[float64]*Time{50: &l.P50, 90: &l.P90, 99: &l.P99, 99.9: &l.P999}[p]
	if !ok {
		return nil
	}
	return w.times([]*Time{to}, text)
}

func (w *wrkOutput) times(to []*Time, texts ...string) error {
	for i, text := range texts {
		d, err := wrkTime(text)
		if err != nil {
			return err
		}
		*to[i] = TimeOf(d)
	}
	return nil
}

// result bounds what was rounded: wrk prints an answer to three or four digits.
func (w *wrkOutput) result() (Result, error) {
	if w.Failed > w.Sent { // the same request by status and by time
		return Result{}, fmt.Errorf("failed %d of %d requests", w.Failed, w.Sent)
	}
	return w.answers.result()
}

// wrkTime reads "44.00us" (format_time_us in units.c of wrk).
func wrkTime(text string) (time.Duration, error) {
	units := []struct {
		suffix string
		unit   time.Duration
	}{{"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok || strings.Trim(number, "0123456789.") != "" {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			break
		}
		return inDay(v, u.unit)
	}
	return 0, fmt.Errorf("%.20q is no time of wrk", text)
}
