-- Where did a turn ask this? (the answer is seen to in that chat: reach.go)
CREATE TABLE questions (
  question_id TEXT    PRIMARY KEY,         -- the broker's
  chat        TEXT    NOT NULL,            -- of the turn that asked
  event_id    TEXT    NOT NULL,            -- for which it asked; may be empty
  asked_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
