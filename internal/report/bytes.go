// Package report says what footprints, findings, diffs, fits and experiments
// mean, as documents (package document), and converts fits and diffs to their
// JSON forms.
package report

import "fmt"

// MiB is how many bytes the unit of every report has.
const MiB = 1 << 20

// Size shows bytes in MiB with one decimal, from 10 GiB on in GiB.
func Size(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/MiB)
}
