package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/vmtest"
)

const (
	// debian is where the machine has the root file system that systemd runs in.
	debian = "/debian"
	// underSystemd is set where a service of systemd runs the test binary.
	underSystemd = "TARE_TEST_UNDER_SYSTEMD"
	agentLedger  = "/var/lib/tare/ledger"
)

// systemd runs both units: it hears that they are up, the agent weighs a JVM, sees it
// reach its limit and makes its autopsy, the hub takes up the agent and shows the JVM, and
// both have no more rights than their units give them.
func TestUnits(t *testing.T) {
	root := jvmtest.Root(t)
	fresh := filepath.Join(jvmtest.Cache(t), "roots", "systemd")
	if _, err := os.Stat(fresh); err != nil && !testing.Short() {
		t.Fatalf("%v: run scripts/roots.sh", err)
	}
	copies := []vmtest.Copy{{Host: fresh, Guest: debian}, {Host: jvmtest.Home(t, 17), Guest: debian + "/jdk"},
		{Host: jvmtest.Jar(t, "workloads.jar"), Guest: debian + "/workloads.jar"}, {Host: filepath.Join(root, "bin", "tare"), Guest: debian + "/usr/bin/tare"}}
	for _, unit := range []string{"tare-agent.service", "tare-serve.service"} {
		copies = append(copies, vmtest.Copy{Host: filepath.Join(root, "deploy", "systemd", unit), Guest: debian + "/etc/systemd/system/" + unit})
	}
	vmtest.RunTests(t, vmtest.Options{Memory: 2 << 30, Timeout: 10 * time.Minute, Copies: copies}, "./cmd/tare", "-test.run=^TestUnitsInMachine$")
}

// checkUnits is the service that tests the others. An emulated processor is slow: the agent may
// take more of it there.
var checkUnits = map[string]string{
	"tare-check.service": `[Unit]
After=tare-agent.service tare-serve.service
Wants=tare-agent.service tare-serve.service
SuccessAction=exit-force
FailureAction=exit-force
FailureActionExitStatus=1
[Service]
Type=oneshot
Environment=` + underSystemd + `=1 PATH=/usr/bin:/bin
ExecStart=/units.test -test.v -test.run=^TestUnitsUnderSystemd$
StandardOutput=file:/check.log
StandardError=file:/check.log
TimeoutStartSec=400
`,
	"tare-agent.service.d/slow.conf": "[Service]\nCPUQuota=100%\n",
}

// pivot makes debian the root of the mount namespace that it runs in, and systemd its
// first process.
const pivot = `set -e
mount --make-rprivate / && mount --bind ` + debian + ` ` + debian + `
cd ` + debian + ` && mkdir -p .old && mount -t proc proc proc
pivot_root . .old
exec chroot . /bin/sh -c 'umount -l /.old; exec /lib/systemd/systemd --unit=tare-check.service'`

func TestUnitsInMachine(t *testing.T) {
	if !vmtest.Inside() {
		t.Skip("TestUnits runs it in a virtual machine")
	}
	for name, text := range checkUnits {
		file := filepath.Join(debian, "etc/systemd/system", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", self, debian+"/units.test").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const group = "/sys/fs/cgroup/systemd"
	enter := func(group string) error {
		return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0)
	}
	if err := errors.Join(os.Mkdir(group, 0o755), enter(group)); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create("/systemd.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", pivot)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=/bin:/sbin:/usr/bin", "container=tare-test"}, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP}
	// systemd's group may have no other processes.
	if err := errors.Join(cmd.Start(), enter("/sys/fs/cgroup")); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	said, _ := os.ReadFile(debian + "/check.log")
	t.Logf("the check says:\n%s", said)
	if err != nil || !strings.Contains(string(said), "--- PASS: TestUnitsUnderSystemd") {
		text, _ := os.ReadFile("/systemd.log")
		t.Errorf("%v: systemd says:\n%s", err, text)
	}
}

// systemctl asks systemd for something.
func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// property is what systemd knows of a unit.
func property(t *testing.T, unit, name string) string {
	t.Helper()
	return systemctl(t, "show", "--value", "-p", name, unit)
}

// sandboxed checks what a unit's process may do.
func sandboxed(t *testing.T, unit string, capabilities uint64) {
	t.Helper()
	dir := filepath.Join("/proc", property(t, unit, "MainPID"))
	status, err1 := os.ReadFile(filepath.Join(dir, "status"))
	mounts, err2 := os.ReadFile(filepath.Join(dir, "mountinfo"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff", "CapBnd":
			if n, err := strconv.ParseUint(value, 16, 64); err != nil || n != capabilities {
				t.Errorf("%s: %s is %s, want %x", unit, name, value, capabilities)
			}
		case "NoNewPrivs":
			if value != "1" {
				t.Errorf("%s may get new rights", unit)
			}
		}
	}
	root := false
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 5 && f[4] == "/" {
			root = strings.HasPrefix(f[5], "ro")
		}
	}
	if !root {
		t.Errorf("%s may write everywhere:\n%s", unit, mounts)
	}
}

// tell waits until the agent's ledger has such a record, and returns it.
func tell(t *testing.T, what string, is func(ledger.Record) bool) (found ledger.Record) {
	t.Helper()
	polltest.Until(t, what, func() bool {
		r, err := ledger.OpenReader(agentLedger)
		if err != nil {
			return false
		}
		seen := false
		_, err = r.Since(0, func(rec ledger.Record) bool {
			if seen = is(rec); seen {
				found = rec
			}
			return !seen
		})
		return err == nil && seen
	})
	return found
}

func TestUnitsUnderSystemd(t *testing.T) {
	if os.Getenv(underSystemd) == "" {
		t.Skip("TestUnits runs it under systemd")
	}
	// Both have said that they are up: systemd waits for that.
	for _, unit := range []string{"tare-agent", "tare-serve"} {
		if got := systemctl(t, "is-active", unit); got != "active" || property(t, unit, "Type") != "notify" {
			t.Fatalf("%s is %s", unit, got)
		}
	}
	const ptrace, readSearch, override, syslog = 1 << 19, 1 << 2, 1 << 1, 1 << 34
	sandboxed(t, "tare-agent", ptrace|readSearch|override|syslog)
	sandboxed(t, "tare-serve", 0)
	const hub = "http://127.0.0.1:9275"
	get(t, hub+"/readyz")
	// The hub's history belongs to a user that systemd made up. The agent enrols.
	token, err := exec.Command("tare", "serve", "token", "add", "fleet", "--enrol", "--history", "/var/lib/tare-serve/history.db").Output()
	if err != nil {
		t.Fatal(err)
	}
	conf := "[Service]\nExecStart=\nExecStart=/usr/bin/tare agent --interval 1s --budget 50% --to " + hub + " --token-file /var/lib/tare/token --enrol-file /etc/tare-enrol --name web-1\n"
	if err := errors.Join(os.WriteFile("/etc/tare-enrol", token, 0o600), os.WriteFile("/etc/systemd/system/tare-agent.service.d/hub.conf", []byte(conf), 0o644)); err != nil {
		t.Fatal(err)
	}
	systemctl(t, "daemon-reload")
	systemctl(t, "restart", "tare-agent")
	pid, commands := startShop(t)
	f := tell(t, "a footprint", func(r ledger.Record) bool { return r.Process.PID == pid && r.Footprint != nil }).Footprint
	sum := int64(0)
	for _, o := range f.Owners {
		sum += o.Resident
	}
	if sum != f.Resident || sum < 10<<20 || f.Limit != 128<<20 {
		t.Errorf("%+v", f)
	}
	for property(t, "shop", "ActiveState") == "active" {
		if _, err := fmt.Fprintln(commands, "direct 2048"); err != nil {
			break // it is gone
		}
	}
	a := tell(t, "an autopsy", func(r ledger.Record) bool { return r.Autopsy != nil && r.Autopsy.JVM.PID == pid }).Autopsy
	if a.Verdict != "container-limit" {
		t.Errorf("%+v", a)
	}
	shown(t, hub, pid)
	for _, unit := range []string{"tare-agent", "tare-serve"} {
		systemctl(t, "stop", unit)
		if got := property(t, unit, "Result"); got != "success" {
			t.Errorf("%s: %s", unit, got)
		}
	}
}

// startShop starts a JVM as a service that may have 128 MiB. It does what is written to
// commands.
func startShop(t *testing.T) (pid int, commands io.Writer) {
	t.Helper()
	const fifo = "/run/shop"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The kernel's log has process ids of the machine, systemd here others: but a group that
	// is killed as a whole is known by its name.
	if out, err := exec.Command("systemd-run", "--unit=shop", "-p", "MemoryMax=128M", "-p", "MemorySwapMax=0", "-p", "OOMPolicy=kill", "-p", "StandardInput=file:"+fifo,
		"/jdk/bin/java", "-Xint", "-Xmx32m", "-XX:MaxDirectMemorySize=1g", "-jar", "/workloads.jar", "holder", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // when it is opened there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	pid, err = strconv.Atoi(property(t, "shop", "MainPID"))
	if err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	return pid, w
}

// shown waits until the hub has a JVM of this machine with its end.
func shown(t *testing.T, hub string, pid int) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		var list struct {
			Items []struct {
				PID     int
				Machine string
				Ended   *time.Time
			}
		}
		if err := json.Unmarshal([]byte(get(t, hub+"/api/v1/jvms?state=all&machine=web-1")), &list); err != nil {
			return err
		}
		for _, j := range list.Items {
			if j.PID == pid && j.Ended != nil {
				return nil
			}
		}
		return fmt.Errorf("%+v", list)
	})
}
