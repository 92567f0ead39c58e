-- +goose Up
CREATE TABLE autopsies (
	jvm  bigint NOT NULL PRIMARY KEY REFERENCES jvms (id) ON DELETE CASCADE,
	at   bigint NOT NULL,
	data bytea NOT NULL               -- CBOR of ledger.Autopsy
);
CREATE TABLE autopsy_counts (
	machine   bigint NOT NULL REFERENCES machines (id) ON DELETE CASCADE,
	verdict   text NOT NULL,
	autopsies bigint NOT NULL,
	PRIMARY KEY (machine, verdict)
);
