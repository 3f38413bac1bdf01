-- Why a message of the agent was not delivered, and never will be (lost.go), and whether it was told.
ALTER TABLE sent ADD COLUMN lost TEXT NOT NULL DEFAULT '';
ALTER TABLE sent ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sent_lost ON sent (event_id) WHERE lost <> '' AND told = 0;
