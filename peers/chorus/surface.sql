-- The ways of channels to their agents became those of peers/surface.
INSERT INTO surface_chats (surface, chat, state, request, asked_at, told)
  SELECT '', peer, iif(agent = '', 'asking', 'assigned'), iif(agent = '', iif(request_id = '', 'req_' || hex(randomblob(13)), request_id), ''),
    iif(agent = '', created_at, 0), told FROM channel
  WHERE agent <> '' OR EXISTS (SELECT 1 FROM inbound WHERE channel = peer AND forwarded_at = 0);
INSERT INTO surface_requests (request, surface, chat, at) SELECT request, '', chat, asked_at FROM surface_chats WHERE request <> '';
INSERT INTO surface_agents (surface, chat, agent, spawned, configured, at)
  SELECT '', peer, agent, 1, configured, created_at FROM channel WHERE agent <> '';
INSERT INTO surface_events (surface, event, chat, source, at)
  SELECT '', seq, channel, source_id, received_at FROM inbound WHERE forwarded_at = 0;
ALTER TABLE channel DROP COLUMN agent;
ALTER TABLE channel DROP COLUMN configured;
ALTER TABLE channel DROP COLUMN request_id;
ALTER TABLE channel DROP COLUMN told;
