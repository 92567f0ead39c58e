package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/runnertest"
)

// What tare did not make in --out is never replaced or removed.
func TestFitLeavesForeignFiles(t *testing.T) {
	out := t.TempDir()
	mine := map[string]string{"extracted/notes": "n", "app.jsa": "a", "archives/old": "o", "report.html": "r"}
	for name, text := range mine {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port := strconv.Itoa(jvmtest.FreePort(t))
	args := []string{"--store", "none", "--out", out, "--ready", "tcp:" + port, "--", jvmtest.Java(t, 17), "-jar", jvmtest.Jar(t, "workloads.jar"), "verdict", "crash", port, "0"}
	code, _, stderr := fitRun(t.Context(), args)
	if code != exitUsage || !strings.Contains(stderr, filepath.Join(out, "report.html")+" is not from tare") || !strings.Contains(stderr, "another --out") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if err := os.Remove(filepath.Join(out, "report.html")); err != nil {
		t.Fatal(err)
	}
	delete(mine, "report.html")
	for range 2 { // the second replaces what the first made
		if code, _, stderr := fitRun(t.Context(), args); code != exitNotReady {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
	for name, text := range mine {
		if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"report.html", "result.json", "trial-001.log"} {
		if st, err := os.Stat(filepath.Join(out, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(out, "archives")); err != nil || len(left) != 1 {
		t.Errorf("class archives left: %v, %v", left, err)
	}
}

// Where no folder is had in common with the trials, what needs one is not tried.
func TestFitWithoutArchives(t *testing.T) {
	c := fit.Config{Runner: &runner.Pod{}, Levers: fit.Levers}
	var said strings.Builder
	f, err := openFolders(t.Context(), &c, fitOptions{}, nil, &said)
	if err != nil {
		t.Fatal(err)
	}
	f.close(t.Output())
	var needs int
	for _, l := range fit.Levers {
		if l.Extract || l.TrainOption != "" {
			needs++
		}
	}
	if needs == 0 || len(c.Levers) != len(fit.Levers)-needs || c.ArchiveDir != "" || said.String() != "class archives and extracted jars are not tried: trials have no folder for them\n" {
		t.Errorf("%d of %d levers, %q, %q", len(c.Levers), len(fit.Levers), c.ArchiveDir, &said)
	}
}

// Two fits of one command have archives of their own.
func TestFitsHaveArchivesOfTheirOwn(t *testing.T) {
	t.Setenv("TARE_CACHE", t.TempDir())
	var paths []string
	for range 2 {
		c := fit.Config{Runner: runnertest.OnlyHost(runner.ThisHost())}
		f, err := openFolders(t.Context(), &c, fitOptions{}, nil, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		defer f.close(t.Output())
		paths = append(paths, c.ArchiveDir)
	}
	if paths[0] == paths[1] {
		t.Errorf("both in %s", paths[0])
	}
}
