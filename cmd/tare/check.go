package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/trial"
	"tare.dev/tare/internal/yamlfile"
)

const checkLong = `Check tells whether a program keeps the memory budget in tare.budget.yaml: what it
may need at most, and how much more than a base. It builds and starts the program,
puts a fixed number of requests, and weighs it, some eight times; a base runs in
turn with it. What fails is named: the owner, and the classes, threads, files, jars
and options that made it grow.

A program is a command, an image, or a service of a Compose file; benchmarks of JMH
and tests of JUnit are checked by the results that they write.

--base is a git reference, which is checked out and built in a folder of its own;
or a file that ends in .json, the --result of an earlier check that passed on the
same machine with the same JDK; or, where the budget has an image or a service,
another image.

Who may make no control groups is told what is measured all the same: all but what a
group counts, unlimited.

A bound fails only where fresh runs repeat that it does. Where the machine is too
noisy to tell, the answer is "not known", with an exit code of its own.

Exit codes: ` + exitCodesHelp

func newCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "A memory budget for continuous integration",
		Long:  checkLong,
		Example: `  tare check
  tare check --base origin/main --format markdown
  tare check --base origin/main --result check.json --record trend.jsonl
  tare check accept check.json --reason 'the new cache holds 4 MiB'
  tare check trend trend.jsonl --html trend.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCheck(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.budget, "budget", budget.FileName, "the budget, a `file`")
	f.StringVar(&o.base, "base", "", "what growth is measured against: a git `reference`, a result file, or an image")
	f.StringVar(&o.format, "format", "text", "text, json (schema "+check.Schema+"), markdown or junit")
	f.StringVar(&o.result, "result", "", "write the result to this `file`, for --base and tare check accept")
	f.StringArrayVar(&o.reports, "report", nil, "show the result in this `file` too: .md, .xml (JUnit), .json or .txt; may be given again")
	f.StringVar(&o.record, "record", "", "append what the head needs to this trend `file`")
	f.StringVar(&o.parent, "cgroup-parent", "", "control group to make groups in (default: the one tare runs in)")
	cmd.AddCommand(newCheckAccept(), newCheckTrend(), newCheckSchema())
	return cmd
}

// checkOptions are what a check is asked for.
type checkOptions struct {
	budget, base, format, result, record, parent string
	reports                                      []string
}

// checkFormats are how a result can be shown.
var checkFormats = map[string]func(w io.Writer, r *check.Result) error{
	"text":     func(w io.Writer, r *check.Result) error { return show(w, report.Check(r), false) },
	"markdown": func(w io.Writer, r *check.Result) error { return show(w, report.Check(r), true) },
	"json":     func(w io.Writer, r *check.Result) error { return writeJSON(w, r) },
	"junit":    report.WriteJUnit,
}

// reportFormats are the formats of files, by the end of the name.
var reportFormats = map[string]string{".txt": "text", ".md": "markdown", ".json": "json", ".xml": "junit"}

// clearReports refuses reports that cannot be written, and removes earlier ones: a check that
// breaks off leaves none.
func clearReports(files []string) error {
	for _, file := range files {
		if reportFormats[filepath.Ext(file)] == "" {
			return usageError(fmt.Errorf("--report %s: name a file that ends in .md, .xml, .json or .txt", file))
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return usageError(fmt.Errorf("--report: %w", err))
		}
	}
	return nil
}

func writeReports(files []string, r *check.Result) error {
	for _, file := range files {
		var text bytes.Buffer
		if err := checkFormats[reportFormats[filepath.Ext(file)]](&text, r); err != nil {
			return err
		}
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			return usageError(fmt.Errorf("--report: %w", err))
		}
	}
	return nil
}

func runCheck(ctx context.Context, stdout, stderr io.Writer, o checkOptions) error {
	format, ok := checkFormats[o.format]
	if !ok {
		return usageError(fmt.Errorf("--format %q: give text, json, markdown or junit", o.format))
	}
	b, digest, err := readBudget(o.budget)
	if err != nil {
		return err
	}
	if err := clearReports(o.reports); err != nil {
		return err
	}
	s := &checkSession{options: o, budget: b, stderr: stderr}
	if err := s.checkBase(); err != nil {
		return err
	}
	// Whatever ends this check, what an earlier one left is not taken for its result.
	if err := s.keep(&check.Result{Schema: check.Schema, Time: time.Now().UTC(), Verdict: check.Broken, Error: "the check did not end", Budget: digest}); err != nil {
		return err
	}
	r, err := s.run(ctx)
	if err != nil {
		err = checkError(err)
		return errors.Join(err, s.keep(&check.Result{Schema: check.Schema, Time: time.Now().UTC(), Verdict: check.Broken, Error: err.Error(), Budget: digest}))
	}
	r.Budget = digest
	if err := s.keep(r); err != nil {
		return err
	}
	if o.record != "" {
		if err := r.Record(o.record); err != nil {
			return usageError(err)
		}
	}
	if err := errors.Join(writeReports(o.reports, r), format(stdout, r)); err != nil {
		return err
	}
	switch r.Verdict {
	case check.Failed:
		return &exitError{exitOverBudget, nil}
	case check.Unknown:
		return &exitError{exitNotKnown, nil}
	}
	return nil
}

// readBudget reads a budget, and returns the digest of its file.
func readBudget(name string) (*budget.Budget, string, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", usageError(fmt.Errorf("budget: %w\nwrite one as docs/check.md shows, or name it with --budget", err))
	}
	if err != nil {
		return nil, "", usageError(fmt.Errorf("budget: %w", err))
	}
	b, err := budget.Read(bytes.NewReader(data), name)
	var mistake *yamlfile.Error
	if errors.As(err, &mistake) {
		return nil, "", usageError(err)
	}
	sum := sha256.Sum256(data)
	return b, hex.EncodeToString(sum[:]), err
}

// checkError gives an error of a check its exit code and next step.
func checkError(err error) error {
	var build *check.BuildError
	var failed *check.RunError
	var port *trial.PortInUseError
	switch {
	case errors.As(err, &build):
		return fmt.Errorf("%w\nmend the build, or the budget's build", err)
	case errors.As(err, &failed):
		return &exitError{exitNotReady, fmt.Errorf("%w\nstart it by hand with the budget's command, and see what it lacks", err)}
	case errors.As(err, &port):
		return &exitError{exitNotReady, err}
	case errors.Is(err, check.ErrBase), errors.Is(err, check.ErrReference):
		return usageError(err)
	}
	return fitError(err)
}

// checkSession is a check under way.
type checkSession struct {
	options checkOptions
	budget  *budget.Budget
	stderr  io.Writer
	earlier *check.Result
}

// checkBase says what of --base does not go with the budget, and reads the result that it
// names.
func (s *checkSession) checkBase() error {
	absolute := slices.ContainsFunc(s.budget.Bounds(), func(b budget.Bound) bool { return !b.Growth })
	base := s.options.base
	switch {
	case base == "" && !absolute:
		return usageError(errors.New("the budget bounds growth, and there is no base\ngive one, such as: tare check --base origin/main"))
	case base == "":
		if len(s.budget.Bounds()) > len(s.budget.Against(false, nil)) {
			fmt.Fprintln(s.stderr, "note: growth is left out, for there is no --base")
		}
		return nil
	case !slices.ContainsFunc(s.budget.Bounds(), func(b budget.Bound) bool { return b.Growth }):
		return usageError(errors.New("--base: the budget bounds no growth: add growth to it, such as growth: {needed: 2%}"))
	case !strings.HasSuffix(base, ".json"):
		return nil
	}
	f, err := os.Open(base)
	if err != nil {
		return usageError(fmt.Errorf("base: %w", err))
	}
	defer f.Close()
	if s.earlier, err = check.ReadResult(f, base); err != nil {
		return usageError(fmt.Errorf("base: %w", err))
	}
	return nil
}

// keep writes a result to --result.
func (s *checkSession) keep(r *check.Result) error {
	if s.options.result == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.options.result, append(text, '\n'), 0o644); err != nil {
		return usageError(fmt.Errorf("result: %w", err))
	}
	return nil
}

func (s *checkSession) run(ctx context.Context) (r *check.Result, err error) {
	dir, err := filepath.Abs(filepath.Dir(s.options.budget))
	if err != nil {
		return nil, err
	}
	c := &check.Check{Budget: s.budget, Earlier: s.earlier, Observe: func(step check.Step) { report.CheckProgress(s.stderr, step) }}
	// A tree that git does not know is checked all the same, but for a base of it.
	tree, treeErr := check.OpenTree(ctx, dir)
	base := namedBase{name: s.options.base}
	if base.name != "" && s.earlier == nil { // before anything is built
		if base, err = s.findBase(ctx, tree, treeErr); err != nil {
			return nil, err
		}
	}
	if treeErr != nil {
		tree = nil
	}
	c.Head = s.head(ctx, tree)
	places := &checkPlaces{parent: s.options.parent, stderr: s.stderr, bounds: s.budget.Bounds()}
	defer func() { err = errors.Join(err, places.close()) }()
	if err := places.open(s.budget); err != nil {
		return nil, err
	}
	if err := check.Build(ctx, c.Head.Name, dir, s.budget.Build, s.stderr); err != nil {
		return nil, err
	}
	if c.Head.What, err = places.source(ctx, s.budget, dir, ""); err != nil {
		return nil, err
	}
	switch {
	case base.commit != "":
		c.Base, err = s.buildBase(ctx, tree, base.commit, places)
	case base.image != "":
		c.Base = &check.Subject{Name: base.image}
		c.Base.What, err = places.source(ctx, s.budget, dir, base.image)
	}
	if err != nil {
		return nil, err
	}
	if r, err = c.Run(ctx); err != nil {
		return nil, err
	}
	r.Warnings = append(r.Warnings, places.notes...)
	return r, nil
}

// namedBase is what --base names: a commit, or an image.
type namedBase struct{ name, commit, image string }

// findBase finds out what --base names: an image where the budget has one; a commit, or
// else an image, where it has a service of a Compose file; and else a commit.
func (s *checkSession) findBase(ctx context.Context, tree *check.Tree, treeErr error) (namedBase, error) {
	base := namedBase{name: s.options.base}
	if s.budget.Run.Image != "" {
		base.image = base.name
		return base, nil
	}
	err := treeErr
	if err == nil {
		base.commit, err = tree.Resolve(ctx, base.name)
	}
	switch {
	case err == nil:
		return base, nil
	case s.budget.Compose != nil:
		base.image = base.name
		return base, nil
	case treeErr != nil:
		return base, usageError(fmt.Errorf("--base %s: %w", base.name, treeErr))
	}
	return base, err
}

// head is what is checked; tree is nil where git does not know it.
func (s *checkSession) head(ctx context.Context, tree *check.Tree) check.Subject {
	head := check.Subject{Name: cmp.Or(string(s.budget.Run.Image), "the working tree"), Accepted: s.budget.Accepted}
	if tree == nil {
		return head
	}
	commit, changed, err := tree.Head(ctx)
	if err != nil {
		return head // before the first commit
	}
	if head.Commit = commit; changed {
		head.Commit += "-changed"
	}
	return head
}

// buildBase checks a base out and builds it. What starts it is in its own budget, if it has
// one; load and limits are the head's.
func (s *checkSession) buildBase(ctx context.Context, tree *check.Tree, commit string, places *checkPlaces) (*check.Subject, error) {
	dir, remove, err := tree.CheckOut(ctx, commit)
	if err != nil {
		return nil, err
	}
	places.checkedOut = remove
	base := &check.Subject{Name: s.options.base, Commit: commit}
	b := s.budget
	own, _, err := readBudget(filepath.Join(dir, filepath.Base(s.options.budget)))
	switch {
	case err == nil:
		base.Accepted = own.Accepted
		if b, err = own.Under(s.budget); err != nil {
			return nil, usageError(fmt.Errorf("--base %s: %w", s.options.base, err))
		}
	case !errors.Is(err, os.ErrNotExist):
		fmt.Fprintf(s.stderr, "note: the base's own budget cannot be read, and the head's says what is started: %v\n", err)
	}
	if err := check.Build(ctx, "the base "+s.options.base, dir, b.Build, s.stderr); err != nil {
		return nil, err
	}
	base.What, err = places.source(ctx, b, dir, "")
	return base, err
}

func newCheckAccept() *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "accept RESULT",
		Short: "Write what failed into the budget, with the reason",
		Long: `Accept changes the budget so that the bounds which failed in a result hold: a bound
of a measure itself becomes what was measured, and growth is noted with the reason.
Noted growth counts against a base that does not have the note yet: it is for one
change, and its review. Comments in the budget stay.

It takes the result of the commit that is checked out, of a check that ended.`,
		Example: `  tare check accept check.json --reason 'the new cache holds 4 MiB'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(errors.New("accept takes the result of a check\nmake one with: tare check --result check.json"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return acceptCheck(cmd.Context(), cmd.OutOrStdout(), file, args[0], reason)
		},
	}
	cmd.Flags().StringVar(&file, "budget", budget.FileName, "the budget, a `file`")
	cmd.Flags().StringVar(&reason, "reason", "", "why more is needed, a `text` for the review")
	return cmd
}

func acceptCheck(ctx context.Context, stdout io.Writer, file, result, reason string) error {
	if strings.TrimSpace(reason) == "" || strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' }) {
		return usageError(errors.New("--reason: say in one line why more is needed"))
	}
	if len(reason) > budget.MaxText {
		return usageError(fmt.Errorf("--reason: say it in at most %d characters", budget.MaxText))
	}
	_, digest, err := readBudget(file)
	if err != nil {
		return err
	}
	f, err := os.Open(result)
	if err != nil {
		return usageError(fmt.Errorf("result: %w", err))
	}
	defer f.Close()
	r, err := check.ReadResult(f, result)
	if err != nil {
		return usageError(err)
	}
	if err := isOf(ctx, r, file, digest); err != nil {
		return usageError(fmt.Errorf("%s %w: check again", result, err))
	}
	change, err := r.Accept(strings.TrimSpace(reason), time.Now())
	if err != nil {
		return usageError(fmt.Errorf("%s: %w", result, err))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := budget.Accept(data, file, change)
	if err != nil {
		return err
	}
	if err := replaceFile(file, text); err != nil {
		return err
	}
	for _, list := range []map[string]lab.Scalar{change.Most, change.Growth} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			fmt.Fprintf(stdout, "%s: %s\n", name, list[name])
		}
	}
	_, err = fmt.Fprintf(stdout, "written to %s\n", file)
	return err
}

// isOf says why a result is not of what a budget says, and of what is checked out.
func isOf(ctx context.Context, r *check.Result, file, digest string) error {
	if r.Budget != digest {
		return errors.New("is of another budget than " + file)
	}
	if r.Commit == "" {
		return nil
	}
	tree, err := check.OpenTree(ctx, cmp.Or(filepath.Dir(file), "."))
	if err != nil {
		return err
	}
	commit, _, err := tree.Head(ctx)
	if err != nil {
		return err
	}
	if of, _, _ := strings.Cut(r.Commit, "-"); of != commit {
		return fmt.Errorf("is of commit %.12s, and %.12s is checked out", of, commit)
	}
	return nil
}

// replaceFile puts another text in the place of a file, whole or not at all.
func replaceFile(name string, text []byte) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".tare-budget-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(st.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// trendCommits is how many commits a trend shows.
const trendCommits = 100

func newCheckTrend() *cobra.Command {
	var html string
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "trend FILE",
		Short: "What the last hundred commits needed",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(errors.New("trend takes the file of tare check --record"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err != nil {
				return usageError(fmt.Errorf("trend: %w", err))
			}
			points, err := check.ReadTrend(args[0], trendCommits)
			if err != nil {
				return usageError(err)
			}
			d := report.Trend(points, filepath.Base(args[0]))
			switch {
			case html != "":
				return writeLabPage(html, d)
			case asJSON:
				return document.WriteJSON(cmd.OutOrStdout(), d)
			}
			return show(cmd.OutOrStdout(), d, markdown)
		},
	}
	withPlots(cmd, &asJSON, &markdown, &html)
	return cmd
}

func newCheckSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "The JSON Schema of budget files, for editors",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), budget.Schema)
			return err
		},
	}
}
