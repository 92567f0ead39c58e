package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/report"
)

// ledgerMoments are two moments of one JVM in a ledger.
type ledgerMoments struct{ dir, from, to string }

func (m *ledgerMoments) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.dir, "ledger", "", "compare two moments of a JVM in the ledger in this `folder`")
	cmd.Flags().StringVar(&m.from, "from", "", "the earlier `moment` (default: the first footprint)")
	cmd.Flags().StringVar(&m.to, "to", "", "the later `moment` (default: the last footprint)")
}

// given says that a flag of these was given.
func (m *ledgerMoments) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("ledger") || cmd.Flags().Changed("from") || cmd.Flags().Changed("to")
}

func (m *ledgerMoments) check(args []string, in container) error {
	switch {
	case m.dir == "":
		return usageError(errors.New("--from and --to are moments of a ledger: name it with --ledger FOLDER"))
	case len(args) != 1 || in != "":
		return usageError(errors.New("diff --ledger takes one JVM: a PID, a container, a pod, a jar or a main class"))
	}
	for _, text := range []string{m.from, m.to} {
		if _, err := momentOf(text, time.Now()); text != "" && err != nil {
			return usageError(err)
		}
	}
	return nil
}

// momentOf is the moment that a text means; last is that of the last footprint.
func momentOf(text string, last time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return last.Add(-d), nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			year, month, day := last.Local().Date()
			return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, time.Local), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no moment: write it as 14:05, 2026-11-24T14:05:00Z, or 10m for ten minutes before the last footprint", text)
}

// compare compares the two moments of the JVM that a name means.
func (m *ledgerMoments) compare(name string) (*report.Diff, error) {
	r, p, err := inLedger(m.dir, name)
	if err != nil {
		return nil, err
	}
	var first, last *footprint.Footprint
	if _, err := r.Footprints(p, 0, func(_ uint64, f *footprint.Footprint) bool {
		first, last = cmp.Or(first, f), f
		return true
	}); err != nil {
		return nil, ledgerReadError(err)
	}
	a, err := m.at(r, p, m.from, first, last)
	if err != nil {
		return nil, err
	}
	b, err := m.at(r, p, m.to, last, last)
	if err != nil {
		return nil, err
	}
	ledger.KeepCommonParts(a, b)
	return report.Compare("the ledger", a, "the ledger", b), nil
}

// at is the footprint of a moment, or the usual one where none is given.
func (m *ledgerMoments) at(r *ledger.Reader, p ledger.Process, text string, usual, last *footprint.Footprint) (*footprint.Footprint, error) {
	if text == "" {
		return usual, nil
	}
	at, err := momentOf(text, last.Time)
	if err != nil {
		return nil, usageError(err)
	}
	f, err := r.At(p, at)
	if err != nil {
		return nil, footprintError(p, err)
	}
	return f, nil
}
