package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// tareRun runs a command line in this process.
func tareRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		code, out, errs := tareRun(t, args...)
		if code != exitOK || errs != "" || !regexp.MustCompile(`^tare `+regexp.QuoteMeta(names.Version)+`(, commit [0-9a-f]{12})?(, modified)?\n`).MatchString(out) {
			t.Errorf("%q: %d, %q, %q", args, code, out, errs)
		}
	}
	code, out, _ := tareRun(t, "version", "--json")
	var v version
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK || v.Schema != versionSchema || v.Go == "" || !slices.Contains(v.Schemas, footprint.Schema) {
		t.Errorf("%d, %v: %s", code, err, out)
	}
	if code, _, errs := tareRun(t, "version", "x"); code != exitUsage || !strings.Contains(errs, "unexpected argument") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestVersionOfABuild(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-23T10:00:00Z"},
	}}
	v := thisVersion(info, true)
	if v.line() != "tare 1.2.3, commit 0123456789ab, modified" || v.Time.Unix() != 1795428000 {
		t.Errorf("%s, %v", v.line(), v.Time)
	}
	for _, none := range []string{"", "(devel)", "v0.0.0-20261123100000-0123456789ab", "v1.2.4-0.20261123100000-0123456789ab+dirty"} {
		if v := thisVersion(&debug.BuildInfo{Main: debug.Module{Version: none}}, true); v.Version != names.Version || v.Commit != "" {
			t.Errorf("%q: %+v", none, v)
		}
	}
}

// No format that tare writes is left out of the list.
func TestSchemasAreListed(t *testing.T) {
	root := jvmtest.Root(t)
	found := 0
	for _, pattern := range []string{"internal/*/*.go", "cmd/tare/*.go"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`\w*Schema\s*=\s*"(tare\.[\w.-]+/\d+)"`).FindAllStringSubmatch(string(text), -1) {
				found++
				if m[1] != "tare.files/1" && !slices.Contains(schemas, m[1]) { // a list for tare itself
					t.Errorf("%s: %s is not among the schemas of tare version", name, m[1])
				}
			}
		}
	}
	if found < len(schemas) {
		t.Errorf("%d schemas found, %d listed", found, len(schemas))
	}
}

// Each shell reads its completions, and bash offers the commands.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errs := tareRun(t, "completion", shell)
		if code != exitOK || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %d, %s", shell, code, errs)
		}
		if shell == "bash" {
			file := filepath.Join(t.TempDir(), "tare.bash")
			if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("bash", "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
	if _, out, _ := tareRun(t, "__complete", "wei"); !strings.HasPrefix(out, "weigh\t") {
		t.Errorf("%s", out)
	}
}

func TestCompletesJVMs(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx16m", "-Xint"}, 1, 1, 1)
	for _, command := range []string{"weigh", "doctor", "watch"} {
		_, out, _ := tareRun(t, "__complete", command, "")
		if want := strconv.Itoa(p.PID()) + "\t" + jvmtest.Jar(t, "workloads.jar") + "\n"; !strings.Contains(out, want) {
			t.Errorf("%s: no %q in %s", command, want, out)
		}
		if _, out, _ := tareRun(t, "__complete", command, "1", ""); strings.Contains(out, strconv.Itoa(p.PID())) {
			t.Errorf("%s takes one JVM: %s", command, out)
		}
	}
}

// The same pages are written at each build of a commit, one for every command.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	pages := func() map[string]string {
		dir := filepath.Join(t.TempDir(), "man")
		if code, out, errs := tareRun(t, "man", dir); code != exitOK || out+errs != "" {
			t.Fatalf("%d: %s%s", code, out, errs)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.1"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(f)] = string(text)
		}
		return all
	}
	first, second := pages(), pages()
	for name, text := range first {
		if text != second[name] || !strings.Contains(text, "Sep 2001") {
			t.Errorf("%s differs, or has another date: %.200s", name, text)
		}
	}
	for _, name := range []string{"tare.1", "tare-weigh.1", "tare-fit.1", "tare-fit-list.1", "tare-lab-run.1", "tare-version.1", "tare-completion-bash.1"} {
		if first[name] == "" {
			t.Errorf("no page %s", name)
		}
	}
	if first["tare-man.1"] != "" {
		t.Error("a hidden command has a page")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "tomorrow")
	if code, _, errs := tareRun(t, "man", t.TempDir()); code != exitUsage || !strings.Contains(errs, "SOURCE_DATE_EPOCH") {
		t.Errorf("%d, %s", code, errs)
	}
}
