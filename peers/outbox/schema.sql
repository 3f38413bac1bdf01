CREATE TABLE outbox (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  queue        TEXT    NOT NULL,           -- Options.Name
  destination  TEXT    NOT NULL,
  key          TEXT    NOT NULL,
  body         BLOB    NOT NULL,           -- emptied once sent
  state        TEXT    NOT NULL CHECK (state IN ('pending','sending','sent','dead','unknown','dropped')),
  attempt      INTEGER NOT NULL DEFAULT 0, -- attempts begun
  enqueued_at  INTEGER NOT NULL,           -- times are microseconds since 1970
  not_before   INTEGER NOT NULL,           -- of the next attempt
  paced        INTEGER NOT NULL DEFAULT 0, -- not_before was named by Retry, not by backoff
  expires_at   INTEGER NOT NULL,
  settled_at   INTEGER NOT NULL DEFAULT 0,
  error        TEXT    NOT NULL DEFAULT '',
  UNIQUE (queue, destination, key)
) STRICT;
CREATE INDEX outbox_open ON outbox (queue, destination, id) WHERE state IN ('pending','sending');
CREATE INDEX outbox_settled ON outbox (queue, state, settled_at) WHERE state IN ('sent','dead','unknown','dropped');
