-- +goose Up
ALTER TABLE tokens DROP CONSTRAINT tokens_kind_check;
ALTER TABLE tokens ADD CONSTRAINT tokens_kind_check CHECK (kind IN ('read', 'write', 'enrol'));
ALTER TABLE tokens
	ADD COLUMN expires  bigint NOT NULL DEFAULT 0, -- 0: never
	ADD COLUMN machines bigint NOT NULL DEFAULT 0, -- that one which enrols may enrol
	ADD COLUMN enrolled bigint NOT NULL DEFAULT 0; -- id of the token that enrolled the machine
CREATE INDEX tokens_enrolled ON tokens (enrolled);
