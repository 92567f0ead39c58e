package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

func TestAgentUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"--budget 2", "--budget"}, {"--budget 0%", "between 0.01%"}, {"--budget NaN%", "between 0.01%"},
		{"--interval 100ms", "less than 1s"}, {"--weigh-every 5s", "less than --interval"},
		{"--memory 10m", "at least 48m"}, {"--ledger-size x", "no size"}, {"--ledger-size 10k", "at least 1m"},
		{"--metrics 0.0.0.0:80", "--metrics"}, {"--for -1s", "less than 0"}, {"more", "unknown command"},
	} {
		code, _, errs := tareRun(t, append([]string{"agent", "--ledger", dir}, strings.Fields(c.args)...)...)
		if code != exitUsage && c.args != "more" || code == exitOK || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", c.args, code, errs)
		}
	}
}

// An agent as a process of its own finds a JVM, weighs it, serves its figures, and
// ends with 0 on SIGTERM; the ledger then has what it saw.
func TestAgent(t *testing.T) {
	service := jvmtest.Start(t, jvmtest.Java(t, 25), "-Xmx64m", "-XX:+UseG1GC", "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", "0")
	service.Await(t, "listening on")
	dir := t.TempDir()
	cmd := tareCommand(t, "agent", "--ledger", dir, "--interval", "1s", "--budget", "100%", "--metrics", "127.0.0.1:0")
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	url := ""
	for url == "" && lines.Scan() {
		_, url, _ = strings.Cut(lines.Text(), "its own metrics are at ")
	}
	rest := make(chan string, 1)
	go func() {
		text := ""
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
		rest <- text
	}()
	var f *ledger.Footprint
	polltest.UntilNil(t, func() (err error) { f, err = footprintIn(dir, service.PID(), "G1"); return err })
	var sum int64
	for _, o := range f.Owners {
		sum += o.Resident
	}
	if sum != f.Resident || f.Reason != ledger.First || !f.Full || f.Heap == nil || f.Heap.Max != 64<<20 {
		t.Errorf("%+v", f)
	}
	text := get(t, url)
	for _, want := range []string{"\ntare_agent_jvms ", "\ntare_agent_cpu_seconds_total ", "tare_agent_weighings_total{reason=\"first\"} ", "\ntare_ledger_bytes "} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q:\n%s", want, text)
		}
	}
	if code, _, said := tareRun(t, "agent", "--ledger", dir); code != exitFailure || !strings.Contains(said, "one agent watches this machine already") {
		t.Errorf("a second agent: %d, %s", code, said)
	}
	// It makes the autopsy of a JVM that ends.
	if err := syscall.Kill(service.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error { return killedIn(dir, service.PID()) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := <-rest; text != "watching the JVMs of this machine; the ledger is "+dir+"\n" {
		t.Errorf("the agent says %q", text)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if text := fmt.Sprint(machineEvents(t, dir)); text != "[agent-start agent-stop]" {
		t.Errorf("of the agent the ledger has %s", text)
	}
}

// footprintIn is the first footprint of a JVM, which it lacks until there is one.
func footprintIn(dir string, pid int, collector string) (*ledger.Footprint, error) {
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return nil, err
	}
	all, _, err := r.Processes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.ID.PID != pid || p.JDK == "" || p.Collector != collector {
			continue
		}
		var found *ledger.Footprint
		_, err := r.Read(p.ID, func(rec ledger.Record) bool { found = rec.Footprint; return found == nil })
		if err == nil && found == nil {
			err = fmt.Errorf("process %d has no footprint", pid)
		}
		return found, err
	}
	return nil, fmt.Errorf("process %d is not among %d, or was not weighed", pid, len(all))
}

// killedIn says what a ledger lacks of the autopsy of a JVM that was killed from outside.
func killedIn(dir string, pid int) error {
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return err
	}
	err = fmt.Errorf("the ledger has no autopsy of process %d", pid)
	_, failed := r.Read(ledger.ID{}, func(rec ledger.Record) bool {
		if a := rec.Autopsy; a != nil && a.JVM.PID == pid {
			if err = nil; a.Verdict != string(autopsy.Killed) || a.Headline == "" || len(a.Evidence) == 0 {
				err = fmt.Errorf("the autopsy is %+v", a)
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

func machineEvents(t *testing.T, dir string) (kinds []ledger.Kind) {
	t.Helper()
	r, err := ledger.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(ledger.ID{}, func(rec ledger.Record) bool {
		if rec.Event != nil {
			kinds = append(kinds, rec.Event.Kind)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return kinds
}

func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(text)
}
