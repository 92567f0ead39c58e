package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

func TestFindJava(t *testing.T) {
	j, err := runner.FindJava(t.Context(), "java")
	if err != nil {
		t.Fatal(err)
	}
	if jvmopts.ParseRelease(j.Version).Feature < 8 {
		t.Errorf("%+v", j)
	}
	if st, err := os.Stat(filepath.Join(j.Home, "lib")); err != nil || !st.IsDir() {
		t.Errorf("%+v has no lib", j)
	}
	if _, err := runner.FindJava(t.Context(), filepath.Join(t.TempDir(), "java")); err == nil {
		t.Error("found a launcher that is not there")
	}
}
