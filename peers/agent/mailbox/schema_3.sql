-- Where has this person written? (what a direct chat may read: reach.go)
CREATE INDEX events_author ON events (author, chat);
