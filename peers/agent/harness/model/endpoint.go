package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
)

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 64 << 10

var errIdle = errors.New("the model's stream went silent")

// An endpoint is one model behind one URL.
type endpoint struct {
	provider
	words words
	opts  Options
}

// check says why the model cannot be asked, or returns nil. It does no network
// I/O. Other endpoints than the provider's may need no key.
func (e *endpoint) check() error {
	u, err := url.Parse(e.opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--base-url %q is not an http(s) address; it looks like https://host/v1", e.opts.BaseURL)
	}
	if u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("--base-url must hold no user name, password or query; give the key in %s", e.keyName)
	}
	key, err := e.opts.Key()
	if err != nil {
		return err
	}
	if key == "" && e.official(e.opts.BaseURL) {
		return fmt.Errorf("no key: set %[1]s, or %[1]s_FILE to a file that holds it, or --base-url to an endpoint that needs none", e.keyName)
	}
	return nil
}

// ask asks once, and once more each time that a refusal teaches how. It calls
// onText with each piece of text as it comes, and returns the whole answer. Errors
// are *requestError if the API or the connection failed, else ctx's cause.
func (e *endpoint) ask(ctx context.Context, r *request, onText func(string)) (*reply, error) {
	for {
		body, learn := e.words.request(e.opts.Model, r)
		answer, err := e.askOnce(ctx, body, onText)
		var refusal *requestError
		if !errors.As(err, &refusal) || refusal.Retry || refusal.TooLong || learn == nil || !learn(refusal.Error()) {
			return answer, err
		}
	}
}

// askOnce sends body as JSON, and reads the answer to its end.
func (e *endpoint) askOnce(ctx context.Context, body any, onText func(string)) (*reply, error) {
	s, err := e.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer s.close()
	a := &answer{onText: onText, byIndex: map[int]*part{}}
	for data, err := range s.events() {
		if err != nil {
			return nil, s.broken(err)
		}
		if f, ok := failureIn(data); ok {
			return nil, s.failed(f)
		}
		if err := e.words.read(a, data); err != nil {
			return nil, s.broken(fmt.Errorf("it cannot be read: %w", err))
		}
		if a.last {
			break
		}
	}
	s.drain()
	if whole := a.reply(); whole != nil {
		return whole, nil
	}
	return nil, s.broken(io.ErrUnexpectedEOF)
}

// post sends body as JSON and returns the answer's stream once its headers
// came. The caller closes it.
func (e *endpoint) post(ctx context.Context, body any) (*stream, error) {
	key, err := e.opts.Key()
	if err != nil {
		return nil, &requestError{Err: err}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watchdog := time.AfterFunc(e.opts.Idle, func() { cancel(errIdle) })
	response, err := e.send(ctx, key, raw)
	if err != nil {
		watchdog.Stop()
		defer cancel(nil)
		return nil, e.unreachable(ctx, err, key)
	}
	s := &stream{endpoint: e, key: key, ctx: ctx, cancel: cancel, watchdog: watchdog, body: response.Body}
	if response.StatusCode/100 != 2 {
		defer s.close()
		return nil, e.refused(response, key)
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) //nolint:errcheck // "" is not JSON
	s.whole = mediaType == "application/json"
	return s, nil
}

func (e *endpoint) send(ctx context.Context, key string, raw []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(e.opts.BaseURL, "/")+e.path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "hubbub")
	e.words.sign(request.Header, key)
	return e.opts.Client.Do(request)
}

// unreachable makes the error of a request that got no answer.
func (e *endpoint) unreachable(ctx context.Context, err error, key string) error {
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(cause, errIdle) {
		return cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if cause != nil {
		err = cause
	}
	return &requestError{Retry: true, Err: fmt.Errorf("the model at %s gave no answer: %s", e.opts.BaseURL, harness.Redact(err.Error(), key))}
}

// refused makes the error of an answer that is not 2xx.
func (e *endpoint) refused(response *http.Response, key string) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) //nolint:errcheck // the status says enough
	err := e.errorOf(response.StatusCode, fmt.Sprintf("answered %d", response.StatusCode), parseFailure(raw), key)
	err.After = retryAfter(response.Header, time.Now())
	return err
}
