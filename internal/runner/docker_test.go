package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/runnertest"
)

// engineEnv is the engine that a process which a test starts uses.
const engineEnv = "TARE_TEST_ENGINE"

const emptyImage = "tare/empty:1"

// testEngine starts an engine with an image of which the files are those of
// this machine that tests make.
func testEngine(t *testing.T) *dockertest.Engine {
	t.Helper()
	e := dockertest.Start(t)
	e.Import(t, emptyImage, nil)
	return e
}

func newDocker(t testing.TB, host, image string) *runner.Docker {
	t.Helper()
	e, err := docker.NewEngine(host)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var binds []docker.Bind
	for _, dir := range []string{os.TempDir(), filepath.Dir(self)} {
		binds = append(binds, docker.Bind{Source: dir, Target: dir})
	}
	d, err := runner.NewDocker(t.Context(), runner.DockerOptions{Engine: e, Image: image, Binds: binds})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDocker(t *testing.T) {
	host := os.Getenv(engineEnv)
	if host == "" {
		host = testEngine(t).Host
		t.Setenv(engineEnv, host)
	}
	runnertest.Run(t, runnertest.Containers, func(t *testing.T) runner.Runner { return newDocker(t, host, emptyImage) })
}

// What somebody else made is spared, whatever it looks like; nothing is left of
// what the runner made.
func TestDockerOthers(t *testing.T) {
	e := testEngine(t)
	d := newDocker(t, e.Host, emptyImage)
	e.Docker(t, "create", "--name", "plain", emptyImage, "/none")
	e.Docker(t, "create", "--name", "labelled", "--label", "dev.tare.owner=somebody", emptyImage, "/none")
	e.Docker(t, "create", "--name", "foreign", "--label", "dev.tare.owner="+runner.ForeignDocker(d), emptyImage, "/none")
	e.Docker(t, "create", "--name", "gone", "--label", "dev.tare.owner="+runner.LeftoverDocker(d), emptyImage, "/none")
	removed, err := d.Sweep(t.Context())
	if err != nil || len(removed) != 1 || removed[0] != "container "+runner.LeftoverDocker(d) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if _, err := d.Start(t.Context(), runner.Spec{Args: []string{"/no/such/program"}}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if names := e.Docker(t, "ps", "--all", "--format", "{{.Names}}"); strings.Join(strings.Fields(names), " ") != "foreign labelled plain" {
		t.Errorf("containers %q", names)
	}

	taken := runner.NextDocker(d)
	e.Docker(t, "create", "--name", taken, emptyImage, "/none")
	if _, err := d.Start(t.Context(), runner.Spec{Args: []string{"/none"}}); !errors.Is(err, runner.ErrExists) || !strings.Contains(err.Error(), taken) {
		t.Errorf("%s exists: %v", taken, err)
	}
	e.Docker(t, "inspect", taken)
}

func TestDockerNoImage(t *testing.T) {
	e, err := docker.NewEngine(testEngine(t).Host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.NewDocker(t.Context(), runner.DockerOptions{Engine: e, Image: "registry/none:1"}); !errors.Is(err, docker.ErrNoImage) {
		t.Error(err)
	}
}
