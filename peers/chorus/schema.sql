-- Times are microseconds since 1970; 0 means that it has not happened.

CREATE TABLE setting (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- Agent side: who may POST to us, and which messages came.

CREATE TABLE inbox (
  name          TEXT PRIMARY KEY,
  secret_sha256 TEXT UNIQUE,                  -- of the connection string's secret; NULL once revoked
  created_at    INTEGER NOT NULL,
  changed_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE channel (
  peer        TEXT PRIMARY KEY,               -- chorus:<inbox>.<channel id>, the identity on the bus
  inbox       TEXT NOT NULL,
  external_id TEXT NOT NULL,                  -- the service's channel id
  mcp         BLOB,                           -- the newest MCP configuration, sealed
  mcp_at      INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX channel_external ON channel (external_id);

CREATE TABLE inbound (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  channel      TEXT NOT NULL REFERENCES channel (peer) ON DELETE CASCADE,
  external_id  TEXT NOT NULL,                 -- the service's message id
  source_id    TEXT NOT NULL,                 -- the sourceId by which agents name this message, one in all inboxes of a room
  message_id   TEXT NOT NULL,                 -- of the chat_message on the bus, the same in every attempt
  content      BLOB NOT NULL,                 -- of the chat_message; emptied once it is old
  callback     BLOB,                          -- sealed; NULL once it is forgotten
  received_at  INTEGER NOT NULL,
  forwarded_at INTEGER NOT NULL DEFAULT 0,    -- when the agent took it
  ambient      INTEGER,                       -- it addresses nobody if it names nobody; NULL until it is first sent
  turn         TEXT NOT NULL DEFAULT '',      -- the last lifecycle event: '', 'processing' or 'idle'
  UNIQUE (channel, external_id)
) STRICT;
CREATE INDEX inbound_channel ON inbound (channel, seq);
CREATE INDEX inbound_source ON inbound (source_id);
CREATE INDEX inbound_message ON inbound (message_id);
CREATE INDEX inbound_waiting ON inbound (channel, seq) WHERE forwarded_at = 0;
CREATE INDEX inbound_age ON inbound (received_at);

CREATE TABLE shown (                          -- the replies and reports that were taken; a repeated one changes nothing
  inbound INTEGER NOT NULL REFERENCES inbound (seq) ON DELETE CASCADE,
  agent   TEXT NOT NULL,
  key     TEXT NOT NULL,
  PRIMARY KEY (inbound, agent, key)
) STRICT, WITHOUT ROWID;

-- A2A: a message that came over A2A is a task of its sender.

CREATE TABLE task (
  id      TEXT PRIMARY KEY,                   -- as its sender names it
  inbox   TEXT NOT NULL,
  inbound INTEGER NOT NULL UNIQUE REFERENCES inbound (seq) ON DELETE CASCADE,
  context TEXT NOT NULL,                      -- the channel id
  state   TEXT NOT NULL,                      -- submitted, working, input_required, completed, failed or canceled
  words   TEXT NOT NULL DEFAULT '',           -- the text of the state
  interim INTEGER NOT NULL DEFAULT 0,         -- the agent's last message was not an answer
  working INTEGER NOT NULL DEFAULT 0,         -- turns that have begun and not ended
  at      INTEGER NOT NULL                    -- when the state was entered
) STRICT;

CREATE TABLE task_message (                   -- a task that asks takes another message
  inbound INTEGER PRIMARY KEY REFERENCES inbound (seq) ON DELETE CASCADE,
  task    TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE
) STRICT;
CREATE INDEX task_message_task ON task_message (task);

CREATE TABLE artifact (                       -- an agent's answers
  seq  INTEGER PRIMARY KEY AUTOINCREMENT,
  task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX artifact_task ON artifact (task, seq);

-- Webhooks: other programs POST to a hook, and a chat receives the posts.

CREATE TABLE hook (
  name        TEXT PRIMARY KEY,
  chat        TEXT NOT NULL,                  -- the chat's identity on the bus
  oblige      INTEGER NOT NULL,               -- the chat's agent must answer each post
  secret      BLOB NOT NULL,                  -- the signing secret, sealed
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  refused_at  INTEGER NOT NULL DEFAULT 0,     -- when a post was last refused
  refused_why TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE hook_post (                      -- the posts that were taken; a repeated one changes nothing
  hook TEXT NOT NULL REFERENCES hook (name) ON DELETE CASCADE,
  id   TEXT NOT NULL,
  at   INTEGER NOT NULL,
  PRIMARY KEY (hook, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_post_age ON hook_post (at);

-- Service side: the external agents and their turns. Each agent has a database of its own.

CREATE TABLE agent (
  name       TEXT PRIMARY KEY,
  connection BLOB NOT NULL,                   -- the connection string, sealed
  settings   TEXT NOT NULL,                   -- AgentSettings as JSON
  trouble    TEXT NOT NULL DEFAULT '',        -- why it is not on the bus
  added_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE delivery (                       -- one turn of an external agent, as it is POSTed
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  agent           TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  turn            TEXT NOT NULL,              -- the agent's name for the turn
  revision        TEXT NOT NULL,              -- the version of the turn's text that was delivered
  chat            TEXT NOT NULL,              -- whose tools go with it
  channel         TEXT NOT NULL,              -- channel.id of the POST
  state           TEXT NOT NULL,              -- posting, open, failed, or stale: delivered again with another text
  digest          TEXT NOT NULL DEFAULT '',   -- of the message
  body            BLOB,                       -- of the POST, without callback and tools; NULL once it was sent
  due_at          INTEGER NOT NULL,           -- when it expires
  callback_sha256 TEXT UNIQUE,
  callback        BLOB,                       -- the callback's secret, sealed
  token_sha256    TEXT UNIQUE,
  token           BLOB,                       -- the MCP token, sealed
  outputs         INTEGER NOT NULL DEFAULT 0, -- events that came to the callback
  trouble         TEXT NOT NULL DEFAULT ''    -- why the agent was not reached
) STRICT;
CREATE INDEX delivery_turn ON delivery (agent, turn);
CREATE INDEX delivery_due ON delivery (due_at);
