-- What is asked for each event and turn, without reading all that the mailbox holds (facts.go, read.go).
CREATE INDEX events_conversation ON events (conversation, seq);
CREATE INDEX events_people ON events (conversation, received_at) WHERE author_kind = 'human';
CREATE INDEX events_agents ON events (author, conversation, directedness, received_at) WHERE author_kind = 'agent';
CREATE INDEX events_turned ON events (conversation, thread, author, seq) WHERE author_kind = 'agent' AND turn_id <> '';
CREATE INDEX events_digest ON events (seq) WHERE mode = 'digest';
CREATE INDEX turns_event ON turns (event_id);
CREATE INDEX turns_place ON turns (place, seq);
CREATE INDEX sent_conversation ON sent (conversation, sent_at);
CREATE INDEX claims_expiry ON claims (expires_at);
