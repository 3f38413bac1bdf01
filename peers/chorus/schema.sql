-- Times are microseconds since 1970, 0 where something has not happened.

CREATE TABLE setting (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- Agent side: who may POST to us, and what came.

CREATE TABLE inbox (
  name          TEXT PRIMARY KEY,
  secret_sha256 TEXT UNIQUE,                  -- of the connection string's secret; NULL once revoked
  created_at    INTEGER NOT NULL,
  changed_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE channel (
  peer        TEXT PRIMARY KEY,               -- chorus:<inbox>.<channel id>, the identity on the bus
  inbox       TEXT NOT NULL,
  external_id TEXT NOT NULL,                  -- the channel id of the service
  agent       TEXT NOT NULL DEFAULT '',       -- the assigned agent
  configured  INTEGER NOT NULL DEFAULT 0,     -- the agent knows that it talks to this channel
  request_id  TEXT NOT NULL DEFAULT '',       -- of the spawn request that is open
  told        INTEGER NOT NULL DEFAULT 0,     -- the service knows that no agent could be had
  mcp         BLOB,                           -- newest MCP configuration, sealed
  mcp_at      INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE inbound (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  channel      TEXT NOT NULL REFERENCES channel (peer) ON DELETE CASCADE,
  external_id  TEXT NOT NULL,                 -- the message id of the service
  source_id    TEXT NOT NULL,                 -- how agents name this message
  message_id   TEXT NOT NULL,                 -- of the chat_message on the bus, the same in every attempt
  content      BLOB NOT NULL,                 -- of the chat_message; emptied once old
  callback     BLOB,                          -- sealed; NULL once forgotten
  received_at  INTEGER NOT NULL,
  forwarded_at INTEGER NOT NULL DEFAULT 0,    -- when the agent took it
  turn         TEXT NOT NULL DEFAULT '',      -- '' none seen, 'processing', 'idle'
  UNIQUE (channel, external_id)
) STRICT;
CREATE INDEX inbound_source ON inbound (source_id);
CREATE INDEX inbound_waiting ON inbound (channel, seq) WHERE forwarded_at = 0;
CREATE INDEX inbound_age ON inbound (received_at);

CREATE TABLE shown (                          -- replies and reports that were taken, so that a repeated one changes nothing
  inbound INTEGER NOT NULL REFERENCES inbound (seq) ON DELETE CASCADE,
  agent   TEXT NOT NULL,
  key     TEXT NOT NULL,
  PRIMARY KEY (inbound, agent, key)
) STRICT, WITHOUT ROWID;

-- Service side: the agents outside, what they may see, and what they owe.

CREATE TABLE agent (
  name       TEXT PRIMARY KEY,
  connection BLOB NOT NULL,                   -- the connection string, sealed
  settings   TEXT NOT NULL,                   -- AgentSettings as JSON
  trouble    TEXT NOT NULL DEFAULT '',        -- why it is not on the bus
  added_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  agent        TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  kind         TEXT NOT NULL,
  event_id     TEXT NOT NULL,
  sequence     INTEGER NOT NULL,
  channel      TEXT NOT NULL,                 -- chat, and thread where there is one
  chat         TEXT NOT NULL,                 -- identity of the chat on the bus
  conversation TEXT NOT NULL,                 -- its conversation id, as the chat surface has it
  thread       TEXT NOT NULL,
  author       TEXT NOT NULL,
  type         TEXT NOT NULL,                 -- tg_message or chat_message: how replies are typed
  message_id   TEXT NOT NULL,                 -- of the message on the bus
  traceparent  TEXT NOT NULL,
  content      BLOB NOT NULL,                 -- of the message
  received_at  INTEGER NOT NULL,
  directedness TEXT NOT NULL,
  policy       TEXT NOT NULL,
  injection    TEXT NOT NULL,
  reason       TEXT NOT NULL,
  needs_claim  INTEGER NOT NULL DEFAULT 0,
  claim_token  INTEGER NOT NULL DEFAULT 0,
  disposition  TEXT NOT NULL DEFAULT '',
  turn         INTEGER NOT NULL DEFAULT 0,    -- the delivery that carries it
  UNIQUE (agent, event_id, kind, sequence)
) STRICT;
CREATE INDEX event_channel ON event (agent, channel, seq);
CREATE INDEX event_turn ON event (turn) WHERE turn != 0;
CREATE INDEX event_age ON event (received_at);

CREATE TABLE turn (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  agent           TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  channel         TEXT NOT NULL,
  author          TEXT NOT NULL,
  state           TEXT NOT NULL,              -- composing, posting, open, closed
  first_at        INTEGER NOT NULL,
  due_at          INTEGER NOT NULL,           -- composing: when it is posted; else when it expires
  knock           BLOB,                       -- a knock is posted in place of the content
  callback_sha256 TEXT UNIQUE,
  callback        BLOB,                       -- the callback's secret, sealed
  token_sha256    TEXT UNIQUE,
  token           BLOB,                       -- the MCP token, sealed
  messages        INTEGER NOT NULL DEFAULT 0, -- parts of the answer so far
  trouble         TEXT NOT NULL DEFAULT ''    -- the last error that the agent reported
) STRICT;
CREATE INDEX turn_due ON turn (state, due_at);

CREATE TABLE said (                           -- what the external agent said in a channel
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  agent       TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  channel     TEXT NOT NULL,
  event_id    TEXT NOT NULL,                  -- what it answers
  key         TEXT NOT NULL,                  -- idempotency key
  message_id  TEXT NOT NULL,
  text        TEXT NOT NULL,
  said_at     INTEGER NOT NULL,
  UNIQUE (agent, channel, key)
) STRICT;

CREATE TABLE place (                          -- where an external agent left
  agent   TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  channel TEXT NOT NULL,
  state   TEXT NOT NULL,                      -- leaving (one answer more), left
  PRIMARY KEY (agent, channel)
) STRICT;
