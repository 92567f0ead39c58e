package jvmopts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wish is what a user may ask for and what must not be added beside it, by the
// meaning of the options and not by this package's tables.
type wish struct {
	options []string
	forbids []string // prefixes of additions
}

// wishes are about everything that may be added in wildAdditions.
var wishes = []wish{
	{[]string{"-Xmx80m", "-XX:MaxHeapSize=1g", "-XX:MaxRAM=2g", "-XX:MaxRAMPercentage=60.0", "-XX:MaxRAMFraction=2", "-XX:InitialRAMPercentage=30.0",
		"-XX:MinRAMPercentage=20.5", "-XX:+AggressiveHeap"}, []string{"-Xmx", "-XX:MaxRAMPercentage"}},
	{[]string{"-Xms500m", "-XX:InitialHeapSize=500m", "-XX:MinHeapSize=500m", "-Xmn300m", "-XX:NewSize=300M"}, []string{"-Xmx48m"}},
	{[]string{"-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseZGC", "-XX:+UseShenandoahGC", "-XX:+UseEpsilonGC", "-XX:-UseSerialGC", "-XX:G1HeapRegionSize=2m",
		"-XX:ConcGCThreads=1", "-XX:MaxGCPauseMillis=50", "-XX:+ZGenerational", "-XX:ZCollectionInterval=5", "-XX:ShenandoahGCHeuristics=compact",
		"-XX:SoftMaxHeapSize=40m", "-XX:+AlwaysActAsServerClassMachine"}, []string{"-XX:+UseSerialGC"}},
	{[]string{"-XX:TieredStopAtLevel=4", "-Xint", "-Xcomp", "-XX:-TieredCompilation", "-XX:+TieredCompilation", "-XX:CICompilerCount=4", "-XX:Tier4InvocationThreshold=100",
		"-XX:CompilationMode=high-only", "-XX:+DoEscapeAnalysis", "-XX:+UseJVMCICompiler"}, []string{"-XX:TieredStopAtLevel"}},
	{[]string{"-Xss2m", "-XX:ThreadStackSize=2048"}, []string{"-Xss"}},
	{[]string{"-XX:ReservedCodeCacheSize=200m", "-XX:InitialCodeCacheSize=40m", "-XX:NonNMethodCodeHeapSize=8m", "-XX:-SegmentedCodeCache"}, []string{"-XX:ReservedCodeCacheSize"}},
	{[]string{"-XX:MinHeapFreeRatio=50", "-Xminf0.5", "-Xmaxf0.9", "-XX:MaxHeapFreeRatio=90", "-XX:-ShrinkHeapInSteps", "-XX:+AlwaysPreTouch"}, []string{"-XX:MinHeapFreeRatio", "-XX:MaxHeapFreeRatio"}},
	{[]string{"-Xshare:off", "-Xshare:on", "-XX:SharedArchiveFile=/a.jsa", "-XX:AOTCache=a.aot", "-XX:ArchiveClassesAtExit=a.jsa", "-XX:+AutoCreateSharedArchive", "-XX:AOTMode=off"},
		[]string{"-Xshare", "-XX:AOTCache", "-XX:SharedArchiveFile"}},
	{[]string{"-XX:+CrashOnOutOfMemoryError", "-XX:OnOutOfMemoryError=kill -9 %p", "-XX:-ExitOnOutOfMemoryError"}, []string{"-XX:+ExitOnOutOfMemoryError"}},
	{[]string{"-XX:MaxMetaspaceSize=32m", "-XX:CompressedClassSpaceSize=30m", "-XX:MetaspaceSize=120m"}, []string{"-XX:MaxMetaspaceSize"}},
	{[]string{"-XX:-UseCompactObjectHeaders", "-XX:-UseCompressedClassPointers"}, []string{"-XX:+UseCompactObjectHeaders"}},
	{[]string{"-XX:NativeMemoryTracking=off"}, []string{"-XX:NativeMemoryTracking"}},
	{[]string{"-XX:ActiveProcessorCount=3"}, []string{"-XX:ActiveProcessorCount"}},
	{[]string{"-XX:ArchiveRelocationMode=2", "-XX:-UnlockDiagnosticVMOptions"}, []string{"-XX:ArchiveRelocationMode", "-XX:+UnlockDiagnosticVMOptions"}},
	{[]string{"-XX:HeapDumpPath=/d", "-XX:-HeapDumpOnOutOfMemoryError"}, []string{"-XX:+HeapDumpOnOutOfMemoryError", "-XX:HeapDumpPath"}},
	{[]string{"-ea", "-Dkey=-Xmx1g", "-XX:+UsePerfData", "-XX:+NewerThanKnown", "-XX:SomethingNew=7", "--add-opens=a/b=c", "-verbose:class", "-Xlog:class*", "-XX:+PrintCompilation"}, nil},
}

var wildAdditions = [][]string{
	{"-Xmx48m"}, {"-Xmx900m", "-Xms20m"}, {"-XX:MaxRAMPercentage=75.0"}, {"-XX:+UseSerialGC"}, {"-XX:TieredStopAtLevel=1"}, {"-Xss512k"}, {"-XX:ReservedCodeCacheSize=32m"},
	{"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"}, {"-Xshare:auto"}, {"-XX:AOTCache=x.aot"}, {"-XX:SharedArchiveFile=x.jsa"}, {"-XX:+ExitOnOutOfMemoryError"},
	{"-XX:MaxMetaspaceSize=100m"}, {"-XX:+UseCompactObjectHeaders"}, {"-XX:NativeMemoryTracking=summary"}, {"-XX:ActiveProcessorCount=1"},
	{"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"}, {"-XX:+HeapDumpOnOutOfMemoryError", "-XX:HeapDumpPath=/tmp"}, {"MALLOC_ARENA_MAX=2"},
}

// TestNoUserOptionIsOverridden adds all there is to 10 000 generated users.
func TestNoUserOptionIsOverridden(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 2026))
	releases := []Release{{Feature: 8}, {Feature: 11}, {Feature: 17}, {Feature: 21}, {Feature: 25}, {Feature: 27}}
	addedTotal, refused := 0, 0
	const users = 10_000
	for i := range users {
		rel := releases[i%len(releases)]
		u := generate(r, rel, r.IntN(9), func() string { return pick(r, pick(r, wishes...).options...) })
		if r.IntN(4) == 0 {
			u.input.Env = append(u.input.Env, pick(r, "MALLOC_ARENA_MAX=8", "GLIBC_TUNABLES=glibc.malloc.arena_max=3:glibc.rtld.optional_static_tls=1"))
		}
		before, err := Read(u.input)
		if err != nil {
			t.Fatalf("case %d: %v: %+v", i, err, u)
		}
		after := before
		for _, k := range r.Perm(len(wildAdditions)) {
			var ok bool
			if after, _, ok = after.Add(wildAdditions[k]...); !ok {
				refused++
			}
		}
		addedTotal += len(after.Added())
		checkNothingForbidden(t, i, u, after)
		checkNothingOverridden(t, i, u, before, after)
		if t.Failed() {
			return
		}
	}
	figures.users, figures.options, figures.refused = users, addedTotal, refused
	if addedTotal < 50_000 || refused < 20_000 {
		t.Errorf("%d options added, %d groups refused: the generator is one-sided", addedTotal, refused)
	}
}

// checkNothingForbidden compares with the wishes that the user was made of.
func checkNothingForbidden(t *testing.T, i int, u user, o Options) {
	t.Helper()
	for _, g := range u.given {
		for _, w := range wishes {
			if !slices.Contains(w.options, g.option) {
				continue
			}
			for _, a := range o.Added() {
				if slices.ContainsFunc(w.forbids, func(p string) bool { return strings.HasPrefix(a, p) }) {
					t.Errorf("case %d: %s is added beside %s (%v %s): %+v", i, a, g.option, g.place, g.file, u.input)
				}
			}
		}
	}
	for _, e := range u.input.Env {
		if len(o.AddedEnv()) > 0 && (strings.Contains(e, "arena_max") || strings.HasPrefix(e, "MALLOC_ARENA_MAX")) {
			t.Errorf("case %d: %q is added beside %s", i, o.AddedEnv(), e)
		}
	}
}

// checkNothingOverridden reads the command that results as a JVM would.
func checkNothingOverridden(t *testing.T, i int, u user, before, after Options) {
	t.Helper()
	input := u.input
	input.Args, input.Env = after.Args(), append(slices.Clone(input.Env), after.AddedEnv()...)
	again, err := Read(input)
	if err != nil {
		t.Fatalf("case %d: with %q: %v", i, after.Added(), err)
	}
	for _, o := range again.All {
		for _, s := range o.Sets {
			modelled, _, _ := after.Value(s.Flag)
			value, by, _ := again.Value(s.Flag)
			if modelled != value {
				t.Errorf("case %d: %s is %q after Add, %q when read again", i, s.Flag, modelled, value)
			}
			if asked, _, ok := before.Value(s.Flag); ok && asked != value {
				t.Errorf("case %d: %s was %q and is %q by %s: %+v with %q", i, s.Flag, asked, value, by, u.input, after.Added())
			}
		}
	}
	if !slices.Equal(again.Command.Main, before.Command.Main) || !slices.Equal(again.Command.Args, before.Command.Args) {
		t.Errorf("case %d: runs %q %q instead of %q %q", i, again.Command.Main, again.Command.Args, before.Command.Main, before.Command.Args)
	}
	if want := slices.Concat(after.Added(), u.input.Args); !slices.Equal(after.Args(), want) {
		t.Errorf("case %d: arguments %q, want %q", i, after.Args(), want)
	}
}

// FuzzRead: whatever a source holds, reading it ends, keeps no more than there
// was, and nothing added overrides what was read.
func FuzzRead(f *testing.F) {
	f.Add("-Xmx64m\x00@args\x00-jar\x00a.jar", "-Xss1m '-XX:VMOptionsFile=args'", "-XX:Flags=args @args", "# c\n-XX:+UseG1GC \"a\\\n b\" +UseSerialGC", uint8(17))
	f.Add("@@a\x00@\x00--disable-@files\x00@args", "'", "\"$(touch x)\"`touch x`", "'\\", uint8(8))
	f.Add("-cp\x00@args\x00-m\x00--module=x/y", strings.Repeat("-XX:+A ", 300), "-jar", strings.Repeat("x", 5000)+"#\x00", uint8(27))
	f.Fuzz(func(t *testing.T, args, toolOptions, launcherOptions, file string, feature uint8) {
		size := len(args) + len(toolOptions) + len(launcherOptions) + len(file)
		reads := 0
		in := Input{
			Release: Release{Feature: int(feature % 32)},
			Args:    strings.Split(args, "\x00"),
			Env:     []string{"JAVA_TOOL_OPTIONS=" + toolOptions, "JDK_JAVA_OPTIONS=" + launcherOptions, "_JAVA_OPTIONS=" + toolOptions},
			ReadFile: func(name string) ([]byte, error) {
				if reads++; strings.HasSuffix(name, "missing") {
					return nil, os.ErrNotExist
				}
				return []byte(file), nil
			},
		}
		o, err := Read(in)
		kept := 0
		for _, p := range o.All {
			kept += len(p.Text) + len(p.Arg)
			if err == nil && p.Unknown {
				t.Errorf("%s could not be read, and nothing is said", p)
			}
		}
		if limit := (reads + 3) * (size + 64) * 5; kept > limit {
			t.Errorf("%d bytes of options from %d, in %d reads", kept, size, reads)
		}
		after := o
		for _, group := range wildAdditions {
			after, _, _ = after.Add(group...)
		}
		for _, p := range o.All {
			for _, s := range p.Sets {
				was, _, _ := o.Value(s.Flag)
				if is, by, _ := after.Value(s.Flag); is != was {
					t.Errorf("%s was %q and is %q by %s", s.Flag, was, is, by)
				}
			}
		}
	})
}

// TestHostileFiles: what is no bounded regular file is not read, said, and
// leaves everything settled, for a JVM may find anything in it.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"@" + big, "@/dev/zero", "@" + dir, "-XX:Flags=/dev/zero", "-XX:VMOptionsFile=" + big, "@missing", "-XX:Flags=missing"} {
		o, err := Read(Input{Args: []string{option, "-jar", "a.jar"}, Dir: dir})
		if err == nil || !strings.Contains(err.Error(), option) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", option, err)
		}
		if o.Command.Jar() != "a.jar" {
			t.Errorf("%s: command %+v", option, o.Command)
		}
		for _, group := range wildAdditions[:10] {
			if _, c, ok := o.Add(group...); ok || !c.By.Unknown {
				t.Errorf("%s: %q could be added", option, group)
			}
		}
	}
	many := filepath.Join(dir, "many")
	if err := os.WriteFile(many, []byte(strings.Repeat("-a ", maxOptions+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := Read(Input{Args: []string{"@" + many}})
	if err == nil || len(o.All) > maxOptions+1 {
		t.Errorf("%d options, %v", len(o.All), err)
	}
	if _, _, ok := o.Add("-Xmx1g"); ok {
		t.Error("added beside options that were not considered")
	}
}

// TestNothingIsExecuted: sources full of what a shell would run make no file.
func TestNothingIsExecuted(t *testing.T) {
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	for _, code := range []string{"$(touch %s)", "`touch %s`", "';touch %s;'", "\"; touch %s; \"", "|touch %s|", "&& touch %s &&", "${IFS}touch %s"} {
		text := fmt.Sprintf(code, canary)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = Read(Input{Args: []string{"@f", text, "-XX:Flags=f", "-XX:VMOptionsFile=f"}, Dir: dir,
			Env: []string{"JAVA_TOOL_OPTIONS=" + text, "JDK_JAVA_OPTIONS=" + text, "_JAVA_OPTIONS=" + text}})
		if _, err := os.Stat(canary); err == nil {
			t.Fatalf("%s was run", text)
		}
	}
}
