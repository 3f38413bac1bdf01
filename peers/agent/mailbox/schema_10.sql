-- Who was asked about an event that the agent must answer and could not (ladder.go).
CREATE TABLE rungs (
  question_id TEXT    PRIMARY KEY,
  event_id    TEXT    NOT NULL,
  rung        TEXT    NOT NULL,
  who         TEXT    NOT NULL,
  open        INTEGER NOT NULL,             -- the answer still counts
  reason      TEXT    NOT NULL,             -- why the agent cannot answer
  notice      TEXT    NOT NULL,             -- what its author reads if nobody answers
  asked_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rungs_event ON rungs (event_id, asked_at);
CREATE INDEX rungs_open ON rungs (who) WHERE open = 1;
