package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/jdks"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
)

const labLong = `Lab runs experiments that are written down as files: a Java program, the factors
that are varied, what is measured, what was published, and what is claimed.

Each combination runs as often as the file says, in rounds, each in a random
order that the file's seed decides on. Each run is one line of the results file,
written through to the disk when it ends: a lab that was interrupted or killed
goes on where it stopped. The file is FILE with .results.jsonl for its suffix.

Exit codes: ` + exitCodesHelp

func newLabCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Experiments as files: run, resume, report, compare",
		Long:  labLong,
		Example: `  tare lab plan stack-size.yaml
  tare lab run stack-size.yaml
  tare lab run stack-size.yaml --where jdk=17 --rounds 1
  tare lab report stack-size.yaml --markdown > stack-size.md
  tare lab report stack-size.yaml --html stack-size.html
  tare lab compare before.jsonl after.jsonl`,
	}
	cmd.AddCommand(newLabPlan(), newLabRun(), newLabReport(), newLabCompare(), newLabSchema(), newLabInMachine())
	return cmd
}

// labArgs asks for n arguments.
func labArgs(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError(fmt.Errorf("lab takes %s", what))
		}
		return nil
	}
}

func newLabPlan() *cobra.Command {
	var o labOptions
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "What would run",
		Args:  labArgs(1, "an experiment file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, r, err := o.open(args[0])
			if errors.Is(err, os.ErrNotExist) && e != nil {
				r, err = lab.ReadResults(strings.NewReader(""), "")
			}
			if err != nil {
				return err
			}
			l := &lab.Lab{Experiment: e, Results: r}
			return show(cmd.OutOrStdout(), report.LabPlan(e, r, l.Pending()), false)
		},
	}
	o.flags(cmd)
	return cmd
}

func newLabRun() *cobra.Command {
	var o labOptions
	var parent string
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run what has no result yet, and report",
		Args:  labArgs(1, "an experiment file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLab(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], o, parent)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&parent, "cgroup-parent", "", "control group to make groups in (default: the one tare runs in)")
	return cmd
}

func newLabReport() *cobra.Command {
	var o labOptions
	var markdown, asJSON bool
	var html string
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Published beside measured, claims judged",
		Args:  labArgs(1, "an experiment file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, r, err := o.open(args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			d := report.Lab(lab.Analyse(e, r), "tare lab run "+filepath.Base(args[0]))
			switch {
			case html != "":
				return writeLabPage(html, d)
			case asJSON:
				return document.WriteJSON(out, d)
			}
			return show(out, d, markdown)
		},
	}
	o.flags(cmd)
	withPlots(cmd, &asJSON, &markdown, &html)
	return cmd
}

func writeLabPage(name string, d *document.Document) error {
	var page bytes.Buffer
	if err := document.WriteHTML(&page, d); err != nil {
		return err
	}
	if err := os.WriteFile(name, page.Bytes(), 0o644); err != nil {
		return usageError(fmt.Errorf("report: %w", err))
	}
	return nil
}

func newLabCompare() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "compare RESULTS-A RESULTS-B",
		Short: "Which differences between two result sets are real",
		Args:  labArgs(2, "two results files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var sets [2]*lab.Results
			for i, name := range args {
				var err error
				if sets[i], err = readResults(name); err != nil {
					return err
				}
			}
			out := cmd.OutOrStdout()
			return show(out, report.LabDifferences(lab.Compare(sets[0], sets[1])), markdown)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write Markdown")
	return cmd
}

// newLabInMachine is what a lab runs in its virtual machines.
func newLabInMachine() *cobra.Command {
	return &cobra.Command{
		Use:    "in-machine JOB",
		Short:  "The part of lab run inside a virtual machine",
		Hidden: true,
		Args:   labArgs(1, "a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := openRunner("", cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if closer, ok := run.(io.Closer); ok {
				defer closer.Close()
			}
			return fitError(lab.RunJob(cmd.Context(), args[0], run, cmd.OutOrStdout()))
		},
	}
}

func newLabSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "The JSON Schema of experiment files, for editors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), lab.FileSchema)
			return err
		},
	}
}

// labOptions choose what of an experiment is meant.
type labOptions struct {
	results string
	where   map[string]string
	rounds  int
}

func (o *labOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.results, "results", "", "results `file` (default: FILE with .results.jsonl for its suffix)")
	f.StringToStringVar(&o.where, "where", nil, "only cells with this `factor=value`; repeatable")
	f.IntVar(&o.rounds, "rounds", 0, "at most so many rounds (0: as many as the file says)")
}

func (o *labOptions) resultsFile(experiment string) string {
	if o.results != "" {
		return o.results
	}
	return strings.TrimSuffix(experiment, filepath.Ext(experiment)) + ".results.jsonl"
}

// read reads an experiment and leaves what is meant of it.
func (o *labOptions) read(name string) (*lab.Experiment, error) {
	e, err := readExperiment(name)
	if err != nil {
		return nil, err
	}
	if o.rounds < 0 {
		return nil, usageError(fmt.Errorf("--rounds %d is less than 0", o.rounds))
	}
	only := lab.Where{}
	for f, v := range o.where {
		only[f] = lab.Scalar(v)
	}
	if err := e.Restrict(only, o.rounds); err != nil {
		return nil, usageError(fmt.Errorf("--where: %w", err))
	}
	return e, nil
}

// open reads an experiment and its results. Where only these are missing the
// experiment is returned with the error.
func (o *labOptions) open(name string) (*lab.Experiment, *lab.Results, error) {
	e, err := o.read(name)
	if err != nil {
		return nil, nil, err
	}
	r, err := readResults(o.resultsFile(name))
	return e, r, err
}

func readExperiment(name string) (*lab.Experiment, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError(fmt.Errorf("experiment: %w", err))
	}
	defer f.Close()
	e, err := lab.Read(f, name)
	var mistake *lab.FileError
	if errors.As(err, &mistake) {
		return nil, usageError(err)
	}
	return e, err
}

func readResults(name string) (*lab.Results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError(fmt.Errorf("results: %w: run the experiment first, or give --results", err))
	}
	defer f.Close()
	return lab.ReadResults(f, name)
}

func runLab(ctx context.Context, stdout, stderr io.Writer, file string, o labOptions, parent string) error {
	e, err := o.read(file)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return err
	}
	run, err := openRunner(parent, stderr)
	if err != nil {
		return err
	}
	if closer, ok := run.(io.Closer); ok {
		defer closer.Close()
	}
	r, err := lab.OpenResults(o.resultsFile(file))
	if err != nil {
		return err
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	l := &lab.Lab{Experiment: e, Dir: dir, Runner: run, Results: r, Java: func(ctx context.Context, name string) (fit.Java, error) { return findJava(ctx, name, stderr) }, Self: self,
		Image:   func(ctx context.Context, name string) (lab.Place, error) { return findImage(ctx, name, stderr) },
		Observe: func(ev lab.Event) { report.LabProgress(stderr, e, ev) }}
	if err := l.Run(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d runs: go on with the same command", len(r.Records))
		}
		return fitError(err)
	}
	return show(stdout, report.Lab(lab.Analyse(e, r), ""), false)
}

// findJava finds the launcher of a major version among the JDKs of this machine, or
// of a path, and says which it takes.
func findJava(ctx context.Context, name string, stderr io.Writer) (fit.Java, error) {
	launcher := cmp.Or(name, "java")
	if name != "" && !strings.Contains(name, "/") {
		major, err := strconv.Atoi(name)
		if err != nil {
			return fit.Java{}, usageError(fmt.Errorf("jdk %q: give a major version such as 21, or the path of a java launcher", name))
		}
		found, err := jdks.Find(ctx, jdks.OfThisMachine())
		if err != nil {
			return fit.Java{}, err
		}
		jdk, ok := chooseJDK(found, major)
		if !ok {
			return fit.Java{}, usageError(fmt.Errorf("no JDK %d on this machine: install one, or see tare jdks for those there are", major))
		}
		launcher = jdk.Java()
	}
	java, err := runner.FindJava(ctx, launcher)
	if err == nil {
		fmt.Fprintf(stderr, "jdk %s: %s, %s\n", cmp.Or(name, "of the path"), java.Path, linux.Printable(java.Build))
	}
	return java, err
}

// chooseJDK takes of the JDKs of a major version one that is declared: tare's own, in
// its cache, then that of JAVA_HOME; else the newest, whoever made it.
func chooseJDK(found []jdks.JDK, major int) (jdks.JDK, bool) {
	for _, source := range []string{jdks.SourceCache, jdks.SourceJavaHome, ""} {
		for _, jdk := range slices.Backward(found) {
			if jdk.Error == "" && jvmopts.ParseRelease(jdk.Version).Feature == major && (source == "" || slices.Contains(jdk.Sources, source)) {
				return jdk, true
			}
		}
	}
	return jdks.JDK{}, false
}
