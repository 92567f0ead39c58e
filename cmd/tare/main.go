// Command tare tells where the resident memory of a JVM goes, and how little
// of it an application needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
)

func main() {
	runner.Gate(os.Args)
	footprint.BoundMemory()
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	code := run(ctx, asPlugin(filepath.Base(os.Args[0]), os.Args[1:]), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// endingSignals are those that end tare in good order. SIGHUP, the end of the
// terminal, is one of them unless tare was started to outlive that (nohup(1)).
func endingSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

const longHelp = `tare weighs running JVMs, and finds by experiment the smallest memory limit
that an application passes its load with.

  tare weigh PID     where every resident page of a JVM goes
  tare doctor PID    what costs memory without need, and what to do about it
  tare watch PID     the same as it changes, live or as a record
  tare diff A B      what changed between two footprints
  tare fit -- java … the smallest memory limit that passes, and the options for it
  tare bake IMAGE    an image that needs less memory, with what a fit has proven
  tare fit list      the fits that were made; show and report one of them
  tare check         whether a program keeps its memory budget, in continuous integration
  tare lab run FILE  an experiment, published results beside measured ones
  tare exec -- java … start a JVM so that it fits its container
  tare jmh report F  JMH results by speed and by each kind of memory
  tare agent         watch all JVMs of this machine, and keep what is seen of them
  tare autopsy       why a JVM ended, what grew before, what would have kept it alive
  tare serve         the same of one machine or many, over time: dashboard, API, metrics
  tare kube top      the JVMs of a Kubernetes cluster; as kubectl tare, too
  tare jdks          the JDKs on this machine
  tare version       the version of tare, and of the formats that it writes
  tare completion SH completions for bash, zsh or fish

Exit codes: ` + exitCodesHelp

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if silent := (*exitError)(nil); !errors.As(err, &silent) || silent.err != nil {
		complain(stderr, err)
	}
	return exitCode(ctx, err)
}

// newRootCommand is tare with all its commands.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:                        "tare",
		Short:                      "The memory of Java in containers: weighed, fitted, explained",
		Long:                       longHelp,
		Args:                       cobra.ArbitraryArgs,
		Version:                    thisVersion(debug.ReadBuildInfo()).line(),
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		RunE:                       help,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{exitUsage, fmt.Errorf("%w\nsee: %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newWeighCommand(), newDoctorCommand(), newWatchCommand(), newDiffCommand(), newFitCommand(), newBakeCommand(), newExecCommand(), newLabCommand(), newCheckCommand(), newJMHCommand(), newJDKsCommand(), newImageFactsCommand(), newTrialAgentCommand(), newAgentCommand(), newAutopsyCommand(), newServeCommand(), newKubeCommand(), newVersionCommand(), newManCommand())
	return root
}

// help shows the help when no command was given, and refuses an unknown one.
func help(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		err = fmt.Errorf("%w, perhaps you mean %q", err, like[0])
	}
	return &exitError{exitUsage, fmt.Errorf("%w\nsee: tare --help", err)}
}

// complain writes "tare: what happened", and further lines, the next steps,
// below it. An error may quote what a process or a file says: nothing of it
// reaches the terminal as a control character.
func complain(w io.Writer, err error) {
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = linux.Printable(lines[i])
	}
	fmt.Fprintln(w, "tare: "+strings.Join(lines, "\n      "))
}

// exitCode is the exit code of an error.
func exitCode(ctx context.Context, err error) int {
	var e *exitError
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &e):
		return e.code
	}
	return exitFailure
}
