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

// workCost is what a clause on Cost looks at: the processor time of one of so many answers
// in a window, over the share of it in which nothing waited for memory.
func workCost(cpu time.Duration, answers int64, waited float64) time.Duration {
	if answers <= 0 {
		return 0
	}
	return time.Duration(float64(cpu) / float64(answers) / (1 - min(mostWaited, max(0, waited))))
}

// paceRatio is how many times as long the same work took beside b as beside a; 1 where that
// is not known of both.
func paceRatio(a, b time.Duration) float64 {
	if a <= 0 || b <= 0 {
		return 1
	}
	return b.Seconds() / a.Seconds()
}

// CostAt is Cost on a machine of another pace; Cost itself where one of the two is not known.
func (m Measured) CostAt(pace time.Duration) time.Duration {
	return time.Duration(float64(m.Cost) * paceRatio(m.Pace, pace))
}

// mostWaited keeps the cost of what did nothing but wait finite.
const mostWaited = 0.99

// waited is the share of the window in which some thread waited for memory: for reclaim,
// or for a collector that runs beside.
func (e Evidence) waited() float64 {
	awaited, _ := e.AwaitShare()
	return max(awaited, e.ReclaimShare())
}

// CollectorOdds is the processor time that the collector's threads used over that of all
// others in the measured load or the job, and whether it was measured. A machine that is
// slower for a while is so for both.
func (r *Result) CollectorOdds() (odds float64, measured bool) {
	if r.Times == nil || r.Times.Group <= r.Times.Collector || r.JobTime <= 0 && (r.Load == nil || r.Load.OK <= 0) {
		return 0, false
	}
	return r.Times.Collector.Seconds() / (r.Times.Group - r.Times.Collector).Seconds(), true
}

// CollectorLoss is the share of its speed that a trial lost to its collector's threads,
// beyond what they use where there is room (CollectorOdds), and whether it
// is known: the processor time beyond, of what the application used, or of one processor
// for that time if that was more. One that waits for something else has processor time
// for its collector to spare.
func (r *Result) CollectorLoss(room float64) (share float64, known bool) {
	beyond, known := r.collectorBeyond(room)
	if !known {
		return 0, false
	}
	return beyond / max(r.Times.Group.Seconds(), r.Times.Age.Seconds()*oneProcessor(r.Limits.CPUs, r.Others)), true
}

// CollectorWork is the same of its processor time: what a clause on Cost looks at. There is none
// of that to spare.
func (r *Result) CollectorWork(room float64) (share float64, known bool) {
	beyond, known := r.collectorBeyond(room)
	if !known {
		return 0, false
	}
	return beyond / r.Times.Group.Seconds(), true
}

// collectorBeyond are the seconds of processor time that the collector's threads used beyond what
// they use where there is room.
func (r *Result) collectorBeyond(room float64) (seconds float64, known bool) {
	odds, measured := r.CollectorOdds()
	if !measured {
		return 0, false
	}
	return max(0, (odds-room)*(r.Times.Group-r.Times.Collector).Seconds()), true
}

// CostRatio is the AnswerCost of b relative to that of a, over the pace of the machine in
// each. It is comparable where
// both were measured and the counts of good answers are within 10 % of each
// other.
func CostRatio(a, b *Result) (ratio float64, comparable bool) {
	was, measured := a.AnswerCost()
	is, also := b.AnswerCost()
	if !measured || !also || was == 0 {
		return 0, false
	}
	ratio = float64(is) / float64(was) / paceRatio(a.Pace, b.Pace)
	more, less := float64(max(a.Load.OK, b.Load.OK)), float64(min(a.Load.OK, b.Load.OK))
	return ratio, more <= less*(1+sameWork)
}
