package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// startsProven starts the service with what a fit has proven of it: in a group
// of the proven size, and in one that is smaller.
func startsProven(t *testing.T, path string, got report.FitJSON) {
	t.Helper()
	p, err := profile.Read(path, profile.TrustFor(""))
	if err != nil {
		t.Fatal(err)
	}
	if p.LimitBytes != *got.LimitBytes || len(p.Options) != len(got.Options) || p.JDK != got.JDK || p.Peaks["java-heap"] <= 0 || p.PeakBytes <= 0 || (p.Archive != nil) != (got.Archive != nil) {
		t.Errorf("%+v", p)
	}
	launcher := filepath.Join(t.TempDir(), "tare-exec")
	if out, err := exec.Command("go", "build", "-o", launcher, "../tare-exec").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port := strconv.Itoa(jvmtest.FreePort(t))
	command := []string{launcher, "--", jvmtest.Java(t, 17), "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", port}
	output, process := startLimited(t, p.LimitBytes+p.UnpaidBytes, "TARE_PROFILE="+path, command)
	polltest.Until(t, "an answer", func() bool { return answers("127.0.0.1:"+port) || ended(process) })
	weighed, err := process.Footprint(t.Context())
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(weighed.PID) + "/cmdline")
	if err != nil || ended(process) {
		t.Fatalf("%v, %+v: %s", err, process.Exit(), output)
	}
	words := strings.Split(string(cmdline), "\x00")
	for _, option := range got.Options {
		if !strings.Contains(strings.Join(words, " "), strings.SplitN(option, "=", 2)[0]) && !strings.HasPrefix(option, "-Xmx") {
			t.Errorf("%s is not in %q", option, words)
		}
	}
	if filepath.Base(words[0]) != "java" {
		t.Errorf("it did not become java: %q", words)
	}
	output, process = startLimited(t, p.LimitBytes-4<<20, "TARE_PROFILE="+path, command)
	<-process.Done()
	if process.Exit().Code != exitNoLimit || !strings.Contains(output.String(), "was proven to need") {
		t.Errorf("%+v: %s", process.Exit(), output)
	}
}

func ended(p runner.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// startLimited starts a command in a group of its own, which ends with the test.
func startLimited(t *testing.T, limit int64, env string, args []string) (*bytes.Buffer, runner.Process) {
	t.Helper()
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p, err := r.Start(t.Context(), runner.Spec{Args: args, Env: append(os.Environ(), env), Stdout: &out, Stderr: &out, Limits: runner.Limits{MemoryBytes: limit}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = p.Stop(ctx, 0)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return &out, p
}

// tare exec is tare-exec.
func TestExec(t *testing.T) {
	java, jar := jvmtest.Java(t, 21), jvmtest.Jar(t, "sysinfo.jar")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"exec", "--dry-run", "--explain", "--", java, "-Xmx64m", "-jar", jar}, &out, &errs)
	if code != exitOK || !strings.HasPrefix(out.String(), java+" ") || !strings.HasSuffix(out.String(), " -Xmx64m -jar "+jar+"\n") || !strings.Contains(errs.String(), "yours") {
		t.Errorf("%d: %s%s", code, out.String(), errs.String())
	}
	out.Reset()
	errs.Reset()
	if code := run(t.Context(), []string{"exec", "--", java, "-jar", "gone.jar"}, &out, &errs); code != exitTarget || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("%d: %s", code, errs.String())
	}
	if code := run(t.Context(), []string{"exec", "--help"}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "--heap-dump DIR") {
		t.Errorf("%d: %s", code, out.String())
	}
}
