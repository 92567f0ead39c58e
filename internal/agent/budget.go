package agent

import "time"

// budget is a token bucket of processor time: it fills at a share of one processor,
// and what the process takes, whatever for, empties it.
type budget struct {
	share float64 // of one processor
	most  time.Duration
	left  time.Duration
	// at is when it was filled, and spent what the process had taken by then.
	at, spent time.Duration
}

// burst is for how long a budget saves what is not spent.
const burst = time.Minute

// credit is how far last looks may go into debt, which all else then waits for.
func (b *budget) credit() time.Duration { return b.most / 2 }

// rest is what is left of it for looks, and to find JVMs, by all that is less urgent.
func (b *budget) rest() time.Duration { return b.most / 2 }

// slice is what JVMs are found with though nothing is left.
func (b *budget) slice() time.Duration { return b.most / 8 }

// newBudget is a full bucket. uptime and spent are those of this moment.
func newBudget(share float64, uptime, spent time.Duration) budget {
	most := time.Duration(share * float64(burst))
	return budget{share: share, most: most, left: most, at: uptime, spent: spent}
}

// settle takes off what was spent since, and fills up for the time that has gone. What is
// spent may become less: it was excused in the end.
func (b *budget) settle(uptime, spent time.Duration) {
	b.left = min(b.most, b.left+time.Duration(b.share*float64(max(0, uptime-b.at))))
	b.left = min(b.most, b.left-(spent-b.spent))
	b.at, b.spent = uptime, spent
}

// allows says whether work may begin that leaves so much for what is more urgent.
// One piece of work may take more than there is: the next waits for it.
func (b *budget) allows(reserve time.Duration) bool { return b.left > reserve }

// breath is how long an empty budget fills before work goes on: to find what is due costs
// as much for one JVM as for all.
const breath = time.Second / 2

// wait is how long it takes until work is allowed that leaves so much.
func (b *budget) wait(reserve time.Duration) time.Duration {
	if b.allows(reserve) || b.share <= 0 {
		return 0
	}
	return time.Duration(float64(reserve-b.left)/b.share) + breath
}

// volume bounds how many bytes of resident memory last looks go over: the kernel
// walks over each page, while the whole machine may be near its end.
type volume struct {
	perSecond, most, left float64
	at                    time.Duration
}

func newVolume(uptime time.Duration) volume {
	return volume{perSecond: 1 << 30, most: 8 << 30, left: 8 << 30, at: uptime}
}

// take takes so many bytes, unless nothing is left.
func (v *volume) take(uptime time.Duration, bytes int64) bool {
	v.left = min(v.most, v.left+v.perSecond*max(0, uptime-v.at).Seconds())
	v.at = uptime
	if v.left <= 0 {
		return false
	}
	v.left -= float64(bytes)
	return true
}
