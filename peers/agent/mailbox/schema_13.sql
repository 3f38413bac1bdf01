-- Who waits for this agent, and whom it waits for (obligation.go). How each stands follows from
-- the acts; open says so for queries alone.
CREATE TABLE obligations (
  id         TEXT    NOT NULL,              -- of the event, by which all who know it name it
  recipient  TEXT    NOT NULL,
  author     TEXT    NOT NULL,
  delegate   TEXT    NOT NULL,              -- who may discharge in the author's place; may be empty
  blocks     TEXT    NOT NULL,
  default_action TEXT NOT NULL,
  mode       TEXT    NOT NULL,              -- in which the event reached this agent; empty: it did not
  title      TEXT    NOT NULL,              -- how it begins, for lists
  rung       TEXT    NOT NULL,              -- of the ladder, if it made the event; else empty
  members    TEXT    NOT NULL DEFAULT '[]', -- JSON: the ids of those that it lists
  created_at INTEGER NOT NULL,
  event_id   TEXT    NOT NULL,              -- of this mailbox, where it is spoken of
  slot       INTEGER NOT NULL DEFAULT 0,    -- the last interval that was seen to
  missed     INTEGER NOT NULL DEFAULT 0,    -- returns were missed since the last one
  escalated  INTEGER NOT NULL DEFAULT 0,    -- the ladder was told
  look_at    INTEGER NOT NULL DEFAULT 0,    -- when something may be due
  open       INTEGER NOT NULL DEFAULT 1,
  state      TEXT    NOT NULL DEFAULT 'open', -- as it was looked at last
  told       INTEGER NOT NULL DEFAULT 0,    -- the broker has it as it is
  PRIMARY KEY (id, recipient)
) STRICT, WITHOUT ROWID;
CREATE INDEX obligations_due ON obligations (look_at) WHERE look_at > 0 AND open = 1;
CREATE INDEX obligations_event ON obligations (event_id);
CREATE INDEX obligations_untold ON obligations (told) WHERE told = 0;
-- What was done about obligating events, also about such as did not come yet.
CREATE TABLE acts (
  n         INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,        -- reactionId
  target    TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  actor     TEXT    NOT NULL,
  signal    TEXT    NOT NULL,
  recipient TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  told      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX acts_target ON acts (target, n);
CREATE INDEX acts_untold ON acts (told) WHERE told = 0;
-- The people of a chat to whom the agent may turn, in the order of its configuration.
ALTER TABLE chats ADD COLUMN people TEXT NOT NULL DEFAULT '[]';
