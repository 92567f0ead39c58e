package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"tare.dev/tare/internal/ledger"
)

// maxVerdicts bounds the verdicts that are counted of a machine: an agent that lies
// makes no series without end.
const maxVerdicts = 32

// autopsy keeps the autopsy of a JVM in place of an earlier one, and counts its verdict:
// the count outlives the JVM's rows.
func (t *taking) autopsy(a *ledger.Autopsy, at time.Time) error {
	id := a.JVM
	var jvm int64
	err := t.queryRow("SELECT id FROM jvms WHERE machine = ? AND boot = ? AND pid = ? AND ticks = ?", t.machine, id.Boot, id.PID, int64(id.StartTicks)).Scan(&jvm)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it was left out, or is forgotten
	}
	if err != nil {
		return err
	}
	if _, err := t.exec(`INSERT INTO autopsies (jvm, at, data) VALUES (?, ?, ?)
		ON CONFLICT (jvm) DO UPDATE SET at = excluded.at, data = excluded.data`, jvm, nanos(at), packed(a)); err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO autopsy_counts (machine, verdict, autopsies)
		SELECT ?, ?, 1 WHERE (SELECT count(*) FROM autopsy_counts WHERE machine = ? AND verdict <> ?) < ?
		ON CONFLICT (machine, verdict) DO UPDATE SET autopsies = autopsy_counts.autopsies + 1`, t.machine, a.Verdict, t.machine, a.Verdict, maxVerdicts)
	return err
}

// Autopsy is that of a JVM; nil without one.
func (d *DB) Autopsy(ctx context.Context, jvm int64) (*ledger.Autopsy, error) {
	var data []byte
	err := d.queryRow(ctx, "SELECT data FROM autopsies WHERE jvm = ?", jvm).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, d.failed(err)
	}
	return unpackAutopsy(data)
}

// unpackAutopsy reads an autopsy; nil for nothing.
func unpackAutopsy(data []byte) (*ledger.Autopsy, error) {
	if len(data) == 0 {
		return nil, nil
	}
	a := &ledger.Autopsy{Evidence: []ledger.Fact{}, Growth: []ledger.Change{}, Do: []ledger.Step{}} // lists, also when they are empty
	if err := unpack(data, a); err != nil {
		return nil, fmt.Errorf("an autopsy cannot be decoded: %w", err)
	}
	return a, nil
}

// AutopsyCount is how many autopsies with a verdict a machine's agent has made.
type AutopsyCount struct {
	Machine, Verdict string
	Autopsies        int64
}

// AutopsyCounts counts autopsies by machine and verdict.
func (d *DB) AutopsyCounts(ctx context.Context) ([]AutopsyCount, error) {
	rows, err := d.query(ctx, "SELECT name, verdict, autopsies FROM autopsy_counts JOIN machines ON id = machine ORDER BY name, verdict")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []AutopsyCount
	for rows.Next() {
		var c AutopsyCount
		if err := rows.Scan(&c.Machine, &c.Verdict, &c.Autopsies); err != nil {
			return nil, d.failed(err)
		}
		out = append(out, c)
	}
	return out, d.failed(rows.Err())
}
