-- +goose Up
-- Times are nanoseconds since 1970 unless said otherwise.
CREATE TABLE machines (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name     text NOT NULL UNIQUE,
	ledger   text NOT NULL,             -- that was taken from last
	seen     bigint NOT NULL,          -- when it was heard of last
	version  text NOT NULL,             -- of its agent
	refused  bigint NOT NULL DEFAULT 0, -- records that were no honest ones
	spent    bytea                       -- CBOR of ledger.Spent
);
CREATE TABLE positions (
	machine  bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	ledger   text NOT NULL,
	position bigint NOT NULL,          -- number of the last record that was taken
	PRIMARY KEY (machine, ledger)
);
CREATE TABLE jvms (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	machine      bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	boot         text NOT NULL,
	pid          bigint NOT NULL,
	ticks        bigint NOT NULL,
	first        bigint NOT NULL,
	last         bigint NOT NULL,
	ended        bigint,
	process      bytea,                  -- CBOR of ledger.Process
	counters     bytea,                  -- CBOR of the last ledger.Counters
	counters_at  bigint NOT NULL DEFAULT 0,
	footprint    bytea,                  -- CBOR of the last ledger.Footprint
	footprint_at bigint NOT NULL DEFAULT 0,
	findings     bytea,                  -- CBOR of the last []ledger.Finding
	spark        bytea,                  -- CBOR of Spark
	UNIQUE (machine, boot, pid, ticks)
);
CREATE INDEX jvms_last ON jvms (last);
CREATE TABLE samples (
	jvm            bigint NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	tier           bigint NOT NULL,    -- seconds of one interval
	t              bigint NOT NULL,    -- where it begins, seconds since 1970
	-- The largest of the interval.
	usage          bigint NOT NULL,
	needed         bigint NOT NULL,
	resident       bigint NOT NULL,
	swap           bigint NOT NULL,
	heap_used      bigint NOT NULL,
	heap_committed bigint NOT NULL,
	after_gc       bigint NOT NULL,
	threads        bigint NOT NULL,
	classes        bigint NOT NULL,
	-- The last, of limits; of counts too, which only rise.
	bound          bigint NOT NULL,
	high           bigint NOT NULL,
	collections    bigint NOT NULL,
	gc_time        bigint NOT NULL,
	at_limit       bigint NOT NULL,
	oom_kills      bigint NOT NULL,
	pressure       bigint NOT NULL,
	PRIMARY KEY (jvm, tier, t)
);
CREATE TABLE footprints (
	jvm      bigint NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	tier     bigint NOT NULL,
	t        bigint NOT NULL,          -- seconds since 1970
	at       bigint NOT NULL,          -- of the one in the interval with the most resident
	resident bigint NOT NULL,
	data     bytea NOT NULL,             -- CBOR of ledger.Footprint
	PRIMARY KEY (jvm, tier, t)
);
CREATE TABLE events (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	machine bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	jvm     bigint REFERENCES jvms (id) ON DELETE CASCADE, -- NULL: of the machine
	at      bigint NOT NULL,
	data    bytea NOT NULL               -- CBOR of ledger.Event
);
CREATE INDEX events_jvm ON events (jvm, at);
CREATE INDEX events_machine ON events (machine, at);
CREATE TABLE kills (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	machine  bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	jvm      bigint NOT NULL REFERENCES jvms (id) ON DELETE CASCADE,
	at       bigint NOT NULL,
	boot     text NOT NULL,
	grp      text NOT NULL,             -- path of the group whose count rose
	inode    bigint NOT NULL,
	count    bigint NOT NULL,          -- of the group's kills, with this one
	kills    bigint NOT NULL,          -- how many at once
	verdict  text NOT NULL,             -- '' while it is open
	counted  bigint NOT NULL DEFAULT 0,
	-- The last of the JVM before.
	counters     bytea NOT NULL,
	footprint    bytea,
	footprint_at bigint NOT NULL,
	UNIQUE (machine, boot, grp, inode, count)
);
CREATE INDEX kills_at ON kills (at);
CREATE TABLE kill_counts (
	machine bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	verdict text NOT NULL,
	kills   bigint NOT NULL,
	PRIMARY KEY (machine, verdict)
);
CREATE TABLE tokens (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    text NOT NULL UNIQUE,       -- of a token that writes, the machine's name
	kind    text NOT NULL CHECK (kind IN ('read', 'write')),
	hash    bytea NOT NULL UNIQUE,       -- SHA-256 of the token
	made    bigint NOT NULL
);
