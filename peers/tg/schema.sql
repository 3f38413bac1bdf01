-- Times are microseconds since 1970. "chat" is the id under which the bridge first
-- saw a chat. It names the chat's topic (tg:<chat>) and stays when Telegram gives a
-- group another id.

CREATE TABLE bots (
  bot         INTEGER PRIMARY KEY,
  token_hash  TEXT NOT NULL,             -- identifies the bot of a token
  me          TEXT NOT NULL,             -- the result of getMe, for starts while Telegram cannot be reached
  commands    TEXT NOT NULL DEFAULT '',  -- hash of the menu that Telegram has
  webhook_url TEXT NOT NULL DEFAULT ''   -- the webhook that this bridge set
) STRICT;

CREATE TABLE updates (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of arrival
  bot         INTEGER NOT NULL,
  update_id   INTEGER NOT NULL,
  raw         TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  state       TEXT    NOT NULL DEFAULT 'new' CHECK (state IN ('new','done','skipped','unreadable')),
  reason      TEXT    NOT NULL DEFAULT '',
  UNIQUE (bot, update_id)
) STRICT;
CREATE INDEX updates_new ON updates (bot, seq) WHERE state = 'new';
CREATE INDEX updates_age ON updates (received_at);

CREATE TABLE chats (
  bot         INTEGER NOT NULL,
  chat        INTEGER NOT NULL,
  telegram_id INTEGER NOT NULL,            -- where to send: another id after a migration
  kind        TEXT    NOT NULL,            -- private, group, supergroup, channel
  title       TEXT    NOT NULL DEFAULT '',
  forum       INTEGER NOT NULL DEFAULT 0,
  present     INTEGER NOT NULL DEFAULT 1,  -- the bot may write there
  stopped     INTEGER NOT NULL DEFAULT 0,  -- when a user sent /stop; 0 while the chat runs
  PRIMARY KEY (bot, chat)
) STRICT;

CREATE TABLE aliases (
  bot         INTEGER NOT NULL,
  telegram_id INTEGER NOT NULL,
  chat        INTEGER NOT NULL,
  PRIMARY KEY (bot, telegram_id)
) STRICT;

CREATE TABLE events (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- also the sequence on the bus
  bot           INTEGER NOT NULL,
  chat          INTEGER NOT NULL,
  telegram_chat INTEGER NOT NULL,
  message       INTEGER NOT NULL,   -- Telegram's number of the message that the event is about
  thread        INTEGER NOT NULL DEFAULT 0,
  source_id     TEXT    NOT NULL,
  album         TEXT    NOT NULL DEFAULT '',
  data          TEXT    NOT NULL,   -- JSON: eventData
  bus_id        TEXT    NOT NULL,   -- messageId of the event's tg_message
  received_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX events_source ON events (source_id);
CREATE INDEX events_bus ON events (bus_id);
CREATE INDEX events_album ON events (bot, telegram_chat, album) WHERE album <> '';

CREATE TABLE replies (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  bot         INTEGER NOT NULL,
  chat        INTEGER NOT NULL,
  agent       TEXT    NOT NULL,   -- empty: the bridge itself
  key         TEXT    NOT NULL,
  bus_id      TEXT    NOT NULL DEFAULT '',
  content     TEXT    NOT NULL,   -- the tg_reply's content
  received_at INTEGER NOT NULL,
  UNIQUE (bot, chat, agent, key)
) STRICT;

CREATE TABLE sends (
  reply         INTEGER NOT NULL REFERENCES replies (id),
  part          INTEGER NOT NULL,
  bot           INTEGER NOT NULL,
  chat          INTEGER NOT NULL,
  kind          TEXT    NOT NULL CHECK (kind IN ('text','signal','callback')),
  body          TEXT    NOT NULL,            -- text with entities, or what the kind needs
  attempt       INTEGER NOT NULL DEFAULT 0,  -- the outbox's attempt that sent the request; 0 if none is open
  begun_at      INTEGER NOT NULL DEFAULT 0,
  telegram_chat INTEGER NOT NULL DEFAULT 0,
  message       INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (reply, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX sends_begun ON sends (bot, chat, begun_at) WHERE begun_at > 0;
CREATE INDEX sends_message ON sends (bot, telegram_chat, message) WHERE message > 0;

CREATE TABLE holds (
  bot   INTEGER NOT NULL,
  scope TEXT    NOT NULL,   -- "bot" or "chat:<telegram id>"
  until INTEGER NOT NULL,
  PRIMARY KEY (bot, scope)
) STRICT;

CREATE TABLE reactions (
  bot           INTEGER NOT NULL,
  telegram_chat INTEGER NOT NULL,
  message       INTEGER NOT NULL,
  agent         TEXT    NOT NULL,
  signal        TEXT    NOT NULL,
  PRIMARY KEY (bot, telegram_chat, message)
) STRICT;

CREATE TABLE people (
  bot      INTEGER NOT NULL,
  username TEXT    NOT NULL,
  user     INTEGER NOT NULL,
  PRIMARY KEY (bot, username)
) STRICT;
CREATE INDEX people_user ON people (bot, user);
