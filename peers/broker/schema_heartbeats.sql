-- Most events of a quiet house are heartbeats. A start reads the others, and of
-- each endpoint the last one.
CREATE INDEX events_but_heartbeats ON events (seq) WHERE type <> 'collab.agent.heartbeat';
CREATE INDEX events_heartbeats ON events (json_extract(payload, '$.endpointId'), seq) WHERE type = 'collab.agent.heartbeat';
