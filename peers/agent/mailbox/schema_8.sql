-- What a person decides for the agent (decision.go): its copy of the broker's record, or the
-- record itself where there is no broker.
CREATE TABLE decisions (
  id      TEXT    PRIMARY KEY,
  turn_id TEXT    NOT NULL,
  chat    TEXT    NOT NULL,
  tool    TEXT    NOT NULL,
  digest  TEXT    NOT NULL,                 -- of the arguments
  state   TEXT    NOT NULL,
  scope   TEXT    NOT NULL,
  used    INTEGER NOT NULL,                 -- the call that it allowed has begun
  heard   TEXT    NOT NULL,                 -- JSON: the verdict heard in the chat, not yet decided
  record  TEXT    NOT NULL,                 -- JSON: the whole of it
  at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_open ON decisions (chat, state) WHERE state IN ('pending', 'allowed');
CREATE INDEX decisions_turn ON decisions (turn_id);
