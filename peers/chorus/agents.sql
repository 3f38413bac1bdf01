-- An external agent is an agent of peers/agent with a database of its own, which
-- takes over what the tables event, turn, said and place hold (peers/agent/external).

CREATE TABLE delivery (                       -- one turn of an external agent, as it is POSTed
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  agent           TEXT NOT NULL REFERENCES agent (name) ON DELETE CASCADE,
  turn            TEXT NOT NULL,              -- how the agent names it
  chat            TEXT NOT NULL,              -- whose tools go with it
  channel         TEXT NOT NULL,              -- channel.id of the POST
  state           TEXT NOT NULL,              -- posting, open, failed, stale: delivered anew with other words
  digest          TEXT NOT NULL DEFAULT '',   -- of what the turn says
  body            BLOB,                       -- of the POST, but for callback and tools; NULL once it was sent
  due_at          INTEGER NOT NULL,           -- when it expires
  callback_sha256 TEXT UNIQUE,
  callback        BLOB,                       -- the callback's secret, sealed
  token_sha256    TEXT UNIQUE,
  token           BLOB,                       -- the MCP token, sealed
  outputs         INTEGER NOT NULL DEFAULT 0, -- events that came to the callback
  trouble         TEXT NOT NULL DEFAULT ''    -- why the agent was not reached
) STRICT;
CREATE INDEX delivery_turn ON delivery (agent, turn);
CREATE INDEX delivery_due ON delivery (due_at);

-- Callbacks and tokens that live go on living. The turns that were on their way are
-- POSTed by their agent, with the same callback.
INSERT INTO delivery (id, agent, turn, chat, channel, state, due_at, callback_sha256, callback, token_sha256, token, outputs)
  SELECT t.id, t.agent, 'turn_chorus_' || t.id, (SELECT e.chat FROM event e WHERE e.turn = t.id LIMIT 1), t.channel, t.state, t.due_at,
    t.callback_sha256, t.callback, t.token_sha256, t.token, t.messages
  FROM turn t WHERE t.state IN ('posting', 'open') AND EXISTS (SELECT 1 FROM event e WHERE e.turn = t.id);
DELETE FROM sqlite_sequence WHERE name = 'delivery';
INSERT INTO sqlite_sequence (name, seq) SELECT 'delivery', coalesce(max(id), 0) FROM turn;
DELETE FROM outbox WHERE queue = 'post' AND state IN ('pending', 'sending');

-- What channels have to say to the bus are reports of what became of replies; what
-- agents have to say their own databases take over.
UPDATE outbox SET queue = 'status' WHERE queue = 'bus' AND destination GLOB 'chorus:*';
