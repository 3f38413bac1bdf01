-- What turns took, and on whose account (budget.go).
ALTER TABLE turns ADD COLUMN payer TEXT NOT NULL DEFAULT ''; -- who is answered: an author, or a service for all of its own
ALTER TABLE turns ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_started ON turns (started_at);
CREATE INDEX sent_notice ON sent (chat, sent_at) WHERE kind = 'notice';
-- A reaction names what it is about by the id that the chat gave to it.
ALTER TABLE sent ADD COLUMN source_id TEXT NOT NULL DEFAULT '';
CREATE INDEX sent_source ON sent (chat, source_id) WHERE source_id <> '';
