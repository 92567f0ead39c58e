package main

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
)

// Where a baked image has what tare adds.
const (
	launcherInImage = runner.InImage + "/tare-exec"
	profileInImage  = runner.InImage + "/" + profile.FileName
	labelPrefix     = "dev.tare."
	layerPrefix     = "tare bake: "
)

// baking is what is put on top of an image.
type baking struct {
	fit report.FitJSON
	// config is the image's own.
	config image.Config
	// launcher is the file of tare-exec on this machine.
	launcher string
}

// part is what one layer holds.
type part struct {
	name  string
	files []image.File
}

// parts are the layers, those first that change least often: the jars with the
// application, the archive with each training.
func (b baking) parts() ([]part, error) {
	if err := b.filesThere(); err != nil {
		return nil, err
	}
	var out []part
	if jar := b.fit.Jar; jar != "" {
		files, err := image.Folder(filepath.Dir(fit.Outside(b.fit.Image.Files, jar)), path.Dir(jar))
		if err != nil {
			return nil, fmt.Errorf("the extracted jars of the fit: %w", err)
		}
		out = append(out, part{"the jar extracted", files})
	}
	if a := b.fit.Archive; a != nil {
		name := "class archive"
		if strings.HasSuffix(a.File, ".aot") {
			name = "AOT cache"
		}
		out = append(out, part{name, []image.File{{Path: a.File, Source: fit.Outside(b.fit.Image.Files, a.File)}}})
	}
	if b.fit.Image.ByVariable {
		return out, nil
	}
	p, err := newProfile(b.fit)
	if err != nil {
		return nil, err
	}
	text, err := p.Encode()
	if err != nil {
		return nil, err
	}
	return append(out, part{"tare-exec and tare.json", []image.File{{Path: launcherInImage, Source: b.launcher, Executable: true}, {Path: profileInImage, Content: text}}}), nil
}

// filesThere refuses a fit whose files are gone.
func (b baking) filesThere() error {
	needed := []string{b.fit.Jar}
	if b.fit.Archive != nil {
		needed = append(needed, b.fit.Archive.File)
	}
	for _, name := range needed {
		file := fit.Outside(b.fit.Image.Files, name)
		if name != "" && !isFile(file) {
			return fmt.Errorf("what the fit made is gone (%s): fit the image again", file)
		}
	}
	return nil
}

// change is the change of the image.
func (b baking) change() (image.Change, error) {
	parts, err := b.parts()
	if err != nil {
		return image.Change{}, err
	}
	c := image.Change{Labels: b.labels(), Env: b.env()}
	c.Annotations = maps.Clone(c.Labels)
	c.Annotations["org.opencontainers.image.base.name"] = b.fit.Image.Name
	for _, p := range parts {
		l, err := image.NewLayer(layerPrefix+p.name, p.files)
		if err != nil {
			return c, err
		}
		c.Layers = append(c.Layers, l)
	}
	c.Entrypoint, c.Cmd, err = b.command()
	return c, err
}

// labels are what was proven. They hold nothing of this machine, and no time but
// that of the fit.
func (b baking) labels() map[string]string {
	labels := map[string]string{
		"base": b.fit.Image.Name, "base.id": b.fit.Image.ID, "fitted": b.fit.Time.UTC().Format(time.RFC3339),
		"jdk": b.fit.JDK, "limit": strconv.FormatInt(*b.fit.LimitBytes, 10), "needed": strconv.FormatInt(b.fit.Recommended.NeededBytes, 10),
		"slo": b.fit.SLO, "options": strings.Join(b.fit.Options, " "),
	}
	if b.fit.Limits.CPUs > 0 {
		labels["cpus"] = fmt.Sprintf("%g", b.fit.Limits.CPUs)
	}
	out := map[string]string{}
	for name, value := range labels {
		out[labelPrefix+name] = value
	}
	return out
}

// env are the variables of the change: where tare-exec finds its profile, or for a
// command that is not java's all that was proven.
func (b baking) env() []string {
	if !b.fit.Image.ByVariable {
		return []string{"TARE_PROFILE=" + profileInImage}
	}
	env := slices.Clone(b.fit.Env)
	if len(b.fit.Options) > 0 {
		env = append(env, "JAVA_TOOL_OPTIONS="+fit.Record{Env: b.config.Env}.ToolOptions(b.fit.Options))
	}
	return env
}

var errJarElsewhere = errors.New("the command of the image does not name the jar that was extracted: give the fit --levers -jars")

// command is entry point and command with tare-exec in front, and with the extracted
// jar in place of the image's; nil is left as it is.
func (b baking) command() (entrypoint, cmd []string, err error) {
	if b.fit.Image.ByVariable {
		return nil, nil, nil
	}
	entrypoint, cmd = slices.Clone(b.config.Entrypoint), slices.Clone(b.config.Cmd)
	changed := len(entrypoint) == 0
	if args := b.fit.Image.Args; changed && len(args) > 0 { // the command that was fitted
		cmd = slices.Clone(args)
	}
	if b.fit.Jar != "" && !replaceJar(entrypoint, b.fit.Jar) {
		if !replaceJar(cmd, b.fit.Jar) {
			return nil, nil, errJarElsewhere
		}
		changed = true
	}
	front := []string{launcherInImage, "--"}
	if len(entrypoint) == 0 {
		return nil, append(front, cmd...), nil
	}
	if !changed {
		cmd = nil
	}
	return append(front, entrypoint...), cmd, nil
}

// replaceJar has words of a command start another jar.
func replaceJar(words []string, jar string) bool {
	i := slices.Index(words, "-jar")
	if i < 0 || i+1 >= len(words) {
		return false
	}
	words[i+1] = jar
	return true
}
