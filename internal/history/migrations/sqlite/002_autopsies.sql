-- +goose Up
CREATE TABLE autopsies (
	jvm  INTEGER NOT NULL PRIMARY KEY REFERENCES jvms (id) ON DELETE CASCADE,
	at   INTEGER NOT NULL,
	data BLOB NOT NULL               -- CBOR of ledger.Autopsy
) STRICT;
CREATE TABLE autopsy_counts (
	machine   INTEGER NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	verdict   TEXT NOT NULL,
	autopsies INTEGER NOT NULL,
	PRIMARY KEY (machine, verdict)
) STRICT, WITHOUT ROWID;
