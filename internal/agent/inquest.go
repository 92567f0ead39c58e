package agent

import (
	"time"

	"tare.dev/tare/internal/ledger"
)

const (
	// afterEnd is how long after the end of a JVM its autopsy is made: what the kernel
	// says of it is then in its log. afterKill is how long after a kill in its group
	// a JVM has outlived it.
	afterEnd, afterKill = time.Second, 30 * time.Second
	// maxInquests bounds the autopsies that wait: of more, the ends are in the ledger.
	maxInquests = 256
)

// inquest has the autopsy of a JVM made after some time; an earlier one that waits is
// replaced.
func (a *Agent) inquest(id ledger.ID, after time.Duration) {
	if _, waits := a.inquests[id]; a.cfg.Examine == nil || !waits && len(a.inquests) >= maxInquests {
		return
	}
	a.inquests[id] = a.cfg.Clock.Uptime() + after
}

// inquire makes the autopsies that are due, as far as the budget allows; until is the
// time since boot.
func (a *Agent) inquire(until time.Duration) {
	for id, at := range a.inquests {
		if at > until {
			continue
		}
		if a.settle(); !a.budget.allows(a.reserve(ledger.Due)) {
			a.Stats.Deferred.Add(1)
			return
		}
		delete(a.inquests, id)
		found, err := a.cfg.Examine(id)
		if err != nil {
			a.say(err)
			continue
		}
		a.Stats.Autopsies.Add(1)
		a.write(ledger.Record{Autopsy: found})
	}
}

// nextInquest is when the next autopsy is due, latest when there is none.
func (a *Agent) nextInquest(latest time.Duration) time.Duration {
	for _, at := range a.inquests {
		latest = min(latest, at)
	}
	return latest
}
