package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
)

func TestTraining(t *testing.T) {
	runnertest.Training(t, runner.ThisHost(), t.TempDir(), func(file string) string { return file })
}

func TestTrainingInContainer(t *testing.T) {
	dir := t.TempDir()
	d := &runner.Docker{}
	d.Share(dir, "/tare", 0, 0)
	runnertest.Training(t, d, dir, func(file string) string {
		if file != "/tare/trained/app.jsa" {
			t.Errorf("writes %s", file)
		}
		return filepath.Join(dir, strings.TrimPrefix(file, "/tare"))
	})
	if _, err := d.OpenTraining(t.Context(), filepath.Join(t.TempDir(), "app.jsa")); err == nil {
		t.Error("a folder that no container has was opened")
	}
}
