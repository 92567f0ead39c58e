package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tare/internal/footprint"
	"tare/internal/report"
)

func newDiffCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What changed between two footprints",
		Long: `Diff compares two footprints by owner, the largest change first. The changes
add up to the difference of the Rss exactly.

A and B are each a saved footprint or a live JVM. What ends in .json or .jsonl is
a file that tare weigh --json or tare watch --record wrote, of which the last
whole line counts; - is one on standard input. A JVM is named by PID, main class
or jar, and weighed now.

The exit code is 0 whether they differ or not.`,
		Example: `  tare weigh app.jar --json > before.json
  tare diff before.json app.jar`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return &exitError{exitUsage, errors.New("diff takes two footprints: files that end in .json or .jsonl, - for standard input, or JVMs\nsave one with: tare weigh PID --json > FILE")}
			case args[0] == "-" && args[1] == "-":
				return &exitError{exitUsage, errors.New("only one footprint can come from standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return diff(cmd.Context(), cmd.OutOrStdout(), cmd.InOrStdin(), args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON (schema "+report.DiffSchema+")")
	return cmd
}

func diff(ctx context.Context, w io.Writer, stdin io.Reader, from []string, asJSON bool) error {
	var both [2]*footprint.Footprint
	for i, name := range from {
		f, err := footprintOf(ctx, stdin, name)
		if err != nil {
			return err
		}
		both[i] = f
	}
	d := report.Compare(from[0], both[0], from[1], both[1])
	if asJSON {
		return writeJSON(w, d)
	}
	return report.DiffText(w, d)
}
