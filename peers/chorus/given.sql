-- A delivery knows which words of its turn it has given to its agent.

ALTER TABLE delivery ADD COLUMN revision TEXT NOT NULL DEFAULT ''; -- '': of an earlier version
