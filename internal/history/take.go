package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tare.dev/tare/internal/ledger"
)

// Position is the number of the last record of a machine's ledger that is kept, 0
// without one.
func (d *DB) Position(ctx context.Context, machine, ledgerID string) (uint64, error) {
	var p int64
	err := d.queryRow(ctx, "SELECT position FROM positions JOIN machines ON id = machine WHERE name = ? AND positions.ledger = ?", machine, ledgerID).Scan(&p)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return uint64(p), d.failed(err)
}

// Take keeps a batch as rows of a machine, all of it or nothing: what it has of it
// already it leaves out. now is the time. Errors: a GapError, ErrTwoAgents.
func (d *DB) Take(ctx context.Context, machine string, b *Batch, now time.Time) (Taken, error) {
	if err := b.check(); err != nil {
		return Taken{}, err
	}
	t := &taking{batch: b, now: now, jvms: map[ledger.ID]*jvm{}, samples: map[key]*sample{}, footprints: map[key]*print{}}
	err := d.transact(ctx, func(tx *transaction) error {
		t.transaction = tx
		return t.take(machine)
	})
	return t.taken, err
}

// taking takes one batch.
type taking struct {
	*transaction
	batch   *Batch
	now     time.Time
	machine int64
	taken   Taken
	known   int // JVMs of the machine; 0 before they were counted

	jvms       map[ledger.ID]*jvm
	samples    map[key]*sample
	footprints map[key]*print
	events     [][]any
	spent      *ledger.Spent
	latest     int64 // time of the latest record
}

// key is one interval of a JVM.
type key struct{ jvm, tier, t int64 }

// print is the footprint of an interval.
type print struct {
	at time.Time
	f  *ledger.Footprint
}

func (t *taking) take(machine string) error {
	if err := t.findMachine(machine); err != nil {
		return err
	}
	position, err := t.position()
	if err != nil {
		return err
	}
	if t.batch.After > position {
		return &GapError{position}
	}
	t.taken.Position = position
	for i := range t.batch.Records {
		r := &t.batch.Records[i]
		if r.Seq <= position {
			continue
		}
		t.taken.Position = r.Seq
		bad := checkRecord(r)
		if bad == nil {
			err := t.record(r, t.batch.when(r, t.now))
			if err != nil && !errors.Is(err, errTooMany) {
				return err
			}
			bad = err
		}
		if bad != nil {
			if t.taken.Refused++; t.taken.Why == "" {
				t.taken.Why = fmt.Sprintf("record %d: %v", r.Seq, bad)
			}
		}
	}
	return t.flush(position)
}

// errTooMany says that a machine has as many JVMs as one may have.
var errTooMany = fmt.Errorf("the machine has %d JVMs already", MaxJVMs)

// findMachine finds the machine's row, or makes it.
func (t *taking) findMachine(name string) error {
	var ledgerID string
	var seen int64
	err := t.queryRow("SELECT id, ledger, seen FROM machines WHERE name = ?", name).Scan(&t.machine, &ledgerID, &seen)
	if errors.Is(err, sql.ErrNoRows) {
		var n int
		if err := t.queryRow("SELECT count(*) FROM machines").Scan(&n); err != nil {
			return err
		}
		if n >= MaxMachines {
			return fmt.Errorf("there are %d machines already", n)
		}
		return t.queryRow("INSERT INTO machines (name, ledger, seen, version) VALUES (?, ?, ?, ?) RETURNING id", name, t.batch.Ledger, nanos(t.now), t.batch.Version).Scan(&t.machine)
	}
	if err == nil && ledgerID != t.batch.Ledger && t.now.Sub(timeOf(seen)) < rivalry {
		return ErrTwoAgents
	}
	return err
}

func (t *taking) position() (uint64, error) {
	var p int64
	err := t.queryRow("SELECT position FROM positions WHERE machine = ? AND ledger = ?", t.machine, t.batch.Ledger).Scan(&p)
	if !errors.Is(err, sql.ErrNoRows) {
		return uint64(p), err
	}
	var n int
	if err := t.queryRow("SELECT count(*) FROM positions WHERE machine = ?", t.machine).Scan(&n); err != nil {
		return 0, err
	}
	if n >= maxLedgers { // all but the one that is in use
		if _, err := t.exec("DELETE FROM positions WHERE machine = ? AND ledger <> (SELECT ledger FROM machines WHERE id = ?)", t.machine, t.machine); err != nil {
			return 0, err
		}
	}
	_, err = t.exec("INSERT INTO positions (machine, ledger, position) VALUES (?, ?, 0)", t.machine, t.batch.Ledger)
	return 0, err
}

// record takes one record of that moment.
func (t *taking) record(r *ledger.Record, at time.Time) error {
	t.latest = max(t.latest, nanos(at))
	if r.Process.Machine() {
		if r.Spent != nil {
			t.spent = r.Spent
		}
		if r.Event != nil {
			t.event(nil, r.Event, at)
		}
		if r.Autopsy != nil {
			return t.autopsy(r.Autopsy, at)
		}
		return nil
	}
	j, err := t.jvm(r, at)
	if err != nil {
		return err
	}
	j.seen(at)
	if r.Start != nil {
		j.process = *r.Start
	}
	if r.Counters != nil {
		t.counters(j, r.Counters, at)
	}
	if r.Footprint != nil {
		t.footprint(j, r.Footprint, at)
	}
	if r.Findings != nil {
		j.findings = r.Findings
	}
	if r.Event != nil {
		t.event(j, r.Event, at)
		return t.fate(j, r.Event, at)
	}
	return nil
}

func (t *taking) counters(j *jvm, c *ledger.Counters, at time.Time) {
	j.counters, j.countersAt = *c, at
	j.spark.add(at, c.Usage-c.Reclaimable)
	s := sampleOf(c)
	for tier, start := range t.intervals(at) {
		k := key{j.id, tier, start}
		if have := t.samples[k]; have != nil {
			have.merge(s)
			continue
		}
		copied := s
		t.samples[k] = &copied
	}
}

func (t *taking) footprint(j *jvm, f *ledger.Footprint, at time.Time) {
	j.footprint, j.footprintAt = f, at
	for tier, start := range t.intervals(at) {
		k := key{j.id, tier, start}
		if have := t.footprints[k]; have == nil || f.Resident >= have.f.Resident {
			t.footprints[k] = &print{at, f}
		}
	}
}

// intervals are the intervals of a moment: their tier, and where they begin, both in
// seconds. Tiers that have forgotten the moment already are left out.
func (t *taking) intervals(at time.Time) map[int64]int64 {
	out := map[int64]int64{}
	for _, tier := range Tiers {
		if t.now.Sub(at) < tier.Keep {
			step := int64(tier.Step / time.Second)
			out[step] = at.Unix() / step * step
		}
	}
	return out
}

func (t *taking) event(j *jvm, e *ledger.Event, at time.Time) {
	if t.now.Sub(at) >= Quarter {
		return
	}
	var id any
	if j != nil {
		id = j.id
	}
	t.events = append(t.events, []any{t.machine, id, nanos(at), packed(e)})
}

// flush writes what was taken.
func (t *taking) flush(position uint64) error {
	var samples, footprints [][]any
	for _, k := range sortedKeys(t.samples) {
		samples = append(samples, append([]any{k.jvm, k.tier, k.t}, t.samples[k].values()...))
	}
	for _, k := range sortedKeys(t.footprints) {
		p := t.footprints[k]
		f := *p.f
		if k.tier > int64(Tiers[0].Step/time.Second) {
			f.Owners = slices.Clone(f.Owners)
			for i := range f.Owners {
				f.Owners[i].Parts = nil // they are kept for a day
			}
		}
		footprints = append(footprints, []any{k.jvm, k.tier, k.t, nanos(p.at), f.Resident, packed(f)})
	}
	if err := t.insert(insertSamples, samples, mergeSamples); err != nil {
		return err
	}
	if err := t.insert("INSERT INTO footprints (jvm, tier, t, at, resident, data)", footprints, `ON CONFLICT (jvm, tier, t) DO UPDATE
		SET at = excluded.at, resident = excluded.resident, data = excluded.data WHERE excluded.resident >= footprints.resident`); err != nil {
		return err
	}
	if err := t.insert("INSERT INTO events (machine, jvm, at, data)", t.events, ""); err != nil {
		return err
	}
	for _, j := range t.jvms {
		if err := t.update(j); err != nil {
			return err
		}
	}
	if err := t.settle(); err != nil {
		return err
	}
	if t.spent != nil {
		if _, err := t.exec("UPDATE machines SET spent = ? WHERE id = ?", packed(t.spent), t.machine); err != nil {
			return err
		}
	}
	if _, err := t.exec("UPDATE machines SET ledger = ?, seen = ?, version = ?, refused = refused + ? WHERE id = ?",
		t.batch.Ledger, nanos(t.now), t.batch.Version, t.taken.Refused, t.machine); err != nil {
		return err
	}
	// Whoever took a batch of this ledger meanwhile, in another process, was first.
	res, err := t.exec("UPDATE positions SET position = ? WHERE machine = ? AND ledger = ? AND position = ?", int64(t.taken.Position), t.machine, t.batch.Ledger, int64(position))
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("another process takes records of this machine"), err)
	}
	return nil
}

func sortedKeys[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		switch {
		case a == b:
			return 0
		case a.jvm < b.jvm, a.jvm == b.jvm && (a.tier < b.tier || a.tier == b.tier && a.t < b.t):
			return -1
		}
		return 1
	})
}
