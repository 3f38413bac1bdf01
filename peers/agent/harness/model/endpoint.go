package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"

	"github.com/tmaxmax/go-sse"
)

// validate returns why the model cannot be called, or nil. It does no network I/O. An endpoint
// other than the provider's may need no key.
func (h *Harness) validate() error {
	u, err := url.Parse(h.opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--base-url %q is not an http(s) address, such as https://host/v1", h.opts.BaseURL)
	}
	if u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("--base-url must not contain a user name, password or query; give the key in %s",
			h.endpoint.KeyName)
	}
	key, err := h.opts.Key()
	if err != nil {
		return err
	}
	if key == "" && h.official(h.opts.BaseURL) {
		return fmt.Errorf(
			"no key: set %[1]s, or %[1]s_FILE to a file that contains it, or --base-url to an endpoint that needs none",
			h.endpoint.KeyName,
		)
	}
	return nil
}

// complete sends a request, and repeats it after each refusal that it can adapt to. It calls
// onText with each piece of text and returns the complete answer. An error is a *requestError if
// the API or the connection failed, else the cause of ctx.
func (h *Harness) complete(ctx context.Context, r *request, onText func(string)) (*reply, error) {
	for {
		body, learn := h.dialect.encode(h.opts.Model, r)
		answer, err := h.completeOnce(ctx, body, onText)
		refusal, ok := errors.AsType[*requestError](err)
		if !ok || refusal.TooLong || learn == nil {
			return answer, err
		}
		lesson := learn(refusal.Error())
		if lesson == "" {
			return answer, err
		}
		h.opts.Log.Info().
			Str("endpoint", h.opts.BaseURL).
			Str("model", h.opts.Model).
			Str("learned", lesson).
			Msg("adapted to model endpoint")
	}
}

// completeOnce sends body as JSON and reads the answer to its end.
func (h *Harness) completeOnce(ctx context.Context, body any, onText func(string)) (*reply, error) {
	key, err := h.opts.Key()
	if err != nil {
		return nil, &requestError{Err: err}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &stream{h: h, key: key, ctx: ctx, watchdog: time.AfterFunc(h.opts.IdleTimeout, func() { cancel(errIdle) })}
	defer s.watchdog.Stop()
	response, err := s.post(raw)
	if err != nil {
		return nil, s.readError("the model at %s did not answer: %s", err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is left to lose
	if response.StatusCode/100 != 2 {
		return nil, s.statusError(response)
	}
	whole, page := s.detect(response)
	if page {
		return nil, s.wrongAPIError("a web page")
	}
	a := &answer{onText: onText, byIndex: map[int]*part{}}
	for data, err := range s.events(whole) {
		if err != nil {
			return nil, s.readError(incompleteFormat, err)
		}
		if f, ok := findFailure(data); ok {
			return nil, s.eventError(f)
		}
		if whole && h.isForeign(data) {
			return nil, s.wrongAPIError(
				"JSON that is not an answer of this API: " + text.Clip(text.OneLine(harness.Redact(string(data), key)),
					200),
			)
		}
		if err := h.dialect.decode(a, data); err != nil {
			return nil, s.readError(incompleteFormat, fmt.Errorf("it cannot be read: %w", err))
		}
		if a.ended {
			break
		}
	}
	s.drain()
	if !a.complete {
		return nil, s.readError(incompleteFormat, io.ErrUnexpectedEOF)
	}
	return a.finish(), nil
}

// isForeign reports whether an answer in one piece is valid but not of this API. An empty object
// may be the rest of an answer, so it is not foreign.
func (h *Harness) isForeign(data []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return json.Valid(data)
	}
	return len(members) > 0 && members[h.answerField] == nil
}

// Limits of an answer.
const (
	maxLine   = 4 << 20
	maxAnswer = 32 << 20
	maxModels = 4 << 20 // of a list of models
)

// A stream is a request and its incoming answer. One goroutine reads it.
type stream struct {
	h         *Harness
	key       string
	ctx       context.Context
	watchdog  *time.Timer
	body      io.Reader
	bytesRead int // of the body
}

// Endpoint returns the address and the model that the harness uses.
func (h *Harness) Endpoint() Endpoint {
	return Endpoint{h.endpoint.KeyName, strings.TrimRight(h.opts.BaseURL, "/"), h.opts.Model}
}

// Models requests the endpoint's list of models, which costs nothing. It returns the status and
// the models, or none if the answer is not such a list.
func (h *Harness) Models(ctx context.Context) (status int, models []string, err error) {
	key, err := h.opts.Key()
	if err != nil {
		return 0, nil, err
	}
	request, err := h.newRequest(ctx, http.MethodGet, "/models", nil, key)
	if err != nil {
		return 0, nil, err
	}
	answer, err := h.opts.Client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	var list struct{ Data []struct{ ID string } }
	if json.NewDecoder(io.LimitReader(answer.Body, maxModels)).Decode(&list) == nil {
		for _, m := range list.Data {
			models = append(models, m.ID)
		}
	}
	return answer.StatusCode, models, nil
}

// newRequest makes an authorized request to the endpoint.
func (h *Harness) newRequest(
	ctx context.Context,
	method, path string,
	body io.Reader,
	key string,
) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(h.opts.BaseURL, "/")+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "hubbub")
	h.dialect.authorize(request.Header, key)
	return request, nil
}

// post sends a request and returns the response once its headers have arrived.
func (s *stream) post(raw []byte) (*http.Response, error) {
	request, err := s.h.newRequest(s.ctx, http.MethodPost, s.h.path, bytes.NewReader(raw), s.key)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	return s.h.opts.Client.Do(request)
}

// Read reads the body up to its maximum length. It resets the watchdog whenever data arrives.
func (s *stream) Read(p []byte) (int, error) {
	if s.bytesRead > maxAnswer {
		return 0, errTooLong
	}
	n, err := s.body.Read(p)
	if n > 0 {
		s.watchdog.Reset(s.h.opts.IdleTimeout)
	}
	s.bytesRead += n
	return n, err
}

// detect determines the kind of a response from its first character, regardless of its
// Content-Type: a JSON object, a web page, or otherwise a stream of events.
func (s *stream) detect(response *http.Response) (whole, page bool) {
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) //nolint:errcheck // "" is nothing
	ahead := bufio.NewReader(response.Body)
	s.body = ahead
	if mediaType == "text/event-stream" {
		return false, false
	}
	first := byte(0)
	for n := 1; first == 0 && n <= ahead.Size(); n++ {
		begin, err := ahead.Peek(n)
		if err != nil {
			break
		}
		if !bytes.Contains([]byte(" \t\r\n\ufeff"), begin[n-1:]) {
			first = begin[n-1]
		}
	}
	switch first {
	case '{', '[':
		return true, false
	case '<':
		return false, true
	case 'd', 'e', ':': // data, event or a comment
		return false, false
	}
	return mediaType == "application/json", mediaType == "text/html"
}

// events yields the data of each server-sent event, or the whole answer if the API ignored the
// request for a stream. It stops after an error.
func (s *stream) events(whole bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if whole {
			if raw, err := io.ReadAll(s); err != nil || len(raw) > 0 {
				yield(bytes.TrimPrefix(raw, []byte("\ufeff")), err)
			}
			return
		}
		// Some endpoints omit the empty line after the last event.
		body := io.MultiReader(s, strings.NewReader("\n\n"))
		for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxLine}) {
			if err != nil || event.Data != "" {
				if !yield([]byte(event.Data), err) {
					return
				}
			}
		}
	}
}

// drainLimit is how long the rest of a complete answer may take.
const drainLimit = 250 * time.Millisecond

// drain reads the rest of a complete answer. Otherwise the connection would be closed, and the
// next request would have to wait for a new one.
func (s *stream) drain() {
	s.watchdog.Reset(drainLimit)
	io.CopyN(io.Discard, s.body, 4<<10) //nolint:errcheck // it costs a connection
}
