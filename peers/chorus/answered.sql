-- Which message does a reply or a report belong to, without reading the whole channel?

CREATE INDEX inbound_channel ON inbound (channel, seq);
CREATE INDEX inbound_message ON inbound (message_id);
