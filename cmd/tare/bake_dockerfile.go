package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/shell"
)

// checkContext refuses a folder for a Dockerfile that holds something already.
func checkContext(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--dockerfile: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--dockerfile %s: there are files in it: name a new folder", dir)
	}
	return nil
}

// checkTrain refuses a command that cannot be a line of a Dockerfile.
func checkTrain(command, context string) error {
	switch {
	case command == "":
		return nil
	case context == "":
		return errors.New("--train is for a Dockerfile: name its folder with --dockerfile")
	case strings.ContainsAny(command, "\n\r\x00"):
		return errors.New("--train: the command has to be one line: put more into a script of the image")
	case strings.Contains(command, "<<"):
		return errors.New("--train: a Dockerfile takes << for the beginning of a file: put the command into a script of the image")
	}
	return nil
}

var errNothingTrained = errors.New("--train: the fit uses no class archive: leave it out")

// writeContext writes a folder that docker build makes the same image of: a Dockerfile,
// and beside it the files, with the time that a class archive holds for. With a command
// to train under, the archive is not among them.
func (b baking) writeContext(dir string, c image.Change, train string) error {
	parts, err := b.parts()
	if err != nil {
		return err
	}
	if train != "" && (b.fit.Archive == nil || b.fit.Archive.TrainOption == "") {
		return usageError(errNothingTrained)
	}
	for _, p := range parts {
		for _, f := range p.files {
			if train != "" && f.Path == b.fit.Archive.File {
				continue
			}
			if err := writeContextFile(filepath.Join(dir, filepath.FromSlash(f.Path)), f); err != nil {
				return fmt.Errorf("--dockerfile: %w", err)
			}
		}
	}
	text := b.dockerfile(c, b.copied())
	if train != "" {
		text = b.dockerfile(c, b.training(c, train))
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(runner.InImage)), 0o755); err != nil { // of a script it has no file
		return fmt.Errorf("--dockerfile: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("--dockerfile: %w", err)
	}
	return nil
}

func writeContextFile(name string, f image.File) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	var from io.Reader = strings.NewReader(string(f.Content))
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return errors.Join(err, to.Close())
		}
		defer source.Close()
		from = source
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Chmod(mode), to.Close(), os.Chtimes(name, image.FileTime, image.FileTime))
}

// copied are the lines of a stage that has the files of the context.
func (b baking) copied() []string {
	return []string{"# Made by tare bake, for the JDK and the jars of the image below alone.",
		"FROM scratch AS tare", fmt.Sprintf("COPY %s %s", strings.TrimPrefix(runner.InImage, "/"), runner.InImage)}
}

// maxTries bounds how often the load of a training run is tried, once a second.
const maxTries = 300

// training are the lines of a stage that trains the class archive: the application runs
// as in the new image, but for the archive, until the load ends with 0, and is ended in
// good order, for only then its JVM writes the archive. The stage has a user who may
// write there, and none of it but the folder gets into the image.
func (b baking) training(c image.Change, load string) []string {
	take := ""
	if !b.fit.Image.ByVariable { // tare-exec takes no other archive than that of its profile
		take = " && TARE_PROFILE=" + profileInImage + " " + launcherInImage + " --take-archive"
	}
	return []string{"# Made by tare bake, for the JDK and the jars of the image below alone. The class archive is trained",
		"# here: whatever the application needs to start has to be there in the build.",
		"FROM " + b.fit.Image.Name + " AS tare", "USER 0", fmt.Sprintf("COPY %s %s", strings.TrimPrefix(runner.InImage, "/"), runner.InImage),
		`SHELL ["/bin/sh","-c"]`,
		"RUN " + b.trained(c) + ` & java=$!; tries=0; \`,
		"    until " + load + `; do \`,
		fmt.Sprintf(`        tries=$((tries+1)); kill -0 $java && [ $tries -lt %d ] && sleep 1 || exit 1; \`, maxTries),
		`    done; \`,
		"    kill $java; wait $java; [ -s " + b.fit.Archive.File + " ]" + take}
}

// trained is the command of the training run, for a shell.
func (b baking) trained(c image.Change) string {
	options := slices.DeleteFunc(slices.Clone(b.fit.Options), func(o string) bool { return strings.HasSuffix(o, "="+b.fit.Archive.File) })
	options = append(options, b.fit.Archive.TrainOption)
	entrypoint, cmd := b.config.Entrypoint, b.config.Cmd
	if c.Entrypoint != nil {
		entrypoint = c.Entrypoint
	}
	if c.Cmd != nil {
		cmd = c.Cmd
	}
	if args := b.fit.Image.Args; len(args) > 0 && len(entrypoint) > 0 {
		cmd = args
	}
	command := slices.Concat(entrypoint, cmd)
	if b.fit.Image.ByVariable {
		env := append(slices.Clone(b.fit.Env), "JAVA_TOOL_OPTIONS="+fit.Record{Env: b.config.Env}.ToolOptions(options))
		return shell.Command(env, command)
	}
	command = command[2:] // tare-exec and its --
	return shell.Command(b.fit.Env, slices.Concat(command[:1], options, command[1:]))
}

// dockerfile is the change as lines of a Dockerfile, behind those of a stage named tare
// that has its files. COPY keeps the times of files. An ENTRYPOINT takes the CMD of the
// image away, which so is set again (Dockerfile reference, "Understand how CMD and
// ENTRYPOINT interact").
func (b baking) dockerfile(c image.Change, stage []string) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("%s", strings.Join(stage, "\n"))
	line("")
	line("FROM %s", b.fit.Image.Name)
	line("COPY --from=tare %s %s", runner.InImage, runner.InImage)
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		line("ENV %s=%s", name, report.DockerfileQuote(value))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		line("LABEL %s=%s", name, report.DockerfileQuote(c.Labels[name]))
	}
	cmd := c.Cmd
	if c.Entrypoint != nil {
		line("ENTRYPOINT %s", words(c.Entrypoint))
		if cmd == nil {
			cmd = b.config.Cmd
		}
	}
	if len(cmd) > 0 {
		line("CMD %s", words(cmd))
	}
	return s.String()
}

// words are a command in the form of a JSON array.
func words(command []string) string {
	text, _ := json.Marshal(command) // strings always can
	return string(text)
}
