-- What happened, in order, for good. Every state of the broker follows from it.
CREATE TABLE events (
  seq      INTEGER PRIMARY KEY, -- from 1, without gaps
  id       TEXT NOT NULL,
  type     TEXT NOT NULL,
  source   TEXT NOT NULL,
  target   TEXT NOT NULL,
  payload  TEXT NOT NULL,
  metadata TEXT,
  at       TEXT NOT NULL
) STRICT;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- Answers: to be sent, and kept for a while so that a repeated request gets the same one.
CREATE TABLE answers (
  id          INTEGER PRIMARY KEY,
  requester   TEXT    NOT NULL,
  request_id  TEXT    NOT NULL,
  digest      TEXT    NOT NULL,           -- of method and params
  content     TEXT    NOT NULL,           -- the collab_result
  message_id  TEXT    NOT NULL,
  in_reply_to TEXT    NOT NULL,
  traceparent TEXT    NOT NULL,
  kept        INTEGER NOT NULL,           -- 0: forgotten once sent
  sent        INTEGER NOT NULL DEFAULT 0,
  at          INTEGER NOT NULL,           -- microseconds since 1970
  UNIQUE (requester, request_id)
) STRICT;
CREATE INDEX answers_unsent ON answers (id) WHERE sent = 0;
CREATE INDEX answers_at ON answers (at);

-- How far the events have been published to collab:events.
CREATE TABLE published (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;
INSERT INTO published VALUES (1, 0);
