package modelapi

import (
	"bytes"
	"cmp"
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
	"hubbub/protocol/http1"
)

// maxErrorBody bounds what is read of an error answer.
const maxErrorBody = 64 << 10

var errIdle = errors.New("the model's stream went silent")

// An API is one kind of API: what its requests look like, and where a harness
// finds it unless told otherwise.
type API struct {
	KeyName string // environment variable of the key
	BaseURL string // of its provider, with the version, such as https://api.openai.com/v1
	Model   string
	Path    string // of requests, such as /chat/completions
	Sign    func(h http.Header, key string)
}

// Options are the optional settings of a harness that asks an API. Nil is
// valid.
type Options struct {
	BaseURL string                 // with the version; default API.BaseURL
	Model   string                 // default API.Model
	Key     func() (string, error) // asked at each request, "" = send none; default harness.KeyFrom(API.KeyName)
	Servers turnloop.Servers       // for MCP servers; default none
	Loop    turnloop.Options
	Idle    time.Duration // longest silence of a stream; default 90 s
	Client  *http.Client  // default: one without redirects; its Timeout must be 0
}

// An Endpoint is one model behind one URL.
type Endpoint struct {
	api  API
	opts Options
}

// NewEndpoint makes an endpoint of an API. It does no I/O.
func NewEndpoint(api API, opts *Options) *Endpoint {
	e := &Endpoint{api: api}
	if opts != nil {
		e.opts = *opts
	}
	e.opts.BaseURL = cmp.Or(e.opts.BaseURL, api.BaseURL)
	e.opts.Model = cmp.Or(e.opts.Model, api.Model)
	e.opts.Idle = cmp.Or(e.opts.Idle, 90*time.Second)
	if e.opts.Client == nil {
		e.opts.Client = newClient()
	}
	if e.opts.Key == nil {
		e.opts.Key = harness.KeyFrom(api.KeyName)
	}
	return e
}

// Loop makes the harness of a model that asks this endpoint.
func (e *Endpoint) Loop(model turnloop.Model) *turnloop.Loop {
	return turnloop.New(model, e.opts.Servers, &e.opts.Loop)
}

// Name returns the model's name.
func (e *Endpoint) Name() string { return e.opts.Model }

// Official reports whether the endpoint is that of the API's provider.
func (e *Endpoint) Official() bool {
	return strings.TrimRight(e.opts.BaseURL, "/") == e.api.BaseURL
}

// Check says why the model cannot be asked, or nil. Other endpoints than the
// provider's may need no key.
func (e *Endpoint) Check() error {
	u, err := url.Parse(e.opts.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("--base-url %q is not an http(s) address; it looks like https://host/v1", e.opts.BaseURL)
	}
	if u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("--base-url must hold no user name, password or query; give the key in %s", e.api.KeyName)
	}
	key, err := e.opts.Key()
	if err != nil {
		return err
	}
	if key == "" && e.Official() {
		return fmt.Errorf("no key: set %[1]s, or %[1]s_FILE to a file that holds it, or --base-url to an endpoint that needs none", e.api.KeyName)
	}
	return nil
}

// An Answer gathers what an API sends of one answer.
type Answer interface {
	// Add takes one event of a stream, or an answer that came in one piece. It
	// returns the text that it brought, and whether nothing follows.
	Add(data []byte) (text string, last bool, err error)
	// Reply returns the whole answer, or nil where its end did not come.
	Reply() *turnloop.Reply
}

// Ask sends body as JSON, reads the answer to its end, and calls onText with
// each piece of text as it comes.
func (e *Endpoint) Ask(ctx context.Context, body any, answer Answer, onText func(string)) (*turnloop.Reply, error) {
	s, err := e.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for last := false; !last; {
		data, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if f, ok := failureIn(data); ok {
			return nil, s.failed(f)
		}
		var text string
		if text, last, err = answer.Add(data); err != nil {
			return nil, s.broken(fmt.Errorf("it cannot be read: %w", err))
		}
		if text != "" {
			onText(text)
		}
	}
	s.drain()
	reply := answer.Reply()
	if reply == nil {
		return nil, s.broken(io.ErrUnexpectedEOF)
	}
	return reply, nil
}

// newClient makes a client that keeps keys from travelling to another place.
func newClient() *http.Client {
	return &http.Client{
		Transport:     http1.NewTransport(90 * time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends body as JSON and returns the answer's stream once its headers
// came. The caller closes it.
func (e *Endpoint) post(ctx context.Context, body any) (*stream, error) {
	key, err := e.opts.Key()
	if err != nil {
		return nil, &turnloop.RequestError{Err: err}
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
	s.start()
	return s, nil
}

func (e *Endpoint) send(ctx context.Context, key string, raw []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(e.opts.BaseURL, "/")+e.api.Path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("User-Agent", "hubbub")
	e.api.Sign(request.Header, key)
	return e.opts.Client.Do(request)
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
	return &turnloop.RequestError{Retry: true, Err: fmt.Errorf("the model at %s gave no answer: %s", e.opts.BaseURL, harness.Redact(err.Error(), key))}
}

// refused makes the error of an answer that is not 2xx.
func (e *Endpoint) refused(response *http.Response, key string) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) //nolint:errcheck // the status says enough
	err := e.errorOf(response.StatusCode, fmt.Sprintf("answered %d", response.StatusCode), parseFailure(raw), key)
	err.After = retryAfter(response.Header, e.opts.Loop.Clock.Now())
	return err
}
