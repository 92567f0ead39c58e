package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/outdir"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
)

const (
	resultFile = "result.json"
	reportFile = "report.html"
)

// fitFolders are the folders that a fit writes to: --out, and one for its class
// archives. Either may be nil.
type fitFolders struct {
	out      *outdir.Dir
	archives runner.Archives
}

// openFolders opens the folders of a fit. In --out it removes the results of an
// earlier one, unless that goes on: trials of two fits in one folder could not be
// told apart.
func openFolders(ctx context.Context, c *fit.Config, o fitOptions, h *history, stderr io.Writer) (*fitFolders, error) {
	f := &fitFolders{}
	err := f.openOut(o)
	if err == nil {
		err = f.openArchives(ctx, c.Runner, o, h)
	}
	if errors.Is(err, runner.ErrNoArchives) {
		fmt.Fprintf(stderr, "class archives and extracted jars are not tried: %v\n", err)
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, f.closeBoth())
	}
	c.Out = f.out
	c.UseArchives(f.archives)
	return f, nil
}

func (f *fitFolders) openOut(o fitOptions) error {
	if o.out == "" {
		return nil
	}
	path, err := filepath.Abs(o.out)
	if err != nil {
		return fmt.Errorf("folder for results: %w", err)
	}
	if f.out, err = outdir.Open(path); err == nil && !o.resume {
		err = f.out.Clear(append([]string{resultFile, reportFile}, fit.OutFiles...)...)
	}
	var foreign *outdir.ForeignError
	var busy *outdir.BusyError
	if errors.As(err, &foreign) || errors.As(err, &busy) {
		return usageError(err)
	}
	return err
}

// openArchives makes the folder for class archives, with the other results or where the
// runner has such, or finds that of a fit that goes on.
func (f *fitFolders) openArchives(ctx context.Context, h runner.Host, o fitOptions, past *history) (err error) {
	if old := past.archiveDir(); old != "" {
		f.archives, err = h.OpenArchives(ctx, old)
	} else {
		var base string
		if f.out != nil {
			base = f.out.Path("archives")
		}
		f.archives, err = h.MakeArchives(ctx, base)
	}
	if err == nil && past != nil { // what is cut off can go on
		err = f.archives.Keep(ctx)
	}
	return err
}

// keep keeps the archives where the answer names one, also when ctx has ended.
func (f *fitFolders) keep(ctx context.Context, r *fit.Result) error {
	if f.archives == nil || r.Archive == "" && r.Setup.Jar == "" {
		return nil
	}
	return f.archives.Keep(context.WithoutCancel(ctx))
}

// write writes the result to --out.
func (f *fitFolders) write(r *fit.Result, failure error) error {
	if f.out == nil {
		return nil
	}
	err := f.out.Write(resultFile, func(w io.Writer) error { return report.WriteFitJSON(w, r, failure) })
	if len(r.Trials) > 0 {
		err = errors.Join(err, f.out.Write(reportFile, func(w io.Writer) error { return document.WriteHTML(w, report.FitPage(r, failure)) }))
	}
	return err
}

func (f *fitFolders) close(stderr io.Writer) {
	if err := f.closeBoth(); err != nil {
		fmt.Fprintf(stderr, "note: %v\n", err)
	}
}

func (f *fitFolders) closeBoth() (err error) {
	if f.out != nil {
		err = f.out.Close()
	}
	if f.archives != nil {
		err = errors.Join(err, f.archives.Close())
	}
	return err
}
