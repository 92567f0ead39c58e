package autopsy

import "tare.dev/tare/internal/ledger"

// Bounds of what is kept of an autopsy: a record has at most 64 KiB.
const (
	keptItems = 12
	keptText  = 1000
)

// Examine makes the autopsy of a JVM of the ledger. The error is ErrNotFound.
func (s Sources) Examine(id ledger.ID) (*Report, error) {
	p, found, err := s.Ledger.Process(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNotFound
	}
	return s.examine(p)
}

// Kept is what a ledger keeps of an autopsy.
func (r *Report) Kept() *ledger.Autopsy {
	a := &ledger.Autopsy{JVM: r.JVM.ID, Verdict: string(r.Verdict), Confidence: string(r.Confidence), Headline: brief(r.Headline), What: brief(r.What),
		Evidence: []ledger.Fact{}, Growth: []ledger.Change{}, Do: []ledger.Step{}}
	for _, e := range r.Evidence[:min(len(r.Evidence), keptItems)] {
		a.Evidence = append(a.Evidence, ledger.Fact{Source: e.Source, Text: brief(e.Text)})
	}
	for _, g := range r.Growth[:min(len(r.Growth), keptItems)] {
		if g.Change() != 0 {
			a.Growth = append(a.Growth, ledger.Change{Account: string(g.Account), From: g.From, To: g.To})
		}
	}
	for _, d := range r.Do[:min(len(r.Do), keptItems)] {
		a.Do = append(a.Do, ledger.Step{Option: brief(d.Option), Text: brief(d.Text)})
	}
	return a
}

// brief cuts a text: names of the JVM's own are in it.
func brief(text string) string {
	if r := []rune(text); len(r) > keptText {
		return string(r[:keptText]) + "…"
	}
	return text
}
