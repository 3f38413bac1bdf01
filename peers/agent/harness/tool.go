package harness

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hubbub/protocol/redact"
)

// Tools are what a model may call. Implementations may be called from any
// goroutine, and enforce policy themselves: a refusal is a Result that says
// what to do, never a Go error.
type Tools interface {
	// List returns the tools in a stable order. The caller changes nothing.
	List() []Tool
	// Call runs one tool. Arguments are a JSON object (or empty); an unknown
	// name, bad arguments and refusals come back as Result with IsError. It
	// blocks until the tool has an answer or ctx ends (also an IsError result).
	Call(ctx context.Context, name string, arguments json.RawMessage) Result
}

type staleCheckKey struct{}

// WithStaleCheck lets the tools of a call ask, when they act, whether it came from before a
// change of its event that the program has not taken yet.
func WithStaleCheck(ctx context.Context, overtaken func() bool) context.Context {
	return context.WithValue(ctx, staleCheckKey{}, overtaken)
}

// IsStale is what WithStaleCheck gave; false without it.
func IsStale(ctx context.Context) bool {
	overtaken, ok := ctx.Value(staleCheckKey{}).(func() bool)
	return ok && overtaken()
}

type revisionKey struct{}

// WithRevision says which words of a turn whoever calls was given: those of Event.Revision. Tools
// refuse what answers words that the turn has no more. An empty revision is not known.
func WithRevision(ctx context.Context, turnID, revision string) context.Context {
	return context.WithValue(ctx, revisionKey{}, [2]string{turnID, revision})
}

// RevisionOf returns what WithRevision was given, "" without it.
func RevisionOf(ctx context.Context) (turnID, revision string) {
	given, _ := ctx.Value(revisionKey{}).([2]string)
	return given[0], given[1]
}

// A Tool describes one tool as MCP does.
type Tool struct {
	Name         string          `json:"name"` // "chat.send_message"
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"` // JSON Schema, type object
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	ReadOnly     bool            `json:"-"` // changes nothing
	Idempotent   bool            `json:"-"` // safe to repeat with the same arguments
}

// A Result is what a tool answers, in MCP's shape.
type Result struct {
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"` // a JSON object
	IsError           bool            `json:"isError,omitempty"`
}

// Content is one piece of a result. Ours is always text.
type Content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// StructuredResult makes a result of a value that marshals to a JSON object; its
// text is the same JSON. It panics on a value that cannot be marshalled, which
// is a mistake of the program.
func StructuredResult(value any) Result {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("a tool result cannot be marshalled: " + err.Error())
	}
	return Result{Content: []Content{{Type: "text", Text: string(raw)}}, StructuredContent: raw}
}

// ErrorResult makes an error result: reason tells a model what to do instead.
// Structured, if not nil, marshals to the result's JSON object.
func ErrorResult(reason string, structured any) Result {
	r := Result{IsError: true}
	if structured != nil {
		r = StructuredResult(structured)
		r.IsError = true
	}
	r.Content = []Content{{Type: "text", Text: reason}}
	return r
}

// Redacted returns a result that holds no secrets, as a model may read it.
func (r Result) Redacted(secrets *redact.Redactor) Result {
	r.StructuredContent = secrets.Bytes(r.StructuredContent)
	r.Content = slices.Clone(r.Content)
	for i := range r.Content {
		r.Content[i].Text = secrets.String(r.Content[i].Text)
	}
	return r
}

// Text joins the text pieces of a result, a newline between them.
func (r Result) Text() string {
	text := ""
	for i, c := range r.Content {
		if i > 0 {
			text += "\n"
		}
		text += c.Text
	}
	return text
}

// IsToolName reports whether what a program calls a tool is the tool of that name: programs
// write other characters for its dot, and put the name of its server before it.
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
