package vmtest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/vm"
)

// What every user of the machine relies on, asked in one boot.
func TestMachine(t *testing.T) {
	script := `
uname -r
cat /proc/self/cgroup
cat /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/x && cat /sys/fs/cgroup/x/memory.max
nproc
awk '/MemTotal/ { print ($2 > 600000 && $2 < 786432) ? "768M" : $2 }' /proc/meminfo
id -u
cat lines
echo "$WORD"
ping -c 1 -q localhost >/dev/null && echo loopback
printf 'no return\r\n' >/dev/stderr
sleep 1000 &
exit 7`
	opts := Options{
		Memory: 768 << 20,
		Copies: []Copy{{Host: "testdata/guest/testdata/lines", Guest: "/data/lines"}},
		Env:    []string{`WORD=it's "one"  word; $HOME`},
		Dir:    "/data",
	}
	result := Run(t, opts, "sh", "-c", script)
	if result.ExitCode != 7 {
		t.Errorf("exit code %d, want 7", result.ExitCode)
	}
	kernel, rest, _ := strings.Cut(result.Output, "\n")
	if kernel == "" || strings.Trim(kernel[:1], "0123456789") != "" {
		t.Errorf("kernel %q, want a release such as 6.1.0", kernel)
	}
	want := `0::/
cpuset cpu io memory hugetlb pids rdma misc
max
2
768M
0
first
second
it's "one"  word; $HOME
loopback
` + "no return\r\n"
	if rest != want {
		t.Errorf("got\n%q\nwant\n%q", rest, want)
	}
}

// A kernel that panics in each machine that is made is told of.
func TestLostMachine(t *testing.T) {
	alone.Uses(t, "a virtual machine")
	opts := Options{Memory: 256 << 20, CPUs: 1}
	if _, err := vm.Run(t.Context(), opts, []string{"sh", "-c", "echo c >/proc/sysrq-trigger"}); !errors.Is(err, vm.ErrLost) || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("%v", err)
	}
}

// A machine that has stopped reporting is ended long before its time is up.
func TestSilentMachine(t *testing.T) {
	alone.Uses(t, "a virtual machine")
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	script := exec.Command(filepath.Join(root, "scripts", "vm.sh"), "--memory", "256M", "--silence", "15", "--",
		"sh", "-c", "kill -STOP $(pidof sleep) && sleep 1000")
	out, err := script.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 123 || !strings.Contains(string(out), "the machine was lost: it was silent for 15 s") {
		t.Errorf("%v: %s", err, out)
	}
}

// A Go test binary with its testdata, one passing and one failing test.
func TestCompiledTests(t *testing.T) {
	opts, binary, err := compile(t.Context(), Options{}, "./internal/testkit/vmtest/testdata/guest", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	result := Run(t, opts, binary, testArgs(opts, nil)...)
	if err := verdict("guest", result); err == nil || result.ExitCode != 1 {
		t.Errorf("exit code %d, %v; want a failure", result.ExitCode, err)
	}
	for _, line := range []string{"--- PASS: TestIntoCgroup", "--- FAIL: TestFails"} {
		if !strings.Contains(result.Output, line) {
			t.Errorf("no line %q", line)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		ok     bool
	}{
		{"passed", Result{Output: "PASS\n"}, true},
		{"failed", Result{Output: "FAIL\n", ExitCode: 1}, false},
		{"none ran", Result{Output: "testing: warning: no tests to run\nPASS\n"}, false},
	} {
		if err := verdict("p", c.result); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
