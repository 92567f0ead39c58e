package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/bounded"
	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

// imageFacts is what tare finds out in a container of an image, before anything
// of the image runs there but java -version, and that only where a JDK has no
// release file.
type imageFacts struct {
	Java fit.Java
	// Dir is the working directory, Home that of the user.
	Dir, Home string
	// UID and GID are those of the user.
	UID, GID int
	// NestedJar is the file of the command's jar, where that holds jars.
	NestedJar string `json:",omitempty"`
	// Files are those that a JVM reads options from, Env the variables.
	Files map[string]factFile
	Env   []string `json:",omitempty"`
	// Error says why there is no Java.
	Error string `json:",omitempty"`
}

// factFile is a file in an image, or why there is none.
type factFile struct {
	Content []byte `json:",omitempty"`
	Missing bool   `json:",omitempty"`
	Error   string `json:",omitempty"`
}

// read is Input.ReadFile for what was read in the image.
func (f imageFacts) read(name string) ([]byte, error) {
	file, ok := f.Files[name]
	switch {
	case !ok || file.Missing:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case file.Error != "":
		return nil, fmt.Errorf("%w: %s", jvmopts.ErrFile, linux.PrintableName(file.Error))
	}
	return file.Content, nil
}

const (
	imageFactsCommand = "image-facts"
	// maxFacts bounds what comes out of a container.
	maxFacts = 16 << 20
	// factsMemory and factsCPUs limit the container.
	factsMemory = 512 << 20
	factsCPUs   = 1
)

// newImageFactsCommand is what tare runs in a container.
func newImageFactsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    imageFactsCommand + " -- COMMAND",
		Short:  "The part of tare run in a container: what Java the image has",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			facts, err := factsHere(cmd.Context(), args, os.Environ())
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(facts)
		},
	}
}

// factsHere finds out what a command needs of the file system it is in.
func factsHere(ctx context.Context, args, env []string) (imageFacts, error) {
	f := imageFacts{Home: "/", UID: os.Getuid(), GID: os.Getgid(), Files: map[string]factFile{}}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && u.HomeDir != "" {
		f.Home = u.HomeDir
	}
	var err error
	if f.Dir, err = os.Getwd(); err != nil {
		return f, err
	}
	if f.Java, err = runner.FindJavaOf(ctx, args, env); err != nil {
		f.Error = err.Error()
		return f, nil
	}
	_, _ = jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease(f.Java.Version), Args: javaArgs(args), Env: env, Dir: f.Dir, ReadFile: func(name string) ([]byte, error) {
		text, err := jvmopts.ReadFile(name)
		f.Files[name] = factFile{Content: text, Missing: errors.Is(err, fs.ErrNotExist)}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.Files[name] = factFile{Error: err.Error()}
		}
		return text, err
	}}) // what is wrong with the options is said when they are read again
	f.NestedJar = nestedJar(args)
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(optionVariables, name) {
			f.Env = append(f.Env, e)
		}
	}
	return f, nil
}

// optionVariables are the variables that a JVM reads options from. No other leaves a pod:
// there may be secrets in them.
var optionVariables = []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTIONS"}

// nestedJar is the file of a java command's jar, links resolved, where it holds jars.
func nestedJar(args []string) string {
	command, err := jvmopts.Parse(args)
	if err != nil || !isJava(args) || !bootjar.Nested(command.Jar()) {
		return ""
	}
	jar, err := filepath.EvalSymlinks(command.Jar())
	if err == nil {
		jar, err = filepath.Abs(jar)
	}
	if err != nil {
		return ""
	}
	return jar
}

func isJava(args []string) bool { return filepath.Base(args[0]) == "java" }

// javaArgs are the arguments of the java launcher, none of another command.
func javaArgs(args []string) []string {
	if isJava(args) {
		return args[1:]
	}
	return nil
}

// openDocker makes the runner for an image, and clears what an earlier, killed
// tare left.
func openDocker(ctx context.Context, name string, run docker.Run, stderr io.Writer) (*runner.Docker, error) {
	engine, err := docker.NewEngine("")
	if err != nil {
		return nil, containerError(err)
	}
	d, err := runner.NewDocker(ctx, runner.DockerOptions{Engine: engine, Image: name, Run: run})
	if errors.Is(err, runner.ErrUnavailable) {
		return nil, &exitError{exitPermission, err}
	}
	if err != nil {
		return nil, containerError(err)
	}
	sweep(d, stderr)
	return d, nil
}

// imageEnv is the environment that docker run would give, without HOSTNAME.
func imageEnv(d *runner.Docker) []string {
	env := slices.Clone(d.Image().Config.Env)
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		env = append(env, "PATH="+runner.DefaultPath)
	}
	return env
}

// askImage finds out what a command needs of an image.
func askImage(ctx context.Context, r runner.Runner, program string, args, env []string) (imageFacts, error) {
	var f imageFacts
	out, errs := &bounded.Buffer{Most: maxFacts}, &bounded.Buffer{Most: 4 << 10}
	p, err := r.Start(ctx, runner.Spec{Args: append([]string{program, imageFactsCommand, "--"}, args...), Env: env,
		Stdout: out, Stderr: errs, Limits: runner.Limits{MemoryBytes: factsMemory, CPUs: factsCPUs}})
	if err != nil {
		return f, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	if err := errors.Join(ctx.Err(), p.Close()); err != nil {
		return f, err
	}
	if e := p.Exit(); e != (runner.Exit{}) {
		return f, fmt.Errorf("looking for Java in the image: exit code %d: %s", e.Code, linux.PrintableName(strings.TrimSpace(errs.String())))
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("looking for Java in the image: %w", err)
	}
	if f.Error != "" {
		return f, fmt.Errorf("no Java in the image: %s\nwhat tare does needs a JVM that runs there; of a GraalVM native image only the heap can be set, by -Xmx behind its name", linux.PrintableName(f.Error))
	}
	return f, nil
}

// imageError is why an image cannot be used: the engine's doing, or its own.
func imageError(name string, err error) error {
	err = containerError(fmt.Errorf("image %.100q: %w", name, err))
	if known := (*exitError)(nil); errors.As(err, &known) {
		return err
	}
	return usageError(err)
}

// findImage finds the Java of an image, for a lab.
func findImage(ctx context.Context, name string, stderr io.Writer) (lab.Place, error) {
	d, err := openDocker(ctx, name, docker.Run{}, stderr)
	if err != nil {
		return lab.Place{}, err
	}
	env := imageEnv(d)
	facts, err := askImage(ctx, d, runner.InContainer, []string{"java"}, env)
	if err != nil {
		return lab.Place{}, imageError(name, err)
	}
	return lab.Place{Runner: d, Java: facts.Java, Dir: facts.Dir, Env: facts.withHome(env), Image: d.Image().ID}, nil
}

// withHome is an environment with HOME, as an engine adds it.
func (f imageFacts) withHome(env []string) []string {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		return env
	}
	return append(env, "HOME="+f.Home)
}

// notBaked refuses an image that tare bake made: trials have archives of their own where
// it has its files.
func notBaked(name string, command []string) error {
	if len(command) > 0 && command[0] == launcherInImage {
		return usageError(fmt.Errorf("image %.100q was made by tare bake: fit the one that it was made of", name))
	}
	return nil
}

// applicationInImage finds the application in the image, and opens the runner. What
// composed names is not up yet, and so the runner in no network.
func (o fitOptions) applicationInImage(ctx context.Context, c *fit.Config, args []string, composed *fit.Compose, stderr io.Writer) error {
	run := o.run
	if composed != nil {
		run.Network, run.Ports, run.Aliases = "", nil, nil
	}
	d, err := openDocker(ctx, o.image, run, stderr)
	if err != nil {
		return err
	}
	c.Runner = d
	from := d.Image()
	command := slices.Concat(from.Config.Entrypoint, from.Config.Cmd)
	if len(args) > 0 {
		command = slices.Concat(from.Config.Entrypoint, args)
	}
	if err := notBaked(o.image, command); err != nil {
		return err
	}
	if len(command) == 0 {
		return usageError(fmt.Errorf("image %.100q has no command: give one after --, such as: java -jar /app.jar", o.image))
	}
	if c.Env, err = applicationEnv(imageEnv(d), o.env); err != nil {
		return usageError(err)
	}
	facts, err := askImage(ctx, d, runner.InContainer, command, c.Env)
	if err != nil {
		return imageError(o.image, err)
	}
	c.Java, c.Env, c.Dir = facts.Java, facts.withHome(c.Env), facts.Dir
	c.Image = &fit.Image{Name: o.image, ID: from.ID, Args: args, ByVariable: !isJava(command), Run: o.run, Compose: composed}
	if c.Command, err = fit.CommandOf(command); err != nil {
		return usageError(err)
	}
	if c.Given, err = jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease(c.Java.Version), Args: javaArgs(command), Env: c.Env, Dir: facts.Dir, ReadFile: facts.read}); err != nil {
		return usageError(err)
	}
	d.RunAs(facts.UID, facts.GID)
	if facts.NestedJar == "" {
		return nil
	}
	// What it holds decides what is tried, and it is taken apart here.
	if err := d.CopyOut(ctx, facts.NestedJar, c.JarPath(), image.FileTime); err != nil {
		return fmt.Errorf("the application's jar: %w", err)
	}
	return nil
}
