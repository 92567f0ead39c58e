package history

import (
	"database/sql"
	"errors"
	"time"

	"tare.dev/tare/internal/ledger"
)

// jvm is the row of a JVM.
type jvm struct {
	id          int64
	first, last time.Time
	ended       time.Time // zero while it runs
	process     ledger.Process
	counters    ledger.Counters
	countersAt  time.Time
	footprint   *ledger.Footprint // nil before it was weighed
	footprintAt time.Time
	findings    []ledger.Finding
	spark       Spark
	// brief leaves out the options when it is read: most of the time goes there.
	brief bool
}

// briefProcess is a process as it is read without its options.
type briefProcess struct {
	*ledger.Process
	Flags skipped `cbor:"15,keyasint"`
}

// skipped is a value that is not read.
type skipped struct{}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (*skipped) UnmarshalCBOR([]byte) error { return nil }

// Spark is the peak of each of the last minutes, the last one's number since 1970
// is Minute.
type Spark struct {
	Minute int64   `cbor:"1,keyasint" json:"minute"`
	Peaks  []int64 `cbor:"2,keyasint" json:"peaks"` // bytes, -1 where nothing was seen
}

// sparkMinutes is how long a spark looks back.
const sparkMinutes = 60

func (s *Spark) add(at time.Time, bytes int64) {
	minute := at.Unix() / 60
	if len(s.Peaks) == 0 || minute >= s.Minute+sparkMinutes {
		s.Minute, s.Peaks = minute, []int64{bytes}
		return
	}
	for s.Minute < minute {
		s.Minute++
		s.Peaks = append(s.Peaks, -1)
	}
	s.Peaks = s.Peaks[max(0, len(s.Peaks)-sparkMinutes):]
	if i := len(s.Peaks) - 1 - int(s.Minute-minute); i >= 0 {
		s.Peaks[i] = max(s.Peaks[i], bytes)
	}
}

func (j *jvm) seen(at time.Time) {
	if j.first.IsZero() || at.Before(j.first) {
		j.first = at
	}
	if at.After(j.last) {
		j.last = at
	}
	j.ended = time.Time{} // it is told again below
}

const selectJVM = `SELECT id, first, last, ended, process, counters, counters_at, footprint, footprint_at, findings, spark FROM jvms`

// scan reads a row of selectJVM.
func (j *jvm) scan(row interface{ Scan(...any) error }) error {
	var first, last, countersAt, footprintAt int64
	var ended sql.NullInt64
	var process, counters, footprint, findings, spark []byte
	if err := row.Scan(&j.id, &first, &last, &ended, &process, &counters, &countersAt, &footprint, &footprintAt, &findings, &spark); err != nil {
		return err
	}
	j.first, j.last, j.ended = timeOf(first), timeOf(last), timeOf(ended.Int64)
	j.countersAt, j.footprintAt = timeOf(countersAt), timeOf(footprintAt)
	if len(footprint) > 0 {
		j.footprint = new(ledger.Footprint)
	}
	var into any = &j.process
	if j.brief {
		into = &briefProcess{Process: &j.process}
	}
	err := unpack(process, into)
	j.process.Started = j.process.Started.UTC()
	return errors.Join(err, unpack(counters, &j.counters), unpack(footprint, j.footprint), unpack(findings, &j.findings), unpack(spark, &j.spark))
}

// jvm is the JVM of a record, which is made where it is new.
func (t *taking) jvm(r *ledger.Record, at time.Time) (*jvm, error) {
	id := r.Process
	if j := t.jvms[id]; j != nil {
		return j, nil
	}
	j := &jvm{}
	err := j.scan(t.queryRow(selectJVM+" WHERE machine = ? AND boot = ? AND pid = ? AND ticks = ?", t.machine, id.Boot, id.PID, int64(id.StartTicks)))
	if errors.Is(err, sql.ErrNoRows) {
		j.process.ID = id
		err = t.newJVM(j, at)
	}
	if err != nil {
		return nil, err
	}
	t.jvms[id] = j
	return j, nil
}

// settled is how long a JVM was not seen before it makes room for a new one.
const settled = time.Hour

func (t *taking) newJVM(j *jvm, at time.Time) error {
	if t.known == 0 {
		if err := t.queryRow("SELECT count(*) FROM jvms WHERE machine = ?", t.machine).Scan(&t.known); err != nil {
			return err
		}
	}
	if t.known >= MaxJVMs {
		// The one that is gone for longest makes room.
		res, err := t.exec("DELETE FROM jvms WHERE id = (SELECT id FROM jvms WHERE machine = ? AND last < ? ORDER BY last, id LIMIT 1)", t.machine, nanos(t.now.Add(-settled)))
		if err != nil {
			return err
		}
		if gone, err := res.RowsAffected(); err != nil || gone == 0 {
			return errors.Join(errTooMany, err)
		}
		t.known--
	}
	t.known++
	id := j.process.ID
	return t.queryRow("INSERT INTO jvms (machine, boot, pid, ticks, first, last) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
		t.machine, id.Boot, id.PID, int64(id.StartTicks), nanos(at), nanos(at)).Scan(&j.id)
}

// update writes the row of a JVM.
func (t *taking) update(j *jvm) error {
	var ended any
	if !j.ended.IsZero() {
		ended = nanos(j.ended)
	}
	_, err := t.exec(`UPDATE jvms SET first = ?, last = ?, ended = ?, process = ?, counters = ?, counters_at = ?, footprint = ?, footprint_at = ?, findings = ?, spark = ?
		WHERE id = ?`, nanos(j.first), nanos(j.last), ended, packed(j.process), packed(j.counters), nanos(j.countersAt), packedFootprint(j.footprint), nanos(j.footprintAt),
		packed(j.findings), packed(j.spark), j.id)
	return err
}

// packedFootprint is a footprint as the database keeps it; nil without one.
func packedFootprint(f *ledger.Footprint) []byte {
	if f == nil {
		return nil
	}
	return packed(f)
}
