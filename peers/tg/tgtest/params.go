package tgtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const maxBody = 8 << 20 // bytes of a request that are read

// An apiError is an answer with "ok": false.
type apiError struct {
	status      int
	description string
	retryAfter  int
	migrateTo   int64
}

func errf(status int, format string, args ...any) *apiError {
	return &apiError{status: status, description: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *apiError {
	return errf(http.StatusBadRequest, "Bad Request: "+format, args...)
}

// A request is one call with its parameters.
type request struct {
	*http.Request
	method string
	params map[string]json.RawMessage
}

func readRequest(w http.ResponseWriter, r *http.Request) (*request, *apiError) {
	req := &request{Request: r, params: map[string]json.RawMessage{}}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return req, req.readForm(w)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, errf(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	}
	if len(raw) > 0 && json.Unmarshal(raw, &req.params) != nil {
		return nil, badRequest("can't parse JSON object")
	}
	return req, nil
}

// readForm reads the parameters and files of a form.
func (r *request) readForm(w http.ResponseWriter) *apiError {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseMultipartForm(maxBody); err != nil {
		return errf(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	}
	for name, values := range r.MultipartForm.Value {
		raw := json.RawMessage(values[0])
		if !json.Valid(raw) || raw[0] != '{' && raw[0] != '[' {
			raw, _ = json.Marshal(values[0]) //nolint:errcheck // a string
		}
		r.params[name] = raw
	}
	return nil
}

// str returns a parameter as a string, or "".
func (r *request) str(name string) string {
	var s string
	if json.Unmarshal(r.params[name], &s) == nil {
		return s
	}
	return string(r.params[name])
}

// int returns a parameter as an integer, or 0.
func (r *request) int(name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(r.str(name)), 10, 64)
	return n
}

func (r *request) bool(name string) bool {
	b, _ := strconv.ParseBool(r.str(name))
	return b
}

// decode decodes an object or a list, if the parameter exists.
func (r *request) decode(name string, into any) *apiError {
	if raw, ok := r.params[name]; ok && json.Unmarshal(raw, into) != nil {
		return badRequest("can't parse %s JSON object", name)
	}
	return nil
}
