// Package otlp exports what the activity log records as OpenTelemetry traces:
// one span for each message, from send_start to send_finish, and below it one for
// each delivery.
//
// Guarantees:
//
//   - Blocking: Offer, which the log's writer calls, never blocks. What does not
//     fit in the bounded queue is dropped and counted; the log still has it.
//   - Identity: a message with a W3C traceparent belongs to that trace, below that
//     span, and is left out where its sampled flag is unset. Without one it belongs
//     to the trace of the message that it answers (inReplyTo), else begins its own.
//   - Settings: the standard variables OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and
//     _TIMEOUT, those with TRACES_ in them, OTEL_SERVICE_NAME,
//     OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED.
//     Nothing is exported, and nothing runs, unless an endpoint is set.
//   - Content stays here: spans hold ids, types, topics and outcomes, no payload.
//
// It speaks OTLP over HTTP with JSON by itself: the SDK and its exporter would add
// several megabytes to the bus and a second queue. Deliveries at other buses of a
// cluster are exported by nobody.
package otlp
