package main

import (
	"errors"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/report"
)

func newDoctorCommand() *cobra.Command {
	var asJSON, markdown bool
	var in container
	cmd := &cobra.Command{
		Use:               "doctor PID|main-class|jar-name|FOOTPRINT.json|-",
		ValidArgsFunction: completeJVMOrFile,
		Short:             "What costs a JVM memory without need, and what to do about it",
		Long: `Doctor weighs a running JVM, or reads a footprint that tare weigh --json saved,
and lists what costs memory without need, endangers the JVM, or misleads who
looks at it: most bytes at stake first, each with the option that helps, the
evidence, and how sure it is. A rule that lacks what it needs says nothing.

Nothing is sent to the JVM: no signal, no attach, no safepoint. What ends in
.json is a saved footprint, and - is one on standard input.`,
		Example: `  tare doctor 4242
  tare weigh app.jar --json > footprint.json
  tare doctor footprint.json --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if in.enough(len(args)) {
				return nil
			}
			return &exitError{exitUsage, errors.New("doctor takes one JVM (a PID, a main class, a jar's name or --container NAME) or one saved footprint\nlist the JVMs on this machine with: tare weigh --list")}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := footprintOf(cmd.Context(), cmd.InOrStdin(), in, args...)
			if err != nil {
				return err
			}
			r := doctor.Diagnose(f)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			return show(cmd.OutOrStdout(), report.Findings(r), markdown)
		},
	}
	formats(cmd, &asJSON, &markdown, doctor.Schema)
	in.flag(cmd)
	return cmd
}
