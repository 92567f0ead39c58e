package main

import (
	"fmt"
	"slices"
	"strings"

	"tare.dev/tare/internal/jarfile"
	"tare.dev/tare/internal/testkit/results"
)

func jarClasses(path string) (int64, error) {
	j, err := jarfile.Open(path)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	return int64(j.Classes()), nil
}

// survivalText is the table of all cells, and what the goal makes of it.
func (b *bench) survivalText(done map[cell]outcome) string {
	var t strings.Builder
	fmt.Fprintf(&t, "## Survival\n\nThe demo service in a control group of that size, awaited until ready, then %v of warm-up and %v of load, a closed loop of %d requests at a time "+
		"to `/sys-summary`, `/sys-stat` and `PUT /sys-stat`; %d run(s) of each. A number is the most MiB that the group needed, page cache left out (median), where every run survived: got ready, was alive at the end, and nothing in the group was killed. "+
		"Otherwise it says how it ended.\n\n", warmupTime, loadTime, concurrency, b.repeats)
	for _, w := range b.all {
		if slices.Contains(b.ways, w.Name) {
			fmt.Fprintf(&t, "- **%s**: %s\n", w.Name, w.Is)
		}
	}
	fmt.Fprintf(&t, "\n| MiB | JDK | %s | tare's options |\n|---|---|%s---|\n", strings.Join(b.ways, " | "), strings.Repeat("---|", len(b.ways)))
	var lost, alone []string
	for _, size := range b.sizes {
		for _, jdk := range b.jdks {
			fmt.Fprintf(&t, "| %d | %s |", size, jdk)
			var survivors []string
			for _, w := range b.ways {
				text, ok := b.cellText(done, jdk, size, w)
				fmt.Fprintf(&t, " %s |", text)
				if ok {
					survivors = append(survivors, w)
				}
			}
			o := done[cell{jdk, size, "tare", 0}]
			fmt.Fprintf(&t, " %s |\n", strings.Join(o.Options, " "))
			switch tare := slices.Contains(survivors, "tare"); {
			case !tare && len(survivors) > 0:
				lost = append(lost, fmt.Sprintf("%d MiB on JDK %s, where %s does", size, jdk, strings.Join(survivors, ", ")))
			case tare && len(survivors) == 1:
				alone = append(alone, fmt.Sprintf("%d MiB on JDK %s", size, jdk))
			}
		}
	}
	fmt.Fprintf(&t, "\nThe goal, that tare-exec survives wherever any other way does: %s.\n", results.Reached(len(lost) == 0))
	for _, l := range lost {
		fmt.Fprintf(&t, "It does not survive in %s.\n", l)
	}
	if len(alone) > 0 {
		fmt.Fprintf(&t, "It alone survives in: %s.\n", strings.Join(alone, "; "))
	}
	t.WriteString(b.estimateText(done))
	return t.String()
}

// cellText is what was needed, or how a run ended that did not survive.
func (b *bench) cellText(done map[cell]outcome, jdk string, size int64, way string) (string, bool) {
	var needed []float64
	for repeat := range b.repeats {
		o := done[cell{jdk, size, way, repeat}]
		if !o.Survived {
			return o.Verdict, false
		}
		needed = append(needed, float64(o.NeededBytes)/mib)
	}
	return fmt.Sprintf("%.0f", results.Median(needed)), true
}

// estimateText compares what the launcher reckons beside the heap with what was
// there: what could not be reclaimed at the worst moment, less the heap.
func (b *bench) estimateText(done map[cell]outcome) string {
	var t strings.Builder
	t.WriteString("\n## The estimate\n\nMiB beside the heap: reckoned by the rules, and measured in the same run as the highest usage less page cache, less the resident heap.\n\n" +
		"| JDK | " + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(b.sizes), "[]")), " | ") + " |\n|---|" + strings.Repeat("---|", len(b.sizes)) + "\n")
	for _, jdk := range b.jdks {
		fmt.Fprintf(&t, "| %s |", jdk)
		for _, size := range b.sizes {
			o := done[cell{jdk, size, "tare", 0}]
			if o.EstimateBytes == 0 || o.HeapBytes == 0 {
				t.WriteString(" – |")
				continue
			}
			fmt.Fprintf(&t, " %d, %d |", o.EstimateBytes/mib, (o.NeededBytes-o.HeapBytes)/mib)
		}
		t.WriteString("\n")
	}
	return t.String()
}
