package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
)

func TestTraining(t *testing.T) {
	h := runner.ThisHost()
	a, err := h.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	runnertest.Training(t, h, a, func(file string) string { return file })
}

func TestTrainingInContainer(t *testing.T) {
	d := &runner.Docker{}
	a, err := d.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	runnertest.Training(t, d, a, func(file string) string {
		if file != "/tare/trained/app.jsa" {
			t.Errorf("writes %s", file)
		}
		return filepath.Join(a.Dir(), strings.TrimPrefix(file, "/tare"))
	})
	if _, err := d.OpenTraining(t.Context(), filepath.Join(t.TempDir(), "app.jsa")); err == nil {
		t.Error("a folder that no container has was opened")
	}
}
