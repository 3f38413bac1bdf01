-- Where no turn may run (halt.go).
CREATE TABLE halts (
  scope TEXT    PRIMARY KEY,                -- a chat, or the agent itself: all chats
  by    TEXT    NOT NULL,                   -- who stopped it
  at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
