package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/runnertest"
)

// endsSlowly takes a moment for its shutdown hook, as one that writes a class archive does.
const endsSlowly = `public class Ends {
	public static void main(String[] args) throws Exception {
		Runtime.getRuntime().addShutdownHook(new Thread(() -> {
			try { Thread.sleep(500); } catch (InterruptedException e) { }
			System.out.println("in order");
		}));
		System.out.println("ready");
		Thread.sleep(600_000);
	}
}`

// A JVM that a shell has started ends in good order, though the shell is ended by SIGTERM at once.
func TestStopEndsTheJVMFirst(t *testing.T) {
	source := filepath.Join(t.TempDir(), "Ends.java")
	if err := os.WriteFile(source, []byte(endsSlowly), 0o644); err != nil {
		t.Fatal(err)
	}
	var out runnertest.Transcript
	p, err := newCgroup(t, testParent(t)).Start(t.Context(), runner.Spec{Args: []string{"/bin/sh", "-c", `"$0" "$1"; exit $?`, jvmtest.Java(t, 17), source}, Env: os.Environ(), Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	polltest.Until(t, "ready", func() bool { return strings.Contains(out.String(), "ready") })
	if err := p.Stop(t.Context(), time.Minute); err != nil || !strings.Contains(out.String(), "in order") {
		t.Errorf("%v: %s", err, &out)
	}
}
