package c2a

import (
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// deliverParams converts a turn to the params of chat/deliver in a draft.
func deliverParams(t *harness.Turn, agreed *negotiated, attempt int) any {
	e := &t.Event
	common := newEnvelope(e, attempt)
	common.Instructions = t.System
	if agreed.has("chatTools", "reactionSignals") {
		common.Signal = e.Signal
	}
	switch agreed.version {
	case Version0624:
		return newFlatEvent(e, common)
	case Version0811:
		f := newFlatEvent(e, common)
		f.CreatedAt, f.Recipients, f.Obligation = e.CreatedAt, e.Recipients, e.Obligation
		return f
	}
	return newNestedEvent(e, common)
}

// An envelope holds the members that all drafts share.
type envelope struct {
	EventID        string         `json:"eventId"`
	MergedEventIDs []string       `json:"mergedEventIds,omitempty"`
	Author         harness.Author `json:"author"`
	Knock          *harness.Knock `json:"knock,omitempty"`
	Signal         string         `json:"signal,omitempty"`       // of a reaction
	Instructions   string         `json:"instructions,omitempty"` // standing rules for the model
	Timing         struct {
		CreatedAt string `json:"createdAt,omitempty"`
		Sequence  int64  `json:"sequence"`
		Now       string `json:"now,omitempty"`      // RFC 3339, in the time zone of the chat
		TimeZone  string `json:"timeZone,omitempty"` // its name, if it has one
	} `json:"timing"`
	Reliability struct {
		Attempt        int    `json:"attempt"`
		IdempotencyKey string `json:"idempotencyKey"`
	} `json:"reliability"`
}

func newEnvelope(e *harness.Event, attempt int) envelope {
	c := envelope{EventID: e.EventID, MergedEventIDs: e.MergedEventIDs, Author: e.Author, Knock: e.Knock}
	c.Timing.CreatedAt, c.Timing.Sequence = e.CreatedAt, e.Sequence
	if !e.Now.IsZero() {
		now := time.Now().In(e.Now.Location()) // a delivery may be repeated much later
		c.Timing.Now, c.Timing.TimeZone = now.Format(time.RFC3339), attention.ZoneName(now)
	}
	c.Reliability.Attempt, c.Reliability.IdempotencyKey = attempt, e.IdempotencyKey
	if e.Knock != nil { // people write their own display names
		c.Author.DisplayName = ""
	}
	return c
}

// nested is the event of the draft 2026-06-02.
type nested struct {
	envelope
	Source       harness.Source       `json:"source,omitzero"`
	Conversation harness.Conversation `json:"conversation"`
	Target       struct {
		Mentions     []string `json:"mentions,omitempty"`
		Recipient    string   `json:"recipient,omitempty"`
		Directedness string   `json:"directedness"`
	} `json:"target"`
	Content   []harness.Part `json:"content,omitempty"`
	Attention struct {
		Policy     string `json:"policy"`
		Reason     string `json:"reason,omitempty"`
		Priority   string `json:"priority,omitempty"`
		DeadlineMS int64  `json:"deadlineMs,omitempty"`
	} `json:"attention"`
	Injection struct {
		Mode    string `json:"mode"`
		Context string `json:"context,omitempty"`
		Role    string `json:"role,omitempty"`
	} `json:"injection"`
}

func newNestedEvent(e *harness.Event, common envelope) *nested {
	n := &nested{envelope: common, Conversation: e.Conversation}
	n.Target.Mentions, n.Target.Recipient, n.Target.Directedness = e.Mentions, e.Recipient, e.Directedness
	n.Attention.Policy, n.Attention.Reason, n.Attention.Priority, n.Attention.DeadlineMS = e.Policy, e.Reason,
		e.Priority, e.DeadlineMS
	n.Injection.Mode, n.Injection.Context, n.Injection.Role = e.Mode, e.Context, e.Role
	if e.Source.Platform != "" {
		n.Source = e.Source
	}
	if e.Knock == nil {
		n.Content = e.Content
	} else {
		n.Conversation.Title = ""
	}
	return n
}

// flat is the event of the drafts since 2026-06-24, with optional members.
type flat struct {
	envelope
	Conversation struct {
		ID       string `json:"id"`
		Kind     string `json:"kind"`
		ThreadID string `json:"threadId,omitempty"`
	} `json:"conversation"`
	AddressedToMe bool    `json:"addressedToMe"`
	Policy        string  `json:"policy"`
	Content       *string `json:"content,omitempty"`
	Edited        bool    `json:"edited,omitempty"` // after the answer
	Digest        bool    `json:"digest,omitempty"`

	// Since the draft 2026-08-11.
	CreatedAt  string               `json:"createdAt,omitempty"`
	Recipients []protocol.Party     `json:"recipients,omitempty"`
	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

func newFlatEvent(e *harness.Event, common envelope) *flat {
	f := &flat{
		envelope:      common,
		AddressedToMe: e.Directedness == "to_me",
		Policy:        flatPolicy(e.Policy),
		Edited:        e.Reason == attention.ReasonEdited,
		Digest:        e.Digest,
	}
	f.Conversation.ID, f.Conversation.Kind, f.Conversation.ThreadID = e.Conversation.ID, e.Conversation.Kind,
		e.Conversation.ThreadID
	switch e.Conversation.Kind {
	case "dm", "channel", "thread":
	default: // the draft has no other kinds, and nobody answers them
		f.Conversation.Kind, f.Policy = "channel", "must_not_respond"
	}
	if e.Knock != nil {
		knock := *e.Knock
		knock.Policy = attention.Policy(flatPolicy(string(knock.Policy)))
		f.Knock = &knock
		return f
	}
	f.Content = new(e.Text())
	return f
}

// flatPolicy replaces ack_only, which the draft does not have.
func flatPolicy(policy string) string {
	if policy == "ack_only" {
		return "must_not_respond"
	}
	return policy
}
