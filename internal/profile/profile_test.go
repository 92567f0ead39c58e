package profile

import (
	"os"
	"path/filepath"
	"reflect"
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
	got, err := Read(path)
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
		"many": func(p *Profile) { p.Options = make([]string, maxOptions+1) },
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
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "write it anew") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(dir); err == nil {
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
	if !a.Same(describe("b", "one")) || a.Same(describe("c", "two")) || a.Same(describe("d", "one more")) {
		t.Errorf("%+v", a)
	}
}

// What is taken from a file can only be JVM options and one variable.
func FuzzParse(f *testing.F) {
	f.Add(`{"schema":"tare.profile/1","jdk":"25","limitBytes":1,"options":["-Xmx1m"],"env":["MALLOC_ARENA_MAX=1"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, o := range p.Options {
			if !strings.HasPrefix(o, "-X") || strings.Contains(o, "OnError") && strings.Contains(o, "=") || strings.Contains(o, "bootclasspath") {
				t.Errorf("%q", o)
			}
		}
		for _, e := range p.Env {
			if !strings.HasPrefix(e, "MALLOC_ARENA_MAX=") {
				t.Errorf("%q", e)
			}
		}
	})
}
