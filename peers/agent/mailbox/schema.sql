-- Times are microseconds since 1970. Every open question about the agent is a
-- query on these tables.

CREATE TABLE chats (                       -- topics that the agent talks to
  topic         TEXT    PRIMARY KEY,
  conversation  TEXT    NOT NULL DEFAULT '', -- id of the conversation behind it, once known
  configured_at INTEGER NOT NULL
) STRICT;

CREATE TABLE receipts (                    -- what was taken in, so that it is taken in once
  kind        TEXT    NOT NULL,
  source_id   TEXT    NOT NULL,
  sequence    TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (kind, source_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (                      -- the mailbox
  seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- timing.sequence
  event_id     TEXT    NOT NULL UNIQUE,
  source_id    TEXT    NOT NULL,           -- of the message that it tells of
  chat         TEXT    NOT NULL,           -- topic to which an answer goes
  message_id   TEXT    NOT NULL,           -- of the bus message that brought it
  traceparent  TEXT    NOT NULL DEFAULT '',
  received_at  INTEGER NOT NULL,
  content      TEXT    NOT NULL,           -- protocol.ChatMessage, defaults filled in
  origin       TEXT    NOT NULL DEFAULT '{}', -- of a wake: what the broker's answer goes to
  kind         TEXT    NOT NULL,
  conversation TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  stream       TEXT    NOT NULL,
  author       TEXT    NOT NULL,
  author_kind  TEXT    NOT NULL,
  stage        TEXT    NOT NULL,           -- see stage in mailbox.go
  decision     TEXT    NOT NULL DEFAULT '{}', -- attention.Decision
  policy       TEXT    NOT NULL DEFAULT '',
  mode         TEXT    NOT NULL DEFAULT '',
  directedness TEXT    NOT NULL DEFAULT '',
  deadline_at  INTEGER NOT NULL DEFAULT 0, -- of an event that is in no turn: when it ends or, deferred, comes back; 0 = none
  turn_id      TEXT    NOT NULL DEFAULT '',
  merged_into  TEXT    NOT NULL DEFAULT '', -- event id of the fragment that carries it
  replied      INTEGER NOT NULL DEFAULT 0, -- a message was sent in response
  acted        INTEGER NOT NULL DEFAULT 0, -- a message or a signal was sent in response
  disposition  TEXT    NOT NULL DEFAULT '',
  disposed_at  INTEGER NOT NULL DEFAULT 0,
  deleted      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX events_stage ON events (stage, seq);
CREATE INDEX events_place ON events (conversation, thread, seq);
CREATE INDEX events_source ON events (source_id);
CREATE INDEX events_turn ON events (turn_id) WHERE turn_id <> '';
CREATE INDEX events_deadline ON events (deadline_at) WHERE deadline_at > 0;

CREATE TABLE turns (
  turn_id     TEXT    PRIMARY KEY,
  event_id    TEXT    NOT NULL,            -- of the last fragment
  merged      TEXT    NOT NULL,            -- JSON list of all fragments, in order
  chat        TEXT    NOT NULL,
  place       TEXT    NOT NULL,            -- conversation and thread: one turn at a time
  author      TEXT    NOT NULL,
  mode        TEXT    NOT NULL,
  state       TEXT    NOT NULL,            -- see turnState in turn.go
  seq         INTEGER NOT NULL,            -- of the last fragment
  rank        INTEGER NOT NULL,            -- smaller goes first
  attempt     INTEGER NOT NULL DEFAULT 0,  -- deliveries begun
  failures    INTEGER NOT NULL DEFAULT 0,
  outbound    INTEGER NOT NULL DEFAULT 0,  -- something was sent
  not_before  INTEGER NOT NULL DEFAULT 0,
  first_at    INTEGER NOT NULL DEFAULT 0,  -- the first fragment came
  started_at  INTEGER NOT NULL DEFAULT 0,
  deadline_at INTEGER NOT NULL DEFAULT 0,
  ended_at    INTEGER NOT NULL DEFAULT 0,
  body        TEXT    NOT NULL DEFAULT ''  -- of a digest
) STRICT;
CREATE INDEX turns_state ON turns (state, rank, seq);

CREATE TABLE sent (                        -- the agent's own messages
  message_id  TEXT    PRIMARY KEY,         -- of the tg_reply or chat_reply
  event_id    TEXT    NOT NULL,
  key         TEXT    NOT NULL UNIQUE,     -- idempotencyKey
  chat        TEXT    NOT NULL,
  conversation TEXT   NOT NULL,
  thread      TEXT    NOT NULL,
  kind        TEXT    NOT NULL,            -- text, signal or notice
  text        TEXT    NOT NULL,
  sent_at     INTEGER NOT NULL,
  source_id   TEXT    NOT NULL DEFAULT '', -- that the chat gave it
  status      TEXT    NOT NULL DEFAULT 'queued', -- queued, accepted, delivered, failed, unknown
  reason      TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sent_place ON sent (conversation, thread, sent_at);
CREATE INDEX sent_event ON sent (event_id);

CREATE TABLE places (                      -- where the agent takes part, or no longer does
  conversation TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  joined_at    INTEGER NOT NULL DEFAULT 0, -- it was named or has spoken here
  left_at      INTEGER NOT NULL DEFAULT 0,
  leave_event  TEXT    NOT NULL DEFAULT '', -- that asked it to leave
  escalated_at INTEGER NOT NULL DEFAULT 0, -- it called a person in
  PRIMARY KEY (conversation, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
  event_id   TEXT    PRIMARY KEY,
  owner      TEXT    NOT NULL,
  token      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  via        TEXT    NOT NULL              -- local or broker
) STRICT;

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
