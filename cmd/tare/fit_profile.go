package main

import (
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
)

// writeProfile writes what a fit has proven, for the launcher.
func writeProfile(path string, r *fit.Result) error {
	p, err := newProfile(r)
	if err != nil {
		return err
	}
	return p.Write(path)
}

func newProfile(r *fit.Result) (*profile.Profile, error) {
	p := &profile.Profile{
		Schema: profile.Schema, Time: r.Time.UTC().Format(time.RFC3339), JDK: r.Config.Java.Version, Arch: r.Machine.Arch,
		LimitBytes: r.LimitBytes, CPUs: r.Config.CPUs, Cpuset: r.Config.Cpuset, Options: append([]string{}, r.Setup.Options...), Env: r.Setup.Env, NoHugePages: r.Setup.NoHugePages,
		UnpaidBytes: r.UnpaidBytes, PeakBytes: report.Recommended(r).PeakBytes,
	}
	if r.Peak != nil {
		p.Peaks = map[string]int64{}
		for _, row := range r.Peak.Rows {
			p.Peaks[string(row.Owner)] = row.ResidentBytes
		}
	}
	if r.Archive == "" {
		return p, nil
	}
	var err error
	p.Archive, err = profile.DescribeArchive(r.Archive)
	return p, err
}
