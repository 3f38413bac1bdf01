package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"hubbub/peers/attention"
)

// Why a turn did not end well. Errors of Turn wrap one of these or the cause
// of its context; every text tells a person what to do and holds no secret.
var (
	// ErrTemporary: the turn may be run again if it produced no outbound
	// action. The harness has already retried within its own bounds.
	ErrTemporary = errors.New("the harness failed for now")
	// ErrPermanent: running the turn again cannot help (wrong key, unknown
	// model, a program that cannot be started or speaks another protocol).
	ErrPermanent = errors.New("the harness cannot run turns")
	// ErrBudget: the turn used up its tokens, time or tool rounds.
	ErrBudget = errors.New("the turn used up its budget")
	// ErrStopped: Run has ended or was never started.
	ErrStopped = errors.New("the harness is not running")
	// ErrModeUnsupported: the harness, started anew, no longer takes the injection mode
	// of the turn. The agent decides on its events again.
	ErrModeUnsupported = errors.New("the harness no longer takes this injection mode")
	// ErrUnreachable: the program has not got the turn and will not.
	ErrUnreachable = errors.New("the agent could not be reached")
)

// A RetryLaterError is an ErrTemporary that says when the turn may run again: not
// before After has passed.
type RetryLaterError struct {
	After time.Duration
	Err   error
}

// Error returns the text of the cause.
func (e *RetryLaterError) Error() string { return fmt.Sprintf("%v: %v", ErrTemporary, e.Err) }

// Unwrap returns ErrTemporary and the cause.
func (e *RetryLaterError) Unwrap() []error { return []error{ErrTemporary, e.Err} }

// A UserError says in words for the people of a chat why a turn failed. They hold no
// address, name of a key or other setting: those are for the operator, in Err.
type UserError struct {
	Message string // a sentence
	Err     error
}

// Error returns the text of the cause.
func (e *UserError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UserError) Unwrap() error { return e.Err }

// A Harness runs turns. Its methods may be called from any goroutine; turns of
// different conversations run at the same time, turns of one conversation are
// started by the agent one after another.
type Harness interface {
	// Run starts what the harness needs (a child process, an MCP client) and
	// keeps it running, with backoff, until ctx ends (nil) or it can never
	// work (an error that wraps ErrPermanent). It returns only when every
	// goroutine and process that it started has ended. Call it once.
	Run(ctx context.Context, host Host) error

	// Capabilities waits until the harness is initialized and says what it can
	// do. Ask again for each event: a program that was restarted may answer
	// otherwise. It fails with ErrStopped when Run ended, with ctx's cause, or
	// with ErrPermanent.
	Capabilities(ctx context.Context) (Capabilities, error)

	// Turn runs one turn. It returns with State Finished when the model has
	// ended its turn, or with State Accepted (c2a) when the program has stored
	// the delivery and works on it in its own time: then its actions come
	// through Host.Tools, the agent itself watches the deadline, and Cancel
	// withdraws it. Turn blocks as long as that takes, delivering again as
	// often as needed; the caller bounds it with ctx. When ctx ends, the model
	// or the program is told to stop (the text of context.Cause is the reason)
	// and Turn returns that cause.
	Turn(ctx context.Context, t *Turn, tools Tools) (Outcome, error)

	// Cancel withdraws a turn that was Accepted, with a reason for the
	// program. It does not wait. Unknown turns are ignored, and so is every
	// call on a harness whose turns end Finished (end their ctx instead).
	Cancel(turnID, reason string)
}

// Host is what the agent gives to a harness for its whole life.
type Host struct {
	// Tools take calls that come outside of Turn: those of a c2a program,
	// which names the event in the arguments.
	Tools Tools
	// Progress, if set, is told what happens during turns. It must not block.
	Progress func(Progress)
	// Output takes what a program says and reports of a turn that it has accepted,
	// besides its tool calls. Nil means that it is stored: it reaches the chat in
	// the order of the calls. A *RefusedError says that policy forbids it.
	Output func(ctx context.Context, o Output) error
}

// An Output is one thing that a program says or reports of a turn.
type Output struct {
	TurnID string
	Key    string    // unique among the agent's outputs: a repeated one changes nothing
	Text   string    // a part of the answer; all parts of one turn are one answer
	Report *Progress // in place of Text: what the program does
	Stale  bool      // the turn was delivered anew since, with other words

	Revision string // of the words that the program was given; empty: not known
}

// A RefusedError is an output that policy forbids.
type RefusedError struct {
	Reason string // "superseded"
	Advice string // what to do instead
}

// Error returns the advice.
func (e *RefusedError) Error() string { return e.Advice }

// Forbidden returns the advice. By this method a peer that does not import this package
// knows that policy forbids something.
func (e *RefusedError) Forbidden() string { return e.Advice }

// A State says how far a turn has come when Turn returns.
type State string

// The states of a turn.
const (
	Finished State = "finished" // the model ended its turn
	Accepted State = "accepted" // the program has stored it; actions follow
)

// An Outcome is what a turn left behind.
type Outcome struct {
	State State
	// FinalText is the text with which the model ended its turn, trimmed;
	// empty where it ended in silence. The agent sends it for a must_respond
	// turn in which no message was sent, and drops it otherwise.
	FinalText string
	// Truncated: FinalText was cut by the model's token limit.
	Truncated bool
	Usage     Usage
	Attempt   int // the attempt that was accepted or finished
}

// Usage is what a turn cost. Zero values mean "not told".
type Usage struct {
	Model        string
	InputTokens  int64
	CachedTokens int64 // of InputTokens: those that came out of the provider's cache
	OutputTokens int64
	USD          float64
	Iterations   int // requests to the model, retries not counted
	ToolCalls    int
}

// Capabilities is what an agent has to know of its harness: above all, which injection
// modes reach the model. What else both sides can do, the harness minds itself.
type Capabilities struct {
	// ProtocolVersion is the negotiated draft, such as "2026-06-02".
	// Where it differs from what the agent asked for, the agent follows it.
	ProtocolVersion string
	Injection       Injection
	Images          bool // its model takes Turn.Images

	// The fields below never change in the life of a harness: they are also set
	// where Capabilities fails.

	Asynchronous     bool // it stores deliveries and works on them in its own time: its turns end Accepted
	UsesSystemPrompt bool // its model reads Turn.System
}

// Injection lists the injection modes that a harness can take.
type Injection = attention.Capabilities

// AllInjection is what harnesses that run their own model loop can take.
var AllInjection = Injection{Immediate: true, Buffered: true, Notify: true, ToolMailbox: true, Digest: true, Interrupt: true}

// Progress is one report from a running turn.
type Progress struct {
	TurnID   string // empty where the program did not say
	Kind     ProgressKind
	Token    string  // progressToken, where the program gave one
	Progress float64 // steps done, of Total
	Total    float64
	Message  string          // for people; from the model, hence untrusted
	Tool     string          // tool_call, tool_result: name as the model knows it
	CallID   string          // tool_call, tool_result: equal in both
	Content  json.RawMessage // tool_call: arguments; tool_result: the Result
	Code     string          // error: a word for programs
}

// A ProgressKind says what a Progress reports.
type ProgressKind string

// The kinds of progress.
const (
	ProgressStatus     ProgressKind = "status"
	ProgressText       ProgressKind = "text" // a piece of streamed text; an empty one: what came is void, and begins anew
	ProgressToolCall   ProgressKind = "tool_call"
	ProgressToolResult ProgressKind = "tool_result"
	ProgressError      ProgressKind = "error" // the program failed at something and says so
)

// keyLike finds what providers quote of a key in their error messages.
var keyLike = regexp.MustCompile(`\b(sk|key|tok|pk)[-_][A-Za-z0-9_*.\-]{6,}`)

// Redact removes the given secrets, and whatever looks like a key, from a text
// that goes into an error or a log.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return keyLike.ReplaceAllString(text, "[redacted]")
}

// Synchronous is the part that harnesses share whose turns end Finished. The zero
// value is ready; Run attaches its host.
type Synchronous struct {
	mu     sync.Mutex
	report func(Progress)
}

// Attach has the host told of progress from now on.
func (i *Synchronous) Attach(host Host) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.report = host.Progress
}

// Report tells the host of progress, if it wants to know.
func (i *Synchronous) Report(p Progress) {
	i.mu.Lock()
	report := i.report
	i.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// Begin has the attempt stored, and returns the outcome to be filled in. An
// error, also of a context that has ended, ends the turn.
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
