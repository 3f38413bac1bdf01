-- Times are microseconds since 1970. "surface" tells the bridges in one database
-- apart; "chat" is the identity of a chat on the bus.

CREATE TABLE surface_chats (
  surface  TEXT    NOT NULL,
  chat     TEXT    NOT NULL,
  state    TEXT    NOT NULL CHECK (state IN ('idle','asking','assigned')),
  closed   INTEGER NOT NULL DEFAULT 0,   -- it asks for no agent
  request  TEXT    NOT NULL DEFAULT '',  -- requestId of the open spawn_request
  asked_at INTEGER NOT NULL DEFAULT 0,   -- when the agent was first asked for
  told     INTEGER NOT NULL DEFAULT 0,   -- the chat knows that there is trouble
  trouble  TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (surface, chat)
) STRICT;

CREATE TABLE surface_requests (
  request TEXT    PRIMARY KEY,
  surface TEXT    NOT NULL,
  chat    TEXT    NOT NULL,
  at      INTEGER NOT NULL
) STRICT;
CREATE INDEX surface_requests_of ON surface_requests (surface, chat, at);

CREATE TABLE surface_agents (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of assignment
  surface    TEXT    NOT NULL,
  chat       TEXT    NOT NULL,
  agent      TEXT    NOT NULL,
  spawned    INTEGER NOT NULL,                  -- came as the answer to a spawn_request
  configured INTEGER NOT NULL DEFAULT 0,        -- knows that it talks to this chat
  at         INTEGER NOT NULL,
  UNIQUE (surface, chat, agent)
) STRICT;

CREATE TABLE surface_events (
  surface  TEXT    NOT NULL,
  event    INTEGER NOT NULL,             -- the bridge's own number; grows
  chat     TEXT    NOT NULL,
  source   TEXT    NOT NULL,             -- sourceId on the bus
  ready_at INTEGER NOT NULL DEFAULT 0,   -- it may still change until then
  agents   TEXT    NOT NULL DEFAULT '',  -- JSON list: to whom it was handed on; empty: it waits
  at       INTEGER NOT NULL,
  PRIMARY KEY (surface, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX surface_events_waiting ON surface_events (surface, chat, event) WHERE agents = '';
CREATE INDEX surface_events_source ON surface_events (surface, source);
CREATE INDEX surface_events_age ON surface_events (at);

CREATE TABLE surface_claims (
  event TEXT    PRIMARY KEY,
  token INTEGER NOT NULL,   -- the newest that was seen
  at    INTEGER NOT NULL
) STRICT;

-- When the collaboration broker was seen last: one that is away at the start may be
-- starting, too.
CREATE TABLE surface_broker (
  surface TEXT    PRIMARY KEY,
  seen_at INTEGER NOT NULL
) STRICT;
