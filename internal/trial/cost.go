package trial

import "time"

// sameWork is how far the good answers of two loads may be apart for their
// costs to be compared. A JVM that answers more has more of it after it warmed
// up, so an answer costs it less.
const sameWork = 0.1

// AnswerCost is the processor time that the application used for one good
// answer of the measured load, and whether it was measured. It is of all that the
// application did meanwhile, compiling and collecting too.
func (r *Result) AnswerCost() (cost time.Duration, measured bool) {
	if r.Load == nil || r.LoadCPUTime <= 0 || r.Load.OK <= 0 {
		return 0, false
	}
	return r.LoadCPUTime / time.Duration(r.Load.OK), true
}

// CostRatio is the AnswerCost of b relative to that of a. It is comparable where
// both were measured and the counts of good answers are within 10 % of each
// other.
func CostRatio(a, b *Result) (ratio float64, comparable bool) {
	was, measured := a.AnswerCost()
	is, also := b.AnswerCost()
	if !measured || !also || was == 0 {
		return 0, false
	}
	more, less := float64(max(a.Load.OK, b.Load.OK)), float64(min(a.Load.OK, b.Load.OK))
	return float64(is) / float64(was), more <= less*(1+sameWork)
}
