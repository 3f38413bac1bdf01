-- With what the last part of an answer in several ended that is not for people, behind the
-- revision of the words that it answers and a line break.
ALTER TABLE turns ADD COLUMN inner_end TEXT NOT NULL DEFAULT '';
