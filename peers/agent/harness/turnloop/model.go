package turnloop

import (
	"context"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"
)

// A Model is one model behind an API. Stream may be called from any goroutine.
type Model interface {
	// Name is the model's name, for Usage.
	Name() string
	// Check says why the model cannot be asked at all (no key, a bad address),
	// or nil. It does no network I/O.
	Check() error
	// Stream asks once, calls onText with each piece of text as it comes, and
	// returns the whole answer. Errors are *RequestError where the API or the
	// connection failed, else ctx's cause.
	Stream(ctx context.Context, r *Request, onText func(string)) (*Reply, error)
}

// A Request is one question to a model.
type Request struct {
	System    string
	Messages  []Message
	Tools     []harness.Tool // with names that the API takes
	WithTools ToolUse
	MaxTokens int
}

// ToolUse says whether the model may call tools.
type ToolUse string

// The ways to use tools.
const (
	ToolsAllowed ToolUse = "allowed"
	ToolsDenied  ToolUse = "denied" // they are listed, since the history has calls of them
)

// A Role says whose message it is.
type Role string

// The roles of a dialogue.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one step of a dialogue with a model.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []Call       `json:"calls,omitempty"`   // assistant
	Results []CallResult `json:"results,omitempty"` // tool: one for each call
}

// A Call is a tool call of a model.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`            // as the API knows it
	Arguments string          `json:"arguments"`       // meant to be a JSON object; models err
	Extra     json.RawMessage `json:"extra,omitempty"` // what the API wants back unchanged
}

// A CallResult answers a Call.
type CallResult struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// A Reply is one whole answer of a model.
type Reply struct {
	Text      string
	Calls     []Call
	Truncated bool // cut by the token limit
	// Paused: the API ended the answer in between and wants to be asked again
	// with it.
	Paused bool
	// Tokens; 0 where the API did not tell.
	InputTokens, OutputTokens int64
}

// A RequestError says why a request to a model failed. Its text holds no
// secret.
type RequestError struct {
	Retry   bool          // it may work later
	After   time.Duration // how long the API wants us to wait; 0 = not said
	TooLong bool          // the request exceeds what the model can read
	Refused bool          // something in the request is not taken; its history may be to blame
	Err     error
}

// Error returns the text of the cause.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }
