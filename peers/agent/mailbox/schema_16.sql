-- When what the agent had spent of its budgets stopped to count, and who said so.
CREATE TABLE anew (at INTEGER NOT NULL, by TEXT NOT NULL) STRICT;
