-- Files that came with messages (file.go), fetched once and kept as long as messages are.
CREATE TABLE files (
  ref        TEXT    PRIMARY KEY,
  mime       TEXT    NOT NULL,                 -- as the content says, not as its sender does
  body       BLOB    NOT NULL,
  problem    TEXT    NOT NULL,                 -- why there is no body, and never will be
  words      TEXT    NOT NULL,                 -- what is said in it, of a voice message
  fetched_at INTEGER NOT NULL
) STRICT;
CREATE INDEX files_fetched ON files (fetched_at);
