-- The log: everything that happened, in order. The broker's state follows from it. Old events
-- leave from its beginning.
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

-- How far the events are applied to entities, and the first event that is kept.
CREATE TABLE applied (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, first INTEGER NOT NULL) STRICT;
INSERT INTO applied VALUES (1, 0, 1);

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events WHEN old.seq >= (SELECT first FROM applied)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- The state: each entity as its last event left it. A start reads the open ones, and no events.
CREATE TABLE entities (
  n    INTEGER PRIMARY KEY,      -- in the order of creation
  kind TEXT    NOT NULL,
  id   TEXT    NOT NULL,
  ref  TEXT    NOT NULL,         -- by which lists find it
  open INTEGER NOT NULL,         -- 0: it leaves with its last event
  seq  INTEGER NOT NULL,         -- of its last event
  body TEXT    NOT NULL,
  UNIQUE (kind, id)
) STRICT;
CREATE INDEX entities_open ON entities (kind, n) WHERE open = 1;
CREATE INDEX entities_ref ON entities (kind, ref, n);
CREATE INDEX entities_closed ON entities (seq) WHERE open = 0;

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
  kept        INTEGER NOT NULL,           -- 0: deleted once it is sent
  sent        INTEGER NOT NULL DEFAULT 0,
  at          INTEGER NOT NULL,           -- microseconds since 1970
  UNIQUE (requester, request_id)
) STRICT;
CREATE INDEX answers_unsent ON answers (id) WHERE sent = 0;
CREATE INDEX answers_at ON answers (at);

-- The last event that was published to collab:events.
CREATE TABLE published (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;
INSERT INTO published VALUES (1, 0);
