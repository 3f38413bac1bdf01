-- An event has one state (state.go), and what became of a message is the outbox's to say.
ALTER TABLE events ADD COLUMN state TEXT NOT NULL DEFAULT 'stored';
ALTER TABLE events ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0; -- it is promised: disposition claimed, while it is open
UPDATE events SET claimed = disposition = 'claimed', state = CASE
  WHEN disposition IN ('responded', 'acknowledged', 'ignored', 'superseded', 'failed') THEN disposition
  WHEN replied = 1 THEN 'answered'
  WHEN disposition = 'deferred' THEN 'deferred'
  ELSE stage END;
UPDATE events SET deadline_at = 0 WHERE state = 'answered';
UPDATE events SET deadline_at = 1 WHERE state = 'deferred' AND deadline_at = 0; -- it would never have come back
-- Digests cover the events after this one.
INSERT INTO counters (name, value) SELECT 'digest_seq', coalesce(
  (SELECT min(seq) - 1 FROM events WHERE stage = 'digest'), (SELECT max(seq) FROM events), 0);
DROP INDEX events_stage;
CREATE INDEX events_state ON events (state, seq);
ALTER TABLE events DROP COLUMN stage;
ALTER TABLE events DROP COLUMN disposition;
ALTER TABLE events DROP COLUMN disposed_at;
ALTER TABLE events DROP COLUMN replied;
ALTER TABLE events DROP COLUMN acted; -- the turn's outbound says it
ALTER TABLE sent DROP COLUMN status;
ALTER TABLE sent DROP COLUMN reason;
ALTER TABLE sent DROP COLUMN source_id;
