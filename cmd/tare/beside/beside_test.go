// Package beside runs the longest tests of cmd/tare: a fit takes a minute, and the
// packages of a tree are tested side by side, but the tests of a package one after the
// other. Which those are, TestMain of cmd/tare says.
package beside

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/deathsig"
)

func TestLongTestsOfTare(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: they need JVMs and containers")
	}
	binary := filepath.Join(t.TempDir(), "tare.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.count=1")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "TARE_TESTS=long")
	if end, ok := t.Deadline(); ok { // a moment earlier, to tell which test hangs
		cmd.Args = append(cmd.Args, fmt.Sprint("-test.timeout=", time.Until(end)*9/10))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if testing.Verbose() {
		cmd.Args = append(cmd.Args, "-test.v")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	err := deathsig.Start(cmd, syscall.SIGTERM)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || bytes.Contains(out.Bytes(), []byte("no tests to run")) {
		t.Errorf("%v\n%s", err, &out)
	}
}
