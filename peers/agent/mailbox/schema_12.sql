-- What the agent wants to be told of later (remind.go): once, or by a cron expression in a zone.
CREATE TABLE reminders (
  id      TEXT    PRIMARY KEY,
  chat    TEXT    NOT NULL,                 -- topic of the chat to which it belongs
  place   TEXT    NOT NULL,                 -- JSON: protocol.Chat, where in it
  text    TEXT    NOT NULL,
  cron    TEXT    NOT NULL,                 -- empty: once
  zone    TEXT    NOT NULL,
  cause   TEXT    NOT NULL,                 -- event for which it was set; may be empty
  set_at  INTEGER NOT NULL,
  due_at  INTEGER NOT NULL,                 -- the next time
  dropped TEXT    NOT NULL DEFAULT ''       -- who cancelled it, while the agent has not noticed
) STRICT, WITHOUT ROWID;
CREATE INDEX reminders_due ON reminders (due_at);
CREATE INDEX reminders_chat ON reminders (chat);
