package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// startFit starts tare fit as a process and returns when a line of its stderr
// begins with a text.
func startFit(t *testing.T, until string, args ...string) (cmd *exec.Cmd, rest *bufio.Reader, seen string) {
	t.Helper()
	cmd = tareCommand(t, append([]string{"fit"}, args...)...)
	pipe, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(pipe)
	for {
		line, err := rest.ReadString('\n')
		seen += line
		if strings.HasPrefix(strings.TrimSpace(line), until) {
			return cmd, rest, seen
		}
		if err != nil {
			t.Fatalf("%v before %q: %s", err, until, seen)
		}
	}
}

// Killed in the middle of a trial, a fit leaves nothing after the next start,
// has all trials that ended, and goes on with the next one; one that is
// interrupted does so too.
func TestFitGoesOnAfterAKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tare.db")
	port := strconv.Itoa(jvmtest.FreePort(t))
	java, jar := jvmtest.Java(t, 17), jvmtest.Jar(t, "workloads.jar")
	command := []string{java, "-jar", jar, "verdict", "ok", port}
	flags := []string{"--store", file, "--load", "http://127.0.0.1:" + port + "/", "--ample", "512m", "--warmup", "0", "--duration", "1s", "--rate", "20", "--proof", "short"}

	cmd, _, _ := startFit(t, "3 ", append(append(flags, "--"), command...)...)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	f := theFit(t, file)
	if f.State != store.CutOff || f.Trials < 3 {
		t.Fatalf("%+v", f)
	}

	refused := map[string]struct {
		args []string
		code int
		want string
	}{
		"other rate":    {[]string{"--resume", "--store", file, "--rate", "30"}, exitUsage, "fit 1 cannot go on, for its trials would not compare:\n      the load was GET http://127.0.0.1:" + port},
		"other options": {[]string{"--resume", "--store", file, "--", java, "-Xmx64m", "-jar", jar, "verdict", "ok", port}, exitUsage, "the command was " + java + " -jar"},
		"other JDK":     {[]string{"--resume", "1", "--store", file, "--", jvmtest.Java(t, 21), "-jar", jar, "verdict", "ok", port}, exitUsage, "the JDK was 17."},
		"no such fit":   {[]string{"--resume", "--store", file, "2"}, exitTarget, "no such fit: 2"},
		"no number":     {[]string{"show", "--store", file, "x"}, exitUsage, `"x" is no fit's number`},
		"no store":      {[]string{"--resume", "--store", "none"}, exitUsage, "--resume needs a store"},
		"not one":       {[]string{"report", "--store", file}, exitUsage, "give the number of one fit"},
		"bad store":     {[]string{"list", "--store", jar}, exitFailure, "store " + jar},
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := fitRun(t.Context(), tt.args); code != tt.code || !strings.Contains(stderr, tt.want) || stdout != "" {
				t.Errorf("exit code %d, want %d: %s, want %s; stdout %s", code, tt.code, stderr, tt.want, stdout)
			}
		})
	}

	next := fmt.Sprintf("%d ", f.Trials+1)
	cmd, rest, seen := startFit(t, next, "--resume", "1", "--store", file)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	tail, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(string(tail), "go on with: tare fit --resume 1") {
		t.Errorf("exit code %d: %s", code, tail)
	}
	if !strings.Contains(seen, fmt.Sprintf("fit 1 goes on after %d steps", f.Trials)) {
		t.Errorf("went on with: %s", seen)
	}
	if after := theFit(t, file); after.State != store.CutOff || after.Trials < f.Trials+1 {
		t.Errorf("%+v", after)
	}
	nothingLeft(t)
	shownAsCutOff(t, file)
}

// The end of the terminal ends a fit in good order, and leaves nothing.
func TestFitEndsWithItsTerminal(t *testing.T) {
	// Where the tests run under nohup, SIGHUP is ignored, and tare would inherit that:
	// what is caught here is reset in it (execve(2)).
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	port := strconv.Itoa(jvmtest.FreePort(t))
	cmd, rest, _ := startFit(t, "baseline", "--store", "none", "--load", "http://127.0.0.1:"+port+"/", "--duration", "10m", "--ample", "256m",
		"--", jvmtest.Java(t, 17), "-jar", jvmtest.Jar(t, "workloads.jar"), "verdict", "ok", port)
	addr := "127.0.0.1:" + port
	polltest.Until(t, "an answer from "+addr, func() bool { return answers(addr) })
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	tail, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(string(tail), "interrupted after 0 trials: nothing is left running") {
		t.Errorf("exit code %d: %s", code, tail)
	}
	if answers(addr) {
		t.Error("the application is left running")
	}
	nothingLeft(t)
}

// theFit is the only fit in a store.
func theFit(t *testing.T, file string) store.Fit {
	t.Helper()
	s, err := store.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fits, err := s.Fits(t.Context())
	if err != nil || len(fits) != 1 {
		t.Fatalf("%+v, %v", fits, err)
	}
	return fits[0]
}

// shownAsCutOff checks list, show and report of a fit that was cut off.
func shownAsCutOff(t *testing.T, file string) {
	t.Helper()
	if code, out, errs := fitRun(t.Context(), []string{"list", "--store", file}); code != exitOK || !strings.Contains(out, "cut off") || !strings.Contains(out, "java -jar") {
		t.Errorf("list: %d %s %s", code, out, errs)
	}
	if code, out, errs := fitRun(t.Context(), []string{"show", "1", "--store", file}); code != exitOK || !strings.Contains(out, "go on with tare fit --resume 1") || !strings.Contains(out, "baseline") {
		t.Errorf("show: %d %s %s", code, out, errs)
	}
	_, out, _ := fitRun(t.Context(), []string{"show", "1", "--store", file, "--json"})
	var j report.FitJSON
	if err := json.Unmarshal([]byte(out), &j); err != nil || j.Error == nil || j.LimitBytes != nil || len(j.Trials) < 3 {
		t.Errorf("show --json: %v, %s", err, out)
	}
	html := filepath.Join(t.TempDir(), "r.html")
	if code, out, errs := fitRun(t.Context(), []string{"report", "1", "--store", file, "--html", html}); code != exitOK || out != html+"\n" {
		t.Errorf("report: %d %s %s", code, out, errs)
	}
	page, err := os.ReadFile(html)
	if code, out, _ := fitRun(t.Context(), []string{"report", "1", "--store", file, "--html", "-"}); err != nil || code != exitOK || out != string(page) || !strings.Contains(out, "<svg") {
		t.Errorf("report: %d, %v, %.200s", code, err, out)
	}
}
