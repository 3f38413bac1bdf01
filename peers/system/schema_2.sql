-- The traceparent of a request, which its answers carry.
ALTER TABLE requests ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
