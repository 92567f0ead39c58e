package jvmopts

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	realCases = flag.Int("options.cases", 30, "generated users per JDK, each of which starts a JVM")
	realOut   = flag.String("options.out", "", "file to write the results to")
)

// real is what a JVM says of a flag in -XX:+PrintFlagsFinal.
type real struct {
	value, origin string
	set           bool // by the user, by what the JVM says; JDK 8 does not say
}

var flagLine = regexp.MustCompile(`^ *(\w+) (\w+) +:?= (.*?) *\{((?:pd |C\d |ARCH )*(?:product|diagnostic|manageable|experimental|lp64_product|rw)[^}]*)\}(?: \{([^}]*)\})?$`)

// parseReal reads the output of PrintFlagsFinal with origins.
func parseReal(out []byte) map[string]real {
	flags := make(map[string]real)
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		m := flagLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		f := real{value: strings.TrimSpace(m[3]), origin: m[5]}
		f.set = strings.Contains(f.origin, "command line") || strings.Contains(f.origin, "environment") || strings.Contains(f.origin, "config file")
		flags[m[2]] = f
	}
	return flags
}

// start asks a JVM for its flags.
func start(t *testing.T, java string, args, env []string, dir string) (map[string]real, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, java, append([]string{"-XX:+PrintFlagsFinal"}, args...)...)
	cmd.Env, cmd.Dir = append(env, "PATH="+os.Getenv("PATH")), dir
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Sprintf("%v\n%s%s", err, complaint.String(), lastLines(out.String()))
	}
	return parseReal(out.Bytes()), ""
}

func lastLines(s string) string { return s[max(0, len(s)-600):] }

// additions are what tare would add, each group together.
var additions = [][]string{
	{"-Xmx48m"}, {"-XX:+UseSerialGC"}, {"-XX:+ExitOnOutOfMemoryError"}, {"-XX:TieredStopAtLevel=1"}, {"-Xss512k"},
	{"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"}, {"-XX:ReservedCodeCacheSize=32m"}, {"-XX:+UnlockDiagnosticVMOptions", "-XX:-PrintNMTStatistics"},
	{"-XX:MaxMetaspaceSize=96m"}, {"-XX:NativeMemoryTracking=summary"}, {"-Xshare:auto"}, {"MALLOC_ARENA_MAX=2"}, {"-XX:ActiveProcessorCount=1"},
	{"-XX:+HeapDumpOnOutOfMemoryError", "-XX:HeapDumpPath=/tmp"},
}

// TestRealJVMs compares the model with what real JVMs make of generated users'
// options; every second one with all that may be added. The figure for 200 of
// them per JDK is in docs/results/options.md.
func TestRealJVMs(t *testing.T) {
	majors := jvmtest.Majors(t)
	rows := make([]string, len(majors))
	t.Run("JDK", func(t *testing.T) {
		for i, major := range majors {
			t.Run(strconv.Itoa(major), func(t *testing.T) {
				t.Parallel()
				rows[i] = compareUsers(t, major)
			})
		}
	})
	if *realOut != "" && !t.Failed() {
		writeResult(t, strings.Join(rows, ""))
	}
}

// compareUsers is the row of a JDK in the results.
func compareUsers(t *testing.T, major int) string {
	t.Helper()
	java := jvmtest.Java(t, major)
	r := rand.New(rand.NewPCG(5, uint64(major)))
	var sum tally
	for i := range *realCases {
		sum.add(t, r, java, Release{Feature: major}, i)
	}
	if sum.flags < 3**realCases || sum.added == 0 {
		t.Errorf("only %d flags compared, %d options added", sum.flags, sum.added)
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d |\n", versionOf(t, java), figures.expanded[major],
		sum.users, sum.options, sum.flags, sum.disagree, sum.added, sum.overridden)
}

// tally counts what was compared.
type tally struct{ users, options, flags, disagree, added, overridden int }

func (sum *tally) add(t *testing.T, r *rand.Rand, java string, rel Release, i int) {
	t.Helper()
	dir := t.TempDir()
	collector := pick(r, "UseSerialGC", "UseParallelGC", "UseG1GC")
	u := generate(r, rel, 4+r.IntN(12), func() string { return startable(r, rel, collector) })
	u.store(t, dir)
	o, err := Read(u.input)
	if err != nil {
		t.Fatalf("case %d: %+v: %v", i, u, err)
	}
	user := o
	if i%2 == 1 {
		for _, group := range additions {
			o, _, _ = o.Add(group...)
		}
	}
	flags, failure := start(t, java, o.Args(), append(u.input.Env, o.AddedEnv()...), dir)
	if failure != "" {
		t.Errorf("case %d: java %q with %q does not start:\n%s", i, o.Args(), u.input.Env, failure)
		return
	}
	sum.users++
	sum.options += len(u.given)
	sum.added += len(o.Added())
	compared, wrong := compare(flags, o)
	sum.flags += compared
	sum.disagree += len(wrong)
	_, overridden := compare(flags, user)
	sum.overridden += len(overridden)
	for _, w := range append(wrong, overridden...) {
		t.Errorf("case %d: %s: java %q with %q", i, w, o.Args(), u.input.Env)
	}
	for name, f := range flags {
		if _, _, known := o.Value(name); f.set && !known && !follows(name, o) {
			t.Errorf("case %d: the JVM has %s=%s (%s), of which the model knows nothing: java %q with %q", i, name, f.value, f.origin, o.Args(), u.input.Env)
		}
	}
}

// follows tells whether the JVM itself sets a flag, as if it were the user, for
// another that the options set (CompilerConfig::ergo_initialize,
// G1Arguments::initialize).
func follows(name string, o Options) bool {
	for _, cause := range map[string][]string{
		"PrintFlagsFinal":                  {"PrintFlagsFinal"},
		"ClassUnloadingWithConcurrentMark": {"ClassUnloading"},
		"ProfileInterpreter":               {"TieredStopAtLevel", "UseCompiler"},
		"TieredCompilation":                {"TieredStopAtLevel", "UseCompiler"},
	}[name] {
		if _, _, set := o.Value(cause); set || cause == name {
			return true
		}
	}
	return false
}

// compare compares every flag that the options set.
func compare(flags map[string]real, o Options) (compared int, wrong []string) {
	seen := make(map[string]bool)
	for _, option := range o.All {
		for _, s := range option.Sets {
			f, shown := flags[s.Flag]
			if seen[s.Flag] || !shown {
				continue
			}
			seen[s.Flag] = true
			compared++
			value, by, _ := o.Value(s.Flag)
			if !sameValue(s.Flag, value, f) {
				wrong = append(wrong, fmt.Sprintf("%s is %q (%s), by the model %q (%s)", s.Flag, f.value, f.origin, value, by))
			} else if !sameOrigin(by, f) {
				wrong = append(wrong, fmt.Sprintf("%s comes from %s, by the model from %s", s.Flag, f.origin, by))
			}
		}
	}
	return compared, wrong
}

// sameValue compares as HotSpot shows values; sizes of the heap it aligns.
func sameValue(flag, model string, f real) bool {
	if f.value == model {
		return true
	}
	a, errA := strconv.ParseFloat(model, 64)
	b, errB := strconv.ParseFloat(f.value, 64)
	if errA != nil || errB != nil {
		return false
	}
	if a == b {
		return true
	}
	aligned := strings.Contains(f.origin, "ergonomic") || f.origin == ""
	return aligned && strings.HasSuffix(flag, "Size") && (b > a && b-a < 4<<20 || flag == "MaxNewSize" && a-b < 4<<20)
}

// sameOrigin compares the origin that JDK 9 and later tell. Options other than
// flags, and the flags that HotSpot reads by code of its own, count as of the
// command line wherever they stand.
func sameOrigin(by Option, f real) bool {
	if f.origin == "" || strings.Contains(f.origin, "ergonomic") || strings.HasPrefix(by.Text, "-X") && !strings.HasPrefix(by.Text, "-XX:") {
		return true
	}
	for _, special := range []string{"MaxHeapSize", "ReservedCodeCacheSize", "MaxDirectMemorySize", "MaxTenuringThreshold"} {
		if strings.HasPrefix(by.Text, "-XX:"+special+"=") && by.Source.Place != FlagsFile {
			return true
		}
	}
	switch by.Source.Place {
	case FlagsFile:
		return strings.Contains(f.origin, "config file")
	case ToolOptions, JavaOptions:
		return strings.Contains(f.origin, "environment")
	}
	return strings.Contains(f.origin, "command line")
}

// figures are what the other tests found, for the results.
var figures = struct {
	expanded         map[int]int // argument lists compared, by JDK
	users            int
	options, refused int
}{expanded: make(map[int]int)}

var versionText = regexp.MustCompile(`version "([^"]+)"`)

func versionOf(t *testing.T, java string) string {
	t.Helper()
	out, err := exec.Command(java, "-version").CombinedOutput()
	m := versionText.FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%s -version: %v\n%s", java, err, out)
	}
	return string(m[1])
}

const resultText = `All of it is generated from fixed seeds.

**The user wins.** Of %d generated users, with up to 8 options each over all sources of six JDKs, tare's additions
overrode the option of none: %d options were added, %d groups were refused because the user had settled what
they are about. That is the model; what follows is real JVMs.

**The model is right.** *Argument lists*: command lines, argument files and JDK_JAVA_OPTIONS of random text, quotes,
escapes and comments; how many lists the launcher arrived at and the model reproduced, of %d (the others the
launcher refused, and so did the model). *JVMs*: users of 4 to 15 options over command line, argument files,
JDK_JAVA_OPTIONS, JAVA_TOOL_OPTIONS, _JAVA_OPTIONS, options files and a flags file, in the quoting of each, started
with -XX:+PrintFlagsFinal, every second one with all that tare would add. A flag *disagrees* when its value or the
origin that the JVM tells is another than by the model (JDK 8 tells no origin; sizes of the heap may be aligned); it
is *overridden* when it is another than the user set.

| JDK | argument lists | JVMs | options given | flags compared | disagree | options added | overridden |
|---|---|---|---|---|---|---|---|
%s
No spread is given: the same seed makes the same users.
`

func writeResult(t *testing.T, rows string) {
	t.Helper()
	text := results.Text("The model of the user's options", "make bench-options",
		fmt.Sprintf(resultText, figures.users, figures.options, figures.refused, *realCases, rows))
	if err := os.WriteFile(*realOut, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text)
}
