package profile

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func valid() *Profile {
	return &Profile{Schema: Schema, JDK: "25.0.3", LimitBytes: 1 << 28, Options: []string{"-Xmx64m"}, Env: []string{"MALLOC_ARENA_MAX=1"},
		Archive: &Archive{File: "/x/app.aot", Bytes: 5, FNV128a: strings.Repeat("0", 32)}, PeakBytes: 9, Peaks: map[string]int64{"java-heap": 4}}
}

func TestWriteRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	for range 2 { // the second replaces the first
		if err := valid().Write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path, TrustFor(""))
	if err != nil || !reflect.DeepEqual(got, valid()) {
		t.Errorf("%+v, %v", got, err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("left over: %v, %v", names, err)
	}
	if err := valid().Write(filepath.Join(path, "x")); err == nil {
		t.Error("written below a file")
	}
}

func TestReadRejects(t *testing.T) {
	for name, change := range map[string]func(*Profile){
		"schema": func(p *Profile) { p.Schema = "tare.fit/1" }, "limit": func(p *Profile) { p.LimitBytes = 0 }, "jdk": func(p *Profile) { p.JDK = "" },
		"option": func(p *Profile) { p.Options = []string{"-agentlib:jdwp"} }, "jar": func(p *Profile) { p.Options = []string{"-jar"} },
		"command": func(p *Profile) { p.Options = []string{"-XX:OnOutOfMemoryError=sh"} }, "file": func(p *Profile) { p.Options = []string{"-XX:Flags=x"} },
		"boot": func(p *Profile) { p.Options = []string{"-Xbootclasspath/a:x"} }, "size": func(p *Profile) { p.Options = []string{"-Xmx64mm"} },
		"compile command": func(p *Profile) { p.Options = []string{"-XX:CompileCommand=print,*.*"} }, "crash": func(p *Profile) { p.Options = []string{"-XX:CompileCommand=MemLimit,*.*,3m~crash"} },
		"variable": func(p *Profile) { p.Env = []string{"LD_PRELOAD=x"} }, "archive": func(p *Profile) { p.Archive.FNV128a = "0" },
		"checks": func(p *Profile) { p.Options = []string{"-XX:-BytecodeVerificationRemote"} }, "options": func(p *Profile) { p.Options = []string{"-XX:VMOptionsFile=1"} },
		"flags": func(p *Profile) { p.Options = []string{"-XX:Flags=1"} }, "another archive": func(p *Profile) { p.Options = []string{"-XX:SharedArchiveFile=/tmp/evil.jsa"} },
		"no identity": func(p *Profile) { p.Options, p.Archive = []string{"-XX:AOTCache=/x/app.aot"}, nil }, "main class": func(p *Profile) { p.Options = []string{"MALLOC_ARENA_MAX=1"} },
		"no variable": func(p *Profile) { p.Env = []string{"-Xmx64m"} }, "long number": func(p *Profile) { p.Options = []string{"-Xmx" + strings.Repeat("9", 13) + "m"} },
		"zero": func(p *Profile) { p.Options = []string{"-Xmx64m\x00"} }, "many": func(p *Profile) { p.Options = make([]string, maxOptions+1) },
	} {
		p := valid()
		change(p)
		if err := p.Write(filepath.Join(t.TempDir(), "x")); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "cut": `{"schema":`, "two": `{} {}`, "list": "[]", "large": strings.Repeat(" ", maxFile+1)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path, TrustFor("")); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "write it anew") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(dir, TrustFor("")); err == nil {
		t.Error("a folder was read")
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	describe := func(name, text string) *Archive {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := DescribeArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := describe("a", "one")
	if !a.same(describe("b", "one")) || a.same(describe("c", "two")) || a.same(describe("d", "one more")) {
		t.Errorf("%+v", a)
	}
}

// What is taken from a file is what levers add, with its own numbers and its own
// archive, and is written and read alike.
func FuzzParse(f *testing.F) {
	f.Add(`{"schema":"tare.profile/1","jdk":"25","limitBytes":1,"options":["-Xmx1m"],"env":["MALLOC_ARENA_MAX=1"]}`)
	f.Add(`{"schema":"tare.profile/1","jdk":"17","limitBytes":1,"options":["-XX:SharedArchiveFile=/a"],"archive":{"file":"/a","bytes":1,"fnv128a":"00000000000000000000000000000000"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, o := range slices.Concat(p.Options, p.Env) {
			archived := p.Archive != nil && strings.HasSuffix(o, "="+p.Archive.File)
			name := strings.TrimRight(strings.TrimRight(o, "mk"), "0123456789")
			if !archived && !strings.Contains(allowedText, name) {
				t.Errorf("%q", o)
			}
		}
		path := filepath.Join(t.TempDir(), FileName)
		if err := p.Write(path); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(path, TrustFor("")); err != nil || len(again.Options) != len(p.Options) || again.LimitBytes != p.LimitBytes {
			t.Errorf("read again: %+v, %v", again, err)
		}
	})
}
