package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/vmtest"
)

var update = flag.Bool("update", false, "write the list of dependencies anew")

// maxSize is what the launcher may add to an image.
const maxSize = 3_000_000

// build makes the launcher as make does.
func build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tare-exec")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestSmallAndStatic(t *testing.T) {
	path := build(t)
	st, err := os.Stat(path)
	if err != nil || st.Size() > maxSize {
		t.Errorf("%d bytes, at most %d: %v", st.Size(), maxSize, err)
	}
	if out, err := exec.Command("readelf", "-ld", path).CombinedOutput(); err != nil || bytes.Contains(out, []byte("INTERP")) || bytes.Contains(out, []byte("NEEDED")) {
		t.Errorf("not static: %v\n%s", err, out)
	}
}

// The list of all that the launcher consists of: the standard library and this
// module.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "tare.dev/tare/"
	var deps []string
	for dep := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(dep, "/")
		if strings.Contains(first, ".") && !strings.HasPrefix(dep, module) {
			t.Errorf("%s is not of the standard library", dep)
		}
		// What the standard library is made of inside changes with Go.
		if !strings.HasPrefix(dep, "internal/") && !strings.Contains(dep, "/internal/") || strings.HasPrefix(dep, module) {
			deps = append(deps, dep)
		}
	}
	got := strings.Join(deps, "\n") + "\n"
	const golden = "testdata/dependencies.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("%s (%v) differs; write it anew with -update:\n%s", golden, err, got)
	}
}

// runIn runs a command in a control group with a memory limit.
func runIn(t *testing.T, bytesLimit int64, cpus float64, env []string, args ...string) (out string, code int) {
	t.Helper()
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var b bytes.Buffer
	p, err := r.Start(ctx, runner.Spec{Args: args, Env: env, Stdout: &b, Stderr: &b, Limits: runner.Limits{MemoryBytes: bytesLimit, CPUs: cpus}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	select {
	case <-p.Done():
	case <-ctx.Done():
		t.Fatal("it does not end")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), p.Exit().Code
}

// In a real control group the JVM that runs in the end has the heap that was
// planned, and what the user set.
func TestRealContainer(t *testing.T) {
	launcher, java, jar := build(t), jvmtest.Java(t, 21), jvmtest.Jar(t, "sysinfo.jar")
	out, code := runIn(t, 160<<20, 0.5, os.Environ(), launcher, "--dry-run", "--", java, "-jar", jar)
	if code != 0 || !strings.Contains(out, " -Xmx") || !strings.Contains(out, "-XX:+UseSerialGC") || !strings.HasPrefix(out, "MALLOC_ARENA_MAX=1 ") {
		t.Fatalf("%d: %s", code, out)
	}
	out, code = runIn(t, 160<<20, 0.5, os.Environ(), launcher, "--explain", "--", java, "-Xss640k", "-XX:+PrintFlagsFinal", "-version")
	for _, want := range []string{"container: 160 MiB", "1 processor (quota 0.5)", "ThreadStackSize                          = 640"} {
		if code != 0 || !strings.Contains(strings.ReplaceAll(out, "\n", " "), want) {
			t.Errorf("%d: no %q in %s", code, want, out)
		}
	}
	// The exit code is java's.
	if out, code = runIn(t, 160<<20, 0, os.Environ(), launcher, "--", java, "-cp", "/nonexistent", "Main"); code != 1 || !strings.Contains(out, "ClassNotFoundException") {
		t.Errorf("%d: %s", code, out)
	}
}

// As a java in PATH it finds the other one.
func TestNamedJava(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(build(t))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "java")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{fmt.Sprintf("PATH=%s:%s", dir, filepath.Dir(jvmtest.Java(t, 17))), "TARE_EXEC_FLAGS=--explain"}
	out, code := runIn(t, 160<<20, 0, env, name, "-version")
	if code != 0 || !strings.Contains(out, `version "17.`) || !strings.Contains(out, "java 17.") {
		t.Errorf("%d: %s", code, out)
	}
}

// budgetScript asks the launcher what it sees in nested groups of cgroup v2: the
// outer one has the limit, the inner one a lower memory.high and half a
// processor; and then in a pod that has no limit at all.
const budgetScript = `
cd /sys/fs/cgroup
mkdir -p pod/app free
echo "+memory +cpu" > cgroup.subtree_control; echo "+memory +cpu" > pod/cgroup.subtree_control
echo 512M > pod/memory.max; echo 192M > pod/app/memory.high; echo "50000 100000" > pod/app/cpu.max
for group in pod/app pod free; do
  inner=/sys/fs/cgroup/$group
  [ $group = pod ] && mkdir -p pod/other && inner=/sys/fs/cgroup/pod/other
  echo "== $group"
  sh -c "echo \$\$ > $inner/cgroup.procs; exec /bin/tare-exec --explain -- /jdk17/bin/java -version" 2>&1
done
`

// hugePagesScript starts 60 threads with stacks of 2 MiB on a kernel that makes
// huge pages of them: bare, and through the launcher. It waits until the bare
// JVM has swollen, and prints what became of each.
const hugePagesScript = `
cd /sys/kernel/mm/transparent_hugepage
echo always > enabled; echo 10 > khugepaged/scan_sleep_millisecs; echo 65536 > khugepaged/pages_to_scan
jvm() { "$@" -Xss2m -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -jar /workloads.jar memory-filler 60 10 10 > /out.$n 2>&1 & eval "p$n=$!"; n=$((n+1)); }
n=1
jvm /jdk11/bin/java
jvm /bin/tare-exec -- /jdk11/bin/java
jvm /bin/tare-exec -- /jdk17/bin/java
jvm /bin/tare-exec -- /jdk11/bin/java -XX:+UseTransparentHugePages
rss() { awk '/^Rss/ { print int($2 / 1024) }' /proc/$1/smaps_rollup; }
for i in $(seq 240); do
  ready=$(grep -l ready /out.* | wc -l)
  if [ $ready = 4 ] && [ $(rss $p1) -gt $(( $(rss $p2) + 60 )) ]; then break; fi
  sleep 0.5
done
for p in $p1 $p2 $p3 $p4; do echo "rss $(rss $p) $(grep THP_enabled /proc/$p/status)"; done
cat /out.*
`

// TestInMachine boots Linux 6.1 with cgroup v2, where the launcher finds what
// bounds it and protects from huge pages.
// Two copies of the launcher that are called java do not start each other: the
// next java that is none is found, or that there is none is said.
func TestCopiesNamedJava(t *testing.T) {
	data, err := os.ReadFile(build(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(folder string, data []byte) string {
		path := filepath.Join(dir, folder, "java")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o755)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := write("a", data)
	write("b", data)
	write("home/bin", data)
	genuine := write("c", []byte("#!/bin/sh\necho the real java\n"))
	run := func(path string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, first, "-version")
		cmd.Env = []string{"PATH=" + path, "JAVA_HOME=" + filepath.Join(dir, "home")}
		out, err := cmd.CombinedOutput()
		return string(out), errors.Join(err, ctx.Err())
	}
	both := filepath.Join(dir, "a") + ":" + filepath.Join(dir, "b")
	if out, err := run(both + ":" + filepath.Dir(genuine)); err != nil || !strings.Contains(out, "the real java") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(both); err == nil || !strings.Contains(out, "there is no java in") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestInMachine(t *testing.T) {
	result := vmtest.Run(t, vmtest.Options{Memory: 2 << 30, Timeout: 9 * time.Minute, HostLibs: true, Copies: []vmtest.Copy{
		{Host: build(t), Guest: "/bin/tare-exec"}, {Host: jvmtest.Home(t, 11), Guest: "/jdk11"}, {Host: jvmtest.Home(t, 17), Guest: "/jdk17"},
		{Host: jvmtest.Jar(t, "workloads.jar"), Guest: "/workloads.jar"},
	}}, "sh", "-c", budgetScript+"echo == huge pages\n"+hugePagesScript)
	sections := strings.Split(result.Output, "== ")
	if len(sections) != 5 {
		t.Fatalf("%d sections", len(sections))
	}
	checkBudgets(t, sections[1:4])
	checkHugePages(t, sections[4])
}

// checkBudgets looks for what bounds the launcher in each section.
func checkBudgets(t *testing.T, sections []string) {
	for i, want := range [][]string{
		{"container: 192 MiB (memory.high", "1 processor (quota 0.5)", "-Xmx"},
		{"container: 512 MiB", "-Xmx"},
		{"the machine: no control group limits it"},
	} {
		said := strings.Join(strings.Fields(sections[i]), " ")
		for _, w := range want {
			if !strings.Contains(said, w) || !strings.Contains(said, `version "17.`) {
				t.Errorf("no %q, or no JVM: %s", w, said)
			}
		}
	}
}

// checkHugePages: the launcher protects a JVM that does not protect itself,
// leaves one alone that does, and the user's wish.
func checkHugePages(t *testing.T, section string) {
	var rss, thp [4]int
	_, section, _ = strings.Cut(section, "\n")
	lines := strings.Split(section, "\n")
	for i := range rss {
		if len(lines) < 4 {
			t.Fatal("no result")
		}
		if _, err := fmt.Sscanf(lines[i], "rss %d THP_enabled: %d", &rss[i], &thp[i]); err != nil {
			t.Fatalf("%q: %v", lines[i], err)
		}
	}
	if thp != [4]int{1, 0, 1, 1} {
		t.Errorf("huge pages allowed to bare 11, 11, 17, 11 that asked for them: %v", thp)
	}
	if rss[0] < rss[1]+60 {
		t.Errorf("60 threads with 2 MiB each: %d MiB bare, %d MiB protected", rss[0], rss[1])
	}
}
