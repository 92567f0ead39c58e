package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// lookAround tells what a container is given.
const lookAround = `read x </data/f; echo "volume $x"; echo y >/scratch/y && echo tmpfs; (echo z >/app/z) 2>/dev/null || echo read-only
while read k v r; do [ "$k" = Uid: ] && echo "user $v"; done </proc/self/status; exit 0`

// A container has the volumes, folders in memory and user that flags name, and its own
// files are not to be written.
func TestRunFlags(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	importSysinfo(t, e, "shop")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := openDocker(t.Context(), "shop", docker.Run{Volumes: []string{dir + ":/data:ro"}, Tmpfs: []string{"/scratch:size=1m"}, User: "1234:5678", ReadOnly: true}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p, err := d.Start(t.Context(), runner.Spec{Args: []string{"/bin/sh", "-c", lookAround}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if err := p.Close(); err != nil || out.String() != "volume data\ntmpfs\nread-only\nuser 1234\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	// A user without a name, and files that cannot be written: the JVM has its counters
	// in no file, and yet they are read.
	p, err = d.Start(t.Context(), runner.Spec{Args: []string{"java", "-XX:+UseSerialGC", "-jar", "/app/sysinfo.jar", "--port", "0"}, Env: []string{"PATH=/jdk/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "counters", func() bool {
		c, err := p.Counters(t.Context())
		return err == nil && c.HeapUsed > 0
	})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	noContainers(t, e)
}

// In a network of the engine, a container's port is reached where it is published, and
// tare's gate works without the machine's own network.
func TestRunInNetwork(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	importSysinfo(t, e, "shop")
	e.Docker(t, "network", "create", "shopnet")
	t.Cleanup(func() { e.Docker(t, "network", "rm", "shopnet") })
	port := jvmtest.FreePort(t)
	published, err := docker.ParsePort(strconv.Itoa(port) + ":8080")
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDocker(t.Context(), "shop", docker.Run{Network: "shopnet", Ports: []docker.Port{published}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p, err := d.Start(t.Context(), runner.Spec{Args: []string{"java", "-jar", "/app/sysinfo.jar", "--host", "0.0.0.0", "--port", "8080"}, Env: []string{"PATH=/jdk/bin"}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	polltest.Until(t, "an answer at the published port", func() bool {
		select {
		case <-p.Done():
			t.Fatalf("it ended: %s", out.String())
		default:
		}
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/health")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	noContainers(t, e)
}

func TestEnvFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	t.Setenv("FROM_HERE", "here")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# a remark\n\nA=b=c\n  B=two words \nFROM_HERE\nNOT_SET_ANYWHERE\n")
	r := runFlags{envFiles: []string{file}}
	if env, err := r.withEnvFiles([]string{"A=last"}); err != nil || !slices.Equal(env, []string{"A=b=c", "B=two words ", "FROM_HERE=here", "A=last"}) {
		t.Errorf("%q, %v", env, err)
	}
	for _, text := range []string{"=x\n", "a b=c\n"} {
		write(text)
		if env, err := r.withEnvFiles(nil); err == nil || !strings.Contains(err.Error(), file+":1: ") {
			t.Errorf("%q: %q, %v", text, env, err)
		}
	}
}

// Flags for containers need an image, and another way to start them is another fit.
func TestRunFlagsAreOfImages(t *testing.T) {
	for _, flags := range [][]string{{"--volume", "/a:/b"}, {"--publish", "80:80"}, {"--network", "x"}, {"--tmpfs", "/run"}, {"--user", "1"}, {"--read-only"}} {
		code, _, errs := fitRun(t.Context(), append(flags, "--ready", "tcp:80", "--", "java", "-jar", "a.jar"))
		if code != exitUsage || !strings.Contains(errs, "are for --image") {
			t.Errorf("%q: %d: %s", flags, code, errs)
		}
	}
	for flag, value := range map[string]string{"--volume": "/a", "--publish": "80", "--tmpfs": "run", "--env-file": "/no/such/file"} {
		code, _, errs := fitRun(t.Context(), []string{"--image", "shop", flag, value, "--ready", "tcp:80"})
		if code != exitUsage || strings.Contains(errs, "Engine") {
			t.Errorf("%s %s: %d: %s", flag, value, code, errs)
		}
	}
	a, b := &fit.Image{Name: "shop", ID: "x"}, &fit.Image{Name: "shop", ID: "x", Run: docker.Run{User: "1"}}
	if a.String() == b.String() {
		t.Errorf("%s is the same", a)
	}
}
