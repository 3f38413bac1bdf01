-- Programs elsewhere POST to hooks, and a chat hears of it.

CREATE TABLE hook (
  name        TEXT PRIMARY KEY,
  chat        TEXT NOT NULL,                  -- identity of the chat on the bus
  oblige      INTEGER NOT NULL,               -- its agent must answer each post
  secret      BLOB NOT NULL,                  -- of the signatures, sealed
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  refused_at  INTEGER NOT NULL DEFAULT 0,     -- of the last post that was refused
  refused_why TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE hook_post (                      -- what was taken, so that a repeated one changes nothing
  hook TEXT NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
  id   TEXT NOT NULL,
  at   INTEGER NOT NULL,
  PRIMARY KEY (hook, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_post_age ON hook_post (at);
