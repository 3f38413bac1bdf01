-- A log of version 1: the table of section 12 of the specification, as any bus may
-- have made it.
CREATE TABLE activity_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ts TEXT NOT NULL,
  event TEXT NOT NULL,
  message_id TEXT NOT NULL,
  rpc_id TEXT,
  actor TEXT,
  topic TEXT,
  status TEXT,
  payload_json TEXT,
  error TEXT
);
CREATE INDEX idx_activity_message_id ON activity_log(message_id);
CREATE INDEX idx_activity_ts ON activity_log(ts);
INSERT INTO activity_log (id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error) VALUES
  (1, '2026-02-17T12:00:00.000045Z', 'send_start', 'msg_1', '7', 'tg:42', 'agent:a', 'start', '{"messageId":"msg_1","type":"tg_message","from":"tg:42","timestamp":"2026-02-17T12:00:00Z","content":{"text":"old"}}', NULL),
  (2, '2026-02-17T12:00:00.000145Z', 'process_start', 'msg_1', '1', 'agent:a', 'agent:a', 'start', NULL, NULL),
  (3, '2026-02-17T12:00:00.002000Z', 'process_finish', 'msg_1', '1', 'agent:a', 'agent:a', 'ok', '{"processed":true}', NULL),
  (4, '2026-02-17T12:00:00.002100Z', 'send_finish', 'msg_1', '7', 'tg:42', 'agent:a', 'ok', '{"accepted":true,"messageId":"msg_1","deliveredTo":1}', NULL);
