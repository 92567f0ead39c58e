package doctor

import (
	"fmt"

	"tare.dev/tare/internal/footprint"
)

const (
	// guardBytes is the zone below a Java stack that the JVM protects: red,
	// yellow and reserved pages, which are not resident.
	guardBytes = 16 * kib
	// misleading is by how much a figure must be off to mislead.
	misleading = mib
	// mergedThreads is how many threads' stacks are likely to be neighbours.
	mergedThreads = 20
)

// nmtMisleads: native memory tracking is on, and its figure for thread stacks
// is not what is resident.
func nmtMisleads(p *patient) *Finding {
	if !p.is("NativeMemoryTracking", "summary") && !p.is("NativeMemoryTracking", "detail") {
		return nil
	}
	row, threads := p.row(footprint.ThreadStacks), int64(p.Threads)
	var says string
	switch {
	case p.major == 8 && row.ReservedBytes != nil && *row.ReservedBytes-row.ResidentBytes >= misleading:
		says = fmt.Sprintf("JDK 8 says what is reserved, about %s", size(*row.ReservedBytes))
	case p.major >= 11 && p.major <= 25 && threads*guardBytes >= misleading:
		says = fmt.Sprintf("JDK %d adds the guard zone of each Java thread, up to %s", p.major, size(threads*guardBytes))
	case p.major >= 26 && threads >= mergedThreads:
		says = fmt.Sprintf("JDK %d takes neighbouring stacks for one, and says far too little", p.major)
	default:
		return nil
	}
	return &Finding{
		Title:     "Native memory tracking misleads about thread stacks.",
		Certainty: Certain,
		Evidence:  []string{fmt.Sprintf("%s are resident in the stacks of %d threads", size(row.ResidentBytes), threads), says},
		Do:        []string{fmt.Sprintf("use the resident bytes instead: tare weigh %d", p.PID)},
		Source:    "https://docs.oracle.com/en/java/javase/21/vm/native-memory-tracking.html",
	}
}
