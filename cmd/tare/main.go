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
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tare/internal/runner"
)

func main() {
	runner.Gate(os.Args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const longHelp = `tare weighs running JVMs, and finds by experiment the smallest memory limit
that an application passes its load with.

  tare weigh PID     where every resident page of a JVM goes
  tare doctor PID    what costs memory without need, and what to do about it
  tare watch PID     the same as it changes, live or as a record
  tare diff A B      what changed between two footprints
  tare fit -- java … the smallest memory limit that passes, and the options for it
  tare fit list      the fits that were made; show and report one of them
  tare lab run FILE  an experiment, published results beside measured ones
  tare exec -- java … start a JVM so that it fits its container
  tare jmh report F  JMH results by speed and by each kind of memory
  tare jdks          the JDKs on this machine

Exit codes: ` + exitCodesHelp

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:                        "tare",
		Short:                      "The memory of Java in containers: weighed, fitted, explained",
		Long:                       longHelp,
		Args:                       cobra.ArbitraryArgs,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		RunE:                       help,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{exitUsage, fmt.Errorf("%w\nsee: %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newWeighCommand(), newDoctorCommand(), newWatchCommand(), newDiffCommand(), newFitCommand(), newExecCommand(), newLabCommand(), newJMHCommand(), newJDKsCommand(), newImageFactsCommand())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if silent := (*exitError)(nil); !errors.As(err, &silent) || silent.err != nil {
		complain(stderr, err)
	}
	return exitCode(ctx, err)
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
// below it.
func complain(w io.Writer, err error) {
	fmt.Fprintln(w, "tare: "+strings.ReplaceAll(err.Error(), "\n", "\n      "))
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
