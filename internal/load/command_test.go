package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/polltest"
)

func newCommand(t *testing.T, script string, f Format) Command {
	t.Helper()
	c, err := NewCommand(script, nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		format   Format
		script   string
		want     Result
		p50, p99 time.Duration
	}{
		{Line, `echo first; echo '{"requests":10,"failed":3,"p50Millis":1.5,"p99Millis":20}'; echo`,
			Result{Due: 10, Sent: 10, OK: 7, Failed: 3, Errors: map[string]int64{"other": 3}}, 1500 * time.Microsecond, 20 * time.Millisecond},
		{Line, `echo '{"requests":10}'`, Result{Due: 10, Sent: 10, NoFailures: true, Errors: map[string]int64{}}, 0, 0},
		{Line, `printf '{"requests":10,"failed":0}'; exit 1`, Result{Due: 11, Sent: 11, OK: 10, Failed: 1, Errors: map[string]int64{"exit status 1": 1}}, 0, 0},
		{Line, `echo '{"requests":10}'; exit 1`, Result{Due: 10, Sent: 10, NoFailures: true, Incomplete: "the load command failed: exit status 1", Errors: map[string]int64{}}, 0, 0},
		{Line, `echo '{"requests":0,"failed":0}'`, Result{Errors: map[string]int64{}}, 0, 0},
		{Line, "exit 3", Result{NoRequests: true, NoFailures: true, Incomplete: "the load command told no result: exit status 3", Errors: map[string]int64{}}, 0, 0},
		{Line, "kill -9 $$", Result{NoRequests: true, NoFailures: true, Incomplete: "the load command told no result: signal: killed", Errors: map[string]int64{}}, 0, 0},
		{Status, "echo hello", Result{NoRequests: true, Errors: map[string]int64{}}, 0, 0},
		{Status, "exit 22", Result{NoRequests: true, Failed: 1, Errors: map[string]int64{"exit status 22": 1}}, 0, 0},
	} {
		r, err := newCommand(t, c.script, c.format).Load(t.Context(), time.Second)
		if err != nil || r.Elapsed <= 0 {
			t.Errorf("%s: %+v, %v", c.script, r, err)
			continue
		}
		c.want.Elapsed, c.want.Latency = r.Elapsed, Latency{P50: TimeOf(c.p50), P99: TimeOf(c.p99)}
		if !reflect.DeepEqual(r, c.want) {
			t.Errorf("%s: %+v, want %+v", c.script, r, c.want)
		}
	}
}

func TestCommandGivesEnvironmentAndOutput(t *testing.T) {
	var out bytes.Buffer
	c := newCommand(t, `echo "to $TO for $TARE_DURATION"; echo oops >&2`, Status)
	c.Env = []string{"TO=you"}
	c.Output = &out
	_, err := c.Load(t.Context(), 1500*time.Millisecond)
	if text := out.String(); err != nil || !strings.Contains(text, "to you for 1.5\n") || !strings.Contains(text, "oops\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// A command that tells no result is no load of one good request.
func TestCommandErrors(t *testing.T) {
	for _, c := range []struct {
		script, want string
		summary      bool
	}{
		{"/does/not/exist", "check its name", false},
		{"true", "its last line is no summary", true},
		{`echo 'done {"requests":'`, "its last line is no summary", true},
		{`echo '{"total":5}'`, "its last line is no summary", true},
		{`echo '{"requests":5}'; echo more`, "its last line is no summary", true},
		{`echo '{"requests":1,"p95Millis":3}'`, `"p95Millis": unknown`, true},
		{`echo '{"requests":1.5}'`, "is not a count", true},
		{`echo '{"requests":-1}'`, "is not a count", true},
		{`echo '{"requests":null}'`, "is not a count", true},
		{`echo '{"requests":1,"failed":2}'`, "failed 2 of 1", true},
		{`echo '{"requests":1,"p50Millis":"3"}'`, "is not a time", true},
		{`echo '{"requests":1,"p50Millis":-3}'`, "is not a time", true},
		{`echo '{"requests":1,"p99Millis":1e99}'`, "is not a time", true},
		{`echo '{"requests":1,"p50Millis":3,"p99Millis":2}'`, "not in order", true},
		{`head -c 3000000 /dev/zero | tr '\0' x`, "its last line is no summary", true},
	} {
		r, err := newCommand(t, c.script, Line).Load(t.Context(), time.Second)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.Is(err, ErrSummary) != c.summary {
			t.Errorf("%q: %+v, %v; want %q", c.script, r, err, c.want)
		}
	}
	if _, err := NewCommand(" ", nil, ""); err == nil {
		t.Error("an empty command was taken")
	}
	if _, err := NewCommand("true", nil, "csv"); err == nil || !strings.Contains(err.Error(), "hey, k6, line, oha, status, wrk") {
		t.Error(err)
	}
}

// A generator that never ends is ended, with all that it started, and that is
// the result.
func TestCommandDeadline(t *testing.T) {
	for f, incomplete := range map[Format]bool{Line: true, Status: false, Wrk: true} {
		out := &firstLine{done: make(chan string, 1)}
		c := newCommand(t, "sleep 1000 & echo $!; wait", f)
		c.Output, c.Time = out, 100*time.Millisecond
		pid := out.done
		r, err := c.Load(t.Context(), time.Nanosecond)
		const why = "it did not end within 100.000001ms and was killed"
		if err != nil || (r.Incomplete == "the load command told no result: "+why) != incomplete || (r.Errors[why] == 1) == incomplete {
			t.Errorf("%s: %+v, %v", f, r, err)
		}
		started := <-pid
		polltest.Until(t, "the command's end", func() bool { return !running(started) })
	}
}

// A generator that floods its output costs no more memory than a little.
func TestCommandFloods(t *testing.T) {
	c := newCommand(t, "yes", Line)
	c.Time = 100 * time.Millisecond
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := c.Load(t.Context(), time.Nanosecond)
	runtime.ReadMemStats(&after)
	if err != nil || !strings.Contains(r.Incomplete, "did not end") {
		t.Errorf("%+v, %v", r, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
		t.Errorf("%d MiB allocated", grown>>20)
	}
}

// When the context ends, and when the generator does, none of its processes
// is left.
func TestCommandKillsItsGroup(t *testing.T) {
	for name, then := range map[string]string{"cancelled": "wait", "ended": "exit 0"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan string, 1)
			out := &firstLine{done: done}
			ended := make(chan error, 1)
			go func() {
				c := Command{Args: []string{"/bin/sh", "-c", "sleep 1000 & echo $!; " + then}, Format: Status, Output: out}
				_, err := c.Load(ctx, time.Second)
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
	if _, err := newCommand(t, "true", Status).Load(ended, time.Second); !errors.Is(err, context.Canceled) {
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

func TestOutputKeepsItsEnd(t *testing.T) {
	for _, n := range []int{0, 1, maxOutput, 5*maxOutput + 7} {
		for _, step := range []int{4093, 3 * maxOutput} {
			o := &output{}
			text := strings.Repeat("0123456789", n/10+1)[:n]
			for rest := text; len(rest) > 0; {
				k, _ := o.Write([]byte(rest[:min(step, len(rest))]))
				rest = rest[k:]
			}
			if got := string(o.text()); got != text[max(0, n-maxOutput):] {
				t.Errorf("%d bytes in steps of %d: %d bytes kept", n, step, len(got))
			}
		}
	}
}

func TestSimpleWords(t *testing.T) {
	for shell, want := range map[string][]string{
		`wrk -t2 -d"$TARE_DURATION" 'http://h/?a=1&b=2'`: {"wrk", "-t2", "-d$TARE_DURATION", "http://h/?a=1&b=2"},
		`A=b exec /usr/bin/hey -H "a: \"b\"" http://h/`:  {"/usr/bin/hey", "-H", `a: "b"`, "http://h/"},
		`env K=v k6 run a\ b.js`:                         {"k6", "run", "a b.js"},
		"oha http://h/ | tee x":                          nil,
		"hey $(cat url)":                                 nil,
		"wrk 'http://h/":                                 nil,
		"wrk http://h/; true":                            nil,
		"":                                               nil,
	} {
		if got := simpleWords(shell); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", shell, got, want)
		}
	}
}
