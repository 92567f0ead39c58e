package fit

import (
	"testing"

	"tare.dev/tare/internal/trial"
)

// A bundle that failed sheds what can have failed it by what the trial showed.
func TestSplitByEvidence(t *testing.T) {
	heap, compiler, threads, place := Lever{ID: "heap", Harms: []Harm{HarmHeap}}, Lever{ID: "compiler", Harms: []Harm{HarmSpeed}}, Lever{ID: "threads", Harms: []Harm{HarmLatency}}, Lever{ID: "place"}
	all := []Lever{heap, compiler, threads, place}
	s := &Search{}
	for _, c := range []struct {
		verdict  trial.Verdict
		suspects []string
	}{
		{trial.OutOfMemory, []string{"heap"}},
		{trial.Thrashing, []string{"heap"}},
		{trial.TooSlow, []string{"compiler"}},
		{trial.OOMKilled, []string{"threads", "place"}}, // none: in halves
		{trial.Crashed, []string{"threads", "place"}},
	} {
		rest, suspects := split(all, s.suspect(Trial{Outcome: Outcome{Verdict: c.verdict}}))
		if len(rest)+len(suspects) != len(all) || len(suspects) != len(c.suspects) {
			t.Errorf("%s: %d of %d levers are suspects", c.verdict, len(suspects), len(all))
			continue
		}
		for i, l := range suspects {
			if l.ID != c.suspects[i] {
				t.Errorf("%s: %s is suspected, want %s", c.verdict, l.ID, c.suspects[i])
			}
		}
	}
}
