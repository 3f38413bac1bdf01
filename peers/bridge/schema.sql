-- Times are microseconds since 1970. "bridge" distinguishes the bridges that share a
-- database; "chat" is the identity of a chat on the bus.

CREATE TABLE bridge_chats (
  bridge   TEXT    NOT NULL,
  chat     TEXT    NOT NULL,
  state    TEXT    NOT NULL CHECK (state IN ('idle','asking','assigned')),
  closed   INTEGER NOT NULL DEFAULT 0,   -- it requests no agent
  request  TEXT    NOT NULL DEFAULT '',  -- requestId of the open spawn_request
  asked_at INTEGER NOT NULL DEFAULT 0,   -- when the agent was first requested
  notified INTEGER NOT NULL DEFAULT 0,   -- the chat has been told that it has no agent yet
  problem  TEXT    NOT NULL DEFAULT '',  -- why it has no agent yet
  PRIMARY KEY (bridge, chat)
) STRICT;

CREATE TABLE bridge_requests (
  request TEXT    PRIMARY KEY,
  bridge  TEXT    NOT NULL,
  chat    TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT;
CREATE INDEX bridge_requests_of ON bridge_requests (bridge, chat, at);

CREATE TABLE bridge_agents (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of assignment
  bridge     TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  agent      TEXT    NOT NULL,
  spawned    INTEGER NOT NULL,                  -- assigned in answer to a spawn_request
  configured INTEGER NOT NULL DEFAULT 0,        -- has received the configure message for this chat
  at         INTEGER NOT NULL,
  UNIQUE (bridge, chat, agent)
) STRICT;

CREATE TABLE bridge_events (
  bridge   TEXT    NOT NULL,
  event    INTEGER NOT NULL,             -- the adapter's number; increasing
  chat     TEXT    NOT NULL,
  source   TEXT    NOT NULL,             -- sourceId on the bus
  ready_at INTEGER NOT NULL DEFAULT 0,   -- until then it may still change
  agents   TEXT    NOT NULL DEFAULT '',  -- JSON list: the agents it was dispatched to; empty while it waits
  at       INTEGER NOT NULL,
  PRIMARY KEY (bridge, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX bridge_events_waiting ON bridge_events (bridge, chat, event) WHERE agents = '';
CREATE INDEX bridge_events_source ON bridge_events (bridge, source);
CREATE INDEX bridge_events_age ON bridge_events (at);

CREATE TABLE bridge_claims (
  event TEXT    PRIMARY KEY,
  token INTEGER NOT NULL,   -- the newest token seen
  at    INTEGER NOT NULL
) STRICT;

-- When the collaboration broker was last seen. A broker that is absent when the bridge
-- starts may itself be starting.
CREATE TABLE bridge_broker (
  bridge  TEXT    PRIMARY KEY,
  seen_at INTEGER NOT NULL
) STRICT;

CREATE TABLE bridge_admitted (
  bridge TEXT    NOT NULL,
  kind   TEXT    NOT NULL CHECK (kind IN ('user','chat')),
  id     TEXT    NOT NULL,
  by     TEXT    NOT NULL,   -- the user who gave the code, or invited the bot
  at     INTEGER NOT NULL,
  PRIMARY KEY (bridge, kind, id)
) STRICT;

CREATE TABLE bridge_codes (
  hash       TEXT PRIMARY KEY,
  expires_at INTEGER NOT NULL,
  used_at    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE bridge_guesses (
  bridge TEXT    NOT NULL,
  user   TEXT    NOT NULL,
  at     INTEGER NOT NULL
) STRICT;
CREATE INDEX bridge_guesses_user ON bridge_guesses (bridge, user, at);

CREATE TABLE bridge_files (
  ref    TEXT    PRIMARY KEY,
  bridge TEXT    NOT NULL,
  file   TEXT    NOT NULL,   -- its ID in the chat system
  name   TEXT    NOT NULL,
  mime   TEXT    NOT NULL,
  at     INTEGER NOT NULL,
  UNIQUE (bridge, file)
) STRICT;

CREATE TABLE bridge_listeners (
  bridge  TEXT PRIMARY KEY,
  address TEXT NOT NULL   -- of the listener for files
) STRICT;
