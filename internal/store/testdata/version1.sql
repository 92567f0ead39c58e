-- What the first version of tare made.
CREATE TABLE fits (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	began      INTEGER NOT NULL,
	ended      INTEGER,
	making     TEXT,
	plan       TEXT NOT NULL,
	invocation TEXT NOT NULL,
	ending     TEXT
) STRICT;
CREATE TABLE steps (
	fit  INTEGER NOT NULL REFERENCES fits (id) ON DELETE CASCADE,
	seq  INTEGER NOT NULL,
	kind TEXT NOT NULL CHECK (kind IN ('trial', 'training')),
	step TEXT NOT NULL,
	PRIMARY KEY (fit, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO fits (id, began, plan, invocation) VALUES (7, 1700000000000000000, '{"Command":["java"],"AmpleBytes":1073741824}', '{"Flags":null,"Args":["java"]}');
INSERT INTO steps VALUES (7, 1, 'trial', '{"Trial":{"Number":1,"Passed":true}}');
PRAGMA user_version = 1;
