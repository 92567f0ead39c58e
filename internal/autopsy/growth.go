package autopsy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
)

// shownMoments is how many moments of many tell how it came to the end.
const shownMoments = 4

// moments are what the JVM held before the end: from where it began to grow, within
// the last hour, to the last look, some of those between.
func (c *inquest) moments() []Moment {
	var all []Moment
	end := c.end()
	for _, r := range c.footprints {
		if end-r.Uptime <= recent {
			all = append(all, momentOf(r, end))
		}
	}
	if len(all) == 0 {
		return []Moment{}
	}
	all = all[trough(all):]
	if len(all) <= shownMoments {
		return all
	}
	// Evenly in what was resident rather than in time: growth is what is looked for.
	out := []Moment{all[0]}
	last := all[len(all)-1]
	for i := 1; i < shownMoments-1; i++ {
		want := all[0].ResidentBytes + (last.ResidentBytes-all[0].ResidentBytes)*int64(i)/(shownMoments-1)
		for _, m := range all[1 : len(all)-1] {
			if m.uptime > out[len(out)-1].uptime && m.ResidentBytes >= want {
				out = append(out, m)
				break
			}
		}
	}
	return append(out, last)
}

// end is when it ended, as time since boot: by the kernel's log, else as the agent
// saw it.
func (c *inquest) end() time.Duration {
	switch {
	case c.kill != nil && c.kill.Uptime != 0:
		return c.kill.Uptime
	case c.other != nil && c.other.Uptime != 0:
		return c.other.Uptime
	case c.ended != nil:
		return c.ended.Uptime
	}
	return c.lastSeen()
}

// trough is the moment from which the resident memory rose: the last one of those
// with the least.
func trough(all []Moment) int {
	low := 0
	for i, m := range all {
		if m.ResidentBytes <= all[low].ResidentBytes {
			low = i
		}
	}
	if low == len(all)-1 {
		return 0 // it shrank: all of it is of interest
	}
	return low
}

func momentOf(r ledger.Record, end time.Duration) Moment {
	f := r.Footprint
	m := Moment{At: r.At, BeforeSeconds: max(0, end-r.Uptime).Round(time.Millisecond).Seconds(), Reason: f.Reason, UsageBytes: f.Usage, LimitBytes: f.Limit,
		ResidentBytes: f.Resident, Threads: f.Threads, Classes: f.Classes, Accounts: map[Account]int64{}, uptime: r.Uptime}
	for _, o := range f.Owners {
		rest := o.Resident
		for _, p := range o.Parts {
			if p.ID == footprint.PartDirectBuffers {
				direct := min(max(0, p.Bytes), rest)
				m.Accounts[DirectBuffers] += direct
				rest -= direct
			}
		}
		m.Accounts[Account(o.Owner)] += rest
	}
	return m
}

// growth is how the accounts changed from the first moment to the last, the one that
// grew most first. Of one moment there is none.
func growth(moments []Moment) []Growth {
	if len(moments) < 2 {
		return []Growth{}
	}
	from, to := moments[0].Accounts, moments[len(moments)-1].Accounts
	seen := map[Account]bool{}
	out := []Growth{}
	for _, accounts := range []map[Account]int64{from, to} {
		for a := range accounts {
			if !seen[a] {
				seen[a] = true
				out = append(out, Growth{a, from[a], to[a]})
			}
		}
	}
	slices.SortFunc(out, func(a, b Growth) int {
		return cmp.Or(cmp.Compare(b.Change(), a.Change()), cmp.Compare(a.Account, b.Account))
	})
	return out
}

// accountNames are the accounts as people call them in a sentence.
var accountNames = map[Account]string{
	DirectBuffers: "direct buffers", Account(footprint.JavaHeap): "the Java heap", Account(footprint.ClassSpace): "class space",
	Account(footprint.Metaspace): "metaspace", Account(footprint.CodeCache): "the code cache", Account(footprint.ThreadStacks): "thread stacks",
	Account(footprint.GC): "the collector's own memory", Account(footprint.CDS): "the class archive", Account(footprint.Malloc): "malloc",
	Account(footprint.MappedFiles): "mapped files", Account(footprint.JVMOther): "the JVM's own memory", Account(footprint.Unattributed): "memory without a known owner",
}

// Name is the account as people call it in a sentence.
func (a Account) Name() string {
	if name, ok := accountNames[a]; ok {
		return name
	}
	return string(a)
}

// worthASentence is how much an account must have grown to be named.
const worthASentence = 4 << 20

// tell says in a sentence how the heap was and what grew.
func (c *inquest) tell(r *Report) {
	var parts []string
	if h := r.Heap; h != nil && h.MaxBytes > 0 && (r.Verdict.OutOfMemory() || r.Verdict == Unknown) && r.Verdict != ChildKilled {
		parts = append(parts, fmt.Sprintf("Its heap was %s used%s.", percent(h.UsedBytes, h.MaxBytes), c.whenHeap()))
	}
	if s := c.grew(r); s != "" && (r.Verdict.OutOfMemory() && r.Verdict != ChildKilled || r.Verdict == Unknown || r.Verdict == Running) {
		parts = append(parts, s)
	}
	r.What = strings.Join(parts, " ")
}

// percent is a share as people say it.
func percent(part, whole int64) string {
	share := 100 * float64(part) / float64(whole)
	if share > 0 && share < 1 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", share)
}

// whenHeap says when the heap was looked at, if that was some time before the end.
func (c *inquest) whenHeap() string {
	var last time.Duration
	for _, all := range [][]ledger.Record{c.counters, c.footprints} {
		if n := len(all); n > 0 {
			last = max(last, all[n-1].Uptime)
		}
	}
	if age := c.end() - last; age >= time.Second {
		return " " + seconds(age.Seconds()) + " before the end"
	}
	return ""
}

// grew says which accounts make up most of the growth.
func (c *inquest) grew(r *Report) string {
	n := len(r.Moments)
	if n == 0 {
		return ""
	}
	last := r.Moments[n-1]
	if n == 1 {
		if r.Verdict.OutOfMemory() {
			return fmt.Sprintf("There is one footprint of it, %s before the end: what grew after that is not known.", seconds(last.BeforeSeconds))
		}
		return ""
	}
	var named []string
	for _, g := range r.Growth {
		if len(named) < 2 && g.Change() >= max(worthASentence, r.Growth[0].Change()/4) {
			named = append(named, fmt.Sprintf("%s grew by %s", g.Account.Name(), size(g.Change())))
		}
	}
	if len(named) == 0 {
		return ""
	}
	text := strings.Join(named, " and ")
	return strings.ToUpper(text[:1]) + text[1:] + " in the " + seconds(r.Moments[0].BeforeSeconds-last.BeforeSeconds) + " before" + c.lastLook(last) + "."
}

// lastLook says how far the last look was from the end where that matters.
func (c *inquest) lastLook(m Moment) string {
	if m.BeforeSeconds < 2 {
		return ""
	}
	return fmt.Sprintf(" the last look, %s before the end", seconds(m.BeforeSeconds))
}

// seconds is a time as people say it.
func seconds(s float64) string {
	s = max(0, s)
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f minutes", s/60)
	}
	return fmt.Sprintf("%.0f hours", math.Round(s/3600))
}
