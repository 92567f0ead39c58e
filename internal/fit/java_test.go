package fit

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/jvmopts"
)

func TestFindJava(t *testing.T) {
	j, err := FindJava(t.Context(), "java")
	if err != nil {
		t.Fatal(err)
	}
	if jvmopts.ParseRelease(j.Version).Feature < 8 {
		t.Errorf("%+v", j)
	}
	if st, err := os.Stat(filepath.Join(j.Home, "lib")); err != nil || !st.IsDir() {
		t.Errorf("%+v has no lib", j)
	}
	if _, err := FindJava(t.Context(), filepath.Join(t.TempDir(), "java")); err == nil {
		t.Error("found a launcher that is not there")
	}
}
