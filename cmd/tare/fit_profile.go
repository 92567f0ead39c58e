package main

import (
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
)

// writeProfile writes what a fit has proven, for the launcher.
func writeProfile(path string, r *fit.Result) error {
	p, err := newProfile(report.NewFitJSON(r, nil))
	if err != nil {
		return err
	}
	return p.Write(path)
}

// newProfile is the profile of a fit that has an answer.
func newProfile(r report.FitJSON) (*profile.Profile, error) {
	p := &profile.Profile{
		Schema: profile.Schema, Time: r.Time.Format(time.RFC3339), JDK: r.JDK, Arch: r.Arch,
		LimitBytes: *r.LimitBytes, CPUs: r.Limits.CPUs, Cpuset: r.Limits.Cpuset, Options: r.Options, Env: r.Env, NoHugePages: r.NoHugePages,
		UnpaidBytes: r.UnpaidBytes, PeakBytes: r.Recommended.PeakBytes,
	}
	if r.Peak != nil {
		p.Peaks = map[string]int64{}
		for _, row := range r.Peak.Rows {
			p.Peaks[string(row.Owner)] = row.ResidentBytes
		}
	}
	if r.Archive == nil {
		return p, nil
	}
	file := r.Archive.File
	if r.Image != nil {
		file = fit.Outside(r.Image.Files, file)
	}
	var err error
	if p.Archive, err = profile.DescribeArchive(file); err == nil {
		p.Archive.File = r.Archive.File
	}
	return p, err
}
