package fit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// TrainGrace is how long a JVM may take to write its class archive.
const TrainGrace = 3 * time.Minute

// trained is an archive and the option that made it, or without an option the
// folder of extracted jars.
type trained struct{ file, option string }

// Train runs the application under load and ends it in good
// order, for only then the JVM writes its archive.
func (t *trier) Train(ctx context.Context, a Attempt, option string) (string, error) {
	file := t.config.archiveFile(option)
	writes, err := t.config.Runner.OpenTraining(ctx, file)
	if err != nil {
		return "", fmt.Errorf("place for a class archive: %w", err)
	}
	t.archives = append(t.archives, trained{file, option})
	spec, err := t.spec(ctx, a.Setup.plus(Setup{Options: []string{strings.ReplaceAll(option, "{archive}", writes)}}), a.LimitBytes, false)
	if err != nil {
		return "", err
	}
	spec.StopGrace = TrainGrace
	if spec.LogFile, err = t.config.reserve(trainingLog); err != nil {
		return "", err
	}
	r, err := trial.Run(ctx, t.config.Runner, spec)
	if err != nil {
		return "", err
	}
	err = t.config.Runner.TakeTrained(ctx, file)
	if errors.Is(err, runner.ErrNotWritten) {
		return "", fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	if err != nil {
		return "", fmt.Errorf("class archive: %w", err)
	}
	made, err := t.config.Runner.File(ctx, file)
	if err != nil || made.Bytes == 0 {
		return "", fmt.Errorf("%w: %s", ErrNoArchive, whyNoArchive(r))
	}
	if err := t.config.Runner.Flush(ctx, file); err != nil {
		return "", fmt.Errorf("class archive: %w", err)
	}
	return t.config.inside(file), nil
}

// archiveError is a line of the JVM's log (JEP 158) that says why it writes no class archive.
var archiveError = regexp.MustCompile(`\]\[error *\]\[(?:cds|aot)[a-z,]* *\] *(.+)`)

// folderError is how such a line begins where the class path has a folder (aotClassLocation.cpp,
// before JDK 25 filemap.cpp).
const folderError = "Error: non-empty directory "

// whyNoArchive says how a training run ended that left no archive, what the JVM said last of
// the archive if it said anything, and what to do about it where that is known.
func whyNoArchive(r *trial.Result) string {
	text := fmt.Sprintf("training run %s, %s", r.Verdict, trial.ExitText(r.Exit))
	for _, line := range slices.Backward(r.Log) {
		if m := archiveError.FindStringSubmatch(line); m != nil {
			text += fmt.Sprintf(": %.200s", m[1])
			if strings.HasPrefix(m[1], folderError) {
				text += "; it archives classes of jars alone: make the folder on the class path a jar (Jib: containerizingMode packaged)"
			}
			break
		}
	}
	return text
}

// Extract takes the application's jar apart, in the folder of archives.
func (t *trier) Extract(ctx context.Context) (string, error) {
	dir := t.config.extractedDir()
	if _, err := t.config.Runner.RemoveMade(ctx, dir); err != nil { // by this fit, before it was cut off
		return "", fmt.Errorf("folder for extracted jars: %w", err)
	}
	jar, err := t.config.Runner.Extract(ctx, t.config.JarPath(), dir)
	if errors.Is(err, bootjar.ErrLayout) {
		return "", fmt.Errorf("%w: %w", ErrNotExtracted, err)
	}
	if err != nil {
		return "", err
	}
	t.archives = append(t.archives, trained{file: dir})
	return t.config.inside(jar), nil
}

// extractedDir is where the application's jar is taken apart.
func (c Config) extractedDir() string { return filepath.Join(c.ArchiveDir, "extracted") }

// archiveFile is the file that a training run with the option makes.
func (c Config) archiveFile(option string) string {
	suffix := ".jsa"
	if strings.Contains(option, "AOT") {
		suffix = ".aot"
	}
	return filepath.Join(c.ArchiveDir, "app"+suffix)
}

// keepArchives keeps what the recommendation uses of archives and extracted jars, and
// removes the rest, also of a fit that was interrupted.
func (t *trier) keepArchives(ctx context.Context, s Setup, ok bool) (archive, option string) {
	for _, a := range t.archives {
		inside := t.config.inside(a.file)
		switch {
		case ok && a.option == "" && filepath.Dir(s.Jar) == inside:
		case ok && a.option != "" && strings.Contains(strings.Join(s.Options, "\n"), "="+inside):
			archive, option = inside, strings.ReplaceAll(a.option, "{archive}", inside)
		case filepath.Dir(a.file) == t.config.ArchiveDir:
			_, _ = t.config.Runner.RemoveMade(context.WithoutCancel(ctx), a.file) // what is left is in the fit's own folder
		}
	}
	return archive, option
}

// UseArchives has class archives and extracted jars made in a folder. Nil is none: what
// needs one is not tried.
func (c *Config) UseArchives(a runner.Archives) {
	if a == nil {
		c.Levers = slices.DeleteFunc(slices.Clone(c.Levers), func(l Lever) bool { return l.Extract || l.TrainOption != "" })
		return
	}
	c.ArchiveDir, c.ArchivesInside = a.Dir(), a.Inside()
}

// inside is the path that the application knows a file of the folder of archives by.
func (c Config) inside(file string) string { return moved(file, c.ArchiveDir, c.ArchivesInside) }

// outside is the path where the runner has a file that a setup names.
func (c Config) outside(file string) string { return moved(file, c.ArchivesInside, c.ArchiveDir) }

// Outside is the path on this machine of a file that the setup of a fit of an image
// names; dir is the fit's folder of archives.
func Outside(dir, file string) string { return moved(file, runner.InImage, dir) }

// moved is the path of a file that is in a folder, where that is another one; others stay.
func moved(file, from, to string) string {
	name, ok := strings.CutPrefix(file, from+"/")
	if !ok || from == "" {
		return file
	}
	return filepath.Join(to, name)
}
