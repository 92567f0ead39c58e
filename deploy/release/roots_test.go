package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// insideRoot, in the environment, makes the test program do its part in namespaces of its
// own instead of tests: "page" runs a block of a page, "script" a script with a release, and
// "foreign" that in emulation.
const insideRoot = "TARE_TEST_INSIDE_ROOT"

// exitNoBinfmt says that this kernel emulates for the machine as a whole alone.
const exitNoBinfmt = 77

func TestMain(m *testing.M) {
	env := os.Getenv
	var err error
	switch env(insideRoot) {
	case "":
		os.Exit(m.Run())
	case "page":
		err = inFresh(env("ROOT"), env("RELEASE"), env("JDK"), env("SHOP"), env("BLOCK"))
	case "foreign":
		if err = emulate(); errors.Is(err, unix.EPERM) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitNoBinfmt)
		}
		fallthrough
	case "script":
		in := ""
		if err == nil {
			in, err = enter(env("ROOT"), env(insideRoot) == "foreign", [][2]string{{env("RELEASE"), "release/v" + names.Version}, {env("FILES"), "files"}})
		}
		if err == nil {
			err = runShell(in, env("BLOCK"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// inside is the test program with a part to do.
func inside(t *testing.T, part string, env map[string]string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), insideRoot+"="+part)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// rootOf is a root file system of the cache.
func rootOf(t *testing.T, name string) string {
	t.Helper()
	root := filepath.Join(jvmtest.Cache(t), "roots", name)
	if _, err := os.Stat(root); err != nil {
		t.Fatalf("%v: run scripts/roots.sh", err)
	}
	return root
}

// enter makes a copy of a root file system for this mount namespace, where folders and
// files of outside are, and returns where it is. It is copied where dpkg runs in a user
// namespace: an overlay renames no folder there.
func enter(root string, copied bool, with [][2]string) (string, error) {
	const place, kept = "/tmp", "/mnt" // hidden, in this namespace alone
	in, lower := filepath.Join(place, "root"), filepath.Join(place, "lower")
	bind := func(source, target string) error {
		info, err := os.Stat(source)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			err = os.MkdirAll(target, 0o755)
		default:
			err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, nil, 0o644))
		}
		return errors.Join(err, unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""))
	}
	if err := errors.Join(unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", kept, "tmpfs", 0, ""), bind(root, kept+"/root")); err != nil {
		return "", fmt.Errorf("mounting: %w", err)
	}
	for i, w := range with { // before what they may lie in is hidden
		if err := bind(w[0], filepath.Join(kept, strconv.Itoa(i))); err != nil {
			return "", fmt.Errorf("mounting %s: %w", w[0], err)
		}
	}
	err := errors.Join(unix.Mount("tmpfs", place, "tmpfs", 0, ""), bind(kept+"/root", lower))
	for _, dir := range []string{in, place + "/upper", place + "/work"} {
		err = errors.Join(err, os.Mkdir(dir, 0o755))
	}
	if copied {
		err = errors.Join(err, exec.Command("sh", "-c", `for d in "$0"/*; do [ "${d##*/}" = dev ] || cp -a "$d" "$1/"; done`, lower, in).Run()) // devices are the host's
	} else {
		err = errors.Join(err, unix.Mount("overlay", in, "overlay", 0, "lowerdir="+lower+",upperdir="+place+"/upper,workdir="+place+"/work"))
	}
	err = errors.Join(err, os.MkdirAll(in+"/proc", 0o755), os.MkdirAll(in+"/root", 0o700), unix.Mount("proc", in+"/proc", "proc", 0, ""), bind("/dev", in+"/dev"))
	for i, w := range with {
		err = errors.Join(err, bind(filepath.Join(kept, strconv.Itoa(i)), filepath.Join(in, w[1])))
	}
	if err != nil {
		return "", fmt.Errorf("mounting: %w", err)
	}
	return in, nil
}

// runShell runs a script in a root.
func runShell(in, script string) error {
	shell := exec.Command("/bin/sh", "-eu", "-c", script)
	shell.SysProcAttr, shell.Dir = &syscall.SysProcAttr{Chroot: in}, "/root"
	shell.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	shell.Stdout, shell.Stderr = os.Stdout, os.Stderr
	return shell.Run()
}

// upgraded is what both packages are put through: a unit that was switched on and changed
// stays so by an upgrade, a removal switches it off, and what was recorded and changed stays.
const upgraded = `
$INSTALL /files/old/tare*$EXT
[ "$(tare)" = old ]
systemctl enable tare-agent.service
own=/etc/systemd/system/tare-agent.service.d/own.conf
on=/etc/systemd/system/multi-user.target.wants/tare-agent.service
mkdir -p /var/lib/tare ${own%/*}
echo '[Service]' >$own
echo kept >/var/lib/tare/ledger
$UPGRADE /release/v$VERSION/tare*$ARCH.$EXT
tare --version | grep -q "^tare $VERSION"
[ ! -e /usr/share/doc/tare/OLD ]
[ -L $on ] && [ -f $own ]
$REMOVE tare
for gone in /usr/bin/tare /usr/bin/tare-exec /usr/lib/systemd/system/tare-agent.service /usr/share/man/man1/tare.1.gz /usr/share/tare /usr/share/doc/tare $on; do
  [ ! -e $gone ] && [ ! -L $gone ] || { echo "$gone is left"; exit 1; }
done
[ -f $own ] && [ "$(cat /var/lib/tare/ledger)" = kept ]
`

func packagesAreUpgraded(t *testing.T, out string) {
	old := []file{
		{"bin/tare", []byte("#!/bin/sh\necho old\n"), 0o755},
		{"share/doc/tare/OLD", []byte("old\n"), 0o644},
		{"lib/systemd/system/tare-agent.service", []byte("[Service]\nExecStart=/usr/bin/tare\n[Install]\nWantedBy=multi-user.target\n"), 0o644},
		{"lib/systemd/system/tare-serve.service", []byte("[Service]\nExecStart=/usr/bin/tare\n"), 0o644},
	}
	for format, commands := range map[string]string{
		"deb": "ARCH=amd64 INSTALL='dpkg -i' UPGRADE='dpkg -i' REMOVE='dpkg --purge'",
		"rpm": "ARCH=x86_64 INSTALL='rpm -i' UPGRADE='rpm -U' REMOVE='rpm -e'",
	} {
		files := t.TempDir()
		r := release{version: "0.0.1", out: filepath.Join(files, "old"), date: time.Unix(1, 0).UTC()}
		if err := errors.Join(os.Mkdir(r.out, 0o755), r.pack(t.TempDir(), format, "amd64", old)); err != nil {
			t.Fatal(err)
		}
		block := fmt.Sprintf("EXT=%s VERSION=%s %s", format, names.Version, commands) + upgraded
		cmd := inside(t, "script", map[string]string{"ROOT": rootOf(t, "fresh"), "RELEASE": out, "FILES": files, "BLOCK": block})
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", format, err, said)
		}
	}
}

// foreign installs in both ways, and examines a JVM that was weighed elsewhere.
const foreign = `
TARE_DOWNLOADS=/release sh /release/v$VERSION/install.sh
/usr/local/bin/tare version --json | grep '"arch": "arm64"'
/usr/local/bin/tare doctor /files/footprint.json
/usr/local/bin/tare-exec --help >/dev/null
dpkg -i /release/v$VERSION/tare_${VERSION}_arm64.deb
/usr/bin/tare --version
dpkg -r tare
[ ! -e /usr/bin/tare ] && [ -e /usr/local/bin/tare ]
`

// installsForeign installs in a root of arm64, where each program runs in emulation.
func installsForeign(t *testing.T, root, out string) {
	files := t.TempDir()
	java := jvmtest.Start(t, jvmtest.Java(t, 17), "-Xmx64m", "-jar", filepath.Join(root, "bin", "sysinfo.jar"), "--port", "0")
	java.Await(t, "listening")
	weigh := exec.Command("go", "run", "./cmd/tare", "weigh", "--json", strconv.Itoa(java.PID()))
	weighed, err := weigh.Output()
	if err := errors.Join(err, os.WriteFile(filepath.Join(files, "footprint.json"), weighed, 0o644)); err != nil {
		t.Fatal(err)
	}
	cmd := inside(t, "foreign", map[string]string{"ROOT": rootOf(t, "arm64"), "RELEASE": out, "FILES": files, "BLOCK": "VERSION=" + names.Version + foreign})
	all := []syscall.SysProcIDMap{{Size: 1 << 16}}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = all, all, true
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == exitNoBinfmt {
		t.Skipf("emulation in a namespace of its own takes Linux 6.7: %s", said)
	}
	if err != nil || !strings.Contains(string(said), "tare "+names.Version) {
		t.Errorf("%v\n%s", err, said)
	}
}

// emulate lets this user namespace, and no other, run programs of arm64:
// docs.kernel.org/admin-guide/binfmt-misc.html.
func emulate() error {
	const registry = "/proc/sys/fs/binfmt_misc"
	if err := unix.Mount("binfmt_misc", registry, "binfmt_misc", 0, ""); err != nil {
		return fmt.Errorf("mounting binfmt_misc: %w", err)
	}
	text, err := os.ReadFile("/usr/lib/binfmt.d/qemu-aarch64.conf") // of qemu-user-static
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ":") {
			return os.WriteFile(registry+"/register", []byte(strings.TrimSpace(line)), 0o200)
		}
	}
	return errors.New("qemu-aarch64.conf registers nothing")
}
