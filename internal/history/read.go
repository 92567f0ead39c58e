package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/ledger"
)

// Machine is a machine whose agent was heard of.
type Machine struct {
	ID      int64
	Name    string
	Seen    time.Time
	Version string
	Refused int64
	// Spent is nil before the agent told.
	Spent *ledger.Spent
}

// Machines lists all machines by name.
func (d *DB) Machines(ctx context.Context) ([]Machine, error) {
	rows, err := d.query(ctx, "SELECT id, name, seen, version, refused, spent FROM machines ORDER BY name")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Machine
	for rows.Next() {
		var m Machine
		var seen int64
		var spent []byte
		if err := rows.Scan(&m.ID, &m.Name, &seen, &m.Version, &m.Refused, &spent); err != nil {
			return nil, d.failed(err)
		}
		if m.Seen = timeOf(seen); len(spent) > 0 {
			m.Spent = new(ledger.Spent)
		}
		if err := unpack(spent, m.Spent); err != nil {
			return nil, d.failed(err)
		}
		out = append(out, m)
	}
	return out, d.failed(rows.Err())
}

// JVM is what is known of a JVM now, or was at its end.
type JVM struct {
	ID      int64
	Machine string
	// First and Last are when it was first and last seen, Ended when it ended; zero
	// while it runs, or nobody saw its end.
	First, Last, Ended time.Time
	Process            ledger.Process
	// Counters are the last, of CountersAt; zero before the first.
	Counters   ledger.Counters
	CountersAt time.Time
	// Footprint is the last, nil before the first.
	Footprint   *ledger.Footprint
	FootprintAt time.Time
	Findings    []ledger.Finding
	Spark       Spark
}

// Needed is what the JVM's group uses and the kernel cannot drop.
func (j *JVM) Needed() int64 { return max(0, j.Counters.Usage-j.Counters.Reclaimable) }

// Headroom is what is left to the limit; false without a limit.
func (j *JVM) Headroom() (int64, bool) {
	return max(0, j.Counters.Limit-j.Needed()), j.Counters.Limit > 0
}

// Savable is what the certain findings cost.
func (j *JVM) Savable() (sum int64) {
	for _, f := range j.Findings {
		if f.Certainty == doctor.Certain {
			sum += f.Bytes
		}
	}
	return sum
}

// LiveSet is an upper bound of the live objects: what the last collection left.
func (j *JVM) LiveSet() int64 { return j.Counters.HeapAfterGC }

// Filter says which JVMs are asked for.
type Filter struct {
	// Machine is a machine's name, "" for all.
	Machine string
	// Since leaves out the JVMs that were seen last before; Live those that ended.
	Since time.Time
	Live  bool
	// After leaves out smaller and the same ids, Limit is the most that are listed.
	After int64
	Limit int
	// Brief leaves out the footprints, and the options of the processes.
	Brief bool
}

const selectJVMs = `SELECT machines.name, jvms.id, first, last, ended, process, counters, counters_at, footprint, footprint_at, findings, spark
	FROM jvms JOIN machines ON machines.id = jvms.machine `

// JVMs lists JVMs by their id.
func (d *DB) JVMs(ctx context.Context, f Filter) ([]JVM, error) {
	where, args := "WHERE jvms.id > ?", []any{f.After}
	if !f.Since.IsZero() {
		// Most JVMs of a quarter are gone: the index of last finds the others.
		where, args = where+" AND jvms.id IN (SELECT id FROM jvms WHERE last >= ?)", append(args, nanos(f.Since))
	}
	if f.Live {
		where += " AND ended IS NULL"
	}
	if f.Machine != "" {
		where, args = where+" AND machines.name = ?", append(args, f.Machine)
	}
	what := selectJVMs
	if f.Brief {
		what = strings.Replace(what, " footprint,", " NULL,", 1)
	}
	rows, err := d.query(ctx, what+where+" ORDER BY jvms.id LIMIT ?", append(args, f.Limit)...)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []JVM
	for rows.Next() {
		j, err := scanJVM(rows, f.Brief)
		if err != nil {
			return nil, d.failed(err)
		}
		out = append(out, j)
	}
	return out, d.failed(rows.Err())
}

// JVM is one JVM. The error is ErrNotFound where there is none.
func (d *DB) JVM(ctx context.Context, id int64) (JVM, error) {
	j, err := scanJVM(d.queryRow(ctx, selectJVMs+"WHERE jvms.id = ?", id), false)
	if errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("JVM %d: %w", id, ErrNotFound)
	}
	return j, d.failed(err)
}

func scanJVM(row interface{ Scan(...any) error }, brief bool) (JVM, error) {
	var machine string
	j := jvm{brief: brief}
	err := j.scan(prefixed{row, []any{&machine}})
	return JVM{j.id, machine, j.first, j.last, j.ended, j.process, j.counters, j.countersAt, j.footprint, j.footprintAt, j.findings, j.spark}, err
}

// MaxPoints is the most points of a series.
const MaxPoints = 2000

// Range is a stretch of time, in at most so many points.
type Range struct {
	From, To time.Time
	Points   int
}

// seconds are the first second of a range, at the beginning of an interval of so many, and
// the second behind its last: an interval that the range ends in belongs to it.
func (r Range) seconds(interval int64) (from, until int64) {
	return r.From.Unix() / interval * interval, r.To.Add(time.Second - 1).Unix()
}

// step is the tier that answers a range, and the length of an interval, in seconds:
// a multiple of the tier's.
func (r Range) step(now time.Time) (tier, step int64) {
	points := int64(max(1, min(r.Points, MaxPoints)))
	want := max(1, (int64(r.To.Sub(r.From)/time.Second)+points-1)/points)
	for _, t := range slices.Backward(Tiers) {
		s := int64(t.Step / time.Second)
		if now.Sub(r.From) > t.Keep && tier > 0 {
			break // finer ones have forgotten a part of it
		}
		if tier = s; s <= want {
			break
		}
	}
	return tier, max(tier, (want+tier-1)/tier*tier)
}

// Samples is a series: for each interval of Step seconds the largest values, in the
// columns that Names names; intervals without any are left out.
type Samples struct {
	Step  int64
	Times []int64 // seconds since 1970, where an interval begins
	// Columns has for each of SampleColumns as many values as there are times.
	Columns [][]int64
}

// SampleColumns are the names of the columns of Samples.
var SampleColumns = func() (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}()

// Samples are the samples of a JVM.
func (d *DB) Samples(ctx context.Context, jvm int64, r Range, now time.Time) (*Samples, error) {
	tier, step := r.step(now)
	out := &Samples{Step: step, Times: []int64{}, Columns: make([][]int64, len(columns))}
	from, until := r.seconds(tier)
	rows, err := d.query(ctx, fmt.Sprintf("SELECT t / %d * %d AS i, %s FROM samples WHERE jvm = ? AND tier = ? AND t >= ? AND t < ? GROUP BY i ORDER BY i", step, step, selectPeaks),
		jvm, tier, from, until)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	row := make([]int64, 1+len(columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	for i := range out.Columns {
		out.Columns[i] = []int64{}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, d.failed(err)
		}
		out.Times = append(out.Times, row[0])
		for i, v := range row[1:] {
			out.Columns[i] = append(out.Columns[i], v)
		}
	}
	return out, d.failed(rows.Err())
}

// Weighed is a footprint of a moment.
type Weighed struct {
	At        time.Time
	Footprint ledger.Footprint
}

// Footprints are of each interval of a range the footprint with the most resident
// memory, and before them the last one before the range, if there is one.
func (d *DB) Footprints(ctx context.Context, jvm int64, r Range, now time.Time) ([]Weighed, error) {
	tier, step := r.step(now)
	from, until := r.seconds(tier)
	before, err := d.weighed(ctx, "SELECT at, data FROM footprints WHERE jvm = ? AND tier = ? AND t < ? ORDER BY t DESC LIMIT 1", jvm, tier, from)
	if err != nil {
		return nil, err
	}
	inside, err := d.peaks(ctx, jvm, tier, step, from, until)
	return append(before, inside...), err
}

// peaks are of each interval of step seconds the footprint with the most resident
// memory. Those that are left out are not decoded.
func (d *DB) peaks(ctx context.Context, jvm, tier, step, from, to int64) ([]Weighed, error) {
	rows, err := d.query(ctx, "SELECT t, at, resident, data FROM footprints WHERE jvm = ? AND tier = ? AND t >= ? AND t < ? ORDER BY t", jvm, tier, from, to)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Weighed
	var interval, most, best int64
	var kept, data []byte
	keep := func() error {
		if len(kept) == 0 {
			return nil
		}
		w := Weighed{At: timeOf(best)}
		if err := unpack(kept, &w.Footprint); err != nil {
			return fmt.Errorf("a footprint of %s cannot be decoded: %w", w.At, err)
		}
		out = append(out, w)
		return nil
	}
	for rows.Next() {
		var t, at, resident int64
		if err := rows.Scan(&t, &at, &resident, (*sql.RawBytes)(&data)); err != nil {
			return nil, d.failed(err)
		}
		if i := t / step; i != interval {
			if err := keep(); err != nil {
				return nil, d.failed(err)
			}
			interval, kept = i, kept[:0]
		}
		if len(kept) == 0 || resident >= most {
			most, best, kept = resident, at, append(kept[:0], data...)
		}
	}
	if err := errors.Join(rows.Err(), keep()); err != nil {
		return nil, d.failed(err)
	}
	return out, nil
}

// FootprintAt is the footprint of a JVM that was taken last at a moment. The error is
// ErrNotFound when nothing is left of it.
func (d *DB) FootprintAt(ctx context.Context, jvm int64, at time.Time) (Weighed, error) {
	var best Weighed
	for _, tier := range Tiers {
		got, err := d.weighed(ctx, "SELECT at, data FROM footprints WHERE jvm = ? AND tier = ? AND at <= ? AND t <= ? ORDER BY t DESC LIMIT 1",
			jvm, int64(tier.Step/time.Second), nanos(at), at.Unix())
		if err != nil {
			return best, err
		}
		if len(got) > 0 && (best.At.IsZero() || got[0].At.After(best.At)) {
			best = got[0]
		}
	}
	if best.At.IsZero() {
		return best, fmt.Errorf("footprint of JVM %d at %s: %w", jvm, at.UTC().Format(time.RFC3339), ErrNotFound)
	}
	return best, nil
}

func (d *DB) weighed(ctx context.Context, query string, args ...any) ([]Weighed, error) {
	rows, err := d.query(ctx, query, args...)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Weighed
	for rows.Next() {
		var w Weighed
		var at int64
		var data []byte
		if err := rows.Scan(&at, &data); err != nil {
			return nil, d.failed(err)
		}
		if w.At = timeOf(at); unpack(data, &w.Footprint) != nil {
			return nil, d.failed(fmt.Errorf("a footprint of %s cannot be decoded", w.At))
		}
		out = append(out, w)
	}
	return out, d.failed(rows.Err())
}

// Event is an event of a JVM, or of a machine.
type Event struct {
	ID    int64
	At    time.Time
	Event ledger.Event
}

// Events lists the events of a JVM, the oldest first, those with a greater id than
// after, at most limit.
func (d *DB) Events(ctx context.Context, jvm int64, from, to time.Time, after int64, limit int) ([]Event, error) {
	rows, err := d.query(ctx, "SELECT id, at, data FROM events WHERE jvm = ? AND at >= ? AND at < ? AND id > ? ORDER BY id LIMIT ?", jvm, nanos(from), nanos(to), after, limit)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		var e Event
		var at int64
		var data []byte
		if err := rows.Scan(&e.ID, &at, &data); err != nil {
			return nil, d.failed(err)
		}
		if err := unpack(data, &e.Event); err != nil {
			return nil, d.failed(err)
		}
		e.At = timeOf(at)
		out = append(out, e)
	}
	return out, d.failed(rows.Err())
}

// Prune removes what is older than its tier keeps, and JVMs that were seen last
// longer ago than a quarter.
func (d *DB) Prune(ctx context.Context, now time.Time) error {
	old := nanos(now.Add(-Quarter))
	err := d.transact(ctx, func(t *transaction) error {
		for _, query := range []string{"DELETE FROM events WHERE at < ?", "DELETE FROM kills WHERE at < ?", "DELETE FROM jvms WHERE last < ?"} {
			if _, err := t.exec(query, old); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids, err := d.ids(ctx)
	for _, id := range ids {
		// By JVM, for the keys begin with it; and each apart, so that agents need not
		// wait for all.
		err = errors.Join(err, d.transact(ctx, func(t *transaction) error {
			for _, tier := range Tiers {
				step, until := int64(tier.Step/time.Second), now.Add(-tier.Keep).Unix()
				for _, table := range []string{"samples", "footprints"} {
					if _, err := t.exec("DELETE FROM "+table+" WHERE jvm = ? AND tier = ? AND t < ?", id, step, until); err != nil {
						return err
					}
				}
			}
			return nil
		}))
		if err != nil {
			return err
		}
	}
	return err
}

// ids are the ids of all JVMs.
func (d *DB) ids(ctx context.Context) ([]int64, error) {
	rows, err := d.query(ctx, "SELECT id FROM jvms")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, d.failed(err)
		}
		out = append(out, id)
	}
	return out, d.failed(rows.Err())
}
