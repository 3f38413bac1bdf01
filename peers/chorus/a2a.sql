-- Messages that came over A2A are tasks of their senders.

CREATE TABLE task (
  id      TEXT PRIMARY KEY,                   -- as its sender names it
  inbox   TEXT NOT NULL,
  inbound INTEGER NOT NULL UNIQUE REFERENCES inbound (seq) ON DELETE CASCADE,
  context TEXT NOT NULL,                      -- the channel id
  state   TEXT NOT NULL,                      -- submitted, working, completed, failed, canceled
  words   TEXT NOT NULL DEFAULT '',           -- of its state
  interim INTEGER NOT NULL DEFAULT 0,         -- what was said last is no answer
  at      INTEGER NOT NULL                    -- of the state
) STRICT;

CREATE TABLE artifact (                       -- what an agent answered
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX artifact_task ON artifact (task, seq);
