package launch

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/profile"
)

// proven is a profile of 166 MiB, in a folder with its archive.
func proven(t *testing.T, change func(*profile.Profile)) (path string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "app.aot"), "archive")
	archive, err := profile.DescribeArchive(filepath.Join(dir, "app.aot"))
	if err != nil {
		t.Fatal(err)
	}
	archive.File = "/where/it/was/made/app.aot"
	p := &profile.Profile{Schema: profile.Schema, JDK: runtimeOf(t, 25).Version, LimitBytes: 166 * mib, CPUs: 1,
		Options: []string{"-XX:+UseSerialGC", "-Xmx52m", "-XX:TieredStopAtLevel=1", "-XX:AOTCache=/where/it/was/made/app.aot",
			"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"},
		Env: []string{"MALLOC_ARENA_MAX=1"}, Archive: archive}
	if change != nil {
		change(p)
	}
	path = filepath.Join(dir, "tare.json")
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProfile(t *testing.T) {
	path := proven(t, nil)
	env := []string{"TARE_PROFILE=" + path}
	p := planFor(t, limited(t, 266*mib), runtimeOf(t, 25), env, Options{}, "-cp", "x", "Main")
	want := []string{"-XX:+UseSerialGC", "-Xmx126m", "-XX:TieredStopAtLevel=1", "-XX:AOTCache=" + filepath.Join(filepath.Dir(path), "app.aot"),
		"-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0", "-XX:+ExitOnOutOfMemoryError"}
	if got := p.options.Added(); !slices.Equal(got, want) || !has(p, "MALLOC_ARENA_MAX=1") || len(p.warnings) > 0 || p.profile != path {
		t.Errorf("%q, %q, want %q", got, p.warnings, want)
	}
	// The user's heap is left alone, and so is what goes with it.
	p = planFor(t, limited(t, 166*mib), runtimeOf(t, 25), append(env, "JAVA_TOOL_OPTIONS=-Xmx40m"), Options{}, "-cp", "x", "Main")
	if has(p, "-Xmx52m") || !has(p, "-XX:+UseSerialGC") || len(p.yours) != 1 {
		t.Errorf("%q, %+v", p.options.Added(), p.yours)
	}
}

// A build that trained the archive anew has the profile take it; nothing else changes.
func TestTakeArchive(t *testing.T) {
	path := proven(t, func(p *profile.Profile) {
		p.Archive.File = "/nowhere/app.aot"
		p.Options[3] = "-XX:AOTCache=/nowhere/app.aot"
	})
	take := func(args ...string) (int, string) {
		var errs strings.Builder
		code := Program{Args: append([]string{"tare-exec"}, args...), Env: []string{"TARE_PROFILE=" + path}, Dir: "/", Stdout: &errs, Stderr: &errs}.Run()
		return code, errs.String()
	}
	if code, errs := take("--take-archive"); code != exitFailure || !strings.Contains(errs, "train it first") {
		t.Errorf("no archive: %d: %s", code, errs)
	}
	if code, errs := take("--take-archive", "--", "java"); code != exitUsage || !strings.Contains(errs, "starts nothing") {
		t.Errorf("with a command: %d: %s", code, errs)
	}
	file := filepath.Join(filepath.Dir(path), "app.aot")
	path = proven(t, func(p *profile.Profile) { p.Archive.File, p.Options[3] = file, "-XX:AOTCache="+file })
	writeFile(t, file, "trained anew")
	before, err := profile.Read(path, profile.TrustFor(""))
	if err != nil {
		t.Fatal(err)
	}
	if code, errs := take("--take-archive"); code != exitOK || errs != "" {
		t.Fatalf("%d: %s", code, errs)
	}
	after, err := profile.Read(path, profile.TrustFor(""))
	if err != nil {
		t.Fatal(err)
	}
	want, err := profile.DescribeArchive(file)
	if err != nil || *after.Archive != *want || *after.Archive == *before.Archive {
		t.Errorf("%+v, before %+v, want %+v, %v", after.Archive, before.Archive, want, err)
	}
	if after.Archive = before.Archive; !reflect.DeepEqual(before, after) {
		t.Errorf("%+v, before %+v", after, before)
	}
	path = proven(t, func(p *profile.Profile) { p.Archive, p.Options = nil, p.Options[:2] })
	if code, errs := take("--take-archive"); code != exitUsage || !strings.Contains(errs, "no class archive") {
		t.Errorf("a profile without one: %d: %s", code, errs)
	}
	path = "none"
	if code, errs := take("--take-archive"); code != exitUsage {
		t.Errorf("no profile: %d: %s", code, errs)
	}
}

// Beside the jar it is found by itself, unless it is switched off.
func TestProfileBesideJar(t *testing.T) {
	dir := filepath.Dir(proven(t, nil))
	jar := filepath.Join(dir, "app.jar")
	if p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), nil, Options{}, "-jar", jar); !has(p, "-Xmx52m") {
		t.Errorf("%q", p.options.Added())
	}
	if p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), []string{"TARE_PROFILE=none"}, Options{}, "-jar", jar); has(p, "-Xmx52m") {
		t.Errorf("%q", p.options.Added())
	}
}

// A profile of somebody else is not used, nor one that others may write.
func TestProfileOfSomebodyElse(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"file":   func(path string) error { return os.Chmod(path, 0o666) },
		"folder": func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
	} {
		path := proven(t, nil)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), nil, Options{}, "-jar", filepath.Join(filepath.Dir(path), "app.jar"))
		if has(p, "-Xmx52m") || p.profile != "none" || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "may be written by others") {
			t.Errorf("%s: %q, %q", what, p.options.Added(), p.warnings)
		}
	}
}

// A class archive is code: one that others may write is left out.
func TestArchiveThatOthersWrite(t *testing.T) {
	path := proven(t, nil)
	if err := os.Chmod(filepath.Join(filepath.Dir(path), "app.aot"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), []string{"TARE_PROFILE=" + path}, Options{}, "-cp", "x", "Main")
	if !has(p, "-Xmx52m") || strings.Contains(strings.Join(p.options.Added(), " "), "AOTCache") || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "may be written by others") {
		t.Errorf("%q, %q", p.options.Added(), p.warnings)
	}
}

// What was proven without huge pages is started without them.
func TestProfileWithoutHugePages(t *testing.T) {
	env := []string{"TARE_PROFILE=" + proven(t, func(p *profile.Profile) { p.NoHugePages = true })}
	if p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), env, Options{}, "-cp", "x", "Main"); !p.disableTHP {
		t.Errorf("%+v", p.advice)
	}
	if p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), env, Options{}, "-XX:+UseTransparentHugePages", "-cp", "x", "Main"); p.disableTHP {
		t.Errorf("yours is overridden: %+v", p.advice)
	}
}

func TestProfileTooSmall(t *testing.T) {
	env := []string{"TARE_PROFILE=" + proven(t, nil)}
	_, err := tryPlan(t, limited(t, 128*mib), runtimeOf(t, 25), env, Options{}, "-cp", "x", "Main")
	var small *TooSmallError
	if !errors.As(err, &small) || small.BudgetBytes != 128*mib || small.ProvenBytes != 166*mib ||
		!strings.Contains(err.Error(), "128 MiB here") || !strings.Contains(err.Error(), "166 MiB: raise the limit, or start it all the same with --force") {
		t.Errorf("%v", err)
	}
	p := planFor(t, limited(t, 128*mib), runtimeOf(t, 25), env, Options{Force: true}, "-cp", "x", "Main")
	if !has(p, "-Xmx40m") || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], "128 MiB here, 166 MiB proven") {
		t.Errorf("%q, %q", p.options.Added(), p.warnings)
	}
	// A JVM whose first heap is larger than all that it may have does not start.
	env = []string{"TARE_PROFILE=" + proven(t, func(p *profile.Profile) { p.Options = append(p.Options, "-XX:InitialHeapSize=48m") })}
	if p := planFor(t, limited(t, 166*mib), runtimeOf(t, 25), env, Options{}, "-cp", "x", "Main"); !has(p, "-XX:InitialHeapSize=48m") {
		t.Errorf("%q", p.options.Added())
	}
	if p := planFor(t, limited(t, 128*mib), runtimeOf(t, 25), env, Options{Force: true}, "-cp", "x", "Main"); has(p, "-XX:InitialHeapSize=48m") {
		t.Errorf("%q", p.options.Added())
	}
}

// What depends on the JDK or the archive is left out with another one.
func TestProfileOfAnother(t *testing.T) {
	jdk25 := func(p *profile.Profile) { p.JDK = "25.0.1" }
	for _, c := range []struct {
		what, warning string
		major         int
		change        func(*profile.Profile)
		without       []string
	}{
		{"update", "proven with JDK 25.0.1", 25, jdk25, []string{"AOTCache"}},
		{"major", "which this JVM does not have", 11, nil, []string{"AOTCache", "ArchiveRelocationMode"}},
		{"archive", "is another archive", 25, func(p *profile.Profile) { p.Archive.Bytes++ }, []string{"AOTCache"}},
	} {
		p := planFor(t, limited(t, 166*mib), runtimeOf(t, c.major), []string{"TARE_PROFILE=" + proven(t, c.change)}, Options{}, "-cp", "x", "Main")
		if !has(p, "-Xmx52m") || !strings.Contains(strings.Join(p.warnings, "\n"), c.warning) {
			t.Errorf("%s: %q, %q", c.what, p.options.Added(), p.warnings)
		}
		for _, w := range c.without {
			if strings.Contains(strings.Join(p.options.Added(), " "), w) {
				t.Errorf("%s: %s in %q", c.what, w, p.options.Added())
			}
		}
	}
}

// A profile that cannot be read is said, and the rules size the JVM.
func TestBrokenProfile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "tare.json"), `{"schema":"tare.profile/1"`)
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "tare.json"), "write it anew with tare fit --profile"},
		{filepath.Join(dir, "none.json"), "no such file"},
	} {
		p := planFor(t, limited(t, 256*mib), runtimeOf(t, 25), []string{"TARE_PROFILE=" + c.path}, Options{}, "-cp", "x", "Main")
		if p.heap == 0 || p.profile != "none" || len(p.warnings) != 1 || !strings.Contains(p.warnings[0], c.want) {
			t.Errorf("%s: %q, heap %d", c.path, p.warnings, p.heap)
		}
	}
}
