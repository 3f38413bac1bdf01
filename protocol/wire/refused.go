package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	neturl "net/url"
	"strings"
)

// An Answerer is the kind of program that answered a request without upgrading it.
type Answerer int

// The kinds of Answerer.
const (
	Stranger    Answerer = iota // not a bus
	BusItself                   // a bus, which gives a reason
	ProxyOfBus                  // a proxy that does not pass the upgrade to its bus
	BrokenProxy                 // a proxy that does not reach its server
	TLSRedirect                 // a server that redirects to an address with TLS
)

// A StatusError means that the upgrade was refused.
type StatusError struct {
	Code   int // HTTP status
	URL    string
	By     Answerer
	Reason string // from a bus
}

// Error describes the status, and what to change if a proxy is in the way.
func (e *StatusError) Error() string {
	status := strings.TrimSpace(fmt.Sprintf("%s answered %d %s", e.URL, e.Code, http.StatusText(e.Code)))
	switch {
	case e.By == BusItself && e.Reason != "":
		return status + ": " + e.Reason
	case e.By == ProxyOfBus:
		return status + ": the proxy in front of the bus does not pass the upgrade to WebSocket; " +
			"it must pass the headers Upgrade and Connection over HTTP/1.1 (hubbub help operating)"
	case e.By == BrokenProxy:
		return status + ": a proxy answers, but does not reach the bus behind it; check that the bus is running"
	case e.By == TLSRedirect, e.Code == http.StatusBadRequest && strings.HasPrefix(e.URL, "ws:"):
		return status + " instead of upgrading; the address of a bus with TLS begins with wss:"
	}
	return status + " instead of upgrading"
}

// maxRefusal bounds the bytes that are read of an answer other than an upgrade.
const maxRefusal = 4 << 10

// refusal describes the answer of a server that did not upgrade. If the answer does not show
// which program gave it, refusal checks the health of the bus at the same address.
func refusal(ctx context.Context, client *http.Client, address string, answer *http.Response) *StatusError {
	e := &StatusError{Code: answer.StatusCode, URL: address}
	if e.Reason = reasonOf(answer); e.Reason != "" {
		e.By = BusItself
		if e.Code == http.StatusUpgradeRequired {
			e.By = ProxyOfBus
		}
		return e
	}
	switch e.Code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.By = BrokenProxy
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
	default:
		switch to, err := answer.Location(); {
		case e.Code/100 == 3 && err == nil && to.Scheme == "https" && strings.HasPrefix(address, "ws:"):
			e.By = TLSRedirect
		case answersAsBus(ctx, client, address):
			e.By = ProxyOfBus
		}
	}
	return e
}

// reasonOf returns the reason in an answer of a bus, or "" if the answer is not from a bus.
func reasonOf(answer *http.Response) string {
	var body struct {
		Error string `json:"error"`
	}
	if !decodeJSON(answer, &body) {
		return ""
	}
	return body.Error
}

// answersAsBus reports whether the HTTP side of a bus answers at the address of its WebSocket. The
// request carries no token.
func answersAsBus(ctx context.Context, client *http.Client, address string) bool {
	at, err := neturl.Parse(address)
	if err != nil {
		return false
	}
	at.Scheme, at.RawQuery = strings.Replace(at.Scheme, "ws", "http", 1), ""
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("readyz").String(), nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var ready struct {
		Status string  `json:"status"`
		Bus    *string `json:"bus"`
	}
	return decodeJSON(answer, &ready) && ready.Bus != nil && (ready.Status == "ready" || ready.Status == "unready")
}

func decodeJSON(answer *http.Response, into any) bool {
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	return err == nil && json.Unmarshal(body, into) == nil
}
