package otlp

import (
	"context"
	"net"
	"net/http"
)

// DialWith makes an exporter reach its collector through dial.
func (e *Exporter) DialWith(dial func(context.Context, string, string) (net.Conn, error)) {
	e.client.Transport = &http.Transport{DialContext: dial}
}

// Stats returns the number of spans that the collector accepted, and the number of rows and spans
// that were dropped.
func (e *Exporter) Stats() (sent, dropped int64) { return e.sent.Load(), e.dropped.Load() }
