package fit

import (
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/trial"
)

func TestBaselineErrorNamesTheHeap(t *testing.T) {
	own, err := jvmopts.Read(jvmopts.Input{Args: []string{"-Xmx64m", "Main"}})
	if err != nil {
		t.Fatal(err)
	}
	weighed := &footprint.Footprint{Flags: map[string]string{"MaxHeapSize": "536870912"}}
	for name, c := range map[string]struct {
		verdict  trial.Verdict
		evidence string
		given    jvmopts.Options
		peak     *footprint.Footprint
		heap     int64
		by       string
	}{
		"follows the memory":      {verdict: trial.Thrashing, peak: weighed, heap: 512 * mib},
		"follows, and not seen":   {verdict: trial.Thrashing, heap: 512 * mib},
		"the user's own":          {verdict: trial.Thrashing, given: own, heap: 64 * mib, by: "-Xmx64m (command line)"},
		"the JVM says so":         {verdict: trial.OutOfMemory, evidence: "log: java.lang.OutOfMemoryError: Java heap space", peak: weighed, heap: 512 * mib},
		"another kind of memory":  {verdict: trial.OutOfMemory, evidence: "log: java.lang.OutOfMemoryError: Metaspace", peak: weighed},
		"slow for another reason": {verdict: trial.TooSlow, peak: weighed},
	} {
		s := &Search{Facts: Facts{Given: c.given}}
		b := Trial{Attempt: Attempt{LimitBytes: 2048 * mib}, Outcome: Outcome{Verdict: c.verdict, Result: &trial.Result{Evidence: []string{"first", c.evidence}, Peak: c.peak}}}
		if e := s.fails(b); e.HeapBytes != c.heap || e.HeapBy != c.by || e.Trial.Verdict != c.verdict {
			t.Errorf("%s: %d MiB by %q, want %d by %q", name, e.HeapBytes/mib, e.HeapBy, c.heap/mib, c.by)
		}
	}
}
