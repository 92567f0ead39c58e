package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/polltest"
)

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestRunCommand(t *testing.T) {
	for _, c := range []struct {
		script   string
		ok, fail int64
		kind     string
		p50, p99 time.Duration
	}{
		{"true", 1, 0, "", 0, 0},
		{"exit 3", 0, 1, "exit status 3", 0, 0},
		{"kill -9 $$", 0, 1, "signal: killed", 0, 0},
		{`echo 'done {"requests":'`, 1, 0, "", 0, 0},
		{`echo '{"total":5}'`, 1, 0, "", 0, 0},
		{`echo '{"requests":5}'; echo more`, 1, 0, "", 0, 0},
		{`echo first; echo '{"requests":10,"failed":3,"p50Millis":1.5,"p99Millis":20}'; echo`, 7, 3, "other", 1500 * time.Microsecond, 20 * time.Millisecond},
		{`printf '{"requests":10}'; exit 1`, 10, 1, "exit status 1", 0, 0},
		{`echo '{"requests":0}'`, 0, 0, "", 0, 0},
	} {
		r, err := RunCommand(t.Context(), shell(c.script), nil, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", c.script, err)
			continue
		}
		if r.OK != c.ok || r.Failed != c.fail || r.Sent != c.ok+c.fail || r.Due != r.Sent || c.kind != "" && r.Errors[c.kind] != c.fail ||
			r.Latency.P50 != c.p50 || r.Latency.P99 != c.p99 || r.Elapsed <= 0 {
			t.Errorf("%s: %+v", c.script, r)
		}
	}
}

func TestRunCommandGivesEnvironmentAndOutput(t *testing.T) {
	var out, errs bytes.Buffer
	_, err := RunCommand(t.Context(), shell(`echo "to $TO"; echo oops >&2`), []string{"TO=you"}, &out, &errs)
	if err != nil || out.String() != "to you\n" || errs.String() != "oops\n" {
		t.Errorf("%q, %q, %v", &out, &errs, err)
	}
}

func TestRunCommandErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name a program"},
		{[]string{"/does/not/exist"}, "check its name"},
		{shell(`echo '{"requests":1,"p95Millis":3}'`), `"p95Millis": unknown`},
		{shell(`echo '{"requests":1.5}'`), "is not a count"},
		{shell(`echo '{"requests":-1}'`), "is not a count"},
		{shell(`echo '{"requests":null}'`), "is not a count"},
		{shell(`echo '{"requests":1,"failed":2}'`), "failed 2 of 1"},
		{shell(`echo '{"requests":1,"p50Millis":"3"}'`), "is not a time"},
		{shell(`echo '{"requests":1,"p50Millis":-3}'`), "is not a time"},
		{shell(`echo '{"requests":1,"p99Millis":1e99}'`), "is not a time"},
	} {
		r, err := RunCommand(t.Context(), c.args, nil, nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %+v, %v; want %q", c.args, r, err, c.want)
		}
	}
}

// When the context ends, and when the generator does, none of its processes
// is left.
func TestRunCommandKillsItsGroup(t *testing.T) {
	for name, then := range map[string]string{"cancelled": "wait", "ended": "exit 0"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan string, 1)
			out := &firstLine{done: done}
			ended := make(chan error, 1)
			go func() {
				_, err := RunCommand(ctx, shell("sleep 1000 & echo $!; "+then), nil, out, nil)
				ended <- err
			}()
			pid := <-done
			if name == "cancelled" {
				cancel()
			}
			if err := <-ended; errors.Is(err, context.Canceled) != (name == "cancelled") {
				t.Errorf("error %v", err)
			}
			polltest.Until(t, "the command's end", func() bool { return !running(pid) })
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunCommand(ended, shell("true"), nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// running tells whether there is a process that is not a zombie.
func running(pid string) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// firstLine hands over the first line written to it.
type firstLine struct {
	text []byte
	done chan string
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.text = append(f.text, p...)
	if line, _, ok := bytes.Cut(f.text, []byte("\n")); ok && f.done != nil {
		f.done <- string(line)
		f.done = nil
	}
	return len(p), nil
}

func TestLastLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"one", "one"},
		{"one\ntwo\n", "two"},
		{"one\r\n \n\n", "one"},
		{"one\n" + strings.Repeat("x", maxSummaryLine+1), ""},
		{"one\n" + strings.Repeat("x", maxSummaryLine), strings.Repeat("x", maxSummaryLine)},
		{strings.Repeat("x", 3*maxSummaryLine) + "\ntwo", "two"},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			l := &lastLine{}
			for rest := c.text; len(rest) > 0; {
				n, _ := l.Write([]byte(rest[:min(step, len(rest))]))
				rest = rest[n:]
			}
			if got := string(l.line()); got != c.want {
				t.Errorf("%.40q in steps of %d: %.40q", c.text, step, got)
			}
		}
	}
}

// A summary that is accepted is one that adds up.
func FuzzParseSummary(f *testing.F) {
	f.Add([]byte(`{"requests":10,"failed":3,"p50Millis":1.5,"p99Millis":20}`))
	f.Add([]byte(`{"requests":1e3,"x":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseSummary(line)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of more than a line: %v", err)
			}
			return
		}
		l := r.Latency
		if r.Sent != r.OK+r.Failed || r.Due != r.Sent || r.OK < 0 || r.Failed < 0 || r.Sent > maxSummary ||
			min(l.P50, l.P99) < 0 || max(l.P50, l.P99) > 24*time.Hour {
			t.Fatalf("%q: %+v", line, r)
		}
	})
}
