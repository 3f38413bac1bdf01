-- Times are microseconds since 1970. "chat" is the ID of the room in which the bridge
-- first saw a chat. It names the chat's topic (mx:<chat>) and stays when the room is
-- upgraded to another one.

CREATE TABLE account (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  user       TEXT NOT NULL,              -- the bot
  device     TEXT NOT NULL,
  token      TEXT NOT NULL DEFAULT '',   -- of a login with the password
  since      TEXT NOT NULL DEFAULT ''    -- where the next sync begins
) STRICT;

CREATE TABLE inbox (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- order of arrival
  event       TEXT    NOT NULL UNIQUE,
  kind        TEXT    NOT NULL CHECK (kind IN ('event','old','invite')),
  room        TEXT    NOT NULL,
  raw         TEXT    NOT NULL,
  received_at INTEGER NOT NULL,
  state       TEXT    NOT NULL DEFAULT 'new' CHECK (state IN ('new','locked','done','skipped','unreadable')),
  reason      TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX inbox_new ON inbox (seq) WHERE state = 'new';
CREATE INDEX inbox_waiting ON inbox (seq) WHERE state IN ('new', 'locked');
CREATE INDEX inbox_age ON inbox (received_at);

CREATE TABLE chats (
  chat      TEXT    PRIMARY KEY,
  room      TEXT    NOT NULL,              -- where to send: another one after an upgrade
  title     TEXT    NOT NULL DEFAULT '',
  inviter   TEXT    NOT NULL DEFAULT '',   -- who invited the bot
  encrypted INTEGER NOT NULL DEFAULT 0,
  present   INTEGER NOT NULL DEFAULT 0,    -- the bot is a member
  stopped   INTEGER NOT NULL DEFAULT 0     -- a person sent !stop
) STRICT, WITHOUT ROWID;

CREATE TABLE aliases (
  room TEXT PRIMARY KEY,   -- the successor of a room
  chat TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
  room   TEXT    NOT NULL,
  user   TEXT    NOT NULL,
  name   TEXT    NOT NULL,   -- as shown in the room
  called TEXT    NOT NULL,   -- the name in lower case
  joined INTEGER NOT NULL,   -- 0: only invited
  PRIMARY KEY (room, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_user ON members (user);
CREATE INDEX members_called ON members (called);
CREATE INDEX members_localpart ON members (user COLLATE NOCASE);

CREATE TABLE events (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- also the sequence on the bus
  chat        TEXT    NOT NULL,
  event       TEXT    NOT NULL,   -- ID in Matrix of the message that the event is about
  sender      TEXT    NOT NULL,
  thread      TEXT    NOT NULL DEFAULT '',
  source_id   TEXT    NOT NULL,
  data        TEXT    NOT NULL,   -- JSON: eventData
  bus_id      TEXT    NOT NULL,   -- messageId of the event's chat_message
  received_at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_source ON events (source_id);
CREATE INDEX events_event ON events (event);
CREATE INDEX events_bus ON events (bus_id);

CREATE TABLE replies (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  chat        TEXT    NOT NULL,
  agent       TEXT    NOT NULL,   -- empty: the bridge itself
  key         TEXT    NOT NULL,
  bus_id      TEXT    NOT NULL DEFAULT '',
  content     TEXT    NOT NULL,   -- the chat_reply's content
  received_at INTEGER NOT NULL,
  UNIQUE (chat, agent, key)
) STRICT;

CREATE TABLE sends (
  reply    INTEGER NOT NULL REFERENCES replies (id),
  part     INTEGER NOT NULL,
  kind     TEXT    NOT NULL CHECK (kind IN ('text','file','signal')),
  body     TEXT    NOT NULL,
  txn      TEXT    NOT NULL UNIQUE,       -- transaction ID, also in the content of the event
  event    TEXT    NOT NULL DEFAULT '',   -- ID in Matrix, once it is known
  PRIMARY KEY (reply, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX sends_event ON sends (event) WHERE event <> '';

CREATE TABLE reactions (
  target TEXT NOT NULL,    -- ID in Matrix of the message
  agent  TEXT NOT NULL,
  signal TEXT NOT NULL,
  event  TEXT NOT NULL,    -- ID in Matrix of the reaction
  PRIMARY KEY (target, agent)
) STRICT, WITHOUT ROWID;
