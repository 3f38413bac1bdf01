-- A deferred event comes back when its deadline_at has come.
ALTER TABLE events ADD COLUMN deferrals INTEGER NOT NULL DEFAULT 0; -- times that it was deferred
UPDATE events SET deferrals = 1, deadline_at = disposed_at + 900000000 WHERE disposition = 'deferred';
