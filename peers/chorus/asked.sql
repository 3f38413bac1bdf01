-- A task may take more than one message: its agent asks, and the next one answers.

ALTER TABLE task ADD COLUMN working INTEGER NOT NULL DEFAULT 0; -- turns that have begun and not ended

CREATE TABLE task_message (
  inbound INTEGER PRIMARY KEY REFERENCES inbound (seq) ON DELETE CASCADE,
  task    TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE
) STRICT;
CREATE INDEX task_message_task ON task_message (task);
INSERT INTO task_message (inbound, task) SELECT inbound, id FROM task;
