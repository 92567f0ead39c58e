package launch

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/testkit/jdktree"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// javaOf is the launcher of a made-up JDK: what is planned follows from its files,
// and an update of the machine's JDKs must change no expectation.
func javaOf(t testing.TB, major int) string {
	t.Helper()
	return jdktree.Like(major).Make(t, filepath.Join(t.TempDir(), "jdk-"+strconv.Itoa(major)))
}

func runtimeOf(t testing.TB, major int) *jdkfiles.Runtime {
	t.Helper()
	return opened(t, javaOf(t, major))
}

func opened(t testing.TB, launcher string) *jdkfiles.Runtime {
	t.Helper()
	java, err := jdkfiles.Open(launcher)
	if err != nil {
		t.Fatal(err)
	}
	return java
}

// planFor plans for a command without "java".
func planFor(t testing.TB, s System, java *jdkfiles.Runtime, env []string, flags Options, args ...string) *plan {
	t.Helper()
	p, err := tryPlan(t, s, java, env, flags, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryPlan(t testing.TB, s System, java *jdkfiles.Runtime, env []string, flags Options, args ...string) (*plan, error) {
	t.Helper()
	o, problems, err := readUser(append([]string{"java"}, args...), env, "/", jvmopts.ParseRelease(java.Version))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return makePlan(call{s, java, o, env, "/", flags, nil})
}

// Every JVM takes what is added, in every size of container, without a word,
// and has the heap that was planned.
func TestPlansOnEveryJDK(t *testing.T) {
	jar := jvmtest.Jar(t, "sysinfo.jar")
	for _, major := range jvmtest.Majors(t) {
		java := opened(t, jvmtest.Java(t, major))
		for _, size := range []int64{96, 256, 768, 4096} {
			t.Run(fmt.Sprintf("JDK %d, %d MiB", major, size), func(t *testing.T) {
				p := planFor(t, limited(t, size*mib), java, nil, Options{}, "-jar", jar)
				if len(p.warnings) > 0 {
					t.Errorf("warnings %q", p.warnings)
				}
				if p.heap <= 0 || p.heap+total(p.rest) > size*mib {
					t.Errorf("heap %d, rest %+v", p.heap, p.rest)
				}
				added := p.options.Added()
				cmd := exec.Command(java.Java, append(added, "-XX:+PrintFlagsFinal", "-version")...)
				var stderr strings.Builder
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil || strings.Contains(strings.ToLower(stderr.String()), "warning") || strings.Contains(string(out), "warning") {
					t.Errorf("%q: %v\n%s", added, err, stderr.String())
				}
				if got := flagOf(t, string(out), "MaxHeapSize"); got != p.heap {
					t.Errorf("MaxHeapSize %d, planned %d", got, p.heap)
				}
				if serial := slices.Contains(added, "-XX:+UseSerialGC"); serial != (size < 1792) {
					t.Errorf("%q in %d MiB", added, size)
				}
			})
		}
	}
}

func flagOf(t *testing.T, out, name string) int64 {
	t.Helper()
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == name {
			n, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				t.Fatal(line)
			}
			return n
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// userOptions are what users set; all of them go together, but for the last of a
// kind, which wins.
var someOptions = []string{"-Xmx100m", "-Xmx1g", "-Xms32m", "-Xms600m", "-XX:MaxRAMPercentage=60", "-XX:+UseSerialGC", "-XX:-UseSerialGC", "-Xint",
	"-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation", "-XX:-ExitOnOutOfMemoryError", "-XX:+CrashOnOutOfMemoryError", "-XX:MinHeapFreeRatio=30",
	"-XX:MaxHeapFreeRatio=10", "-Xshare:off", "-Xss512k", "-Dx=y", "-XX:+HeapDumpOnOutOfMemoryError", "-XX:NewRatio=3", "-XX:G1PeriodicGCInterval=9",
	"-XX:MaxDirectMemorySize=30m", "-verbose:gc", "-XX:ActiveProcessorCount=3", "-XX:SoftMaxHeapSize=50m"}

// What the user set has the same value with what was added, whatever it is and
// wherever it is from; and his own arguments stay as they are.
func TestUserWins(t *testing.T) {
	java := runtimeOf(t, 21)
	small, large := limited(t, 128*mib), limited(t, 4096*mib)
	random := rand.New(rand.NewPCG(5, 5))
	pick := func(n int) []string {
		var out []string
		for range random.IntN(n) {
			out = append(out, someOptions[random.IntN(len(someOptions))])
		}
		return out
	}
	for i := range 2000 {
		env := []string{"JAVA_TOOL_OPTIONS=" + strings.Join(pick(3), " "), "_JAVA_OPTIONS=" + strings.Join(pick(2), " "), "JDK_JAVA_OPTIONS=" + strings.Join(pick(2), " ")}
		if i%3 == 0 {
			env = append(env, "MALLOC_ARENA_MAX=7")
		}
		args := append(pick(4), "-cp", "x", "Main", "-Xmx1m")
		o, _, err := readUser(append([]string{"java"}, args...), env, "/", jvmopts.ParseRelease(java.Version))
		if err != nil {
			continue // contradictions: the JVM would not start either
		}
		s := small
		if i%2 == 0 {
			s = large
		}
		p, err := makePlan(call{s, java, o, env, "/", Options{NMT: "summary"}, nil})
		if err != nil {
			t.Fatal(err)
		}
		command, environ := p.commandLine("java", env)
		if !slices.Equal(command[len(command)-len(args):], args) || !slices.Equal(environ[:len(env)], env) {
			t.Fatalf("%q became %q", args, command)
		}
		for _, option := range o.All {
			for _, set := range option.Sets {
				want, _, _ := o.Value(set.Flag)
				if got, _, _ := p.options.Value(set.Flag); got != want {
					t.Fatalf("%q %q: %s is %s, and with %q it is %s", env, args, set.Flag, want, p.options.Added(), got)
				}
			}
		}
		if i%3 == 0 && slices.ContainsFunc(p.options.AddedEnv(), func(e string) bool { return strings.HasPrefix(e, "MALLOC") }) {
			t.Fatalf("arenas: %q", environ)
		}
	}
}

func has(p *plan, setting string) bool {
	return slices.Contains(p.options.Added(), setting) || slices.Contains(p.options.AddedEnv(), setting)
}

func TestRules(t *testing.T) {
	jar := jvmtest.Jar(t, "sysinfo.jar")
	one := func(s System) System { s.CPUs = 1; return s }
	noLimit := map[string]string{appFiles + "memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "max\n"}
	machine := func(kib, available int) System {
		files := map[string]string{"proc/meminfo": fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", kib, available)}
		for k, v := range noLimit {
			files[k] = v
		}
		return container(t, v2Systemd, files)
	}
	for _, c := range []struct {
		what    string
		major   int
		system  System
		args    []string
		want    []string
		wantNot []string
	}{
		{"tiny", 17, limited(t, 96*mib), nil, []string{"-XX:TieredStopAtLevel=1", "MALLOC_ARENA_MAX=1", "-XX:ArchiveRelocationMode=0", "-XX:TrimNativeHeapInterval=5000"}, nil},
		{"C2 where it fits", 17, limited(t, 256*mib), nil, []string{"MALLOC_ARENA_MAX=1"}, []string{"-XX:TieredStopAtLevel=1"}},
		{"middling", 17, limited(t, 600*mib), nil, []string{"MALLOC_ARENA_MAX=2", "-XX:MaxHeapFreeRatio=40"}, []string{"-XX:ArchiveRelocationMode=0"}},
		{"large", 17, limited(t, 4096*mib), nil, []string{"-XX:+ExitOnOutOfMemoryError", "-Xmx3276m"}, []string{"-XX:+UseSerialGC", "-XX:MaxHeapFreeRatio=40"}},
		{"one processor", 27, one(limited(t, 2048*mib)), nil, []string{"-XX:+UseSerialGC"}, nil},
		{"one processor, large", 27, one(limited(t, 8192*mib)), nil, nil, []string{"-XX:+UseSerialGC"}},
		{"archive of 8", 8, limited(t, 256*mib), nil, []string{"-Xshare:auto"}, []string{"-XX:TrimNativeHeapInterval=5000"}},
		{"headers", 25, limited(t, 256*mib), nil, []string{"-XX:+UseCompactObjectHeaders"}, nil},
		{"headers by default", 27, limited(t, 256*mib), nil, nil, []string{"-XX:+UseCompactObjectHeaders"}},
		{"headers and an archive", 25, limited(t, 256*mib), []string{"-XX:AOTCache=x"}, nil, []string{"-XX:+UseCompactObjectHeaders"}},
		{"a machine of its own", 21, machine(226472, 200000), nil, []string{"-XX:+UseSerialGC"}, []string{"MALLOC_ARENA_MAX=1"}},
		{"a large machine", 21, machine(32<<20, 30<<20), nil, []string{"-XX:+ExitOnOutOfMemoryError"}, []string{"-XX:+UseSerialGC"}},
	} {
		p := planFor(t, c.system, runtimeOf(t, c.major), nil, Options{}, append(c.args, "-jar", jar)...)
		for _, w := range c.want {
			if !has(p, w) {
				t.Errorf("%s: no %s in %q %q", c.what, w, p.options.Added(), p.options.AddedEnv())
			}
		}
		for _, w := range c.wantNot {
			if has(p, w) {
				t.Errorf("%s: %s in %q", c.what, w, p.options.Added())
			}
		}
	}
	large := planFor(t, machine(32<<20, 30<<20), runtimeOf(t, 21), nil, Options{}, "-jar", jar)
	if large.heap != 0 || !strings.Contains(large.headlines()[0], "the machine: no control group limits it") {
		t.Errorf("on a large machine the heap is the JVM's: %d, %s", large.heap, large.headlines())
	}
}

// What cannot fit is said, and starts.
func TestTooSmall(t *testing.T) {
	p := planFor(t, limited(t, 128*mib), runtimeOf(t, 21), []string{"BPL_JVM_LOADED_CLASS_COUNT=60000"}, Options{}, "-cp", "x", "Main")
	if len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "128 MiB are too few") || !has(p, "-Xmx32m") || !has(p, "-XX:TieredStopAtLevel=1") {
		t.Errorf("%q, %q", p.warnings, p.options.Added())
	}
}

// Hints change the estimate.
func TestHintsCount(t *testing.T) {
	heap := func(env ...string) int64 {
		return planFor(t, limited(t, 512*mib), runtimeOf(t, 21), env, Options{}, "-cp", "x", "Main").heap
	}
	plain := heap()
	if a, b, c := heap("BPL_JVM_HEAD_ROOM=10"), heap("BPL_JVM_THREAD_COUNT=500"), heap("BPL_JVM_LOADED_CLASS_COUNT=9000"); a > plain-48*mib || a < plain-54*mib || b >= plain-30*mib || c >= plain-30*mib {
		t.Errorf("heap %d; with headroom %d, threads %d, classes %d", plain/mib, a/mib, b/mib, c/mib)
	}
}

// A program of which nothing is known is started as it is.
func TestUnknownJVM(t *testing.T) {
	p := planFor(t, limited(t, 256*mib), &jdkfiles.Runtime{Java: "/opt/shim/java"}, nil, Options{}, "-jar", "x.jar")
	if len(p.options.Added()) > 0 || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "/opt/shim/java is not known to be a HotSpot JVM") || !has(p, "MALLOC_ARENA_MAX=1") {
		t.Errorf("%q %q", p.options.Added(), p.warnings)
	}
}

func TestUnreadableLimit(t *testing.T) {
	p := planFor(t, container(t, v2Systemd, map[string]string{appFiles + "memory.max": "much\n"}), runtimeOf(t, 21), nil, Options{}, "-cp", "x", "Main")
	if p.heap != 0 || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "nothing is sized by it") || !has(p, "-XX:+ExitOnOutOfMemoryError") {
		t.Errorf("%d, %q, %q", p.heap, p.warnings, p.options.Added())
	}
}

func TestHugePages(t *testing.T) {
	always := map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n"}
	exposed := container(t, v2Systemd, always)
	newer := container(t, v2Systemd, map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n", "proc/sys/kernel/osrelease": "6.7.1\n"})
	for _, c := range []struct {
		what   string
		major  int
		system System
		option string
		want   bool
	}{
		{"exposed", 11, exposed, "-Dx=y", true},
		{"exposed", 8, exposed, "-XX:-UseLargePages", true},
		{"the JVM protects itself", 17, exposed, "-Dx=y", false},
		{"kernel leaves stacks alone", 11, newer, "-Dx=y", false},
		{"madvise", 11, container(t, v2Systemd, nil), "-Dx=y", false},
		{"wanted", 11, exposed, "-XX:+UseTransparentHugePages", false},
		{"wanted", 11, exposed, "-XX:+UseLargePages", false},
	} {
		p := planFor(t, c.system, runtimeOf(t, c.major), nil, Options{}, c.option, "Main")
		if p.disableTHP != c.want {
			t.Errorf("%s, JDK %d, %s: %v", c.what, c.major, c.option, p.disableTHP)
		}
	}
}

func TestContradictions(t *testing.T) {
	for _, c := range []struct{ env, args, want string }{
		{"", "-XX:+UseSerialGC -XX:+UseG1GC", "-XX:+UseSerialGC (command line) and -XX:+UseG1GC (command line) contradict"},
		{"JAVA_TOOL_OPTIONS=-XX:+UseZGC", "-XX:+UseParallelGC", "-XX:+UseZGC (JAVA_TOOL_OPTIONS) contradict"},
		{"_JAVA_OPTIONS=-Xmx64m", "-Xms128m", "-Xms128m (command line) is more than -Xmx64m (_JAVA_OPTIONS)"},
		{"", "-XX:+UseSerialGC -XX:-UseSerialGC -XX:+UseG1GC", ""},
		{"", "-Xms64m -Xmx64m", ""},
	} {
		_, _, err := readUser(append([]string{"java"}, append(strings.Fields(c.args), "Main")...), []string{c.env}, "/", jvmopts.Release{Feature: 21})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q %q: %v", c.env, c.args, err)
		}
	}
}
