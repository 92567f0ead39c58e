package fit

import (
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// The lines of the first case are JDK 25's.
func TestWhyNoArchive(t *testing.T) {
	run := func(log ...string) *trial.Result {
		return &trial.Result{Verdict: trial.Passed, Exit: runner.Exit{Code: 1}, Log: log}
	}
	for _, c := range []struct {
		name string
		r    *trial.Result
		want string
	}{
		{"it says why", run("[29.466s][warning][aot] Skipping jdk/internal/event/DeserializationEvent: JFR event class",
			"[29.467s][error  ][aot] An error has occurred while writing the shared archive file.",
			"[29.467s][error  ][aot] Critical class shop.Catalog has been excluded. AOT configuration file cannot be written."),
			"training run passed, exit code 1: Critical class shop.Catalog has been excluded. AOT configuration file cannot be written."},
		{"other tags", run("[0.1s][error][cds,dynamic] Unable to write", "goodbye"), "training run passed, exit code 1: Unable to write"},
		{"a folder", run("[9.108s][error][aot] Error: non-empty directory '/app/classes'"),
			"training run passed, exit code 1: Error: non-empty directory '/app/classes'; it archives classes of jars alone: make the folder on the class path a jar (Jib: containerizingMode packaged)"},
		{"an error of something else", run("[0.1s][error][gc] no", "[error][shop] [aot] no"), "training run passed, exit code 1"},
		{"no log", run(), "training run passed, exit code 1"},
	} {
		if got := whyNoArchive(c.r); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
