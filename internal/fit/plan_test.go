package fit

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jartest"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

// A small jar whose manifest names all that runs, as Quarkus makes it: its jars are
// dropped from the page cache before a trial, and a fit does not go on once one of
// them is another.
func TestFilesOfTheManifestCount(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib", "a.jar")
	if err := errors.Join(os.Mkdir(filepath.Dir(lib), 0o755), os.WriteFile(lib, []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	jartest.Write(t, filepath.Join(dir, "run.jar"), map[string]string{"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nClass-Path: lib/a.jar\r\n\r\n"})
	var err error
	c := Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Dir: dir, Java: Java{Path: "/jdk/bin/java"}}
	if c.Command, err = jvmopts.Parse([]string{"java", "-jar", "run.jar"}); err != nil {
		t.Fatal(err)
	}
	if c.SLO, err = trial.ParseSLO(trial.DefaultStartSLO); err != nil {
		t.Fatal(err)
	}
	if spec, err := (&trier{config: c}).spec(t.Context(), Setup{}, mib, false); err != nil || !slices.Contains(spec.Files, lib) {
		t.Errorf("files of a trial: %q, %v", spec.Files, err)
	}
	before, err := NewPlan(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib, []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := NewPlan(t.Context(), c)
	if d := before.Differences(after); err != nil || len(d) != 1 || !strings.Contains(d[0], "run.jar") {
		t.Errorf("%q, %v", d, err)
	}
}

// What an application was seen to use is dropped before later trials, but for archives, which a
// setup names, and the result of a trial is stored without it.
func TestFilesThatWereUsed(t *testing.T) {
	tr := &trier{config: Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Dir: "/app", ArchiveDir: "/state", ArchivesInside: "/inside"}}
	r := &trial.Result{Opened: []string{"/app/plugin.jar", "/inside/app.jsa"}}
	tr.seeOpened(r)
	tr.seeOpened(&trial.Result{Opened: []string{"/app/plugin.jar", "/data/db", "/" + strings.Repeat("x", mostOpened)}})
	spec, err := tr.spec(t.Context(), Setup{}, mib, false)
	if want := []string{"/app/plugin.jar", "/data/db"}; err != nil || !slices.Equal(spec.Files, want) || r.Opened != nil {
		t.Errorf("files of a trial: %q, %v; stored: %q", spec.Files, err, r.Opened)
	}
}

// A JVM that cannot use its class archive goes on without it.
func TestArchiveThatIsNotUsed(t *testing.T) {
	s := Setup{Options: []string{"-Xmx64m", "-XX:SharedArchiveFile=/link/app.jsa"}}
	for _, c := range []struct {
		result trial.Result
		unused bool
	}{
		{trial.Result{Peak: &footprint.Footprint{}, Opened: []string{"/jdk/lib/modules", "/real/app.jsa"}}, false},
		{trial.Result{Peak: &footprint.Footprint{}, Opened: []string{"/jdk/lib/modules"}}, true},
		{trial.Result{}, false},                             // nobody looked
		{trial.Result{Peak: &footprint.Footprint{}}, false}, // or not at files
	} {
		if got := archiveUnused(s, &c.result); got != c.unused {
			t.Errorf("%+v: %v", c.result, got)
		}
	}
	for seed := range uint64(20) {
		m := newModel(rand.New(rand.NewPCG(seed, 12)))
		s := &Search{Trier: refusing{m}, Levers: Levers, AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 1, Margin: MarginByBound, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
		f, err := s.Run(t.Context())
		if err != nil || m.has(f.Setup, "-XX:SharedArchiveFile=") {
			t.Errorf("seed %d: %q, %v", seed, f.Setup.Options, err)
		}
	}
}

// refusing is a JVM that goes on without its class archive.
type refusing struct{ *model }

func (r refusing) Try(ctx context.Context, a Attempt) (Outcome, error) {
	o, err := r.model.Try(ctx, a)
	o.ArchiveUnused = r.has(a.Setup, "-XX:SharedArchiveFile=")
	return o, err
}

func TestManyFilesAreNamedShortly(t *testing.T) {
	if got := fileNames([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more files" {
		t.Error(got)
	}
}
