-- What the first row of a message says is said once: rows that follow it in the same
-- file point to it by msg. kind is an Event, at is in microseconds. Usual values are
-- left out, or are a number: the views say them.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  msg INTEGER,
  rpc_id,
  actor TEXT,
  topic TEXT,
  message_id TEXT,
  payload,
  status TEXT,
  error TEXT
);

CREATE INDEX event_attention ON event(id) WHERE kind = 1 AND topic = 'system:attention';

-- A commit: its rows, their times, and the sorted hashes of their message ids, of which the
-- table lookup is made when the file is sealed. leaves are the entries that it added to the
-- Merkle tree, 32 bytes each; marks has two bytes of a checksum for each row; subjects says
-- which rows may have subjects, two bytes each, counted from the first.
CREATE TABLE batch (
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  hashes BLOB,
  leaves BLOB,
  marks BLOB,
  subjects BLOB
);

-- Which bus has written the rows from first on, into which segment of which log.
CREATE TABLE run (
  first INTEGER PRIMARY KEY,
  segment INTEGER NOT NULL,
  log TEXT NOT NULL,
  bus TEXT
);

-- The rows as they were said, with numbers for time and event.
CREATE VIEW activity AS SELECT
  e.id AS id,
  e.at AS at,
  e.kind AS kind,
  coalesce(e.message_id, m.message_id, '') AS message_id,
  CAST(CASE WHEN e.kind = 4 AND e.msg IS NOT NULL THEN coalesce(e.rpc_id, m.rpc_id) ELSE e.rpc_id END AS TEXT) AS rpc_id,
  CASE WHEN e.msg IS NULL OR e.actor IS NOT NULL THEN e.actor WHEN e.kind = 4 THEN m.actor ELSE m.topic END AS actor,
  coalesce(e.topic, m.topic) AS topic,
  CASE WHEN e.status IS NOT NULL THEN nullif(e.status, '')
    WHEN e.kind < 3 THEN 'start'
    WHEN e.kind = 3 THEN 'ok'
    WHEN e.kind = 4 THEN iif(e.payload < 4, 'no_subscriber', 'ok') END AS status,
  CASE WHEN typeof(e.payload) <> 'integer' THEN e.payload
    WHEN e.kind = 3 THEN '{"processed":true}'
    ELSE '{"accepted":true,"messageId":"' || coalesce(e.message_id, m.message_id) || '","deliveredTo":' || (e.payload >> 2)
      || CASE e.payload & 3 WHEN 0 THEN '}' WHEN 1 THEN ',"addressee":"ok"}' WHEN 2 THEN ',"addressee":"failed"}' ELSE ',"addressee":"absent"}' END
  END AS payload_json,
  e.error AS error,
  (SELECT bus FROM run WHERE first <= e.id ORDER BY first DESC LIMIT 1) AS bus,
  e.msg AS msg
FROM event AS e LEFT JOIN event AS m ON m.id = e.msg;

-- The specification's columns and rows.
CREATE VIEW activity_log AS SELECT
  id,
  strftime('%Y-%m-%dT%H:%M:%S', (at - (at % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
    || printf('.%06dZ', (at % 1000000 + 1000000) % 1000000) AS ts,
  CASE kind WHEN 1 THEN 'send_start' WHEN 2 THEN 'process_start' WHEN 3 THEN 'process_finish' WHEN 4 THEN 'send_finish'
    WHEN 5 THEN 'rejected' WHEN 6 THEN 'peer_connected' WHEN 7 THEN 'peer_disconnected' WHEN 8 THEN 'subscribe'
    WHEN 9 THEN 'unsubscribe' WHEN 10 THEN 'log_gap' WHEN 11 THEN 'log_pruned' ELSE 'event(' || kind || ')' END AS event,
  message_id, rpc_id, actor, topic, status, payload_json, error, bus
FROM activity;

-- The Merkle tree as it was before the row first, which is the first of this file that is
-- in it: its number of entries, and the hashes of its largest whole parts.
CREATE TABLE tree (
  first INTEGER PRIMARY KEY,
  size INTEGER NOT NULL,
  peaks BLOB NOT NULL
);

-- Signed roots of the tree, each after the row last, and the key that verifies it.
CREATE TABLE checkpoint (
  size INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  key TEXT NOT NULL,
  note TEXT NOT NULL
);
