-- The ways of chats to their agents became those of peers/surface, and the state of
-- a send that of the outbox. "attempt" is the outbox's attempt in which the request
-- left: one that was cut off and is not this one had no effect.
INSERT INTO surface_chats (surface, chat, state, closed, request, asked_at, told, trouble)
  SELECT bot, 'tg:' || chat, iif(state = 'waiting', 'asking', state), stopped OR NOT present, request, asked_at, told, trouble FROM chats
  WHERE state <> 'idle' OR stopped OR NOT present;
INSERT INTO surface_requests (request, surface, chat, at) SELECT request, bot, 'tg:' || chat, created_at FROM requests;
INSERT INTO surface_agents (surface, chat, agent, spawned, configured, at)
  SELECT bot, 'tg:' || chat, agent, spawned, configured, since FROM assignments ORDER BY id;
INSERT INTO surface_events (surface, event, chat, source, ready_at, agents, at)
  SELECT bot, id, 'tg:' || chat, source_id, ready_at, iif(queued, agents, ''), received_at FROM events;
INSERT INTO surface_claims (event, token, at) SELECT event, token, seen FROM claims;
DROP TABLE requests;
DROP TABLE assignments;
DROP TABLE claims;
ALTER TABLE chats DROP COLUMN state;
ALTER TABLE chats DROP COLUMN request;
ALTER TABLE chats DROP COLUMN asked_at;
ALTER TABLE chats DROP COLUMN attempts;
ALTER TABLE chats DROP COLUMN next_at;
ALTER TABLE chats DROP COLUMN told;
ALTER TABLE chats DROP COLUMN trouble;
DROP INDEX events_waiting;
ALTER TABLE events DROP COLUMN queued;
ALTER TABLE events DROP COLUMN agents;
ALTER TABLE events DROP COLUMN ready_at;
ALTER TABLE sends ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
UPDATE sends SET attempt = coalesce((SELECT attempt FROM outbox
    WHERE queue = 'telegram:' || sends.bot AND key = sends.reply || '.' || sends.part), 0) WHERE state = 'sending';
ALTER TABLE sends DROP COLUMN state;
ALTER TABLE sends DROP COLUMN reason;
-- Reports of what became of replies are whole messages.
UPDATE outbox SET body = (SELECT CAST(json_object('topic', destination, 'message', json_object('messageId', old ->> 'busId',
    'type', 'delivery_status', 'from', 'tg:' || (old ->> 'chat'), 'timestamp', strftime('%Y-%m-%dT%H:%M:%SZ', enqueued_at / 1000000, 'unixepoch'),
    'content', json(old -> 'content'), 'inReplyTo', old ->> '$.content.messageId', 'traceparent', coalesce(old ->> 'traceparent', ''))) AS BLOB)
    FROM (SELECT CAST(body AS TEXT) AS old))
  WHERE queue LIKE 'status:%' AND json_valid(CAST(body AS TEXT));
