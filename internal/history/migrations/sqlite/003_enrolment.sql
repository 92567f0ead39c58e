-- +goose Up
-- A CHECK cannot be changed: the table is made anew. Nothing refers to it.
CREATE TABLE tokens_3 (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	name     TEXT NOT NULL UNIQUE,       -- of a token that writes, the machine's name
	kind     TEXT NOT NULL CHECK (kind IN ('read', 'write', 'enrol')),
	hash     BLOB NOT NULL UNIQUE,       -- SHA-256 of the token
	made     INTEGER NOT NULL,
	expires  INTEGER NOT NULL DEFAULT 0, -- 0: never
	machines INTEGER NOT NULL DEFAULT 0, -- that one which enrols may enrol
	enrolled INTEGER NOT NULL DEFAULT 0  -- id of the token that enrolled the machine
) STRICT;
INSERT INTO tokens_3 (id, name, kind, hash, made) SELECT id, name, kind, hash, made FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_3 RENAME TO tokens;
CREATE INDEX tokens_enrolled ON tokens (enrolled);
