package jvmopts

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
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
		{"java --add-opens a/b=c -XX:+UseG1GC Main", Command{"java", []string{"--add-opens", "a/b=c", "-XX:+UseG1GC"}, []string{"Main"}, []string{}}},
		{"java @args", Command{"java", []string{"@args"}, nil, nil}},
	}
	for _, tt := range tests {
		got, err := Parse(strings.Fields(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if len(got.Args) == 0 && len(tt.want.Args) == 0 {
			got.Args = tt.want.Args
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.in, got, tt.want)
		}
		if back := strings.Join(got.With(), " "); back != tt.in {
			t.Errorf("%s: together again %s", tt.in, back)
		}
	}
}

func TestParseRejects(t *testing.T) {
	for _, in := range []string{"java", "java -Xmx1g", "java -jar", "java -cp", "java -m"} {
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

func TestGiven(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("args", "# heap\n-Xmx\"64m\" -Dname='a b'\n")
	write("flags", "+UseParallelGC\n")
	c, err := Parse(strings.Fields("java @args -XX:Flags=flags @missing -jar x.jar"))
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1", "_JAVA_OPTIONS=-Xss256k", "OTHER=-Xint"}
	given := Given(c, env, dir)
	for f, want := range map[Family]string{HeapMax: "-Xmx64m", Collector: "-XX:+UseParallelGC", Compiler: "-XX:TieredStopAtLevel=1", StackSize: "-Xss256k"} {
		if got, _, ok := SetBy(given, f); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", f, got, ok, want)
		}
	}
	if o, _, ok := SetBy(given, Archive); ok {
		t.Errorf("archive set by %s", o)
	}
	if _, source, _ := SetBy(given, Compiler); source != "JAVA_TOOL_OPTIONS" {
		t.Errorf("compiler set in %s", source)
	}
}

func TestFamilyOf(t *testing.T) {
	for option, want := range map[string]Family{
		"-Xmx1g": HeapMax, "-XX:MaxRAMPercentage=75": HeapMax, "-XX:+UseZGC": Collector, "-Xint": Compiler,
		"-XX:-TieredCompilation": Compiler, "-Xshare:off": Archive, "-XX:+UnlockDiagnosticVMOptions": NoFamily,
		"-Dx=-Xmx1g": NoFamily, "-XX:ArchiveRelocationMode=0": "ArchiveRelocationMode", "-XX:-UseCompactObjectHeaders": "UseCompactObjectHeaders",
	} {
		if got := FamilyOf(option); got != want {
			t.Errorf("%s: %q, want %q", option, got, want)
		}
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

func TestFind(t *testing.T) {
	j, err := Find(t.Context(), "java")
	if err != nil {
		t.Fatal(err)
	}
	if ParseRelease(j.Version).Feature < 8 {
		t.Errorf("%+v", j)
	}
	if st, err := os.Stat(filepath.Join(j.Home, "lib")); err != nil || !st.IsDir() {
		t.Errorf("%+v has no lib", j)
	}
	if _, err := Find(t.Context(), filepath.Join(t.TempDir(), "java")); err == nil {
		t.Error("found a launcher that is not there")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("-Xmx1g '-Dx=a b' # no\n\"-Dq=\\\"\"")
	f.Fuzz(func(t *testing.T, s string) {
		n := 0
		for _, w := range Split(s) {
			n += len(w)
		}
		if n > 3*len(s) { // an invalid byte becomes the three of U+FFFD
			t.Errorf("%d bytes out of %d", n, len(s))
		}
	})
}
