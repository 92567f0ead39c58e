package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/report"
)

func newDiffCommand() *cobra.Command {
	var asJSON, markdown bool
	var in container
	var kept ledgerMoments
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What changed between two footprints",
		Long: `Diff compares two footprints by owner, the largest change first. The changes
add up to the difference of the Rss exactly.

A and B are each a saved footprint or a live JVM. What ends in .json or .jsonl is
a file that tare weigh --json or tare watch --record wrote, of which the last
whole line counts; - is one on standard input. A JVM is named by PID, main class
or jar, and weighed now; with --container, B is the JVM of that container.

With --ledger, one JVM is named, as for tare autopsy, and two moments of it are compared,
as tare agent weighed it: the last footprint by --from, and the one by --to. A moment is
a time (RFC 3339, or 15:04, 15:04:05 of the last footprint's day) or how long before the
last footprint. Left out, they are the first and the last footprint.

The exit code is 0 whether they differ or not.`,
		Example: `  tare weigh app.jar --json > before.json
  tare diff before.json app.jar
  tare diff --ledger /var/lib/tare/ledger app.jar --from 30m`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case kept.given(cmd):
				return kept.check(args, in)
			case in != "" && len(args) != 1:
				return &exitError{exitUsage, errors.New("diff --container compares one footprint with the container's JVM\nfor example: tare diff before.json --container web")}
			case in == "" && len(args) != 2:
				return &exitError{exitUsage, errors.New("diff takes two footprints: files that end in .json or .jsonl, - for standard input, or JVMs\nsave one with: tare weigh PID --json > FILE")}
			case in == "" && args[0] == "-" && args[1] == "-":
				return &exitError{exitUsage, errors.New("only one footprint can come from standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var d *report.Diff
			var err error
			if kept.dir != "" {
				d, err = kept.compare(args[0])
			} else {
				d, err = diff(cmd.Context(), cmd.InOrStdin(), args, in)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return show(cmd.OutOrStdout(), d.Document(), markdown)
		},
	}
	formats(cmd, &asJSON, &markdown, report.DiffSchema)
	kept.flags(cmd)
	in.flag(cmd)
	return cmd
}

func diff(ctx context.Context, stdin io.Reader, from []string, in container) (*report.Diff, error) {
	var both [2]*footprint.Footprint
	var err error
	if both[0], err = footprintOf(ctx, stdin, "", from[0]); err != nil {
		return nil, err
	}
	if both[1], err = footprintOf(ctx, stdin, in, from[1:]...); err != nil {
		return nil, err
	}
	if in != "" {
		from = append(from, "container "+string(in))
	}
	return report.Compare(from[0], both[0], from[1], both[1]), nil
}
