package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol/text"
)

// Errors of Turn wrap one of these errors or the cause of the context. Every text tells a person
// what to do and contains no secret.
var (
	// ErrTemporary means that the turn may be run again if it had no outbound action. The harness
	// has already retried within its own limits.
	ErrTemporary = errors.New("the harness failed temporarily")
	// ErrPermanent means that running the turn again cannot help: a wrong key, an unknown model,
	// or a program that cannot be started or speaks another protocol.
	ErrPermanent = errors.New("the harness cannot run turns")
	// ErrBudget means that the turn used up its tokens, time or iterations.
	ErrBudget = errors.New("the turn used up its budget")
	// ErrTimeout is an ErrBudget: the turn used up its time.
	ErrTimeout = fmt.Errorf("%w of time", ErrBudget)
	// ErrStopped means that Run has ended or was never called.
	ErrStopped = errors.New("the harness is not running")
	// ErrModeUnsupported means that the harness was restarted and no longer supports the
	// injection mode of the turn. The agent then decides on the events of the turn again.
	ErrModeUnsupported = errors.New("the harness no longer supports this injection mode")
	// ErrUnreachable means that the program did not receive the turn and never will.
	ErrUnreachable = errors.New("the agent could not be reached")
)

// A RetryLaterError is an ErrTemporary with the time after which the turn may run again.
type RetryLaterError struct {
	After time.Duration
	Err   error
}

// Error returns the text of the cause.
func (e *RetryLaterError) Error() string { return fmt.Sprintf("%v: %v", ErrTemporary, e.Err) }

// Unwrap returns ErrTemporary and the cause.
func (e *RetryLaterError) Unwrap() []error { return []error{ErrTemporary, e.Err} }

// A UserError explains to the people in a chat why a turn failed. Message contains no address,
// key name or other setting: those are in Err, for the operator.
type UserError struct {
	Message string // one or more sentences
	Err     error
}

// Error returns the text of the cause.
func (e *UserError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UserError) Unwrap() error { return e.Err }

// A Harness runs turns. Its methods may be called from any goroutine. Turns of different
// conversations run concurrently; the agent starts the turns of one conversation one after
// another.
type Harness interface {
	// Run starts what the harness needs (a child process, an MCP client) and keeps it running,
	// with backoff. It returns nil when ctx ends, and an error that wraps ErrPermanent when the
	// harness can never work. By then, every goroutine and process that it started has ended.
	// Call Run once.
	Run(ctx context.Context, host Host) error

	// Capabilities waits until the harness is initialized and returns what it can do. Call it
	// again for each event: a restarted program may answer differently. It fails with ErrStopped
	// after Run has ended, with the cause of ctx, or with ErrPermanent.
	Capabilities(ctx context.Context) (Capabilities, error)

	// Turn runs one turn. It returns State Finished when the model has ended its turn, or State
	// Accepted (c2a) when the program has stored the delivery and works on it asynchronously. The
	// actions of an accepted turn come through Host.Tools, the agent watches the deadline, and
	// Cancel withdraws it. Turn blocks as long as that takes and repeats the delivery as often as
	// needed; the caller bounds it with ctx. When ctx ends, Turn tells the model or the program
	// to stop, with context.Cause as the reason, and returns that cause.
	Turn(ctx context.Context, t *Turn, tools Tools) (Outcome, error)

	// Cancel withdraws a turn that was accepted, with a reason for the program. It does not wait.
	// It does nothing for unknown turns, and for harnesses whose turns end Finished: end their
	// ctx instead.
	Cancel(turnID, reason string)
}

// A Host holds what the agent provides to a harness for its whole lifetime.
type Host struct {
	// Tools takes the calls that come outside Turn: those of a c2a program, which names the event
	// in the arguments.
	Tools Tools
	// Progress, if set, is called for each report during a turn. It must not block.
	Progress func(Progress)
	// Output takes what a program says and reports, apart from its tool calls, in a turn that it
	// has accepted. It returns nil once the output is stored; outputs reach the chat in the order
	// of the calls. A *RefusedError means that policy forbids the output.
	Output func(ctx context.Context, o Output) error
}

// An Output is one message or report from a program in a turn.
type Output struct {
	TurnID string
	Key    string    // unique among the agent's outputs; a repeated key changes nothing
	Text   string    // a part of the answer; all parts in a turn form one answer
	Report *Progress // set instead of Text: what the program does
	Stale  bool      // the turn has been delivered again since, with a changed text

	Revision string // of the text that the program was given; empty if unknown
}

// A RefusedError reports an output that policy forbids.
type RefusedError struct {
	Reason string // "superseded"
	Advice string // what to do instead
}

// Error returns the advice.
func (e *RefusedError) Error() string { return e.Advice }

// Forbidden returns the advice. A package that does not import this one recognizes a RefusedError
// by this method.
func (e *RefusedError) Forbidden() string { return e.Advice }

// A State says how far a turn has got when Turn returns.
type State string

// The states of a turn.
const (
	Finished State = "finished" // the model ended its turn
	Accepted State = "accepted" // the program has stored the turn; its actions follow
)

// An Outcome is the result of a turn.
type Outcome struct {
	State State
	// FinalText is the text with which the model ended its turn, trimmed. It is empty if the
	// model ended it silently. The agent sends it for a must_respond turn in which no message was
	// sent, and drops it otherwise.
	FinalText string
	// Truncated reports whether the model's token limit cut FinalText.
	Truncated bool
	Usage     Usage
	Tools     []string // names of the turn's other tools, by which calls written as text are recognized
	Attempt   int      // the attempt that was accepted or finished
}

// Usage is the cost of a turn. A zero value means unknown.
type Usage struct {
	Model        string
	InputTokens  int64
	CachedTokens int64 // the part of InputTokens that the provider's cache served
	OutputTokens int64
	USD          float64
	Iterations   int // requests to the model, not counting retries
	ToolCalls    int
}

// Capabilities describes what the agent must know about its harness: mostly, which injection
// modes reach the model. The harness negotiates everything else on its own.
type Capabilities struct {
	// ProtocolVersion is the negotiated draft, such as "2026-06-02". If it differs from what the
	// agent asked for, the agent uses it.
	ProtocolVersion string
	Injection       Injection
	Images          bool // the model accepts Turn.Images

	// The fields below never change during the lifetime of a harness. They are set even if
	// Capabilities fails.

	Asynchronous     bool // the harness stores deliveries and works on them later: its turns end Accepted
	UsesSystemPrompt bool // the model reads Turn.System
	OnlyEvent        bool // Turn.Prompt holds no earlier messages of the chat
}

// Injection lists the injection modes that a harness supports.
type Injection = attention.Capabilities

// AllInjection is what a harness with its own model loop supports.
var AllInjection = Injection{
	Immediate:   true,
	Buffered:    true,
	Notify:      true,
	ToolMailbox: true,
	Digest:      true,
	Interrupt:   true,
}

// Progress is one report from a running turn.
type Progress struct {
	TurnID   string // empty if the program did not name it
	Kind     ProgressKind
	Token    string  // progressToken, if the program sent one
	Progress float64 // steps completed, out of Total
	Total    float64
	Message  string          // for people; written by the model, hence untrusted
	Tool     string          // tool_call, tool_result: the name that the model uses
	CallID   string          // tool_call, tool_result: the same in both
	Content  json.RawMessage // tool_call: the arguments; tool_result: the Result
	Code     string          // error: a code for programs
}

// A ProgressKind is the kind of a Progress report.
type ProgressKind string

// The kinds of progress.
const (
	ProgressStatus     ProgressKind = "status"
	ProgressText       ProgressKind = "text" // a piece of streamed text; an empty one voids all text so far
	ProgressToolCall   ProgressKind = "tool_call"
	ProgressToolResult ProgressKind = "tool_result"
	ProgressError      ProgressKind = "error" // the program reports that something failed
)

// keyLike matches the parts of keys that providers quote in error messages.
var keyLike = text.Pattern(`\b(sk|key|tok|pk)[-_][A-Za-z0-9_*.\-]{6,}`)

// Redact removes the given secrets, and anything that looks like a key, from a text for an error
// or a log.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return keyLike().ReplaceAllString(text, "[redacted]")
}

// Synchronous implements what harnesses share if their turns end Finished. The zero value is
// ready to use; Run must call Attach.
type Synchronous struct {
	mu     sync.Mutex
	report func(Progress)
}

// Attach makes Report call the progress function of the host.
func (i *Synchronous) Attach(host Host) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.report = host.Progress
}

// Report passes a progress report to the host, if the host takes reports.
func (i *Synchronous) Report(p Progress) {
	i.mu.Lock()
	report := i.report
	i.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// Begin stores the attempt and returns the outcome for the caller to fill in. An error ends the
// turn; it may be the cause of ctx.
func (*Synchronous) Begin(ctx context.Context, t *Turn) (Outcome, error) {
	outcome := Outcome{State: Finished, Attempt: t.Attempt}
	if t.Attempted != nil {
		if err := t.Attempted(t.Attempt); err != nil {
			return outcome, err
		}
	}
	return outcome, context.Cause(ctx)
}

// Cancel does nothing: the context of a turn ends it.
func (*Synchronous) Cancel(string, string) {}
