-- +goose Up
CREATE TABLE fits (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	host       text NOT NULL,     -- where the fit runs
	began      bigint NOT NULL,   -- nanoseconds since 1970
	ended      bigint,            -- NULL: cut off, or under way
	making     text,              -- a file of the host that is left over when tare is killed
	plan       json NOT NULL,     -- fit.Plan
	invocation json NOT NULL,     -- Invocation
	ending     json,              -- fit.Ending
	bytes      bigint NOT NULL    -- length of the fit's JSON
);
-- json and not jsonb: jsonb refuses \u0000, which an application's log may hold.
CREATE TABLE steps (
	fit  bigint NOT NULL REFERENCES fits (id) ON DELETE CASCADE,
	seq  bigint NOT NULL,         -- from 1
	kind text NOT NULL CHECK (kind IN ('trial', 'training')),
	step json NOT NULL,           -- fit.Step
	PRIMARY KEY (fit, seq)
);
