package jdks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/jdkfiles"
)

// javaOptionVariables change what a JVM does whatever its command line says: the
// launcher reads JDK_JAVA_OPTIONS (JDK: src/java.base/share/native/libjli/args.c),
// the JVM the others (src/hotspot/share/runtime/arguments.cpp).
var javaOptionVariables = []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}

// maxJavaOutput is how many bytes are read from a launcher; a flag list has
// 100 kB.
const maxJavaOutput = 4 << 20

// probe fills in what the release file and the JVM say. A JDK that has an Error
// already is left alone: there is no launcher to ask.
func (s Search) probe(ctx context.Context, jdk *JDK) {
	if jdk.Error != "" {
		return
	}
	jdk.CDSArchive = jdkfiles.DefaultArchive(jdk.Home) != ""
	err := jdk.mayRun()
	var flags map[string]string
	if err == nil {
		flags, err = s.printFlags(ctx, jdk)
	}
	if err == nil {
		// In this order: what the flags mean depends on the version.
		err = errors.Join(s.identify(ctx, jdk), jdk.setDefaults(flags))
	} else {
		err = errors.Join(err, jdk.identifyByRelease())
	}
	if err != nil {
		jdk.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// mayRun says why the launcher of a JDK must not be run: it was found because of
// HOME alone, and belongs to somebody who is neither us nor root. With sudo, HOME
// is often that of a user who would so have programs run as root.
func (j *JDK) mayRun() error {
	if slices.ContainsFunc(j.Sources, func(source string) bool { return source != sourceSDKMAN && source != SourceCache }) {
		return nil // the user or the administrator named it
	}
	for _, path := range []string{j.Home, filepath.Dir(j.Java()), j.Java()} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if uid := os.Geteuid(); !ok || st.Uid != 0 && int(st.Uid) != uid {
			return fmt.Errorf("%s belongs to uid %d and is not run as uid %d: set JAVA_HOME to have it run", path, st.Uid, uid)
		}
	}
	return nil
}

// identity is what a JDK says it is, by its release file or its system properties.
type identity struct{ version, vendor, arch string }

func (i identity) complete() bool { return i.version != "" && i.vendor != "" && i.arch != "" }

// identifyByRelease is for a JDK whose launcher does not answer.
func (j *JDK) identifyByRelease() error {
	id, err := readRelease(filepath.Join(j.Home, "release"))
	return errors.Join(err, j.setIdentity(id))
}

// identify asks the JVM only for what the release file does not tell: Debian's JDK 8
// has none, and before 10 none names the vendor.
func (s Search) identify(ctx context.Context, jdk *JDK) error {
	id, errRelease := readRelease(filepath.Join(jdk.Home, "release"))
	var errJVM error
	if !id.complete() {
		var said identity
		said, errJVM = s.askProperties(ctx, jdk)
		id.version = cmp.Or(id.version, said.version)
		id.vendor = cmp.Or(id.vendor, said.vendor)
		id.arch = cmp.Or(id.arch, said.arch)
	}
	return errors.Join(errRelease, errJVM, jdk.setIdentity(id))
}

func (j *JDK) setIdentity(id identity) (err error) {
	j.Version, j.Vendor, j.Arch = id.version, id.vendor, imageArch(id.arch)
	if id.version != "" {
		j.Major, err = hotspot.Major(id.version)
	}
	return err
}

func imageArch(arch string) string {
	switch arch {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return arch
}

func readRelease(path string) (identity, error) {
	r, err := jdkfiles.ReadRelease(path)
	return identity{r.Version, r.Vendor, r.Arch}, err
}

func (s Search) askProperties(ctx context.Context, jdk *JDK) (identity, error) {
	// On stderr until 8, on stdout since 9.
	stdout, stderr, err := s.run(ctx, jdk, "-XshowSettings:properties", "-version")
	if err != nil {
		return identity{}, err
	}
	id, err := parseProperties(string(stdout) + "\n" + string(stderr))
	if err != nil {
		return identity{}, fmt.Errorf("%s -XshowSettings:properties: %w", jdk.Java(), err)
	}
	return id, nil
}

// parseProperties reads what java -XshowSettings:properties prints (JDK:
// sun.launcher.LauncherHelper): indented lines like "java.vendor = Debian".
func parseProperties(text string) (identity, error) {
	var id identity
	fields := map[string]*string{
		"java.version": &id.version, "java.vendor": &id.vendor, "os.arch": &id.arch,
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		field := fields[key]
		if !ok || field == nil {
			continue
		}
		if *field != "" || !jdkfiles.IsName(value) {
			return identity{}, fmt.Errorf("not a single %s: %.80q", key, line)
		}
		*field = value
	}
	if !id.complete() {
		return identity{}, errors.New("java.version, java.vendor or os.arch is missing")
	}
	return id, nil
}

func (s Search) printFlags(ctx context.Context, jdk *JDK) (map[string]string, error) {
	stdout, _, err := s.run(ctx, jdk, "-XX:+PrintFlagsFinal", "-version")
	if err != nil {
		return nil, err
	}
	flags, err := ParsePrintFlagsFinal(bytes.NewReader(stdout))
	if err != nil {
		return nil, fmt.Errorf("%s -XX:+PrintFlagsFinal: %w", jdk.Java(), err)
	}
	return flags, nil
}

func (j *JDK) setDefaults(flags map[string]string) error {
	j.DefaultCollector = hotspot.CollectorByFlags(j.Major, func(flag string) bool { return flags[flag] == "true" })
	heap, err := flagBytes(flags, "MaxHeapSize", 1)
	j.DefaultMaxHeapBytes = heap
	return errors.Join(err, j.stackSizes(flags))
}

// The stack sizes that 64-bit Linux ports choose where the flag is 0 (JDK:
// os::Posix::default_stack_size in src/hotspot/os_cpu/linux_*/os_linux_*.cpp).
const (
	autoStackBytes         = 1 << 20
	autoCompilerStackBytes = 4 << 20
)

// stackSizes sets the sizes in effect of the three stack size flags, which are in
// KiB. For 0, Java and VM threads get the port's choice. So do compiler threads
// since 9 (os::Posix::get_initial_stack_size in src/hotspot/os/posix/os_posix.cpp);
// those of JDK 8, where 0 is the default, get a VM thread's stack instead
// (os::create_thread in src/os/linux/vm/os_linux.cpp).
func (j *JDK) stackSizes(flags map[string]string) error {
	java, errJava := flagBytes(flags, "ThreadStackSize", 1<<10)
	compiler, errCompiler := flagBytes(flags, "CompilerThreadStackSize", 1<<10)
	vm, errVM := flagBytes(flags, "VMThreadStackSize", 1<<10)
	if err := errors.Join(errJava, errCompiler, errVM); err != nil {
		return err
	}
	java = cmp.Or(java, autoStackBytes)
	vm = cmp.Or(vm, autoStackBytes)
	if j.Major == 8 {
		compiler = cmp.Or(compiler, vm)
	}
	compiler = cmp.Or(compiler, autoCompilerStackBytes)
	j.ThreadStackSizeBytes, j.CompilerThreadStackSizeBytes, j.VMThreadStackSizeBytes = java, compiler, vm
	return nil
}

func flagBytes(flags map[string]string, name string, unit int64) (int64, error) {
	text, ok := flags[name]
	if !ok {
		return 0, fmt.Errorf("no flag %s; is this a HotSpot JVM?", name)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("flag %s: no size: %.40q", name, text)
	}
	return n * unit, nil
}

// run runs the launcher with arguments until it ends, and returns what it printed.
func (s Search) run(ctx context.Context, jdk *JDK, args ...string) (stdout, stderr []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, jdk.Java(), args...)
	cmd.Dir = jdk.Home
	cmd.Env = slices.DeleteFunc(slices.Clone(s.Environ), setsJavaOptions)
	// A launcher may be a script: what it started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errs boundedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	what := jdk.Java() + " " + strings.Join(args, " ")
	switch {
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("%s: no answer within %v", what, s.Timeout)
	case out.full || errs.full:
		return nil, nil, fmt.Errorf("%s: more than %d bytes of output", what, maxJavaOutput)
	case err != nil:
		// The JVM says on stdout why it does not start, the launcher on stderr.
		why := cmp.Or(lastLine(out.taken), lastLine(errs.taken))
		return nil, nil, fmt.Errorf("%s: %w%s", what, err, why)
	}
	return out.taken, errs.taken, nil
}

func setsJavaOptions(setting string) bool {
	name, _, _ := strings.Cut(setting, "=")
	return slices.Contains(javaOptionVariables, name)
}

// lastLine is a short, printable rendering of the last line of what a program
// complained, as the end of an error.
func lastLine(complaint []byte) string {
	line := bytes.TrimSpace(complaint)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if len(line) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.200q", line)
}

// boundedBuffer takes up to maxJavaOutput bytes and refuses more.
type boundedBuffer struct {
	taken []byte
	full  bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.taken)+len(p) > maxJavaOutput {
		b.full = true
		return 0, errors.New("too much output")
	}
	b.taken = append(b.taken, p...)
	return len(p), nil
}
