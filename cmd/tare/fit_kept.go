package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/outdir"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/store"
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
			return withStore(cmd.Context(), file, func(s store.Store) error { return fitList(cmd.Context(), cmd.OutOrStdout(), s, asJSON) })
		},
	}
	cmd.Flags().StringVar(&file, "store", "", storeHelp)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON (schema "+report.FitListSchema+")")
	return cmd
}

// newFitShowCommand is "tare fit show".
func newFitShowCommand() *cobra.Command {
	var file string
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:     "show [flags] ID",
		Short:   "The result of a fit, or how far it is",
		Example: "  tare fit show 3",
		Args:    oneFit,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withFit(cmd.Context(), file, args[0], func(f store.Fit, r *fit.Result) error { return fitShow(cmd.OutOrStdout(), f, r, asJSON, markdown) })
		},
	}
	cmd.Flags().StringVar(&file, "store", "", storeHelp)
	formats(cmd, &asJSON, &markdown, report.FitSchema)
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

// newFitDeleteCommand is "tare fit delete".
func newFitDeleteCommand() *cobra.Command {
	var location string
	cmd := &cobra.Command{
		Use:   "delete [flags] ID...",
		Short: "Remove fits from the history",
		Long: `Delete removes fits and all their trials from the history, all that are named or
none. The reports, logs and class archives that a fit wrote to its folder stay.
A fit that is running cannot be deleted.

Exit codes: ` + exitCodesHelp,
		Example: "  tare fit delete 3 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			return fitDelete(cmd.Context(), cmd.OutOrStdout(), location, args)
		},
	}
	cmd.Flags().StringVar(&location, "store", "", storeHelp)
	return cmd
}

func fitDelete(ctx context.Context, w io.Writer, location string, args []string) error {
	if len(args) == 0 {
		return usageError(errors.New("give the numbers of fits: see tare fit list"))
	}
	var ids []int64
	for _, a := range args {
		id, err := fitID(a)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return withStore(ctx, location, func(s store.Store) error {
		err := s.Delete(ctx, ids...)
		if busy := (*store.BusyError)(nil); errors.As(err, &busy) {
			return usageError(fmt.Errorf("%w: nothing was deleted; end it first", err))
		}
		if err != nil {
			return notFound(err)
		}
		_, err = fmt.Fprintf(w, "deleted %d of the fits in %s\n", len(ids), s.Location())
		return err
	})
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

func withStore(ctx context.Context, file string, do func(store.Store) error) error {
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
	return withStore(ctx, file, func(s store.Store) error {
		f, err := s.Fit(ctx, id)
		if err != nil {
			return notFound(err)
		}
		r, err := store.Result(ctx, s, f)
		if err != nil {
			return err
		}
		return do(f, r)
	})
}

func fitList(ctx context.Context, w io.Writer, s store.Store, asJSON bool) error {
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
	return show(w, report.FitList(fits), false)
}

func fitShow(w io.Writer, f store.Fit, r *fit.Result, asJSON, markdown bool) error {
	switch {
	case asJSON:
		return report.WriteFitJSON(w, r, f.Unanswered())
	case markdown:
		return document.WriteMarkdown(w, report.FitPage(r, f.Unanswered()))
	case f.State == store.Done:
		return show(w, report.Fit(r), false)
	}
	return show(w, report.FitUnanswered(r, f.Unanswered()), false)
}

func fitReport(w io.Writer, f store.Fit, r *fit.Result, file string) error {
	if file == "-" {
		return document.WriteHTML(w, report.FitPage(r, f.Unanswered()))
	}
	if file == "" {
		file = fmt.Sprintf("fit-%d.html", f.ID)
	}
	if err := writeFitHTML(file, r, f.Unanswered()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n", file)
	return err
}

// writeFitHTML writes the report whole, or leaves an earlier one alone.
func writeFitHTML(file string, r *fit.Result, failure error) error {
	return outdir.WriteFile(file, func(w io.Writer) error { return document.WriteHTML(w, report.FitPage(r, failure)) })
}
