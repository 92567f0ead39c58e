// Package vm runs one command in a throw-away virtual machine with a real Debian kernel and cgroup v2, whatever the host
// has. It drives scripts/vm.sh, which it brings along: see there for what the machine is made of. A machine boots in some
// ten seconds without hardware virtualisation, and then runs several times slower than its host.
package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/cachedir"
	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/scripts"
)

// Options describes the machine. The zero value is a usable one.
type Options struct {
	Kernel   string        // Debian suite of the kernel: bookworm (default, Linux 6.1), trixie (6.12) or sid
	Memory   int64         // bytes, in whole MiB; default 1 GiB
	CPUs     int           // default 2
	Disk     int64         // free bytes on the root disk, in whole MiB; default 512 MiB
	Timeout  time.Duration // for boot and command together, in whole seconds; default 5 minutes
	Copies   []Copy        // what the command needs
	HostLibs bool          // copy the host's C and C++ runtime too: a JDK needs it
	Env      []string      // NAME=VALUE; the host's environment is not passed on
	Dir      string        // working directory in the guest; default /
}

// Copy is a file or directory of the host and its absolute path in the guest; an empty Guest is the host's path.
type Copy struct{ Host, Guest string }

// Result is what the command left.
type Result struct {
	Output   string // stdout and stderr, at most maxOutput bytes of them
	ExitCode int    // 128 + signal for a command that a signal ended
}

// DefaultTimeout is the Timeout when none is given.
const DefaultTimeout = 5 * time.Minute

const (
	maxOutput = 16 << 20
	// vm.sh exits so when the command's exit code is not known.
	exitLost, exitTimeout, exitMachine = 123, 124, 125
	// mebibyte is the unit of vm.sh's sizes.
	mebibyte = 1 << 20
)

// ErrLost says that a machine's kernel panicked or hung before the command ended.
var ErrLost = errors.New("the machine was lost")

// Run boots a machine, runs the command in it as root and returns its output and exit code. The error says why there is
// no exit code: the machine could not be made, did not boot, was lost (ErrLost), or the time was up. A machine that was
// lost is made once more, for that happens to an emulated processor now and then.
func Run(ctx context.Context, opts Options, command []string) (Result, error) {
	result, err := boot(ctx, opts, command)
	if errors.Is(err, ErrLost) && ctx.Err() == nil {
		return boot(ctx, opts, command)
	}
	return result, err
}

func boot(ctx context.Context, opts Options, command []string) (Result, error) {
	args, err := opts.args()
	if err != nil {
		return Result{}, err
	}
	script, err := recipe()
	if err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, script, append(append(args, "--"), command...)...)
	stdout, stderr := limited{max: maxOutput}, limited{max: maxOutput}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// On SIGTERM the script ends the machine and removes its files; also when this process is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	if err = deathsig.Start(cmd, syscall.SIGTERM); err == nil {
		err = cmd.Wait()
	}
	result := Result{Output: stdout.String(), ExitCode: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return result, fmt.Errorf("%s: %w", script, err)
	}
	switch code := result.ExitCode; {
	case code == exitLost:
		return result, fmt.Errorf("%w: %s", ErrLost, stderr.String())
	case code < 0 || code == exitTimeout || code == exitMachine:
		return result, fmt.Errorf("%s ended with %s: %s", script, cmd.ProcessState, stderr.String())
	}
	return result, nil
}

// args are the options of vm.sh.
func (o Options) args() ([]string, error) {
	if o.Memory%mebibyte != 0 || o.Disk%mebibyte != 0 || o.Timeout%time.Second != 0 {
		return nil, fmt.Errorf("memory %d, disk %d, timeout %s: give whole MiB and whole seconds",
			o.Memory, o.Disk, o.Timeout)
	}
	var args []string
	add := func(option, value string, given bool) {
		if given {
			args = append(args, option, value)
		}
	}
	add("--kernel", o.Kernel, o.Kernel != "")
	add("--memory", strconv.FormatInt(o.Memory/mebibyte, 10)+"M", o.Memory != 0)
	add("--cpus", strconv.Itoa(o.CPUs), o.CPUs != 0)
	add("--disk", strconv.FormatInt(o.Disk/mebibyte, 10), o.Disk != 0)
	add("--timeout", strconv.FormatInt(int64(o.Timeout/time.Second), 10), o.Timeout != 0)
	add("--dir", o.Dir, o.Dir != "")
	for _, c := range o.Copies {
		host, err := filepath.Abs(c.Host)
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", c.Host, err)
		}
		guest := c.Guest
		if guest == "" {
			guest = host
		}
		if !filepath.IsAbs(guest) || strings.Contains(guest, ":") {
			return nil, fmt.Errorf("copy %s: the guest's path %q must be absolute and without colon", host, guest)
		}
		add("--copy", host+":"+guest, true)
	}
	for _, e := range o.Env {
		add("--env", e, true)
	}
	if o.HostLibs {
		args = append(args, "--host-libs")
	}
	return args, nil
}

// recipe writes vm.sh and its parts into the cache, once for each version of them, and returns its path.
func recipe() (string, error) {
	cache, err := cachedir.Path()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	files := map[string][]byte{}
	err = fs.WalkDir(scripts.VM, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[name], err = scripts.VM.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
		return err
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "vm", "recipe-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	script := filepath.Join(dir, "vm.sh")
	if _, err := os.Stat(script); err == nil {
		return script, nil
	}
	return script, writeWhole(dir, files)
}

// writeWhole makes a folder that appears whole or not at all.
func writeWhole(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "recipe-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for name, data := range files {
		path := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return err
		}
	}
	err = os.Rename(fresh, dir)
	if _, there := os.Stat(dir); there == nil {
		return nil // another tare was faster
	}
	return err
}

// limited keeps the first max bytes and counts the others.
type limited struct {
	kept    bytes.Buffer
	max     int
	dropped int64
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.max-l.kept.Len())
	l.kept.Write(p[:n])
	l.dropped += int64(len(p) - n)
	return len(p), nil
}

func (l *limited) String() string {
	if l.dropped == 0 {
		return l.kept.String()
	}
	return fmt.Sprintf("%s\n[%d more bytes]\n", l.kept.String(), l.dropped)
}
