package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// loadOwnImage makes tare's own image and gives it to the engine as tare:latest.
func loadOwnImage(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	cmd := exec.Command("go", "run", "./deploy/image", "-out", dir, runtime.GOARCH)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e.Docker(t, "load", "--input", filepath.Join(dir, "tare-"+runtime.GOARCH+".tar"))
}

// runOwn runs tare in a container of its own image.
func runOwn(t *testing.T, e *dockertest.Engine, flags []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("docker", append(append([]string{"--host", e.Host, "run", "--rm"}, flags...), append([]string{"tare:latest"}, args...)...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// without are flags without one, and its value.
func without(flags []string, flag string) (out []string) {
	for i := 0; i < len(flags); i += 2 {
		if flags[i]+" "+flags[i+1] != flag {
			out = append(out, flags[i], flags[i+1])
		}
	}
	return out
}

// runOwnAgent runs the agent from tare's own image: its ledger gets a footprint of a JVM in
// another container, and it ends in good order.
func runOwnAgent(t *testing.T, e *dockertest.Engine, looks []string, pid string) {
	t.Helper()
	dir := t.TempDir()
	flags := append([]string{"run", "--detach", "--name", "agent", "-v", dir + ":/var/lib/tare/ledger"}, looks...)
	e.Docker(t, append(flags, "tare:latest", "agent", "--interval", "1s", "--budget", "100%")...)
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error { _, err := footprintIn(dir, number, "Serial"); return err })
	e.Docker(t, "stop", "--time", "60", "agent")
	if code := e.Docker(t, "inspect", "--format", "{{.State.ExitCode}}", "agent"); code != "0" {
		t.Errorf("the agent ends with %s: %s", code, e.Docker(t, "logs", "agent"))
	}
	e.Docker(t, "rm", "agent")
}

// From its own image tare does what it does on the machine, with the rights that
// docs/images.md lists for each command and no others; the error names one that lacks.
func TestOwnImage(t *testing.T) {
	e := dockertest.Start(t)
	loadOwnImage(t, e)
	port := strconv.Itoa(jvmtest.FreePort(t))
	importSysinfo(t, e, "shop:1", `ENV MALLOC_ARENA_MAX=1 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -Xmx32m"`, "USER 1000",
		`ENTRYPOINT ["java","-XX:+UseSerialGC","-jar","sysinfo.jar"]`)

	if code, out, errs := runOwn(t, e, []string{"--network", "none", "--user", "65532", "--cap-drop", "ALL", "--read-only"}, "version"); code != exitOK || !strings.HasPrefix(out, "tare ") {
		t.Errorf("version: %d: %s%s", code, out, errs)
	}

	looks := []string{"--pid", "host", "--cgroupns", "host", "--network", "none", "--cap-drop", "ALL", "--cap-add", "SYS_PTRACE", "--cap-add", "DAC_READ_SEARCH",
		"-v", "/sys/fs/cgroup:/sys/fs/cgroup:ro"}
	e.Docker(t, "run", "--detach", "--name", "shop", "--network", "host", "-m", "200m", "shop:1", "--port", port)
	e.AwaitLog(t, "shop", "listening on")
	pid := e.Docker(t, "inspect", "--format", "{{.State.Pid}}", "shop")
	for _, command := range []string{"weigh", "doctor"} {
		code, out, errs := runOwn(t, e, looks, command, pid)
		if code != exitOK || !strings.Contains(out, "sysinfo.jar") || !strings.Contains(out, "200") {
			t.Errorf("%s: %d: %s%s", command, code, out, errs)
		}
	}
	for _, lacking := range []string{"--cap-add SYS_PTRACE", "--cap-add DAC_READ_SEARCH"} {
		if code, _, errs := runOwn(t, e, without(looks, lacking), "weigh", pid); code != exitPermission || !strings.Contains(errs, lacking) {
			t.Errorf("without %s: %d: %s", lacking, code, errs)
		}
	}
	if code, out, errs := runOwn(t, e, looks, "watch", pid, "--count", "2", "--interval", "100ms"); code != exitOK || len(strings.Split(strings.TrimSpace(out), "\n")) != 4 {
		t.Errorf("watch: %d: %s%s", code, out, errs)
	}
	runOwnAgent(t, e, looks, pid)
	e.Docker(t, "rm", "--force", "shop")

	socket := strings.TrimPrefix(e.Host, "unix://")
	runs := []string{"--pid", "host", "--network", "host", "--cgroupns", "host", "--cap-add", "SYS_PTRACE", "-v", "/sys/fs/cgroup:/sys/fs/cgroup", "-v", socket + ":/var/run/docker.sock", "-v", "tare:" + "/var/lib/tare"}
	url := "http://127.0.0.1:" + port
	common := []string{"--ready", url + "/health", "--load", url + "/sys-summary", "--cpus", "1", "--ample", "512m", "--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0"}
	fit := append([]string{"fit", "--image", "shop:1", "--baselines", "1", "--trials", "3", "--confirmations", "1"}, common...)
	fit = append(fit, "--", "--port", port)
	for flag, want := range map[string]string{"--pid host": "start it with --pid host", "--network host": "start it with --network host", "--cap-add SYS_PTRACE": "start it with --cap-add SYS_PTRACE",
		"-v /sys/fs/cgroup:/sys/fs/cgroup": "-v /sys/fs/cgroup:/sys/fs/cgroup"} {
		if code, out, errs := runOwn(t, e, without(runs, flag), fit...); code != exitPermission || out != "" || !strings.Contains(errs, want) {
			t.Errorf("without %s: %d: %s%s", flag, code, out, errs)
		}
	}
	if code, _, errs := runOwn(t, e, without(runs, "-v "+socket+":/var/run/docker.sock"), fit...); code != exitTarget || !strings.Contains(errs, "no Docker Engine answers") {
		t.Errorf("without the socket: %d: %s", code, errs)
	}
	code, out, errs := runOwn(t, e, runs, fit...)
	if code != exitOK || !strings.Contains(out, "docker run") {
		t.Fatalf("fit: %d: %s%s", code, out, errs)
	}
	noContainers(t, e)
	code, out, errs = runOwn(t, e, runs, append([]string{"bake", "shop:1", "--from-fit", "1", "-t", "shop:small", "--runs", "1"}, common...)...)
	if code != exitOK || !strings.Contains(out, "1 of 1 fresh runs pass") {
		t.Errorf("bake: %d: %s%s", code, out, errs)
	}
	noContainers(t, e)
	e.Docker(t, "volume", "rm", "tare")
}
