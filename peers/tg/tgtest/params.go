package tgtest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
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

// A request is one call with its parameters, whatever form they came in. A
// parameter is kept as JSON; one that came in a form is kept as a JSON string
// and unwrapped when a number, a boolean or an object is asked for.
type request struct {
	*http.Request
	method string
	params map[string]json.RawMessage
}

func readRequest(w http.ResponseWriter, r *http.Request) (*request, *apiError) {
	req := &request{Request: r, params: map[string]json.RawMessage{}}
	req.addForm(r.URL.Query())
	body := http.MaxBytesReader(w, r.Body, maxBody)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, errf(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		}
		if len(raw) > 0 && json.Unmarshal(raw, &req.params) != nil {
			return nil, badRequest("can't parse JSON object")
		}
	case "application/x-www-form-urlencoded":
		r.Body = body
		if err := r.ParseForm(); err != nil {
			return nil, badRequest("can't parse the form")
		}
		req.addForm(r.PostForm)
	case "multipart/form-data":
		r.Body = body
		if err := r.ParseMultipartForm(maxBody); err != nil {
			return nil, badRequest("can't parse the multipart form")
		}
		req.addForm(r.MultipartForm.Value)
	default:
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, errf(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		}
	}
	return req, nil
}

func (r *request) addForm(values url.Values) {
	for name, vs := range values {
		if len(vs) > 0 {
			raw, _ := json.Marshal(vs[0]) // a string always marshals
			r.params[name] = raw
		}
	}
}

// str returns a parameter as a string, empty when absent.
func (r *request) str(name string) string {
	var s string
	if json.Unmarshal(r.params[name], &s) == nil {
		return s
	}
	return string(r.params[name])
}

// int returns a parameter as an integer, 0 when absent or unreadable.
func (r *request) int(name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(r.str(name)), 10, 64)
	return n
}

func (r *request) bool(name string) bool {
	b, _ := strconv.ParseBool(r.str(name))
	return b
}

// decode reads an object or a list that came as JSON or as JSON in a string.
func (r *request) decode(name string, into any) *apiError {
	raw, ok := r.params[name]
	if !ok || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil
		}
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, into) != nil {
		return badRequest("can't parse %s JSON object", name)
	}
	return nil
}
