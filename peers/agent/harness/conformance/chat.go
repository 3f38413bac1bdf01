package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol/retry"

	"github.com/google/jsonschema-go/jsonschema"
)

// A chatHost provides the conversations of a run and their tools, and records what the program
// does about each event.
type chatHost struct {
	mu            sync.Mutex
	order         []*eventRecord
	events        map[string]*eventRecord
	unknownEvents []error         // actions that name no event of this run
	unmarked      []error         // messages without visibility or directedness
	changed       sync.Cond       // broadcast after each action
	lastAction    time.Time       // time of the last action
	onClaim       func(id string) // must not block
}

// An eventRecord is one event and what the program did about it.
type eventRecord struct {
	event    attention.Event
	decision attention.Decision
	refuse   bool // its messages are refused

	sends    []send
	settled  bool // discharged without a message
	claims   int
	problems []error // what was wrong with the arguments
}

type send struct{ text, key string }

func newChat() *chatHost {
	c := &chatHost{events: map[string]*eventRecord{}}
	c.changed.L = &c.mu
	return c
}

// add adds an event to its conversation.
func (c *chatHost) add(s *eventRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = append(c.order, s)
	c.events[s.event.EventID] = s
}

// withEvent calls f with an event while holding the lock.
func (c *chatHost) withEvent(id string, f func(s *eventRecord)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.events[id]; s != nil {
		f(s)
	}
}

// awaitDischarged waits until a must_respond event is answered, deferred or settled. It reports
// false if ctx ends first.
func (c *chatHost) awaitDischarged(ctx context.Context, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	for s := c.events[id]; ; c.changed.Wait() {
		if done := len(s.sends) > 0 || s.settled; done || ctx.Err() != nil {
			return done
		}
	}
}

// awaitQuiet waits until the program has done nothing for d.
func (c *chatHost) awaitQuiet(ctx context.Context, d time.Duration) {
	for last := time.Now(); time.Since(last) < d && retry.Sleep(ctx, time.Until(last.Add(d))); {
		c.mu.Lock()
		if c.lastAction.After(last) {
			last = c.lastAction
		}
		c.mu.Unlock()
	}
}

// List returns the chat tools.
func (c *chatHost) List() []harness.Tool { return chatTools() }

// chatTools returns the chat tools. Their schemas are made when they are first needed, and not at
// every start of a program.
var chatTools = sync.OnceValue(func() []harness.Tool {
	return []harness.Tool{
		newTool[struct {
			Conversation string `json:"conversation,omitempty"`
			Limit        int    `json:"limit,omitempty"`
			Open         bool   `json:"open,omitempty"`
		}]("chat.list_events",
			"List chat events available to this session, filtered by stream, conversation, policy, or time."),
		newTool[struct {
			Conversation string `json:"conversation"`
			ThreadID     string `json:"threadId,omitempty"`
			Limit        int    `json:"limit,omitempty"`
		}]("chat.read_thread", "Read a thread or conversation window."),
		newTool[struct {
			Target         string `json:"target"`
			InReplyTo      string `json:"inReplyTo"`
			Text           string `json:"text"`
			IdempotencyKey string `json:"idempotencyKey"`
			Visibility     string `json:"visibility,omitempty"`
			Directedness   string `json:"directedness,omitempty"`
		}]("chat.send_message", "Send an idempotent chat message."),
		newTool[struct {
			InReplyTo string `json:"inReplyTo"`
			Signal    string `json:"signal"`
			ETA       string `json:"eta,omitempty"`
		}]("chat.react", "Send a typed reaction signal as a zero-turn disposition."),
		newTool[struct {
			EventID string `json:"eventId"`
			TTLMS   int    `json:"ttlMs,omitempty"`
		}]("chat.claim", "Claim responsibility for responding to a channel event or thread."),
		newTool[struct {
			EventID string `json:"eventId"`
			Reason  string `json:"reason,omitempty"`
			ETA     string `json:"eta,omitempty"`
		}]("chat.defer", "Record that a must-respond event is deferred with a reason."),
		newTool[struct {
			EventID string `json:"eventId"`
		}]("chat.resolve", "Mark an event, thread, or assignment resolved."),
	}
})

// newTool describes a tool whose arguments are an A.
func newTool[A any](name, description string) harness.Tool {
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		panic(err)
	}
	schema.AdditionalProperties = nil // programs may send members of other drafts
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(err)
	}
	return harness.Tool{Name: name, Description: description, InputSchema: raw}
}

// arguments holds the arguments of all chat tools.
type arguments struct {
	Target         string `json:"target"`
	InReplyTo      string `json:"inReplyTo"`
	Text           string `json:"text"`
	IdempotencyKey string `json:"idempotencyKey"`
	Visibility     string `json:"visibility"`
	Directedness   string `json:"directedness"`
	Signal         string `json:"signal"`
	EventID        string `json:"eventId"`
	Conversation   string `json:"conversation"`
	Limit          int    `json:"limit"`
}

// Call runs a tool and records it.
func (c *chatHost) Call(_ context.Context, name string, raw json.RawMessage) harness.Result {
	var a arguments
	if err := json.Unmarshal(raw, &a); err != nil {
		return harness.ErrorResult("the arguments cannot be read: "+err.Error(), nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastAction = time.Now()
	defer c.changed.Broadcast()
	if name == "chat.list_events" || name == "chat.read_thread" {
		return c.readLocked(name, &a)
	}
	id := cmp.Or(a.EventID, a.InReplyTo)
	s := c.events[id]
	if s == nil {
		c.unknownEvents = append(c.unknownEvents,
			fmt.Errorf("%s named the event %q, which was never delivered", name, id))
		return harness.ErrorResult("there is no such event; name one that was delivered to you",
			map[string]any{"status": "refused", "reason": "unknown_event"})
	}
	switch name {
	case "chat.send_message":
		c.unmarked = append(c.unmarked, a.markProblems()...)
		return s.send(&a)
	case "chat.react":
		return s.react(&a)
	case "chat.claim":
		s.claims++
		c.onClaim(id)
		return harness.StructuredResult(
			map[string]any{
				"granted":   true,
				"owner":     "agent:checked",
				"token":     1,
				"expiresAt": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
			},
		)
	case "chat.defer":
		s.settled = true
		return harness.StructuredResult(map[string]any{"disposition": "deferred"})
	case "chat.resolve":
		s.settled = true
		return harness.StructuredResult(map[string]any{"disposition": "responded"})
	}
	return harness.ErrorResult("there is no such tool", nil)
}

// markProblems returns what is wrong with the visibility and directedness of a message.
func (a *arguments) markProblems() (problems []error) {
	for _, mark := range []struct {
		name, value string
		allowed     []string
	}{
		{"visibility", a.Visibility, []string{"dm", "thread", "channel", "ephemeral"}},
		{"directedness", a.Directedness, []string{"to_me", "to_my_role", "to_other", "ambient"}},
	} {
		if !slices.Contains(mark.allowed, mark.value) {
			problems = append(problems, fmt.Errorf("the answer to %s has the %s %q, want one of %q", a.InReplyTo,
				mark.name, mark.value, mark.allowed))
		}
	}
	return problems
}

// send records a message, and enforces the policy like a host.
func (s *eventRecord) send(a *arguments) harness.Result {
	switch {
	case a.Text == "":
		s.problems = append(s.problems, errors.New("send_message without a text"))
	case a.IdempotencyKey == "":
		s.problems = append(s.problems, errors.New("send_message without an idempotencyKey"))
	case a.Target != "" && a.Target != s.event.Conversation.ID:
		s.problems = append(s.problems,
			fmt.Errorf("send_message to %q, which is not the conversation of the event", a.Target))
	}
	message := send{a.Text, a.IdempotencyKey}
	again := slices.Contains(s.sends, message)
	s.sends = append(s.sends, message)
	status := func(status, reason string) map[string]any {
		return map[string]any{"messageId": "msg_" + s.event.EventID, "status": status, "reason": reason}
	}
	switch {
	case s.refuse || !mayAnswer(s.decision.Policy):
		return harness.ErrorResult("no message may answer this event; stay silent",
			status("refused", string(s.decision.Policy)))
	case again:
		return harness.StructuredResult(status("duplicate", ""))
	case len(s.sends) > 1:
		return harness.ErrorResult("the event has already been answered; stay silent",
			status("refused", "already_answered"))
	}
	return harness.StructuredResult(status("sent", ""))
}

func mayAnswer(p attention.Policy) bool {
	return p == attention.PolicyMustRespond || p == attention.PolicyMayRespond
}

// react records a reaction. A reaction with a disposition discharges the event, but "seen" is only
// a receipt.
func (s *eventRecord) react(a *arguments) harness.Result {
	row, err := attention.ParseSignal(a.Signal)
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("react with the unknown signal %q", a.Signal))
		return harness.ErrorResult(err.Error(), nil)
	}
	s.settled = s.settled || row.Disposition != "" &&
		(s.decision.Policy != attention.PolicyMustRespond || row.Signal != attention.SignalSeen)
	return harness.StructuredResult(map[string]any{"signal": a.Signal, "disposition": row.Disposition})
}

// readLocked lists the events of a conversation, newest last.
func (c *chatHost) readLocked(name string, a *arguments) harness.Result {
	list := []map[string]any{}
	for _, s := range c.order {
		if a.Conversation != "" && s.event.Conversation.ID != a.Conversation {
			continue
		}
		list = append(list, map[string]any{
			"eventId":      s.event.EventID,
			"conversation": s.event.Conversation,
			"author":       s.event.Author,
			"text":         s.event.Text,
			"policy":       s.decision.Policy,
			"directedness": s.decision.Directedness,
		})
	}
	limit := a.Limit
	if limit <= 0 || limit > 50 {
		limit = 50
	}
	list = list[max(0, len(list)-limit):]
	return harness.StructuredResult(
		map[string]any{map[string]string{"chat.list_events": "events", "chat.read_thread": "messages"}[name]: list},
	)
}
