CREATE TABLE IF NOT EXISTS activity_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ts TEXT NOT NULL,
  event TEXT NOT NULL,
  message_id TEXT NOT NULL,
  rpc_id TEXT,
  actor TEXT,
  topic TEXT,
  status TEXT,
  payload_json TEXT,
  error TEXT,
  bus TEXT
);

CREATE INDEX IF NOT EXISTS idx_activity_message_id ON activity_log(message_id);
CREATE INDEX IF NOT EXISTS idx_activity_ts ON activity_log(ts);
