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
