package c2a

import (
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// deliverParams renders an event as the params of chat/deliver in a draft. It
// is pure.
func deliverParams(e *harness.Event, version string, attempt int) any {
	if version == Version0624 {
		return flatEvent(e, attempt)
	}
	return nestedEvent(e, attempt)
}

type reliability struct {
	Attempt        int    `json:"attempt"`
	IdempotencyKey string `json:"idempotencyKey"`
}

type timing struct {
	CreatedAt string `json:"createdAt,omitempty"`
	Sequence  int64  `json:"sequence"`
}

// nested is the envelope of the draft of 2026-06-02.
type nested struct {
	EventID        string               `json:"eventId"`
	MergedEventIDs []string             `json:"mergedEventIds,omitempty"`
	Source         *harness.Source      `json:"source,omitempty"`
	Conversation   harness.Conversation `json:"conversation"`
	Author         harness.Author       `json:"author"`
	Target         nestedTarget         `json:"target"`
	Content        []harness.Part       `json:"content,omitempty"`
	Knock          *harness.Knock       `json:"knock,omitempty"`
	Timing         timing               `json:"timing"`
	Attention      nestedAttention      `json:"attention"`
	Injection      nestedInjection      `json:"injection"`
	Reliability    reliability          `json:"reliability"`
}

type nestedTarget struct {
	Mentions     []string `json:"mentions,omitempty"`
	Recipient    string   `json:"recipient,omitempty"`
	Directedness string   `json:"directedness"`
}

type nestedAttention struct {
	Policy     string `json:"policy"`
	Reason     string `json:"reason,omitempty"`
	Priority   string `json:"priority,omitempty"`
	DeadlineMS int64  `json:"deadlineMs,omitempty"`
}

type nestedInjection struct {
	Mode    string `json:"mode"`
	Context string `json:"context,omitempty"`
	Role    string `json:"role,omitempty"`
}

func nestedEvent(e *harness.Event, attempt int) *nested {
	n := &nested{
		EventID: e.EventID, MergedEventIDs: e.MergedEventIDs, Conversation: e.Conversation, Author: e.Author,
		Target:      nestedTarget{e.Mentions, e.Recipient, e.Directedness},
		Knock:       e.Knock,
		Timing:      timing{e.CreatedAt, e.Sequence},
		Attention:   nestedAttention{e.Policy, e.Reason, e.Priority, e.DeadlineMS},
		Injection:   nestedInjection{e.Mode, e.Context, e.Role},
		Reliability: reliability{attempt, e.IdempotencyKey},
	}
	if e.Source.Platform != "" {
		n.Source = &e.Source
	}
	if e.Knock == nil {
		n.Content = e.Content
	} else { // titles and names are written by people
		n.Conversation.Title, n.Author.DisplayName = "", ""
	}
	return n
}

// flat is the event of the draft of 2026-06-24, with its optional members.
type flat struct {
	EventID        string           `json:"eventId"`
	Conversation   flatConversation `json:"conversation"`
	Author         harness.Author   `json:"author"`
	AddressedToMe  bool             `json:"addressedToMe"`
	Policy         string           `json:"policy"`
	Content        *string          `json:"content,omitempty"`
	Knock          *harness.Knock   `json:"knock,omitempty"`
	MergedEventIDs []string         `json:"mergedEventIds,omitempty"`
	Digest         bool             `json:"digest,omitempty"`
	Timing         timing           `json:"timing"`
	Reliability    reliability      `json:"reliability"`
}

type flatConversation struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	ThreadID string `json:"threadId,omitempty"`
}

func flatEvent(e *harness.Event, attempt int) *flat {
	f := &flat{
		EventID: e.EventID, Author: e.Author, AddressedToMe: e.Directedness == "to_me", Policy: flatPolicy(e.Policy),
		Conversation:   flatConversation{e.Conversation.ID, e.Conversation.Kind, e.Conversation.ThreadID},
		MergedEventIDs: e.MergedEventIDs, Digest: e.Digest,
		Timing: timing{e.CreatedAt, e.Sequence}, Reliability: reliability{attempt, e.IdempotencyKey},
	}
	switch e.Conversation.Kind {
	case "dm", "channel", "thread":
	default: // the draft has no other kinds, and nobody answers these
		f.Conversation.Kind, f.Policy = "channel", "must_not_respond"
	}
	if e.Knock != nil {
		knock := *e.Knock
		knock.Policy = attention.Policy(flatPolicy(string(knock.Policy)))
		f.Knock = &knock
		f.Author.DisplayName = ""
		return f
	}
	var texts []string
	for _, p := range e.Content {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	content := strings.Join(texts, "\n")
	f.Content = &content
	return f
}

// flatPolicy drops ack_only, which the draft does not have.
func flatPolicy(policy string) string {
	if policy == "ack_only" {
		return "must_not_respond"
	}
	return policy
}
