-- What the events amount to: everything that somebody may ask for, as it is now. A start
-- reads what is open, and not the events.
CREATE TABLE things (
  n    INTEGER PRIMARY KEY,      -- in the order in which they came
  kind TEXT    NOT NULL,
  id   TEXT    NOT NULL,
  ref  TEXT    NOT NULL,         -- what lists find it by
  open INTEGER NOT NULL,         -- 0: it goes with the event that made it what it is
  seq  INTEGER NOT NULL,         -- of that event
  body TEXT    NOT NULL,
  UNIQUE (kind, id)
) STRICT;
CREATE INDEX things_open ON things (kind, n) WHERE open = 1;
CREATE INDEX things_ref ON things (kind, ref, n);
CREATE INDEX things_closed ON things (seq) WHERE open = 0;

-- How far the events are in things, and the first event that is kept.
CREATE TABLE folded (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, first INTEGER NOT NULL) STRICT;
INSERT INTO folded VALUES (1, 0, 1);

-- Heartbeats leave no events any more, and old events go by their age.
DROP INDEX events_but_heartbeats;
DROP INDEX events_heartbeats;
DROP TRIGGER events_are_not_removed;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events WHEN old.seq >= (SELECT first FROM folded)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
