-- +goose Up
-- Times are nanoseconds since 1970 unless said otherwise.
CREATE TABLE machines (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	name     TEXT NOT NULL UNIQUE,
	ledger   TEXT NOT NULL,             -- that was taken from last
	seen     INTEGER NOT NULL,          -- when it was heard of last
	version  TEXT NOT NULL,             -- of its agent
	refused  INTEGER NOT NULL DEFAULT 0, -- records that were no honest ones
	spent    BLOB                       -- CBOR of ledger.Spent
) STRICT;
CREATE TABLE positions (
	machine  INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	ledger   TEXT NOT NULL,
	position INTEGER NOT NULL,          -- number of the last record that was taken
	PRIMARY KEY (machine, ledger)
) STRICT, WITHOUT ROWID;
CREATE TABLE jvms (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	machine      INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	boot         TEXT NOT NULL,
	pid          INTEGER NOT NULL,
	ticks        INTEGER NOT NULL,
	first        INTEGER NOT NULL,
	last         INTEGER NOT NULL,
	ended        INTEGER,
	process      BLOB,                  -- CBOR of ledger.Process
	counters     BLOB,                  -- CBOR of the last ledger.Counters
	counters_at  INTEGER NOT NULL DEFAULT 0,
	footprint    BLOB,                  -- CBOR of the last ledger.Footprint
	footprint_at INTEGER NOT NULL DEFAULT 0,
	findings     BLOB,                  -- CBOR of the last []ledger.Finding
	spark        BLOB,                  -- CBOR of Spark
	UNIQUE (machine, boot, pid, ticks)
) STRICT;
CREATE INDEX jvms_last ON jvms (last);
CREATE TABLE samples (
	jvm            INTEGER NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	tier           INTEGER NOT NULL,    -- seconds of one interval
	t              INTEGER NOT NULL,    -- where it begins, seconds since 1970
	-- The largest of the interval.
	usage          INTEGER NOT NULL,
	needed         INTEGER NOT NULL,
	resident       INTEGER NOT NULL,
	swap           INTEGER NOT NULL,
	heap_used      INTEGER NOT NULL,
	heap_committed INTEGER NOT NULL,
	after_gc       INTEGER NOT NULL,
	threads        INTEGER NOT NULL,
	classes        INTEGER NOT NULL,
	-- The last, of limits; of counts too, which only rise.
	bound          INTEGER NOT NULL,
	high           INTEGER NOT NULL,
	collections    INTEGER NOT NULL,
	gc_time        INTEGER NOT NULL,
	at_limit       INTEGER NOT NULL,
	oom_kills      INTEGER NOT NULL,
	pressure       INTEGER NOT NULL,
	PRIMARY KEY (jvm, tier, t)
) STRICT, WITHOUT ROWID;
CREATE TABLE footprints (
	jvm      INTEGER NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	tier     INTEGER NOT NULL,
	t        INTEGER NOT NULL,          -- seconds since 1970
	at       INTEGER NOT NULL,          -- of the one in the interval with the most resident
	resident INTEGER NOT NULL,
	data     BLOB NOT NULL,             -- CBOR of ledger.Footprint
	PRIMARY KEY (jvm, tier, t)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	machine INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	jvm     INTEGER REFERENCES jvms (id) ON DELETE CASCADE, -- NULL: of the machine
	at      INTEGER NOT NULL,
	data    BLOB NOT NULL               -- CBOR of ledger.Event
) STRICT;
CREATE INDEX events_jvm ON events (jvm, at);
CREATE INDEX events_machine ON events (machine, at);
CREATE TABLE kills (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	machine  INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	jvm      INTEGER NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	at       INTEGER NOT NULL,
	boot     TEXT NOT NULL,
	grp      TEXT NOT NULL,             -- path of the group whose count rose
	inode    INTEGER NOT NULL,
	count    INTEGER NOT NULL,          -- of the group's kills, with this one
	kills    INTEGER NOT NULL,          -- how many at once
	verdict  TEXT NOT NULL,             -- '' while it is open
	counted  INTEGER NOT NULL DEFAULT 0,
	-- The last of the JVM before.
	counters     BLOB NOT NULL,
	footprint    BLOB,
	footprint_at INTEGER NOT NULL,
	UNIQUE (machine, boot, grp, inode, count)
) STRICT;
CREATE INDEX kills_at ON kills (at);
CREATE TABLE kill_counts (
	machine INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	verdict TEXT NOT NULL,
	kills   INTEGER NOT NULL,
	PRIMARY KEY (machine, verdict)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	name    TEXT NOT NULL UNIQUE,       -- of a token that writes, the machine's name
	kind    TEXT NOT NULL CHECK (kind IN ('read', 'write')),
	hash    BLOB NOT NULL UNIQUE,       -- SHA-256 of the token
	made    INTEGER NOT NULL
) STRICT;
