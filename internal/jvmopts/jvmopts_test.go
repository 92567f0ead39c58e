package jvmopts

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		want Command
	}{
		{"java -jar app.jar a -Xmx1g", Command{"java", nil, []string{"-jar", "app.jar"}, []string{"a", "-Xmx1g"}}},
		{"/opt/jdk/bin/java -Xmx1g -cp a:b -Dx=y dev.Main -v", Command{"/opt/jdk/bin/java", []string{"-Xmx1g", "-cp", "a:b", "-Dx=y"}, []string{"dev.Main"}, []string{"-v"}}},
		{"java --module-path mods -m a/b c", Command{"java", []string{"--module-path", "mods"}, []string{"-m", "a/b"}, []string{"c"}}},
		{"java --module=a/b c", Command{"java", nil, []string{"--module=a/b"}, []string{"c"}}},
		{"java --add-opens a/b=c -XX:+UseG1GC Main", Command{"java", []string{"--add-opens", "a/b=c", "-XX:+UseG1GC"}, []string{"Main"}, nil}},
		{"java @args", Command{"java", []string{"@args"}, nil, nil}},
		{"java -Xmx1g @args Main @x", Command{"java", []string{"-Xmx1g", "@args"}, []string{"Main"}, []string{"@x"}}},
	}
	for _, tt := range tests {
		got, err := Parse(strings.Fields(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if len(got.Args) == 0 {
			got.Args = nil
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.in, got, tt.want)
		}
		if back := strings.Join(got.With(), " "); back != tt.in {
			t.Errorf("%s: together again %s", tt.in, back)
		}
	}
	// The launcher goes on reading options after -jar.
	got, err := Parse([]string{"java", "-jar", "-Xmx1g", "app.jar"})
	if err != nil || got.Jar() != "app.jar" || !slices.Equal(got.Options, []string{"-Xmx1g"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseRejects(t *testing.T) {
	for _, in := range []string{"java", "java -Xmx1g", "java -jar", "java -cp", "java -m", "java -version", "java -Xmx1g --help Main"} {
		if c, err := Parse(strings.Fields(in)); err == nil || errors.Is(err, ErrNotJava) {
			t.Errorf("%q: %+v, %v", in, c, err)
		}
	}
	for _, in := range []string{"", "node app.js", "sh -c java"} {
		if _, err := Parse(strings.Fields(in)); !errors.Is(err, ErrNotJava) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestWithPutsOptionsFirst(t *testing.T) {
	c, err := Parse(strings.Fields("java -Xss1m -jar app.jar x"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.With("-XX:+UseSerialGC", "-Xss512k"), " ")
	if want := "java -XX:+UseSerialGC -Xss512k -Xss1m -jar app.jar x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCommandFiles(t *testing.T) {
	c, err := Parse([]string{"java", "-cp", "a.jar:b", "--module-path=m", "-javaagent:x.jar", "-jar", "app.jar"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Files(); !slices.Equal(got, []string{"app.jar", "a.jar", "b", "m", "x.jar"}) {
		t.Errorf("%q", got)
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		option  string
		release Release
		want    []Setting
	}{
		{"-Xmx64M", Release{Feature: 8}, []Setting{{"MaxHeapSize", "67108864"}}},
		{"-Xmx0x10k", Release{Feature: 8}, []Setting{{"MaxHeapSize", "0x10k"}}}, // JDK 8 refuses it
		{"-Xmx0x10k", Release{Feature: 11}, []Setting{{"MaxHeapSize", "16384"}}},
		{"-Xmx64MB", Release{}, []Setting{{"MaxHeapSize", "64MB"}}},
		{"-Xmx 80m", Release{}, []Setting{{"MaxHeapSize", " 80m"}}},
		{"-Xmx-1", Release{}, []Setting{{"MaxHeapSize", "-1"}}},
		{"-Xmx99999999999g", Release{}, []Setting{{"MaxHeapSize", "99999999999g"}}},
		{"-mx1t", Release{}, []Setting{{"MaxHeapSize", "1099511627776"}}},
		{"-Xms1k", Release{}, []Setting{{"InitialHeapSize", "1024"}, {"MinHeapSize", "1024"}}},
		{"-Xss300001", Release{}, []Setting{{"ThreadStackSize", "293"}}},
		{"-Xminf0.3", Release{}, []Setting{{"MinHeapFreeRatio", "30"}}},
		{"-XX:MaxRAMPercentage=75.50", Release{}, []Setting{{"MaxRAMPercentage", "75.5"}}},
		{"-XX:NativeMemoryTracking=summary", Release{}, []Setting{{"NativeMemoryTracking", "summary"}}},
		{"-XX:ErrorFile=64k", Release{}, []Setting{{"ErrorFile", "64k"}}},
		{"-XX:OnError:=a=b", Release{}, []Setting{{"OnError", "a=b"}}},
		{"-XX:G1MarkStackSize=4k", Release{}, []Setting{{"MarkStackSize", "4096"}}},
		{"-XX:Flags=x", Release{}, nil}, {"-XX:", Release{}, nil}, {"-XX:+", Release{}, nil}, {"-XX:#+Verbose", Release{}, nil}, {"-XX:+A=b", Release{}, nil},
		{"-Djava.compiler=NONE", Release{Feature: 17}, []Setting{{"java.compiler", "NONE"}}},
		{"-Djava.compiler=NONE", Release{Feature: 21}, nil},
		{"-Xmixed", Release{}, []Setting{{"UseInterpreter", "true"}, {"UseCompiler", "true"}, {"BackgroundCompilation", "true"}}},
	} {
		if got := settings(tt.option, tt.release); !slices.Equal(got, tt.want) {
			t.Errorf("%s on %d: %v, want %v", tt.option, tt.release.Feature, got, tt.want)
		}
	}
}

func TestFamiliesOf(t *testing.T) {
	for option, want := range map[string][]Family{
		"-Xmx1g": {HeapMax}, "-XX:MaxRAMPercentage=75": {HeapMax}, "-XX:+UseZGC": {Collector}, "-XX:+ZGenerational": {Collector}, "-XX:+ZeroTLAB": {"ZeroTLAB"}, "-XX:-ResizeTLAB": {Buffers},
		"-Xint": {Compiler}, "-Xmixed": nil, "-Xcomp": {Compiler}, "-XX:-TieredCompilation": {Compiler}, "-Xshare:off": {Archive},
		"-XX:+UnlockDiagnosticVMOptions": nil, "-Dx=-Xmx1g": nil, "-XX:ArchiveRelocationMode=0": {"ArchiveRelocationMode"},
		"-XX:-UseCompactObjectHeaders": {Headers}, "MALLOC_ARENA_MAX=1": {Arenas}, "GLIBC_TUNABLES=a=b:glibc.malloc.arena_max=2": {"a", Arenas},
		"MALLOC_TRIM_THRESHOLD_=1": {Thresholds}, "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=2": {Thresholds},
		"-XX:+UseTransparentHugePages": {HugePages}, "-Xlog:gc*:file=x": {GCLog}, "-Xlog:class*": {"Xlog"},
	} {
		var got []Family
		for _, f := range FamiliesOf(option) {
			if f != "UseInterpreter" && f != "UseCompiler" && f != "BackgroundCompilation" && f != "RequireSharedSpaces" && !slices.Contains(got, f) {
				got = append(got, f)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", option, got, want)
		}
	}
}

func TestSettles(t *testing.T) {
	o, err := Read(Input{Release: Release{Feature: 21}, Args: []string{"-XX:-UseTransparentHugePages", "-XX:+AggressiveHeap", "-Xlog:gc", "Main"},
		Env: []string{"JAVA_TOOL_OPTIONS=-Xmx1g", "_JAVA_OPTIONS=-XX:MaxRAMPercentage=50", "GLIBC_TUNABLES=glibc.malloc.arena_max=1"}})
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[Family]string{
		HeapMax: "-XX:MaxRAMPercentage=50 (_JAVA_OPTIONS)", Collector: "-XX:+AggressiveHeap (command line)", HugePages: "-XX:+AggressiveHeap (command line)",
		GCLog: "-Xlog:gc (command line)", Arenas: "GLIBC_TUNABLES=glibc.malloc.arena_max=1", "UseTransparentHugePages": "-XX:-UseTransparentHugePages (command line)",
	} {
		if by, ok := o.Settles(f); !ok || by.String() != want {
			t.Errorf("%s by %q, want %q", f, by, want)
		}
	}
	for _, f := range []Family{Compiler, Archive, OutOfMemory, StackSize, "UsePerfData"} {
		if by, ok := o.Settles(f); ok {
			t.Errorf("%s by %s", f, by)
		}
	}
}

func TestAddIsAllOrNothing(t *testing.T) {
	o, err := Read(Input{Args: []string{"-Xms100m", "-jar", "a.jar"}, Env: []string{"GLIBC_TUNABLES=glibc.rtld.nns=2"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, c, ok := o.Add("-XX:+UseSerialGC", "-Xmx99m"); ok || c.Text != "-Xmx99m" || c.By.Text != "-Xms100m" {
		t.Errorf("%+v, %v", c, ok)
	}
	if _, c, ok := o.Add("GLIBC_TUNABLES=glibc.malloc.arena_max=1"); ok || c.By.Text != "GLIBC_TUNABLES=glibc.rtld.nns=2" {
		t.Errorf("%+v, %v", c, ok)
	}
	one, _, ok := o.Add("-XX:+UseSerialGC", "-Xmx100m", "MALLOC_ARENA_MAX=1")
	if !ok {
		t.Fatal("refused")
	}
	two, _, ok := one.Add("-Xss512k")
	if !ok {
		t.Fatal("refused")
	}
	if got := strings.Join(two.Args(), " "); got != "-XX:+UseSerialGC -Xmx100m -Xss512k -Xms100m -jar a.jar" {
		t.Error(got)
	}
	if got := two.AddedEnv(); !slices.Equal(got, []string{"MALLOC_ARENA_MAX=1"}) {
		t.Errorf("%q", got)
	}
	if len(o.Added()) != 0 || len(one.Added()) != 2 {
		t.Errorf("earlier Options changed: %q, %q", o.Added(), one.Added())
	}
}

func TestParseRelease(t *testing.T) {
	for in, want := range map[string]Release{
		"1.8.0_504": {8, 0, 504}, "17.0.15": {17, 0, 15}, "27-ea": {27, 0, 0}, "21.0.12.1": {21, 0, 12}, "25": {25, 0, 0}, "": {}, "x.y": {},
	} {
		if got := ParseRelease(in); got != want {
			t.Errorf("%q: %+v, want %+v", in, got, want)
		}
	}
	if !(Release{17, 0, 12}).AtLeast(Release{17, 0, 12}) || (Release{17, 0, 11}).AtLeast(Release{17, 0, 12}) || !(Release{21, 0, 0}).AtLeast(Release{17, 0, 12}) {
		t.Error("AtLeast")
	}
}

func FuzzWords(f *testing.F) {
	f.Add("-Xmx1g '-Dx=a b' # no\n\"-Dq=\\\"\"\\\n  x\"")
	f.Add(strings.Repeat("x", 4090) + "\"a b#c\"#d\n\x00e")
	f.Fuzz(func(t *testing.T, s string) {
		quoted, _ := quotedWords(s)
		flags, _ := flagsFileWords(s)
		for name, words := range map[string][]string{"argument file": argFileWords(s, Release{}), "argument file of JDK 11": argFileWords(s, Release{Feature: 11}), "variable": quoted, "flags file": flags} {
			n := 0
			for _, w := range words {
				n += len(w)
				if strings.IndexByte(w, 0) >= 0 {
					t.Errorf("%s: a zero byte in %q", name, w)
				}
			}
			if n > len(s) || len(words) > len(s) {
				t.Errorf("%s: %d words of %d bytes out of %d", name, len(words), n, len(s))
			}
		}
	})
}
