package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hubbub/protocol/redact"
)

// Tools are what a model may call. Implementations may be called from any goroutine and enforce
// policy: they refuse a call with a Result that says what to do, never with a Go error.
type Tools interface {
	// List returns the tools in a stable order. The caller must not modify them.
	List() []Tool
	// Call runs one tool. The arguments are a JSON object or empty. An unknown name, bad
	// arguments or a refusal yields a Result with IsError. Call blocks until the tool has
	// answered or ctx ends, which also yields an IsError result.
	Call(ctx context.Context, name string, arguments json.RawMessage) Result
}

type staleCheckKey struct{}

// WithStaleCheck lets the tools of a call find out, when they act, whether the call was made
// before a change of its event that the program has not received yet.
func WithStaleCheck(ctx context.Context, overtaken func() bool) context.Context {
	return context.WithValue(ctx, staleCheckKey{}, overtaken)
}

// IsStale calls the function of WithStaleCheck. It reports false if the context has none.
func IsStale(ctx context.Context) bool {
	overtaken, ok := ctx.Value(staleCheckKey{}).(func() bool)
	return ok && overtaken()
}

type revisionKey struct{}

// WithRevision records which revision of a turn's text the caller was given; see Event.Revision.
// Tools refuse answers to an older text. An empty revision means unknown.
func WithRevision(ctx context.Context, turnID, revision string) context.Context {
	return context.WithValue(ctx, revisionKey{}, [2]string{turnID, revision})
}

// RevisionOf returns the values of WithRevision, or empty strings.
func RevisionOf(ctx context.Context) (turnID, revision string) {
	given, _ := ctx.Value(revisionKey{}).([2]string)
	return given[0], given[1]
}

// A Tool describes one tool as MCP does.
type Tool struct {
	Name         string          `json:"name"` // "chat.send_message"
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"` // a JSON Schema of type object
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	ReadOnly     bool            `json:"-"` // the tool changes nothing
	Idempotent   bool            `json:"-"` // a call may be repeated with the same arguments
}

// MarshalJSON writes the tool with its annotations, as MCP has them.
func (t Tool) MarshalJSON() ([]byte, error) {
	type plain Tool
	return json.Marshal(struct {
		plain
		Annotations map[string]bool `json:"annotations"`
	}{plain(t), map[string]bool{"readOnlyHint": t.ReadOnly, "idempotentHint": t.Idempotent}})
}

// A Result is a tool's answer, in the shape of MCP.
type Result struct {
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"` // a JSON object
	IsError           bool            `json:"isError,omitempty"`
}

// Content is one piece of a result: a text, which may stand for an image.
type Content struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image *Image `json:"-"` // for models that see
}

// StructuredResult makes a result from a value that marshals to a JSON object. Its text is the
// same JSON. It panics if the value cannot be marshaled, which is a programming error.
func StructuredResult(value any) Result {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a model reads it, and results have a maximum length
	if err := enc.Encode(value); err != nil {
		panic("a tool result cannot be marshaled: " + err.Error())
	}
	raw := bytes.TrimSpace(b.Bytes())
	return Result{Content: []Content{{Type: "text", Text: string(raw)}}, StructuredContent: raw}
}

// ErrorResult makes an error result. The reason tells a model what to do instead. If structured
// is not nil, it becomes the result's JSON object.
func ErrorResult(reason string, structured any) Result {
	r := Result{IsError: true}
	if structured != nil {
		r = StructuredResult(structured)
		r.IsError = true
	}
	r.Content = []Content{{Type: "text", Text: reason}}
	return r
}

// Redacted returns a copy of the result without secrets, for a model to read.
func (r Result) Redacted(secrets *redact.Redactor) Result {
	r.StructuredContent = secrets.Bytes(r.StructuredContent)
	r.Content = slices.Clone(r.Content)
	for i := range r.Content {
		r.Content[i].Text = secrets.String(r.Content[i].Text)
	}
	return r
}

// Text joins the text pieces of a result with newlines.
func (r Result) Text() string {
	texts := make([]string, len(r.Content))
	for i, c := range r.Content {
		texts[i] = c.Text
	}
	return strings.Join(texts, "\n")
}

// Images returns the images of a result.
func (r Result) Images() (all []Image) {
	for _, c := range r.Content {
		if c.Image != nil {
			all = append(all, *c.Image)
		}
	}
	return all
}

// IsToolName reports whether said, the name that a program gives to a tool, means the tool called
// name. Programs replace its dot with other characters and prepend the name of its server.
func IsToolName(said, name string) bool {
	return strings.Contains(normalizeToolName(said), normalizeToolName(name))
}

func normalizeToolName(name string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToLower(name))
}
