package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/report"
)

type weighOptions struct {
	list, json, markdown, attach, deep bool
	container                          container
}

func newWeighCommand() *cobra.Command {
	var opts weighOptions
	cmd := &cobra.Command{
		Use:               "weigh PID|main-class|jar-name",
		ValidArgsFunction: completeJVM,
		Short:             "Where every resident page of a running JVM goes",
		Long: `Weigh gives every resident page of a running JVM one owner. The rows add up to
the Rss of the scan exactly; memory without a known owner is the last row.

Nothing is sent to the JVM: no signal, no attach, no safepoint, and its memory
does not grow. With --attach the JVM is asked what of its heap and code cache is
in use, and, when it was started with -XX:NativeMemoryTracking, what it tracks;
the first attach costs it some 200 KiB, the answers up to 1 MiB and up to a
second. With --deep it is asked also for its objects by class, the waste in its
metaspace and its class loaders: for these it stops all threads, the longer the
more objects there are.

It reads /proc/PID/mem, which needs root, CAP_SYS_PTRACE, or the same user and
no ptrace restriction. Where that is closed the layout of the mappings must do,
and what is lost is said. A JVM in a Docker container is found by the container's
name with --container; with several, name one after it.`,
		Example: `  tare weigh --list
  tare weigh 4242
  tare weigh --container web
  tare weigh app.jar --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if opts.list && len(args) == 0 || opts.container.enough(len(args)) {
				return nil
			}
			return &exitError{exitUsage, errors.New("weigh takes one JVM: a PID, a main class, a jar's name or --container NAME\nlist the JVMs on this machine with: tare weigh --list")}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.list {
				return listJVMs(cmd.OutOrStdout(), opts)
			}
			return weigh(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.list, "list", false, "list the JVMs on this machine")
	formats(cmd, &opts.json, &opts.markdown, footprint.Schema)
	cmd.Flags().BoolVar(&opts.attach, "attach", false, "attach to the JVM and ask what it tracks and uses")
	cmd.Flags().BoolVar(&opts.deep, "deep", false, "ask also for objects, metaspace and class loaders, for which the JVM stops")
	opts.container.flag(cmd)
	return cmd
}

func weigh(ctx context.Context, w, errs io.Writer, args []string, opts weighOptions) error {
	defer letGarbageLie(weighGC)()
	proc := linux.NewFS("/proc")
	target, err := opts.container.resolve(ctx, proc, args)
	if err != nil {
		return err
	}
	f, err := footprint.WeighTarget(ctx, target, footprint.Options{
		Proc: proc, Attach: opts.attach, Deep: opts.deep,
		Announce: func(c footprint.Cost) { fmt.Fprintln(errs, deepCost(target, c)) },
	})
	if err != nil {
		return targetError(err)
	}
	if opts.json {
		return writeJSON(w, f)
	}
	d := report.Footprint(f)
	if n := len(doctor.Examine(f)); n > 0 {
		d.Add(document.Paragraph{Text: document.Plain(fmt.Sprintf("what could be done: tare doctor %d (findings: %d)", f.PID, n))})
	}
	return show(w, d, opts.markdown)
}

// deepCost says what the JVM is about to be put through.
func deepCost(t *process.Target, c footprint.Cost) string {
	heap := "its heap"
	if c.HeapUsedBytes > 0 {
		heap = "the " + report.Size(c.HeapUsedBytes) + " in use of its heap"
	}
	return fmt.Sprintf("tare: process %d stops its %d threads while it goes through %s and %d classes", t.PID, c.Threads, heap, c.Classes)
}

// formats are the flags of how a report is written.
func formats(cmd *cobra.Command, asJSON, markdown *bool, schema string) {
	cmd.Flags().BoolVar(asJSON, "json", false, "write JSON (schema "+schema+")")
	cmd.Flags().BoolVar(markdown, "markdown", false, "write Markdown, for an issue or a pull request")
	oneOf(cmd, "json", "markdown")
}

// withPlots are those of a report with plots, which may be a page as well.
func withPlots(cmd *cobra.Command, asJSON, markdown *bool, html *string) {
	formats(cmd, asJSON, markdown, document.Schema)
	cmd.Flags().StringVar(html, "html", "", "write a page with plots to this `file`, which needs no network")
	oneOf(cmd, "json", "markdown", "html")
}

// show writes a document for a terminal, or as Markdown.
func show(w io.Writer, d *document.Document, markdown bool) error {
	if markdown {
		return document.WriteMarkdown(w, d)
	}
	return document.WriteText(w, d, styleOf(w))
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// targetError adds the next step and the exit code to an error about a JVM.
func targetError(err error) error {
	var closed *process.AccessError
	const list = "list the JVMs on this machine with: tare weigh --list"
	switch {
	case errors.As(err, &closed):
		return &exitError{exitPermission, fmt.Errorf("%w\n%s", err, closed.Remedy())}
	case errors.Is(err, attach.ErrUnsafe):
		return &exitError{exitPermission, fmt.Errorf("%w\nweigh it without --attach and --deep, which sends nothing to the JVM", err)}
	case errors.Is(err, process.ErrNotJVM):
		return &exitError{exitTarget, fmt.Errorf("%w: no libjvm.so is mapped\n%s", err, list)}
	case errors.Is(err, process.ErrNoProcess), errors.Is(err, process.ErrAmbiguous):
		return &exitError{exitTarget, fmt.Errorf("%w\n%s", err, list)}
	}
	return err
}

// listed is one JVM of weigh --list.
type listed struct {
	PID  int    `json:"pid"`
	UID  int    `json:"uid"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	JVM  string `json:"libjvm"`
}

func listJVMs(w io.Writer, opts weighOptions) error {
	targets, err := process.List(linux.NewFS("/proc"))
	if err != nil {
		return err
	}
	rows := make([]listed, 0, len(targets))
	for _, t := range targets {
		rows = append(rows, listed{t.PID, t.Status.UID, t.Name, string(t.Kind), t.LibjvmPath})
	}
	if opts.json {
		return writeJSON(w, rows)
	}
	return listTable(w, rows)
}

// listTable shows each JVM in a line.
func listTable(w io.Writer, rows []listed) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no JVM that this user may see is running")
		return err
	}
	if _, err := fmt.Fprintf(w, "%8s %6s  %-32s %s\n", "PID", "UID", "PROGRAM", "JVM"); err != nil {
		return err
	}
	for _, r := range rows {
		jvm := linux.Printable(r.JVM)
		if r.Kind != string(process.HotSpot) {
			jvm += " (" + r.Kind + ")"
		}
		if _, err := fmt.Fprintf(w, "%8d %6d  %-32s %s\n", r.PID, r.UID, linux.Printable(r.Name), jvm); err != nil {
			return err
		}
	}
	return nil
}
