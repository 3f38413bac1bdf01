-- What a gateway of an earlier version had of one agent, for the agent's own database.
-- An open event that is in no turn is decided anew. One that the agent elsewhere has
-- stays in its turn, with the callback that lives.

CREATE TEMP TABLE was AS
  SELECT e.seq, e.event_id, e.kind, e.sequence, e.chat, e.conversation, e.thread, e.message_id, e.traceparent, e.received_at,
    e.directedness, e.policy, e.injection, e.reason, e.claim_token, e.disposition,
    json_patch(json_object('event', 'message', 'sourceId', e.event_id,
      'chat', json_object('kind', 'dm', 'id', e.conversation), 'author', json_object('kind', 'human', 'id', substr(e.chat, instr(e.chat, ':') + 1))),
      json_patch(CAST(e.content AS TEXT), CASE WHEN e.kind = 'edit' THEN '{"event":"message"}' ELSE '{}' END)) AS content,
    coalesce((SELECT t.id FROM old.turn t WHERE t.id = e.turn AND t.state IN ('posting', 'open')), 0) AS turn,
    EXISTS (SELECT 1 FROM old.event d WHERE d.agent = e.agent AND d.event_id = e.event_id AND d.chat = e.chat AND d.kind = 'delete') AS deleted,
    EXISTS (SELECT 1 FROM old.said s WHERE s.agent = e.agent AND s.event_id = e.event_id) AS replied
  FROM old.event e WHERE e.agent = @agent;

INSERT OR IGNORE INTO chats (topic, conversation, configured_at) SELECT chat, conversation, min(received_at) FROM was GROUP BY chat;

INSERT OR IGNORE INTO receipts (kind, source_id, sequence, received_at)
  SELECT kind, chat || ' ' || event_id, CASE WHEN sequence < 0 THEN message_id ELSE CAST(sequence AS TEXT) END, received_at FROM was;

DELETE FROM was WHERE kind = 'delete' OR seq <> (SELECT max(o.seq) FROM was o WHERE o.event_id = was.event_id AND o.kind <> 'delete');

INSERT OR IGNORE INTO events (event_id, source_id, chat, message_id, traceparent, received_at, content, kind, conversation, thread, stream, author, author_kind,
    state, claimed, deadline_at, decision, policy, mode, directedness, turn_id, merged_into, deleted)
  SELECT event_id, event_id, chat, message_id, traceparent, received_at, content, json_extract(content, '$.event'), conversation, thread,
    coalesce(json_extract(content, '$.chat.streamId'), ''), json_extract(content, '$.author.id'), json_extract(content, '$.author.kind'),
    CASE WHEN disposition NOT IN ('', 'claimed') THEN disposition WHEN turn <> 0 THEN 'turned' ELSE 'stored' END,
    disposition = 'claimed', CASE disposition WHEN 'deferred' THEN received_at + 86400000000 ELSE 0 END,
    json_object('directedness', directedness, 'policy', policy, 'injection', injection, 'priority', 'normal', 'reason', reason),
    policy, injection, directedness,
    CASE WHEN turn <> 0 THEN 'turn_chorus_' || turn ELSE '' END,
    CASE WHEN turn <> 0 THEN coalesce((SELECT o.event_id FROM was o WHERE o.turn = was.turn AND o.seq > was.seq ORDER BY o.seq DESC LIMIT 1), '') ELSE '' END,
    deleted
  FROM was ORDER BY seq;

INSERT OR IGNORE INTO turns (turn_id, event_id, merged, chat, place, author, mode, state, seq, rank, attempt, outbound, first_at, started_at, deadline_at, ended_at)
  SELECT e.turn_id, e.event_id, (SELECT json_group_array(m.event_id) FROM (SELECT event_id FROM events WHERE turn_id = e.turn_id ORDER BY seq) m),
    e.chat, e.conversation || char(0) || e.thread, e.author, e.mode,
    CASE WHEN e.state <> 'turned' THEN 'finished' WHEN t.state = 'open' THEN 'accepted' ELSE 'queued' END,
    e.seq, 2, CASE t.state WHEN 'open' THEN 1 ELSE 0 END, e.state <> 'turned', t.first_at, t.first_at, CASE t.state WHEN 'open' THEN t.due_at ELSE 0 END,
    CASE WHEN e.state <> 'turned' THEN t.due_at ELSE 0 END
  FROM old.turn t JOIN events e ON e.turn_id = 'turn_chorus_' || t.id AND e.merged_into = '' WHERE t.agent = @agent;

INSERT OR IGNORE INTO claims (event_id, owner, token, expires_at, via)
  SELECT event_id, 'agent:' || @agent, claim_token, received_at + 600000000, 'broker' FROM was WHERE claim_token <> 0;

INSERT OR IGNORE INTO sent (message_id, event_id, key, chat, conversation, thread, kind, text, sent_at)
  SELECT s.message_id, s.event_id, s.key, w.chat, w.conversation, w.thread, 'text', s.text, s.said_at
  FROM old.said s JOIN was w ON w.event_id = s.event_id WHERE s.agent = @agent;

INSERT OR IGNORE INTO places (conversation, thread, joined_at)
  SELECT conversation, thread, max(received_at) FROM was WHERE directedness = 'to_me' OR replied GROUP BY conversation, thread;
UPDATE places SET joined_at = 0, left_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE EXISTS (SELECT 1 FROM old.place p JOIN was w
  ON p.channel = CASE w.thread WHEN '' THEN w.chat ELSE w.chat || '/' || w.thread END
  WHERE p.agent = @agent AND w.conversation = places.conversation AND w.thread = places.thread);

-- An answer that waits for the bus, or that it refused.
INSERT OR IGNORE INTO outbox (queue, destination, key, body, state, attempt, enqueued_at, not_before, expires_at, settled_at, error)
  SELECT '', substr(destination, length('agent:' || @agent) + 2), key, CAST(json_extract(CAST(body AS TEXT), '$.message') AS BLOB),
    CASE state WHEN 'sending' THEN 'pending' ELSE state END, attempt, enqueued_at, not_before, expires_at, settled_at, error
  FROM old.outbox WHERE queue = 'bus' AND state IN ('pending', 'sending', 'dead', 'unknown') AND destination GLOB 'agent:' || @agent || ' *' ORDER BY id;

DROP TABLE was;
-- then
DELETE FROM old.outbox WHERE queue = 'bus' AND destination GLOB 'agent:' || @agent || ' *';
DELETE FROM old.said WHERE agent = @agent;
DELETE FROM old.place WHERE agent = @agent;
DELETE FROM old.event WHERE agent = @agent;
DELETE FROM old.turn WHERE agent = @agent;
