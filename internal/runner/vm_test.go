package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/testkit/vmtest"
)

func TestMain(m *testing.M) {
	if err := addSwap(); err != nil {
		fmt.Fprintln(os.Stderr, "add swap to the machine:", err)
		os.Exit(1)
	}
	runnertest.Main(m)
}

// TestInMachine runs all tests of this package with cgroup v2, whichever
// version the host has. The machine has no Docker Engine, no compiler,
// no JDK and no jars.
func TestInMachine(t *testing.T) {
	vmtest.RunTests(t, vmtest.Options{}, "./internal/runner", "-test.skip=^(TestInMachine|TestDocker|TestCheckStatic|TestFindJava|TestStopEndsTheJVMFirst|TestVolumeTakeApart)")
}

// addSwap gives a machine of vmtest swap, so that a limit which forgot it would
// be found out. It changes nothing elsewhere, nor a second time.
func addSwap() error {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil || !vmtest.Inside() || strings.Count(string(swaps), "\n") > 1 {
		return err
	}
	const file = "/swap"
	if err := os.WriteFile(file, make([]byte, 128<<20), 0o600); err != nil {
		return err
	}
	for _, command := range []string{"mkswap", "swapon"} {
		if out, err := exec.Command(command, file).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}
