// Package report shows footprints and fits to people: on a terminal, and as
// lines to paste.
package report

import "fmt"

// MiB is the unit of every report.
const MiB = 1 << 20

// Size shows bytes in MiB, with GiB from 10 GiB on.
func Size(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/MiB)
}
