package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/jmhreport"
)

// jmhOptions are the flags of jmh's commands.
type jmhOptions struct {
	jmhreport.Options
	json, markdown bool
	html           string
}

func newJMHCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jmh",
		Short: "JMH results by speed and memory",
		Long: `Jmh reads the results of JMH (-rf json -rff FILE), with what the profilers of
dev.tare:tare-jmh found, and shows them metric by metric.`,
		Args: cobra.ArbitraryArgs,
		RunE: help,
	}
	cmd.AddCommand(newJMHReportCommand(), newJMHCompareCommand())
	return cmd
}

func newJMHReportCommand() *cobra.Command {
	var opts jmhOptions
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Who is first, by each metric",
		Long: `Report ranks contenders by speed and by each kind of memory, and shows the
rankings against each other: the winner by one metric need not be that by
another. Contenders are results that differ, in a parameter for instance; with
--contender one dimension names them, and the others make groups.

Intervals are 99.9 %. With three forks or more a fork is one value; with fewer
an iteration is, which makes intervals too narrow. A rank has a = when its
interval overlaps that of a neighbour.

FILE is a result of JMH, - standard input.`,
		Example: `  java -jar benchmarks.jar -f 5 -prof dev.tare.jmh.RetainedMemory -rf json -rff results.json
  tare jmh report results.json --sort mem.retained
  tare jmh report results.json --html results.html`,
		Args: atLeastOneResult,
		RunE: func(cmd *cobra.Command, args []string) error {
			return jmhReport(cmd.OutOrStdout(), cmd.InOrStdin(), args, opts)
		},
	}
	opts.flags(cmd, jmhreport.ReportSchema)
	cmd.Flags().StringVar(&opts.Contender, "contender", "", "what names the contenders: a parameter, file, benchmark, threads, jdk or options")
	cmd.Flags().StringVar(&opts.Sort, "sort", "", "sort contenders by this metric (default: the first shown)")
	cmd.Flags().StringVar(&opts.html, "html", "", "write a page with plots to this file")
	return cmd
}

func newJMHCompareCommand() *cobra.Command {
	var opts jmhOptions
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "What changed between two runs",
		Long: `Compare says of each metric of each benchmark that both runs have whether it got
better or worse. A change counts when Welch's t-test finds it at 0.1 %: with
fewer than three forks a value is an iteration, and differences between JVMs may
pass for changes.

The exit code is 0 whether they differ or not.`,
		Example: `  tare jmh compare before.json after.json
  tare jmh compare before.json after.json --markdown | gh pr comment --body-file -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &exitError{exitUsage, errors.New("compare takes two results of JMH\nwrite one with: java -jar benchmarks.jar -rf json -rff FILE")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return jmhCompare(cmd.OutOrStdout(), cmd.InOrStdin(), args, opts)
		},
	}
	opts.flags(cmd, jmhreport.ComparisonSchema)
	return cmd
}

func (o *jmhOptions) flags(cmd *cobra.Command, schema string) {
	cmd.Flags().StringSliceVar(&o.Metrics, "metrics", nil, "metrics to show, in order; * stands for any text (default: the usual ones)")
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON (schema "+schema+")")
	cmd.Flags().BoolVar(&o.markdown, "markdown", false, "write Markdown, for a pull request")
	oneOf(cmd, "json", "markdown")
}

func atLeastOneResult(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &exitError{exitUsage, errors.New("report takes results of JMH\nwrite one with: java -jar benchmarks.jar -rf json -rff FILE")}
	}
	return nil
}

func jmhReport(w io.Writer, stdin io.Reader, files []string, opts jmhOptions) error {
	var results []jmh.Result
	for _, file := range files {
		more, err := jmhResults(stdin, file)
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	r, err := jmhreport.Rank(results, opts.Options)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if opts.html != "" {
		if err := writePage(opts.html, r); err != nil {
			return err
		}
	}
	switch {
	case opts.json:
		return writeJSON(w, r)
	case opts.markdown:
		return jmhreport.Markdown(w, r)
	case opts.html != "":
		_, err := fmt.Fprintln(w, "written:", opts.html)
		return err
	}
	return jmhreport.Text(w, r)
}

func writePage(file string, r *jmhreport.Report) error {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("the page cannot be written: %w", err)
	}
	return errors.Join(jmhreport.HTML(out, r), out.Close())
}

func jmhCompare(w io.Writer, stdin io.Reader, files []string, opts jmhOptions) error {
	a, err := jmhResults(stdin, files[0])
	if err != nil {
		return err
	}
	b, err := jmhResults(stdin, files[1])
	if err != nil {
		return err
	}
	c, err := jmhreport.Compare(a, b, opts.Metrics)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	switch {
	case opts.json:
		return writeJSON(w, c)
	case opts.markdown:
		return jmhreport.CompareMarkdown(w, c)
	}
	return jmhreport.CompareText(w, c)
}

// jmhResults reads a file, or standard input for "-".
func jmhResults(stdin io.Reader, name string) ([]jmh.Result, error) {
	const write = "write one with: java -jar benchmarks.jar -rf json -rff FILE"
	in := stdin
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &exitError{exitTarget, fmt.Errorf("%s: no such file\n%s", name, write)}
		} else if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
		name = filepath.Base(name)
	}
	results, err := jmh.Read(in, name)
	if err != nil {
		return nil, &exitError{exitTarget, fmt.Errorf("%w\n%s", err, write)}
	}
	return results, nil
}
