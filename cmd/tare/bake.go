package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/shell"
	"tare.dev/tare/internal/store"
)

// bakeOptions are the flags of bake; those of its fit are among them.
type bakeOptions struct {
	fitOptions
	tag      string
	fromFit  string
	made     int64 // the fit that was made by this bake, 0 for none that is kept
	base     string
	runs     int
	launcher string
	oci      string
	archive  string
	push     bool
	context  string
	// train is a shell command, the load of a training run in the build of context.
	train string
	// buildpack and jib print what to set there, and make no image.
	buildpack, jib bool
}

const (
	defaultBakeRuns = 3
	maxBakeRuns     = 1000
	// notOfFit is the annotation of flags that a fit has not.
	notOfFit = "not-of-fit"
)

const bakeLong = `Bake makes of an image another one that needs less memory. It fits the application
in the image (as tare fit --image does), and puts on top of it what was proven: the
jar extracted and a class archive trained under the load by the image's own JDK,
where they pay, and tare-exec with tare.json in front of the image's command. All
else of the image stays: its layers, user, environment, working folder, health check.

IMAGE is a name that the engine has, an archive of docker save (./shop.tar), a folder
in OCI's image layout (./shop), or a jar, which --base puts into an image first.

Then it starts the new image at its limit, under the same load, several times. Only
when each of these fresh runs has enough memory and uses the class archive, and more
than half of them are as fast as asked, the image gets its name in the engine; with
--oci, --archive and --push it goes elsewhere too.

--from-fit takes the fit that was made earlier: its number, or its result.json. What
it was made with is taken from there, where no flag says otherwise.

It needs root, a Docker Engine on this machine, and tare-exec beside tare.

Exit codes: ` + exitCodesHelp

const bakeExample = `  tare bake shop:1.4 --load http://127.0.0.1:8080/ -t shop:1.4-small
  tare bake shop:1.4 --from-fit 12 -t registry.example/shop:1.4-small --push
  tare bake app.jar --base eclipse-temurin:25-jre --load http://127.0.0.1:8080/ -t shop:small
  tare bake --compose compose.yaml --service shop --load http://127.0.0.1:8080/ -t shop:1.4-small
  tare bake shop:1.4 --load http://127.0.0.1:8080/ -t shop:small -- --spring.profiles.active=prod`

func newBakeCommand() *cobra.Command {
	var o bakeOptions
	cmd := &cobra.Command{
		Use:     "bake IMAGE -t NAME [flags] [-- arguments]\n  tare bake --compose FILE --service NAME -t NAME [flags]",
		Short:   "Make of an image one that needs less memory, and prove it",
		Long:    bakeLong,
		Example: bakeExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			rest, err := o.read(cmd.Flags(), args)
			if err != nil {
				return usageError(err)
			}
			if o.elsewhere() {
				return tellElsewhere(cmd, &o)
			}
			return runBake(cmd, &o, rest)
		},
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.Lookup("json").Usage = "write JSON (schema " + report.BakeSchema + ")"
	f.StringVar(&o.image, "image", "", "")
	_ = f.MarkHidden("image") // it is there
	of := pflag.NewFlagSet("bake", pflag.ContinueOnError)
	of.StringVarP(&o.tag, "tag", "t", "", "`name` of the new image, such as shop:1.4-small")
	of.StringVar(&o.fromFit, "from-fit", "", "the fit that was made of this image: its number, or its result.json")
	of.StringVar(&o.base, "base", "", "`image` with a JDK that a jar is put on top of, where bake is given a jar")
	of.IntVar(&o.runs, "runs", defaultBakeRuns, "fresh runs of the new image, which prove it")
	of.StringVar(&o.launcher, "launcher", "", "the `file` tare-exec for the image's architecture (default: beside tare, or in PATH)")
	of.StringVar(&o.oci, "oci", "", "`folder` in OCI's image layout that the image is added to as well")
	of.StringVar(&o.archive, "archive", "", "`file` to write the image to as well, as docker save does")
	of.StringVar(&o.context, "dockerfile", "", "new `folder` for a Dockerfile and files that docker build makes the same of")
	of.StringVar(&o.train, "train", "", "have the --dockerfile train the class archive in docker build, under this shell `command`, tried until it ends with 0")
	of.BoolVar(&o.buildpack, "buildpack", false, "make no image: print what to set where Paketo's buildpacks make it (with --from-fit)")
	of.BoolVar(&o.jib, "jib", false, "make no image: print what to set where Jib makes it (with --from-fit)")
	of.BoolVar(&o.push, "push", false, "push the image to the registry of its name, with the credentials of docker login")
	of.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{notOfFit: nil} })
	f.AddFlagSet(of)
	return cmd
}

// read takes the image and the arguments of its command from the command line, and
// checks the flags.
func (o *bakeOptions) read(f *pflag.FlagSet, args []string) (rest []string, err error) {
	names := args
	if at := f.ArgsLenAtDash(); at >= 0 {
		names, rest = args[:at], args[at:]
	}
	named := len(names) == 0 && (o.composeFlags.given() || o.fromFit != "") // it names the image
	switch {
	case len(names) != 1 && !named:
		return nil, errors.New("bake takes one image, such as: tare bake shop:1.4 --load http://127.0.0.1:8080/ -t shop:1.4-small")
	case o.elsewhere() && o.fromFit == "":
		return nil, errors.New("--buildpack and --jib tell of a fit that was made: name it with --from-fit")
	case o.elsewhere():
		return rest, nil
	case o.tag == "":
		return nil, errors.New("what is the new image's name? give -t NAME")
	case o.runs < 1 || o.runs > maxBakeRuns:
		return nil, fmt.Errorf("--runs %d: give 1 to %d", o.runs, maxBakeRuns)
	}
	if !named {
		if err := f.Set("image", names[0]); err != nil {
			return nil, err
		}
	}
	_, err = image.ParseTag(o.tag)
	return rest, cmp.Or(err, checkTrain(o.train, o.context), checkContext(o.context), o.boundWork(f))
}

// elsewhere says that another builder makes the image.
func (o *bakeOptions) elsewhere() bool { return o.buildpack || o.jib }

// tellElsewhere prints what to set in other builders.
func tellElsewhere(cmd *cobra.Command, o *bakeOptions) error {
	j, err := readFit(cmd.Context(), o.fitOptions.store, o.fromFit)
	if err := answered(j, err); err != nil {
		return err
	}
	if o.buildpack {
		if err := show(cmd.OutOrStdout(), report.BuildpackDocument(j), false); err != nil {
			return err
		}
	}
	if o.jib {
		return show(cmd.OutOrStdout(), report.JibDocument(j), false)
	}
	return nil
}

func runBake(cmd *cobra.Command, o *bakeOptions, args []string) error {
	return o.keepsFit(o.bake(cmd, args))
}

// keepsFit tells of the fit that was made before something else failed.
func (o *bakeOptions) keepsFit(err error) error {
	if unproven := (*UnprovenError)(nil); err == nil || o.made == 0 || errors.As(err, &unproven) {
		return err
	}
	return fmt.Errorf("%w\nthe fit is kept: go on with --from-fit %d", err, o.made)
}

// bake makes the image.
func (o *bakeOptions) bake(cmd *cobra.Command, args []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	launcher, err := findLauncher(o.launcher)
	if err == nil {
		err = checkLauncher(launcher, "") // before the fit, whose image tells for which architecture
	}
	if err != nil {
		return &exitError{exitTarget, err}
	}
	if err := o.takeIn(ctx, stderr); err != nil {
		return err
	}
	j, args, err := o.fitted(cmd, args)
	if err != nil {
		return err
	}
	engine, err := docker.NewEngine("")
	if err != nil {
		return containerError(err)
	}
	if j.Runner == inCluster {
		if args, err = imageArgs(ctx, engine, cmp.Or(o.image, j.Image.Name), args); err != nil {
			return err
		}
	}
	c, err := fitConfig(ctx, args, o.fitOptions, stderr)
	defer closeRunner(c.Runner, stderr)
	if err != nil {
		return err
	}
	o.image = c.Image.Name
	is, err := engine.Image(ctx, c.Image.ID)
	if err != nil {
		return imageError(o.image, err)
	}
	if !is.Is(j.Image.ID) {
		return usageError(fmt.Errorf("image %.100q is not the one that was fitted: fit it again (it was %s, and is %s)", o.image, j.Image.ID, c.Image.ID))
	}
	j.Image.ID = c.Image.ID // in a cluster it has another one
	base, err := image.FromEngine(ctx, engine, j.Image.ID)
	if err != nil {
		return containerError(err)
	}
	down, err := o.startBeside(ctx, &c, stderr)
	if err != nil {
		return errors.Join(err, base.Close())
	}
	result, err := bakeOn(ctx, base, *o, baking{fit: j, launcher: launcher}, proof{config: c, runs: o.runs, engine: engine, stderr: stderr})
	if err := errors.Join(err, down(), base.Close()); err != nil {
		return err
	}
	if o.json {
		return writeJSON(cmd.OutOrStdout(), result)
	}
	return show(cmd.OutOrStdout(), report.BakeDocument(*result), false)
}

// bakeOn puts the change on an image, proves it, and writes it. What is not proven
// does not stay in the engine.
func bakeOn(ctx context.Context, base *image.Image, o bakeOptions, b baking, p proof) (result *report.Bake, err error) {
	if b.config, err = base.Config(); err != nil {
		return nil, err
	}
	if err := checkLauncher(b.launcher, b.config.Architecture); err != nil {
		return nil, &exitError{exitTarget, err}
	}
	if p.change, err = b.change(); err != nil {
		return nil, usageError(err)
	}
	baked, err := base.Put(p.change)
	if err != nil {
		return nil, err
	}
	if err := baked.ToEngine(ctx, p.engine); err != nil {
		return nil, containerError(err)
	}
	p.baking = b
	given, runs, err := p.runAs(ctx, baked)
	if err != nil {
		return nil, errors.Join(err, removeUnproven(ctx, p.engine, baked.ID()))
	}
	result = newBake(o, b, p, baked, given, runs)
	if result.Written, err = o.write(ctx, p.engine, baked); err != nil {
		return nil, err
	}
	if o.context != "" {
		if err := b.writeContext(o.context, p.change, o.train); err != nil {
			return nil, err
		}
		result.Written = append(result.Written, "Dockerfile: "+o.context)
	}
	return result, sizes(result, base, baked)
}

func (p proof) runAs(ctx context.Context, baked *image.Image) (fit.Trial, []fit.Trial, error) {
	var err error
	if p.baked, err = p.engine.Image(ctx, baked.ID()); err != nil {
		return fit.Trial{}, nil, containerError(err)
	}
	given, runs, err := p.run(ctx)
	if ctx.Err() != nil {
		return given, nil, errors.New("interrupted: nothing is left running")
	}
	return given, runs, proofError(err)
}

// removeUnproven removes an image without a name; one that had a name before was
// proven before.
func removeUnproven(ctx context.Context, e *docker.Engine, id string) error {
	ctx = context.WithoutCancel(ctx)
	i, err := e.Image(ctx, id)
	if err != nil || len(i.RepoTags) > 0 {
		return err
	}
	return e.RemoveImage(ctx, id)
}

func newBake(o bakeOptions, b baking, p proof, baked *image.Image, given fit.Trial, runs []fit.Trial) *report.Bake {
	asGiven := int64(0)
	if b.fit.AsGiven != nil {
		asGiven = b.fit.AsGiven.LimitBytes
	}
	r := &report.Bake{Schema: report.BakeSchema, ByVariable: b.fit.Image.ByVariable,
		Given: report.NewBakeImage(o.image, b.fit.Image.ID, asGiven, []fit.Trial{given}), Baked: report.NewBakeImage(o.tag, baked.ID(), *b.fit.LimitBytes, runs)}
	for _, t := range runs {
		if t.Passed {
			r.Runs++
		} else {
			r.Slow++
		}
	}
	if b.fit.AsGivenFailsBytes != nil {
		r.Given.FailsBytes = *b.fit.AsGivenFailsBytes
	}
	for _, l := range p.change.Layers {
		r.Added = append(r.Added, report.BakeLayer{Name: strings.TrimPrefix(l.CreatedBy, layerPrefix), Bytes: l.Bytes})
	}
	r.Archive = b.fit.Archive != nil
	if used := true; r.Archive && p.sawArchive(runs) { // else the proof had failed
		r.ArchiveUsed = &used
	}
	return r
}

// sizes are the sizes of both images.
func sizes(r *report.Bake, base, baked *image.Image) (err error) {
	if r.Given.ImageBytes, err = base.Size(); err != nil {
		return err
	}
	r.Baked.ImageBytes = r.Given.ImageBytes
	for _, l := range r.Added {
		r.Baked.ImageBytes += l.Bytes
	}
	return nil
}

// write names the image in the engine, and writes it to where else it is wanted.
func (o bakeOptions) write(ctx context.Context, e *docker.Engine, baked *image.Image) (written []string, err error) {
	tag, err := image.ParseTag(o.tag)
	if err != nil {
		return nil, usageError(err)
	}
	if err := tag.TagIn(ctx, e, baked.ID()); err != nil {
		return nil, containerError(err)
	}
	written = append(written, "engine: "+tag.String())
	if o.oci != "" {
		if err := baked.ToLayout(o.oci, tag); err != nil {
			return written, err
		}
		written = append(written, "OCI layout: "+o.oci)
	}
	if o.archive != "" {
		if err := baked.ToArchive(o.archive, tag); err != nil {
			return written, err
		}
		written = append(written, "archive: "+o.archive)
	}
	if o.push {
		digest, err := baked.Push(ctx, tag)
		if err != nil {
			return written, &exitError{exitTarget, err}
		}
		written = append(written, "registry: "+tag.String()+"@"+digest)
	}
	return written, nil
}

// fitted is the fit that is baked: an earlier one, or one that is made now. args are
// those of the image's command.
func (o *bakeOptions) fitted(cmd *cobra.Command, args []string) (report.FitJSON, []string, error) {
	if o.fromFit != "" {
		j, err := readFit(cmd.Context(), o.fitOptions.store, o.fromFit)
		if err != nil {
			return j, nil, err
		}
		if j.Image == nil {
			return j, nil, usageError(fmt.Errorf("--from-fit %s: it is not of an image: fit the image, with tare fit --image", o.fromFit))
		}
		return j, j.Image.Args, answered(j, o.takeOver(cmd.Flags(), j))
	}
	h, args, err := openHistory(cmd, args, &o.fitOptions)
	if err != nil {
		return report.FitJSON{}, nil, err
	}
	withoutJSON := o.fitOptions
	withoutJSON.json = false
	r, err := runFit(cmd.Context(), io.Discard, cmd.ErrOrStderr(), args, withoutJSON, h)
	if err == nil && h != nil {
		o.made = h.run.ID()
	}
	if err := errors.Join(err, h.close()); err != nil {
		return report.FitJSON{}, nil, err
	}
	j := report.NewFitJSON(r, nil)
	return j, args, answered(j, nil)
}

// imageArgs are the arguments of an image for the command of a pod, which is the whole one.
func imageArgs(ctx context.Context, engine *docker.Engine, name string, command []string) ([]string, error) {
	i, err := engine.Image(ctx, name)
	if err != nil {
		return nil, imageError(name, err)
	}
	return behind(i.Config.Entrypoint, command)
}

// behind is what a command has behind an entry point.
func behind(entry, command []string) ([]string, error) {
	if len(command) == 0 {
		return nil, nil
	}
	if len(command) < len(entry) || !slices.Equal(command[:len(entry)], entry) {
		return nil, usageError(fmt.Errorf("the pods ran %s, and the image begins with %s: fit what it begins with", shell.Words(command), shell.Words(entry)))
	}
	return command[len(entry):], nil
}

// answered refuses a fit without an answer.
func answered(j report.FitJSON, err error) error {
	if err == nil && (j.LimitBytes == nil || j.Recommended == nil) {
		return &exitError{exitNoLimit, errors.New("that fit found no limit that passes: there is nothing to bake")}
	}
	return err
}

// readFit reads a fit by its number in the history, or its result.json.
func readFit(ctx context.Context, location, name string) (j report.FitJSON, err error) {
	if strings.Trim(name, "0123456789") == "" {
		err = withFit(ctx, location, name, func(f store.Fit, r *fit.Result) error {
			if f.Ending == nil {
				return usageError(fmt.Errorf("fit %s has not ended: go on with it, tare fit --resume %s", name, name))
			}
			j = report.NewFitJSON(r, nil)
			return nil
		})
		return j, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return j, usageError(fmt.Errorf("--from-fit: %w", err))
	}
	if err := json.Unmarshal(text, &j); err != nil || j.Schema != report.FitSchema {
		return j, usageError(fmt.Errorf("--from-fit %s: not the result.json of a fit", name))
	}
	return j, nil
}

// takeOver sets the flags that the command line leaves open to what the fit had. Its
// load is taken where that is GET requests without secrets, which is all of it.
func (o *bakeOptions) takeOver(f *pflag.FlagSet, j report.FitJSON) error {
	had := map[string][]string{"ready": {j.Ready}, "slo": {j.SLO}, "cpus": {fmt.Sprintf("%g", j.Limits.CPUs)}, "cpuset": {j.Limits.Cpuset},
		"concurrency": {fmt.Sprint(max(1, j.Load.Concurrency))}, "rate": {fmt.Sprintf("%g", j.Load.Rate)},
		"warmup": {fmt.Sprintf("%gs", j.Load.WarmupSeconds)}, "duration": {fmt.Sprintf("%gs", j.Load.DurationSeconds)}, "requests": {fmt.Sprint(j.Load.Requests)}}
	if j.Load.WarmBlocks > 0 {
		delete(had, "warmup")
	}
	if !f.Changed("load") && !f.Changed("load-command") && !o.job && len(j.Load.Command)+len(j.Load.Targets) > 0 {
		if len(j.Load.Command) > 0 || slices.ContainsFunc(j.Load.Targets, notPlain) {
			return usageError(errors.New("the load of the fit is not stored as a whole: give --load or --load-command again"))
		}
		had["load"] = j.Load.Targets
	}
	if of := j.Image.Compose; of != nil {
		if o.image = ""; !o.composeFlags.given() {
			o.file, o.service, o.composeFlags.fresh, o.resets = of.File, of.Service, of.Fresh, of.Reset
		}
	} else if !o.runFlags.given() {
		if o.image == "" {
			o.image = j.Image.Name
		}
		o.run = j.Image.Run
		for _, p := range o.run.Ports {
			o.publish = append(o.publish, p.String())
		}
	}
	for name, values := range had {
		if f.Changed(name) || len(values) == 1 && values[0] == "" {
			continue
		}
		for _, v := range values {
			if err := f.Set(name, v); err != nil {
				return usageError(fmt.Errorf("--from-fit: %w", err))
			}
		}
	}
	return nil
}

// notPlain says that a target of a load is more than what is stored of it.
func notPlain(target string) bool {
	return !strings.HasPrefix(target, "GET http") || strings.Contains(target, fit.Redacted) || strings.ContainsAny(strings.TrimPrefix(target, "GET "), " \n")
}

// findLauncher finds tare-exec.
func findLauncher(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	const name = "tare-exec"
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("tare-exec, which goes into the image, is neither beside tare nor in PATH: name it with --launcher")
	}
	return found, nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// machines are the ELF machines of architectures as images name them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkLauncher makes sure that a program starts in any image of an architecture, or of
// any where that is empty: it needs no loader of shared libraries.
func checkLauncher(file, architecture string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is not tare-exec: %w: name that with --launcher", file, err)
	}
	defer f.Close()
	if want, known := machines[architecture]; known && f.Machine != want {
		return fmt.Errorf("%s is for %s, and the image for %s: name the right tare-exec with --launcher", file, f.Machine, architecture)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s needs shared libraries, which an image need not have: build it with CGO_ENABLED=0", file)
	}
	return nil
}
