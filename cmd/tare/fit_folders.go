package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"tare.dev/tare/internal/cachedir"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/outdir"
	"tare.dev/tare/internal/report"
)

const (
	resultFile = "result.json"
	reportFile = "report.html"
)

// fitFolders are the folders that a fit writes to: --out, and one for its class
// archives. Either may be nil.
type fitFolders struct {
	out      *outdir.Dir
	archives *fit.ArchiveDir
}

// openFolders opens the folders of a fit. In --out it removes the results of an
// earlier one, unless that goes on: trials of two fits in one folder could not be
// told apart.
func openFolders(c *fit.Config, o fitOptions, h *history) (*fitFolders, error) {
	f := &fitFolders{}
	err := f.openOut(o)
	if err == nil {
		err = f.openArchives(o, h)
	}
	if err != nil {
		return nil, errors.Join(err, f.closeOut())
	}
	c.Out = f.out
	if f.archives != nil {
		c.ArchiveDir = f.archives.Path()
	}
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

// openArchives makes the folder for class archives, with the other results or in
// the cache, or finds that of a fit that goes on.
func (f *fitFolders) openArchives(o fitOptions, h *history) error {
	var err error
	if old := h.archiveDir(); old != "" {
		f.archives, err = fit.OpenArchiveDir(old)
	} else {
		base := filepath.Join(o.out, "archives")
		if o.out == "" {
			cache, err := cachedir.Path()
			if err != nil {
				return fmt.Errorf("folder for class archives: %w, or give --out", err)
			}
			base = filepath.Join(cache, "archives")
		}
		if base, err = filepath.Abs(base); err == nil {
			f.archives, err = fit.MakeArchiveDir(base)
		}
	}
	if err == nil && h != nil { // what is cut off can go on
		err = f.archives.Keep()
	}
	return err
}

// keep keeps the archives where the answer names one.
func (f *fitFolders) keep(r *fit.Result) error {
	if f.archives == nil || r.Archive == "" && r.Setup.Jar == "" {
		return nil
	}
	return f.archives.Keep()
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
	err := f.closeOut()
	if f.archives != nil {
		err = errors.Join(err, f.archives.Close())
	}
	if err != nil {
		fmt.Fprintf(stderr, "note: %v\n", err)
	}
}

func (f *fitFolders) closeOut() error {
	if f.out == nil {
		return nil
	}
	return f.out.Close()
}
