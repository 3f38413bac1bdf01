package chorus

import (
	"encoding/json"
	"errors"
	"net/http"

	"hubbub/peers/outbox"
)

// A refusal is an answer that is not 200: a status and a sentence for the
// caller. It holds nothing that the caller did not send or may not know.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, text string) error { return &refusal{status, text} }

// Refusals that are the same wherever they occur.
var (
	errTooLarge = refuse(http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
	errNobody   = refuse(http.StatusNotFound, "not found")
	errBusy     = refuse(http.StatusServiceUnavailable, "too many calls at once; try again")
	errFailed   = refuse(http.StatusInternalServerError, "the gateway could not store this; try again")
)

// writeOK answers 200 with an empty object; nobody reads it.
func writeOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte("{}\n"))
}

// writeRefusal answers with the status and sentence of a refusal; any other
// error is an internal one, whose text stays with us.
func writeRefusal(w http.ResponseWriter, err error) {
	if errors.Is(err, outbox.ErrFull) {
		err = errBusy
	}
	var r *refusal
	if !errors.As(err, &r) {
		errors.As(errFailed, &r)
	}
	body, err := json.Marshal(map[string]string{"error": r.text})
	if err != nil {
		body = []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	switch r.status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(append(body, '\n'))
}
