// Package otlp exports what the activity log records as OpenTelemetry traces:
// one span for each message, from send_start to send_finish, below it one for each
// delivery, and one for each turn of an agent that the message caused.
//
// Guarantees:
//
//   - Blocking: Offer, which the log's writer calls, never blocks. What does not
//     fit in the bounded queue is dropped and counted; the log still has it.
//   - Identity: a message with a W3C traceparent belongs to that trace, below that
//     span, and is left out where its sampled flag is unset. Without one, or with
//     that of the message that it answers (inReplyTo), it is below that message;
//     else it begins a trace.
//   - Retries: a request that fails as OTLP says it may pass (429, 502, 503, 504, no
//     connection or no answer) is sent again, at most five times in all, after 2 s, 4 s,
//     8 s and 16 s with jitter, or after the collector's Retry-After, of which at most
//     ten minutes count. Meanwhile nothing else is sent, and the queue takes what comes.
//     What fails otherwise is dropped at once. A collector may get a span twice; its id
//     is the same.
//   - Stop: what is left is sent within two seconds, without another try and without
//     waiting for one; the rest is dropped and counted.
//   - Settings: the standard variables OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and
//     _TIMEOUT, those with TRACES_ in them, OTEL_SERVICE_NAME,
//     OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED.
//     Nothing is exported, and nothing runs, unless an endpoint is set.
//   - Content stays here: spans hold ids, types, topics and outcomes, no payload.
//
// It speaks OTLP over HTTP with JSON by itself, for 52 KiB of the bus; the SDK and its
// exporter would add 3.3 MiB and a second queue. Deliveries at other buses of a cluster
// are exported by nobody.
package otlp
