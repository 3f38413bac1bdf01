-- The agents that were ever asked for.
CREATE TABLE agents (
  name       TEXT    PRIMARY KEY,           -- without "agent:"
  profile    TEXT    NOT NULL DEFAULT '',
  derived    TEXT    NOT NULL DEFAULT '',   -- the topic whose own agent this is
  state      TEXT    NOT NULL CHECK (state IN ('wanted','idle','failed')),
  handle     TEXT    NOT NULL DEFAULT '',   -- of the running instance, as its launcher wrote it
  online     INTEGER NOT NULL DEFAULT 0,    -- the running instance has said so
  error      TEXT    NOT NULL DEFAULT '',   -- why it failed
  created_at INTEGER NOT NULL               -- times are microseconds since 1970
) STRICT;
CREATE UNIQUE INDEX agents_derived ON agents (derived) WHERE derived <> '';

-- Which chats an agent talks to.
CREATE TABLE assignments (
  topic TEXT NOT NULL,
  agent TEXT NOT NULL REFERENCES agents (name),
  since INTEGER NOT NULL,
  PRIMARY KEY (topic, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX assignments_agent ON assignments (agent);

-- Spawn requests that wait for an answer. A request goes when its answers have
-- arrived, or can no longer arrive.
CREATE TABLE requests (
  requester  TEXT    NOT NULL,
  id         TEXT    NOT NULL,              -- requestId, else the messageId
  echo       TEXT    NOT NULL,              -- requestId as it came
  message    TEXT    NOT NULL,              -- messageId
  topic      TEXT    NOT NULL,
  agent      TEXT    NOT NULL,
  answering  INTEGER NOT NULL DEFAULT 0,    -- answers that are on their way
  arrived_at INTEGER NOT NULL,
  traceparent TEXT   NOT NULL DEFAULT '',
  PRIMARY KEY (requester, id, topic)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_agent ON requests (agent);

-- Credentials that the bus may know. A row is written before the bus is asked
-- for the credential and removed after it was revoked, so none is forgotten.
CREATE TABLE credentials (
  name    TEXT    PRIMARY KEY,
  agent   TEXT    NOT NULL,
  grants  TEXT    NOT NULL,                 -- what was asked for, as JSON
  state   TEXT    NOT NULL CHECK (state IN ('asked','current','old'))
) STRICT, WITHOUT ROWID;
CREATE INDEX credentials_agent ON credentials (agent);
