package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"tare/internal/fit"
	"tare/internal/report"
	"tare/internal/store"
)

// newFitListCommand is "tare fit list".
func newFitListCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "The fits that were made, and how far they are",
		Example: "  tare fit list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd.Context(), file, func(s *store.Store) error { return fitList(cmd.Context(), cmd.OutOrStdout(), s, asJSON) })
		},
	}
	cmd.Flags().StringVar(&file, "store", "", storeHelp)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON (schema "+report.FitListSchema+")")
	return cmd
}

// newFitShowCommand is "tare fit show".
func newFitShowCommand() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show [flags] ID",
		Short:   "The result of a fit, or how far it is",
		Example: "  tare fit show 3",
		Args:    oneFit,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withFit(cmd.Context(), file, args[0], func(f store.Fit, r *fit.Result) error { return fitShow(cmd.OutOrStdout(), f, r, asJSON) })
		},
	}
	cmd.Flags().StringVar(&file, "store", "", storeHelp)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON (schema "+report.FitSchema+")")
	return cmd
}

// newFitReportCommand is "tare fit report".
func newFitReportCommand() *cobra.Command {
	var file, html string
	cmd := &cobra.Command{
		Use:   "report [flags] ID",
		Short: "A report of a fit in one HTML file",
		Long: `Report writes a fit as one HTML file that needs no network: the answer, plots,
all trials, and what to paste.`,
		Example: "  tare fit report 3 --html fit.html",
		Args:    oneFit,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withFit(cmd.Context(), file, args[0], func(f store.Fit, r *fit.Result) error { return fitReport(cmd.OutOrStdout(), f, r, html) })
		},
	}
	cmd.Flags().StringVar(&file, "store", "", storeHelp)
	cmd.Flags().StringVar(&html, "html", "", "file to write, - for standard output (default: fit-ID.html)")
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}

func oneFit(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(errors.New("give the number of one fit: see tare fit list"))
	}
	return nil
}

func withStore(ctx context.Context, file string, do func(*store.Store) error) error {
	s, err := openStore(ctx, file)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

func withFit(ctx context.Context, file, number string, do func(store.Fit, *fit.Result) error) error {
	id, err := fitID(number)
	if err != nil {
		return err
	}
	return withStore(ctx, file, func(s *store.Store) error {
		f, err := s.Fit(ctx, id)
		if err != nil {
			return notFound(err)
		}
		r, err := s.Result(ctx, f)
		if err != nil {
			return err
		}
		return do(f, r)
	})
}

func fitList(ctx context.Context, w io.Writer, s *store.Store, asJSON bool) error {
	fits, err := s.Fits(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		b, err := json.MarshalIndent(report.NewFitListJSON(fits), "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(b, '\n'))
		return err
	}
	return report.FitList(w, fits, styleOf(w))
}

func fitShow(w io.Writer, f store.Fit, r *fit.Result, asJSON bool) error {
	switch {
	case asJSON:
		return report.WriteFitJSON(w, r, unanswered(f))
	case f.State == store.Done:
		return report.Fit(w, r, styleOf(w))
	}
	return report.FitUnanswered(w, r, unanswered(f), styleOf(w))
}

// unanswered says why a fit has no answer; nil when it has one.
func unanswered(f store.Fit) error {
	switch f.State {
	case store.Done:
		return nil
	case store.Failed:
		return errors.New(f.Ending.Failure)
	case store.Running:
		return fmt.Errorf("fit %d is running", f.ID)
	}
	return fmt.Errorf("fit %d was cut off after %d trials: go on with tare fit --resume %d", f.ID, f.Trials, f.ID)
}

func fitReport(w io.Writer, f store.Fit, r *fit.Result, file string) error {
	if file == "-" {
		return report.FitHTML(w, r, unanswered(f))
	}
	if file == "" {
		file = fmt.Sprintf("fit-%d.html", f.ID)
	}
	if err := writeFitHTML(file, r, unanswered(f)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n", file)
	return err
}

// writeFitHTML writes the report whole, or leaves an earlier one alone.
func writeFitHTML(file string, r *fit.Result, failure error) error {
	var b bytes.Buffer
	if err := report.FitHTML(&b, r, failure); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
