// Package otlp exports the activity log as OpenTelemetry traces. A message is one span, from
// send_start to send_finish. Below it are one span for each delivery, and one for each turn of an
// agent that the message caused.
//
// Guarantees:
//
//   - Blocking: Offer, which the log's writer calls, never blocks. Rows that do not fit in the
//     bounded queue are dropped and counted; the log still has them.
//   - Identity: a message with a W3C traceparent belongs to that trace, below that span. It is
//     left out if the traceparent's sampled flag is unset. A message without one, or with the
//     traceparent of the message that it answers (inReplyTo), is below that message. Other
//     messages begin a trace.
//   - Retries: a request is retried if OTLP allows it (429, 502, 503, 504, no connection or no
//     answer), at most four times, after 2 s, 4 s, 8 s and 16 s with jitter, or after the
//     collector's Retry-After, up to ten minutes. Meanwhile nothing else is sent, and rows wait
//     in the queue. After any other failure, the spans are dropped at once. A collector may get a
//     span twice, with the same id.
//   - Stop: remaining spans are sent within two seconds, without retries; the rest is dropped and
//     counted.
//   - Settings: the standard variables OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and
//     _TIMEOUT, those with TRACES_ in them, OTEL_SERVICE_NAME,
//     OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED.
//     Nothing is exported, and nothing runs, unless an endpoint is set.
//   - Content: spans hold ids, types, topics and outcomes, but no payloads.
//
// The package encodes OTLP over HTTP with JSON without the OpenTelemetry SDK, in 52 KiB of the
// bus; the SDK and its exporter would add 3.3 MiB and a second queue. Deliveries at other buses
// of a cluster are not exported.
package otlp
