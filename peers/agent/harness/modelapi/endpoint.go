package modelapi

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
	"hubbub/peers/agent/harness/turnloop"
)

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 64 << 10

var errIdle = errors.New("the model's stream went silent")

// An Endpoint is one URL that takes requests for a model. Set it before use.
type Endpoint struct {
	BaseURL string                 // with its version, such as https://api.openai.com/v1
	Path    string                 // such as /chat/completions
	Key     func() (string, error) // asked at each request; "" = send none
	KeyName string                 // the environment variable, for messages
	Sign    func(h http.Header, key string)
	Idle    time.Duration // default 90 s
	Client  *http.Client  // default: one without redirects; its Timeout must be 0
	Now     func() time.Time
}

// Check says why the address cannot be used, or nil.
func (e *Endpoint) Check() error {
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--base-url %q is not an http(s) address; it looks like https://host/v1", e.BaseURL)
	}
	if u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("--base-url must hold no user name, password or query; give the key in %s", e.KeyName)
	}
	return nil
}

var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Post sends body as JSON and returns the answer's stream once its headers
// came. The caller closes it.
func (e *Endpoint) Post(ctx context.Context, body any) (*Stream, error) {
	key, err := e.Key()
	if err != nil {
		return nil, &turnloop.RequestError{Err: err}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	idle := e.Idle
	if idle <= 0 {
		idle = 90 * time.Second
	}
	watchdog := time.AfterFunc(idle, func() { cancel(errIdle) })
	response, err := e.send(ctx, key, raw)
	if err != nil {
		watchdog.Stop()
		defer cancel(nil)
		return nil, e.unreachable(ctx, err, key)
	}
	s := &Stream{endpoint: e, key: key, ctx: ctx, cancel: cancel, watchdog: watchdog, idle: idle, body: response.Body}
	if response.StatusCode/100 != 2 {
		defer s.Close()
		return nil, e.refused(response, key)
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) //nolint:errcheck // "" is not JSON
	s.Whole = mediaType == "application/json"
	s.start()
	return s, nil
}

func (e *Endpoint) send(ctx context.Context, key string, raw []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(e.BaseURL, "/")+e.Path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "hubbub")
	e.Sign(request.Header, key)
	client := e.Client
	if client == nil {
		client = noRedirects
	}
	return client.Do(request)
}

// unreachable makes the error of a request that got no answer.
func (e *Endpoint) unreachable(ctx context.Context, err error, key string) error {
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
	return &turnloop.RequestError{Retry: true, Err: fmt.Errorf("the model at %s gave no answer: %s", e.BaseURL, harness.Redact(err.Error(), key))}
}

// refused makes the error of an answer that is not 2xx.
func (e *Endpoint) refused(response *http.Response, key string) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) //nolint:errcheck // the status says enough
	failure := parseFailure(raw)
	err := e.failure(response.StatusCode, fmt.Sprintf("answered %d", response.StatusCode), failure, key)
	err.After = retryAfter(response.Header, e.now())
	return err
}

func (e *Endpoint) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}
