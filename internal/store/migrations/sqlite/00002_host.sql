-- +goose Up
ALTER TABLE fits ADD COLUMN host TEXT NOT NULL DEFAULT '';   -- where the fit runs; empty: made before hosts were kept
ALTER TABLE fits ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- length of its JSON
UPDATE fits SET bytes = octet_length(plan) + octet_length(invocation) + ifnull(octet_length(ending), 0)
	+ (SELECT ifnull(sum(octet_length(step)), 0) FROM steps WHERE fit = id);
-- Earlier versions of tare look at user_version, and would not fill the new columns.
PRAGMA user_version = 2;
