package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/ledger"
)

// Batch is some records of one ledger, in the order of their numbers, as an agent
// hands them on.
type Batch struct {
	// Ledger is the ledger's random id.
	Ledger string `json:"ledger"`
	// After is the number of the last record before these.
	After uint64 `json:"after"`
	// Version is the agent's.
	Version string `json:"version"`
	// Sent, Uptime and Boot are wall time, time since boot and the kernel's id of
	// this boot, all of the agent when it sends.
	Sent    time.Time       `json:"sent"`
	Uptime  time.Duration   `json:"uptime"`
	Boot    string          `json:"boot"`
	Records []ledger.Record `json:"records"`
}

// Taken is what became of a batch.
type Taken struct {
	// Position is the number of the last record that is kept now.
	Position uint64 `json:"position"`
	// Refused is how many records were left out, Why what was wrong with the first.
	Refused int    `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
}

// GapError says that a batch begins behind what is kept: the agent is to go on from
// Position.
type GapError struct{ Position uint64 }

// Error says so.
func (e *GapError) Error() string {
	return fmt.Sprintf("records before these are missing: go on behind number %d", e.Position)
}

// ErrTwoAgents says that another ledger of that name was heard of a moment ago.
var ErrTwoAgents = errors.New("another agent sends under this name: give each its own token")

// BatchError says that a batch is none that an agent sends.
type BatchError struct{ Why string }

// Error says so.
func (e *BatchError) Error() string { return "the batch is none of an agent: " + e.Why }

// Bounds of what an agent may say. An agent that lies hurts its own rows alone.
const (
	// MaxRecords is how many records a batch may have.
	MaxRecords = 5000
	// MaxMachines and MaxJVMs bound the machines, and the JVMs of one of them, those
	// that are gone included.
	MaxMachines, MaxJVMs = 10_000, 20_000
	maxText              = 4096
	maxFlags             = 512
	maxBytes             = int64(1) << 56 // more than any machine has
	maxLedgers           = 16
	maxOwners            = 24
	// rivalry is how long after one ledger another one of the same name is
	// refused.
	rivalry = 2 * time.Minute
)

var (
	ledgerID  = lazy.Regexp(`^[A-Z2-7]{26}$`)
	ownerName = lazy.Regexp(`^[a-z][a-z0-9-]{0,31}$`)
	bootID    = lazy.Regexp(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// check refuses a batch that no agent sends.
func (b *Batch) check() error {
	switch {
	case !ledgerID().MatchString(b.Ledger):
		return &BatchError{"the ledger has no id"}
	case !bootID().MatchString(b.Boot):
		return &BatchError{"the boot has no id"}
	case len(b.Records) > MaxRecords:
		return &BatchError{fmt.Sprintf("%d records are more than %d", len(b.Records), MaxRecords)}
	case !text(b.Version) || b.Uptime < 0:
		return &BatchError{"version or uptime is none"}
	}
	last := b.After
	for _, r := range b.Records {
		if r.Seq <= last || r.Seq > 1<<62 {
			return &BatchError{fmt.Sprintf("record %d follows %d", r.Seq, last)}
		}
		last = r.Seq
	}
	return nil
}

func text(s ...string) bool {
	return !slices.ContainsFunc(s, func(s string) bool { return len(s) > maxText || !utf8.ValidString(s) || strings.Contains(s, "\x00") })
}

func bytes(n ...int64) bool {
	return !slices.ContainsFunc(n, func(n int64) bool { return n < 0 || n > maxBytes })
}

// checkRecord refuses a record that no agent writes.
func checkRecord(r *ledger.Record) error {
	id := r.Process
	if !id.Machine() && (!bootID().MatchString(id.Boot) || id.PID <= 0 || id.PID > 1<<30 || id.StartTicks > 1<<62) {
		return errors.New("its process has no id")
	}
	if r.Uptime < 0 {
		return errors.New("its uptime is negative")
	}
	var errs []error
	if r.Start != nil {
		errs = append(errs, checkProcess(r.Start, id))
	}
	if r.Counters != nil {
		errs = append(errs, checkCounters(r.Counters))
	}
	if r.Footprint != nil {
		errs = append(errs, checkFootprint(r.Footprint))
	}
	for _, f := range r.Findings {
		if len(r.Findings) > 100 || !text(f.ID, string(f.Certainty), f.Title) || !bytes(f.Bytes) {
			errs = append(errs, errors.New("its findings are none"))
		}
	}
	if e := r.Event; e != nil && (len(e.Kind) > 64 || !text(string(e.Kind), e.Text) || len(e.Values) > 32) {
		errs = append(errs, errors.New("its event is none"))
	}
	if r.Autopsy != nil {
		errs = append(errs, checkAutopsy(r.Autopsy, id))
	}
	if s := r.Spent; s != nil && (!bytes(s.MemTotal, s.MemAvailable, s.OOMKills, s.Resident, s.Weighings, s.Deferred, int64(s.JVMs)) || s.Processor < 0) {
		errs = append(errs, errors.New("what it spent is none"))
	}
	return errors.Join(errs...)
}

func checkAutopsy(a *ledger.Autopsy, id ledger.ID) error {
	if !id.Machine() || !ownerName().MatchString(a.Verdict) || !text(a.Confidence, a.Headline, a.What) ||
		max(len(a.Evidence), len(a.Growth), len(a.Do)) > maxOwners {
		return errors.New("its autopsy is none")
	}
	ok := true
	for _, f := range a.Evidence {
		ok = ok && text(f.Source, f.Text)
	}
	for _, g := range a.Growth {
		ok = ok && ownerName().MatchString(g.Account) && bytes(g.From, g.To)
	}
	for _, d := range a.Do {
		ok = ok && text(d.Option, d.Text)
	}
	if !ok {
		return errors.New("what its autopsy says is none")
	}
	return nil
}

func checkProcess(p *ledger.Process, id ledger.ID) error {
	switch {
	case id.Machine() || p.ID != id:
		return errors.New("its start is another process's")
	case len(p.PIDs) > 64 || len(p.Flags) > maxFlags:
		return errors.New("its process has too much")
	case !text(p.Name, p.Kind, p.JDK, p.Collector, p.Group.Path, p.Group.LimitPath, p.Container, p.PodUID, p.ContainerName, p.Pod, p.Namespace):
		return errors.New("its process has a text that is none")
	case p.Group.Inode > 1<<62:
		return errors.New("its group is none")
	}
	for name, value := range p.Flags {
		if !text(name, value) {
			return errors.New("its flags are none")
		}
	}
	return nil
}

func checkCounters(c *ledger.Counters) error {
	if !bytes(c.Usage, c.Limit, c.High, c.Reclaimable, c.Resident, c.Swap, int64(c.Threads), c.AtLimit, c.OOM, c.OOMKills,
		c.HeapUsed, c.HeapCommitted, c.HeapAfterGC, c.Collections) || c.GCTime < 0 || c.PressureSome < 0 || c.PressureFull < 0 || c.Classes < -1<<40 || c.Classes > 1<<40 {
		return errors.New("its counters are none")
	}
	return nil
}

func checkFootprint(f *ledger.Footprint) error {
	if !text(string(f.Reason)) || !bytes(f.Resident, f.Usage, f.Limit, int64(f.Threads)) || len(f.Owners) > maxOwners {
		return errors.New("its footprint is none")
	}
	sum, seen := int64(0), map[footprint.Owner]bool{}
	for _, o := range f.Owners {
		// A later agent may know owners that this version does not.
		if !ownerName().MatchString(string(o.Owner)) || seen[o.Owner] || !bytes(max(o.Resident, -o.Resident), o.Committed, o.Used, o.Anonymous) || len(o.Parts) > 64 {
			return errors.New("its owners are none")
		}
		for _, p := range o.Parts {
			if !text(p.ID) || !bytes(p.Bytes) {
				return errors.New("its parts are none")
			}
		}
		seen[o.Owner] = true
		sum += o.Resident
	}
	if sum != f.Resident {
		return fmt.Errorf("its owners add up to %d and not to %d", sum, f.Resident)
	}
	return nil
}

// sameTime is how far a clock may be off before the hub's is taken.
const sameTime = 5 * time.Second

// when is the time of a record by the hub's clock, now: clocks of machines are off,
// and jump, time since boot does not.
func (b *Batch) when(r *ledger.Record, now time.Time) time.Time {
	at := r.At.Add(now.Sub(b.Sent))
	if age := b.Uptime - r.Uptime; age >= 0 && (r.Process.Boot == b.Boot || r.Process.Machine() && now.Add(-age).Sub(at).Abs() < time.Hour) {
		at = now.Add(-age)
	}
	if at.Sub(r.At).Abs() <= sameTime {
		at = r.At
	}
	if at.After(now) {
		at = now
	}
	if oldest := now.Add(-2 * Quarter); at.Before(oldest) {
		at = oldest // nothing is kept of it
	}
	return at.UTC()
}
