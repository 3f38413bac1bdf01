package botapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hubbub/protocol/defaults"
	"hubbub/protocol/http1"
)

// DefaultURL is the public Bot API.
const DefaultURL = "https://api.telegram.org"

// Options are the optional settings of a Client. Nil is valid.
type Options struct {
	// DefaultURL
	URL       string            `flag:"api-url" default:"https://api.telegram.org" usage:"address of the Bot API"`
	Transport http.RoundTripper // default: a transport of the client's own
	MaxAnswer int               `positive:"16<<20"` // bytes
}

// A Client calls the Bot API for one bot.
type Client struct {
	base  string
	token string
	http  *http.Client
	cut   *strings.Replacer
	most  int // bytes of an answer
}

// New returns a Client. It does no I/O.
func New(token string, opts *Options) *Client {
	o := defaults.Of(opts)
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	return &Client{
		base:  strings.TrimRight(o.URL, "/"),
		token: token,
		http: &http.Client{
			Transport:     o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		cut:  redactor(token),
		most: o.MaxAnswer,
	}
}

// newTransport returns a transport that closes idle connections before Telegram does. A request
// on a connection that Telegram is closing would have an unknown outcome.
func newTransport() *http.Transport { return http1.NewTransport(20 * time.Second) }

// BotID returns the ID of a token's bot: the part before the colon.
func BotID(token string) (int64, error) {
	prefix, secret, ok := strings.Cut(token, ":")
	id, err := strconv.ParseInt(prefix, 10, 64)
	if !ok || err != nil || id <= 0 || secret == "" || strings.ContainsAny(token, " \t\r\n/?#") {
		return 0, errors.New("this is not a bot token: a token looks like 110201543:AAE... and comes from @BotFather")
	}
	return id, nil
}

// CheckToken returns why a text cannot be a token for the server in opts, or nil. Tokens of other
// servers than the public one may have any form.
func CheckToken(token string, opts *Options) error {
	if token == "" || strings.ContainsAny(token, " \t\r\n/?#%") {
		return errors.New("this cannot be a bot token")
	}
	if opts != nil && (opts.Transport != nil || opts.URL != "" && opts.URL != DefaultURL) {
		return nil
	}
	_, err := BotID(token)
	return err
}

// redactor removes a token from texts, in every spelling.
func redactor(token string) *strings.Replacer {
	const mark = "<bot token>"
	var pairs []string
	for _, s := range []string{token, url.QueryEscape(token), url.PathEscape(token),
		strings.ReplaceAll(token, ":", "%3a")} {
		if s != "" {
			pairs = append(pairs, s, mark)
		}
	}
	if _, secret, _ := strings.Cut(token, ":"); len(secret) >= 6 { // a shorter secret would match anything
		pairs = append(pairs, secret, mark)
	}
	return strings.NewReplacer(pairs...)
}

// Redact returns a text without the token.
func (c *Client) Redact(text string) string { return c.cut.Replace(text) }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call makes one call with params as its JSON body. It decodes the result into result, unless
// that is nil. It blocks until the answer arrives or ctx ends.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	_, err := c.CallDate(ctx, method, params, result)
	return err
}

// An envelope is the outer object of every answer.
type envelope struct {
	OK          *bool           `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// CallDate is like Call and also returns the server's time, or the zero time if the answer has
// none.
func (c *Client) CallDate(ctx context.Context, method string, params, result any) (time.Time, error) {
	if params == nil {
		params = struct{}{}
	}
	body, err := json.Marshal(params)
	if err != nil {
		return time.Time{}, fmt.Errorf("writing the parameters of %s: %w", method, err)
	}
	return c.post(ctx, method, "application/json", body, result)
}

// A File is a file to upload, as a field of a form.
type File struct {
	Field, Name string
	Data        []byte
}

// Upload makes one call with a file, as a form. The other fields are params: strings as they are,
// everything else as JSON.
func (c *Client) Upload(ctx context.Context, method string, params map[string]any, file File, result any) error {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	var failed error
	for name, value := range params {
		field, ok := value.(string)
		if !ok {
			raw, err := json.Marshal(value)
			field, failed = string(raw), errors.Join(failed, err)
		}
		failed = errors.Join(failed, w.WriteField(name, field))
	}
	part, err := w.CreateFormFile(file.Field, file.Name)
	if failed = errors.Join(failed, err); failed == nil {
		_, failed = part.Write(file.Data)
	}
	if failed = errors.Join(failed, w.Close()); failed != nil {
		return fmt.Errorf("writing the parameters of %s: %w", method, failed)
	}
	_, err = c.post(ctx, method, w.FormDataContentType(), body.Bytes(), result)
	return err
}

// post makes one call.
func (c *Client) post(ctx context.Context, method, kind string, body []byte, result any) (time.Time, error) {
	var left atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { left.Store(true) }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.base+"/bot"+c.token+"/"+method,
		bytes.NewReader(body))
	if err != nil {
		return time.Time{}, c.transportError(method, false, err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := c.http.Do(req)
	if err != nil {
		return time.Time{}, c.transportError(method, left.Load(), err)
	}
	defer resp.Body.Close()
	date, _ := http.ParseTime(resp.Header.Get("Date"))
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.most)+1))
	if err == nil && len(raw) > c.most {
		err = fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, c.most)
	}
	if err != nil && resp.StatusCode/100 == 2 {
		return date, c.transportError(method, true, err)
	}
	return date, c.decode(method, resp.StatusCode, raw, result)
}

// decode decodes the result of an answer, or returns the refusal.
func (c *Client) decode(method string, status int, raw []byte, result any) error {
	var e envelope
	switch err := json.Unmarshal(raw, &e); {
	case (err != nil || e.OK == nil) && status/100 != 2:
		return &Error{Method: method, Code: status, Description: http.StatusText(status)}
	case err != nil || e.OK == nil:
		return c.transportError(method, true, errors.New("the answer is not from a Bot API; check --api-url"))
	case !*e.OK:
		return &Error{
			Method: method, Code: cmp.Or(e.Code, status), Description: c.Redact(e.Description),
			RetryAfter: time.Duration(e.Parameters.RetryAfter) * time.Second, MigrateTo: e.Parameters.MigrateTo,
		}
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(e.Result, result); err != nil {
		return c.transportError(method, true, fmt.Errorf("the result cannot be read: %w", err))
	}
	return nil
}

// Download opens a file by the path that getFile returned, with byteRange as its Range header
// unless that is empty. The caller closes the body.
func (c *Client) Download(ctx context.Context, path, byteRange string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/file/bot"+c.token+"/"+path, http.NoBody)
	if err != nil {
		return nil, c.transportError("download", false, err)
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError("download", true, err)
	}
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		resp.Body.Close()
		return nil, &Error{Method: "download", Code: resp.StatusCode, Description: http.StatusText(resp.StatusCode)}
	}
	return resp, nil
}
