package history

import (
	"cmp"
	"context"
	"time"

	"tare.dev/tare/internal/ledger"
)

// Verdict says what became of a JVM when the kernel killed in its group.
type Verdict string

// The verdicts, by what the ledger tells.
const (
	// Undecided says that it is not decided yet.
	Undecided Verdict = ""
	// JVMEnded says that the JVM ended with the kill: the limit of its group was
	// reached, and the JVM is gone.
	JVMEnded Verdict = "jvm-ended"
	// OtherProcess says that the JVM outlived the kill: another process of the
	// group was killed.
	OtherProcess Verdict = "other-process"
)

// Verdicts are those that are decided.
var Verdicts = []Verdict{JVMEnded, OtherProcess}

// decided is how long after a kill the JVM of it has ended, if it has.
const decided = 30 * time.Second

// Kill is a rise of the count of kills of a control group, with a JVM in it.
type Kill struct {
	ID      int64
	Machine string
	JVM     int64
	Name    string
	At      time.Time
	// Group is the path of the group, Kills how many the kernel killed at once.
	Group   string
	Kills   int64
	Verdict Verdict
	// Counters and Footprint are the last of the JVM before.
	Counters    ledger.Counters
	Footprint   *ledger.Footprint
	FootprintAt time.Time
	// Autopsy is that of the JVM; nil without one.
	Autopsy *ledger.Autopsy
}

// fate takes an event that tells of a kill, or of the end of a JVM.
func (t *taking) fate(j *jvm, e *ledger.Event, at time.Time) error {
	switch e.Kind {
	case ledger.Ended:
		j.ended = at
		// The JVMs of a group all tell of a kill in it; the one that ended was
		// killed.
		_, err := t.exec(`UPDATE kills SET jvm = ?, verdict = ?, counters = ?, footprint = ?, footprint_at = ?
			WHERE machine = ? AND boot = ? AND grp = ? AND inode = ? AND verdict = '' AND at >= ? AND at <= ?`,
			j.id, string(JVMEnded), packed(j.counters), packedFootprint(j.footprint), nanos(j.footprintAt), t.machine, j.process.ID.Boot, group(j), int64(j.process.Group.Inode), nanos(at.Add(-decided)), nanos(at.Add(time.Second)))
		if err != nil {
			return err
		}
		return t.countKills(string(JVMEnded))
	case ledger.OOMKill:
		before, after := e.Values["before"], e.Values["after"]
		if after <= before || before < 0 || after > maxBytes || t.now.Sub(at) >= Quarter {
			return nil
		}
		_, err := t.exec(`INSERT INTO kills (machine, jvm, at, boot, grp, inode, count, kills, verdict, counters, footprint, footprint_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?)
			ON CONFLICT (machine, boot, grp, inode, count) DO NOTHING`,
			t.machine, j.id, nanos(at), j.process.ID.Boot, group(j), int64(j.process.Group.Inode), after, after-before, packed(j.counters), packedFootprint(j.footprint), nanos(j.footprintAt))
		return err
	}
	return nil
}

// group is the group whose kills a JVM tells of.
func group(j *jvm) string { return cmp.Or(j.process.Group.LimitPath, j.process.Group.Path) }

// settle decides about kills whose JVM has not ended with them, by what is known of
// the time since.
func (t *taking) settle() error {
	_, err := t.exec("UPDATE kills SET verdict = ? WHERE machine = ? AND verdict = '' AND at < ?", string(OtherProcess), t.machine, t.latest-int64(decided))
	if err != nil {
		return err
	}
	return t.countKills(string(OtherProcess))
}

// countKills counts the kills of a verdict that were not counted before: what is
// counted outlives the rows, which are kept for a while.
func (t *taking) countKills(verdict string) error {
	var n int64
	if err := t.queryRow("SELECT coalesce(sum(kills), 0) FROM kills WHERE machine = ? AND verdict = ? AND counted = 0", t.machine, verdict).Scan(&n); err != nil || n == 0 {
		return err
	}
	if _, err := t.exec("UPDATE kills SET counted = 1 WHERE machine = ? AND verdict = ?", t.machine, verdict); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO kill_counts (machine, verdict, kills) VALUES (?, ?, ?)
		ON CONFLICT (machine, verdict) DO UPDATE SET kills = kill_counts.kills + excluded.kills`, t.machine, verdict, n)
	return err
}

// Kills lists the kills of a time, the newest first, at most limit of them, those
// with a smaller id than before unless that is 0.
func (d *DB) Kills(ctx context.Context, from, to time.Time, before int64, limit int) ([]Kill, error) {
	rows, err := d.query(ctx, `SELECT kills.id, machines.name, kills.at, kills.grp, kills.kills, kills.verdict, autopsies.data,
		jvms.id, first, last, ended, process, kills.counters, counters_at, kills.footprint, kills.footprint_at, findings, NULL
		FROM kills JOIN jvms ON jvms.id = kills.jvm JOIN machines ON machines.id = kills.machine
		LEFT JOIN autopsies ON autopsies.jvm = kills.jvm
		WHERE kills.at >= ? AND kills.at < ? AND (? = 0 OR kills.id < ?) ORDER BY kills.id DESC LIMIT ?`, nanos(from), nanos(to), before, before, limit)
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []Kill
	for rows.Next() {
		var k Kill
		j := jvm{brief: true}
		var at int64
		var examined []byte
		if err := j.scan(prefixed{rows, []any{&k.ID, &k.Machine, &at, &k.Group, &k.Kills, &k.Verdict, &examined}}); err != nil {
			return nil, d.failed(err)
		}
		if k.Autopsy, err = unpackAutopsy(examined); err != nil {
			return nil, d.failed(err)
		}
		k.At, k.JVM, k.Name, k.Counters, k.Footprint, k.FootprintAt = timeOf(at), j.id, j.process.Name, j.counters, j.footprint, j.footprintAt
		out = append(out, k)
	}
	return out, d.failed(rows.Err())
}

// prefixed scans some columns before those of another scan.
type prefixed struct {
	row    interface{ Scan(...any) error }
	before []any
}

// Scan scans both.
func (p prefixed) Scan(rest ...any) error { return p.row.Scan(append(p.before, rest...)...) }

// KillCount is how many kills of a verdict a machine had since it was first heard
// of.
type KillCount struct {
	Machine string
	Verdict Verdict
	Kills   int64
}

// KillCounts counts kills by machine and verdict.
func (d *DB) KillCounts(ctx context.Context) ([]KillCount, error) {
	rows, err := d.query(ctx, "SELECT name, verdict, kills FROM kill_counts JOIN machines ON id = machine ORDER BY name, verdict")
	if err != nil {
		return nil, d.failed(err)
	}
	defer rows.Close()
	var out []KillCount
	for rows.Next() {
		var k KillCount
		if err := rows.Scan(&k.Machine, &k.Verdict, &k.Kills); err != nil {
			return nil, d.failed(err)
		}
		out = append(out, k)
	}
	return out, d.failed(rows.Err())
}
