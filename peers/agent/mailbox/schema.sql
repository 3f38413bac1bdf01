-- Times are microseconds since 1970.

CREATE TABLE chats (                       -- topics that the agent talks to
  topic         TEXT    PRIMARY KEY,
  conversation  TEXT    NOT NULL DEFAULT '', -- id of the conversation behind the topic, once known
  people        TEXT    NOT NULL DEFAULT '[]', -- JSON: whom the agent may ask, in the order of the configuration
  configured_at INTEGER NOT NULL
) STRICT;

CREATE TABLE receipts (                    -- makes storing an event idempotent
  kind        TEXT    NOT NULL,
  source_id   TEXT    NOT NULL,
  sequence    TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (kind, source_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- timing.sequence
  event_id     TEXT    NOT NULL UNIQUE,
  source_id    TEXT    NOT NULL,           -- of the message that the event is about
  chat         TEXT    NOT NULL,           -- topic that answers go to
  message_id   TEXT    NOT NULL,           -- of the bus message that carried the event
  traceparent  TEXT    NOT NULL DEFAULT '',
  received_at  INTEGER NOT NULL,
  content      TEXT    NOT NULL,           -- JSON: protocol.ChatMessage with defaults applied
  origin       TEXT    NOT NULL DEFAULT '{}', -- JSON: for a wake, the broker's records that it is about
  kind         TEXT    NOT NULL,
  conversation TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  stream       TEXT    NOT NULL,
  author       TEXT    NOT NULL,
  author_kind  TEXT    NOT NULL,
  state        TEXT    NOT NULL DEFAULT 'stored', -- see state.go
  claimed      INTEGER NOT NULL DEFAULT 0, -- disposition "claimed" while the event is open
  decision     TEXT    NOT NULL DEFAULT '{}', -- JSON: attention.Decision
  policy       TEXT    NOT NULL DEFAULT '',
  mode         TEXT    NOT NULL DEFAULT '',
  directedness TEXT    NOT NULL DEFAULT '',
  deadline_at  INTEGER NOT NULL DEFAULT 0, -- of an event in no turn: when it ends or, if deferred, is redelivered; 0 = none
  deferrals    INTEGER NOT NULL DEFAULT 0,
  turn_id      TEXT    NOT NULL DEFAULT '',
  merged_into  TEXT    NOT NULL DEFAULT '', -- event id of the fragment that this one was merged into
  deleted      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX events_state ON events (state, seq);
CREATE INDEX events_thread ON events (conversation, thread, seq);
CREATE INDEX events_conversation ON events (conversation, seq);
CREATE INDEX events_people ON events (conversation, received_at) WHERE author_kind = 'human';
CREATE INDEX events_agents ON events (author, conversation, directedness, received_at) WHERE author_kind = 'agent';
CREATE INDEX events_turned ON events (conversation, thread, author, seq) WHERE author_kind = 'agent' AND turn_id <> '';
CREATE INDEX events_digest ON events (seq) WHERE mode = 'digest';
CREATE INDEX events_author ON events (author, chat);
CREATE INDEX events_source ON events (source_id);
CREATE INDEX events_turn ON events (turn_id) WHERE turn_id <> '';
CREATE INDEX events_deadline ON events (deadline_at) WHERE deadline_at > 0;

CREATE TABLE turns (
  turn_id     TEXT    PRIMARY KEY,
  event_id    TEXT    NOT NULL,            -- of the last fragment
  merged      TEXT    NOT NULL,            -- JSON: ids of all fragments, in order
  chat        TEXT    NOT NULL,
  thread_key  TEXT    NOT NULL,            -- conversation and thread: one turn at a time
  author      TEXT    NOT NULL,
  mode        TEXT    NOT NULL,
  state       TEXT    NOT NULL,            -- see state.go
  seq         INTEGER NOT NULL,            -- of the last fragment
  rank        INTEGER NOT NULL,            -- smaller goes first
  attempt     INTEGER NOT NULL DEFAULT 0,  -- deliveries begun
  failures    INTEGER NOT NULL DEFAULT 0,
  outbound    INTEGER NOT NULL DEFAULT 0,  -- something was sent
  payer       TEXT    NOT NULL DEFAULT '', -- whose budget it counts against: an author, or a service for all its users
  tokens      INTEGER NOT NULL DEFAULT 0,
  not_before  INTEGER NOT NULL DEFAULT 0,
  first_at    INTEGER NOT NULL DEFAULT 0,  -- when the first fragment arrived
  started_at  INTEGER NOT NULL DEFAULT 0,
  deadline_at INTEGER NOT NULL DEFAULT 0,
  ended_at    INTEGER NOT NULL DEFAULT 0,
  interrupted_at INTEGER NOT NULL DEFAULT 0, -- when the agent stopped in its last run
  body        TEXT    NOT NULL DEFAULT '', -- of a digest, or what failed in the last attempt
  open_markup TEXT    NOT NULL DEFAULT ''  -- of an answer in parts: its revision, a line break, and the markup still open
) STRICT;
CREATE INDEX turns_state ON turns (state, rank, seq);
CREATE INDEX turns_event ON turns (event_id);
CREATE INDEX turns_thread ON turns (thread_key, seq);
CREATE INDEX turns_started ON turns (started_at);

CREATE TABLE sent (                        -- the agent's own messages; the outbox has their state
  message_id  TEXT    PRIMARY KEY,         -- of the tg_reply or chat_reply
  event_id    TEXT    NOT NULL,
  key         TEXT    NOT NULL UNIQUE,     -- idempotencyKey
  chat        TEXT    NOT NULL,
  conversation TEXT   NOT NULL,
  thread      TEXT    NOT NULL,
  kind        TEXT    NOT NULL,            -- see SentKind
  text        TEXT    NOT NULL,
  sent_at     INTEGER NOT NULL,
  source_id   TEXT    NOT NULL DEFAULT '', -- the id that the chat gave it
  undelivered TEXT    NOT NULL DEFAULT '', -- why it will never be delivered
  reported    INTEGER NOT NULL DEFAULT 0   -- the agent was told that it was not delivered
) STRICT;
CREATE INDEX sent_thread ON sent (conversation, thread, sent_at);
CREATE INDEX sent_conversation ON sent (conversation, sent_at);
CREATE INDEX sent_event ON sent (event_id);
CREATE INDEX sent_notice ON sent (chat, sent_at) WHERE kind = 'notice';
CREATE INDEX sent_source ON sent (chat, source_id) WHERE source_id <> '';
CREATE INDEX sent_undelivered ON sent (event_id) WHERE undelivered <> '' AND reported = 0;

CREATE TABLE participation (               -- where the agent takes part, or no longer does
  conversation TEXT    NOT NULL,
  thread       TEXT    NOT NULL,
  joined_at    INTEGER NOT NULL DEFAULT 0, -- when it was named or wrote there
  left_at      INTEGER NOT NULL DEFAULT 0,
  leave_event  TEXT    NOT NULL DEFAULT '', -- that asked it to leave
  escalated_at INTEGER NOT NULL DEFAULT 0, -- when it called a person in
  PRIMARY KEY (conversation, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
  event_id   TEXT    PRIMARY KEY,
  owner      TEXT    NOT NULL,
  token      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  via        TEXT    NOT NULL              -- local or broker
) STRICT;
CREATE INDEX claims_expiry ON claims (expires_at);

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;

CREATE TABLE questions (                   -- that turns asked through the broker
  question_id TEXT    PRIMARY KEY,         -- the broker's
  chat        TEXT    NOT NULL,            -- of the turn, which gets the answer
  event_id    TEXT    NOT NULL,            -- of the turn; may be empty
  asked_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE halts (                       -- where no turn may run
  scope TEXT    PRIMARY KEY,               -- a chat, or the agent itself: all chats
  by    TEXT    NOT NULL,
  at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE budget_resets (at INTEGER NOT NULL, by TEXT NOT NULL) STRICT; -- usage before the last one does not count

CREATE TABLE decisions (                   -- that people make about tool calls: a copy of the broker's record, or the only one
  id           TEXT    PRIMARY KEY,
  turn_id      TEXT    NOT NULL,
  chat         TEXT    NOT NULL,
  tool         TEXT    NOT NULL,
  digest       TEXT    NOT NULL,           -- of the arguments
  state        TEXT    NOT NULL,
  scope        TEXT    NOT NULL,
  used         INTEGER NOT NULL,           -- the call that it allowed has begun
  chat_verdict TEXT    NOT NULL,           -- JSON: a verdict given in the chat that is not yet part of the record
  record       TEXT    NOT NULL,           -- JSON: collab.Approval
  at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_open ON decisions (chat, state) WHERE state IN ('pending', 'allowed');
CREATE INDEX decisions_turn ON decisions (turn_id);

CREATE TABLE files (                       -- that came with messages
  ref        TEXT    PRIMARY KEY,
  mime       TEXT    NOT NULL,             -- detected from the content, not the sender's claim
  body       BLOB    NOT NULL,
  problem    TEXT    NOT NULL,             -- why the content will never be available
  text       TEXT    NOT NULL,             -- the transcript of a recording, or the text of a PDF
  fetched_at INTEGER NOT NULL
) STRICT;
CREATE INDEX files_fetched ON files (fetched_at);

CREATE TABLE escalations (                 -- questions to others about events that the agent could not answer
  question_id TEXT    PRIMARY KEY,
  event_id    TEXT    NOT NULL,
  level       TEXT    NOT NULL,
  who         TEXT    NOT NULL,
  open        INTEGER NOT NULL,            -- an answer still counts
  reason      TEXT    NOT NULL,            -- why the agent cannot answer
  notice      TEXT    NOT NULL,            -- what the author is told if nobody answers
  asked_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX escalations_event ON escalations (event_id, asked_at);
CREATE INDEX escalations_open ON escalations (who) WHERE open = 1;

CREATE TABLE reminders (
  id           TEXT    PRIMARY KEY,
  chat         TEXT    NOT NULL,           -- topic of the chat that it belongs to
  location     TEXT    NOT NULL,           -- JSON: protocol.Chat
  text         TEXT    NOT NULL,
  cron         TEXT    NOT NULL,           -- empty: once
  zone         TEXT    NOT NULL,
  set_for      TEXT    NOT NULL,           -- event id; may be empty
  set_at       INTEGER NOT NULL,
  due_at       INTEGER NOT NULL,           -- next time
  cancelled_by TEXT    NOT NULL DEFAULT '' -- until the agent has processed the cancellation
) STRICT, WITHOUT ROWID;
CREATE INDEX reminders_due ON reminders (due_at);
CREATE INDEX reminders_chat ON reminders (chat);

CREATE TABLE obligations (                 -- who waits for this agent, and whom it waits for
  id             TEXT    NOT NULL,         -- of the obligating event, the same for all who know it
  recipient      TEXT    NOT NULL,
  author         TEXT    NOT NULL,
  delegate       TEXT    NOT NULL,         -- may discharge it in the author's place; may be empty
  blocks         TEXT    NOT NULL,
  default_action TEXT    NOT NULL,
  mode           TEXT    NOT NULL,         -- in which the event reached this agent; empty: it did not
  title          TEXT    NOT NULL,         -- the beginning of its text, for lists
  level          TEXT    NOT NULL,         -- of the escalation that created it; empty: none did
  members        TEXT    NOT NULL DEFAULT '[]', -- JSON: ids of the obligations that an escalation lists
  created_at     INTEGER NOT NULL,
  event_id       TEXT    NOT NULL,         -- the event of this mailbox that is shown for it
  slot           INTEGER NOT NULL DEFAULT 0, -- the last return interval that was processed
  missed         INTEGER NOT NULL DEFAULT 0, -- returns were missed since
  escalated      INTEGER NOT NULL DEFAULT 0,
  check_at       INTEGER NOT NULL DEFAULT 0, -- when something may be due
  open           INTEGER NOT NULL DEFAULT 1,
  state          TEXT    NOT NULL DEFAULT 'open', -- follows from the acts; stored for queries
  synced         INTEGER NOT NULL DEFAULT 0, -- see SyncState
  PRIMARY KEY (id, recipient)
) STRICT, WITHOUT ROWID;
CREATE INDEX obligations_due ON obligations (check_at) WHERE check_at > 0 AND open = 1;
CREATE INDEX obligations_event ON obligations (event_id);
CREATE INDEX obligations_unsynced ON obligations (synced) WHERE synced = 0;

CREATE TABLE acts (                        -- reactions to obligating events, including events not yet received
  n         INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,       -- reactionId
  target    TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  actor     TEXT    NOT NULL,
  signal    TEXT    NOT NULL,
  recipient TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  synced    INTEGER NOT NULL DEFAULT 0     -- the broker has it
) STRICT;
CREATE INDEX acts_target ON acts (target, n);
CREATE INDEX acts_unsynced ON acts (synced) WHERE synced = 0;
