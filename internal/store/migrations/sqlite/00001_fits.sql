-- +goose Up
-- The tables may be there: they were made before migrations were counted here.
CREATE TABLE IF NOT EXISTS fits (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	began      INTEGER NOT NULL,  -- nanoseconds since 1970
	ended      INTEGER,           -- NULL: cut off, or under way
	making     TEXT,              -- a file that is left over when tare is killed
	plan       TEXT NOT NULL,     -- JSON of fit.Plan
	invocation TEXT NOT NULL,     -- JSON of Invocation
	ending     TEXT               -- JSON of fit.Ending
) STRICT;
CREATE TABLE IF NOT EXISTS steps (
	fit  INTEGER NOT NULL REFERENCES fits (id) ON DELETE CASCADE,
	seq  INTEGER NOT NULL,        -- from 1
	kind TEXT NOT NULL CHECK (kind IN ('trial', 'training')),
	step TEXT NOT NULL,           -- JSON of fit.Step
	PRIMARY KEY (fit, seq)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
