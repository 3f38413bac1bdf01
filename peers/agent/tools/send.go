package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

var sendMessageTool = harness.Tool{
	Name:  "chat.send_message",
	Title: "Send a message",
	Description: "Answer a chat event with one message. An event gets one answer; it goes where the event was said. " +
		"To stay silent, do not call this. Mention somebody (@name) only to oblige them. Repeating a call with the same idempotencyKey and text is safe.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{
		"target":{"type":"string","description":"conversation id of the event (reply_target); may be left out"},
		"inReplyTo":{"type":"string","description":"eventId of the event that is answered"},
		"text":{"type":"string","description":"the message, Markdown"},
		"idempotencyKey":{"type":"string","description":"stable key, reused when the call is repeated"},
		"visibility":{"type":"string","enum":["dm","thread","channel","ephemeral"]},
		"directedness":{"type":"string","enum":["to_me","to_my_role","to_other","ambient"],"description":"whom the message obliges"}},
		"required":["text"]}`),
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"messageId":{"type":"string"},
		"status":{"type":"string","enum":["sent","duplicate","refused"]},"reason":{"type":"string"}},"required":["status"]}`),
	Idempotent: true,
}

type sendArguments struct {
	Target         string `json:"target"`
	InReplyTo      string `json:"inReplyTo"`
	Text           string `json:"text"`
	IdempotencyKey string `json:"idempotencyKey"`
	Visibility     string `json:"visibility"`
	Directedness   string `json:"directedness"`
}

type sendResult struct {
	MessageID protocol.MessageID `json:"messageId,omitempty"`
	Status    string             `json:"status"` // sent, duplicate or refused
	Reason    string             `json:"reason,omitempty"`
}

func unsent(reason string) any { return sendResult{Status: "refused", Reason: reason} }

var visibilities = []string{"", "dm", "thread", "channel", "ephemeral"}

// check says what is wrong with the arguments, or nothing.
func (args *sendArguments) check() string {
	switch {
	case strings.TrimSpace(args.Text) == "":
		return "text is empty. To stay silent, send nothing."
	case len(args.Text) > MaxReply:
		return fmt.Sprintf("text has %d bytes; at most %d are sent. Shorten it.", len(args.Text), MaxReply)
	case len(args.IdempotencyKey) > maxKey:
		return fmt.Sprintf("idempotencyKey has %d bytes; at most %d are taken.", len(args.IdempotencyKey), maxKey)
	case !slices.Contains(visibilities, args.Visibility):
		return "visibility must be one of dm, thread, channel, ephemeral."
	case args.Directedness != "" && !slices.Contains(attention.Directednesses, attention.Directedness(args.Directedness)):
		return "directedness must be one of to_me, to_my_role, to_other, ambient."
	}
	return ""
}

func (b *Toolbox) sendMessage(ctx context.Context, args *sendArguments) harness.Result {
	if problem := args.check(); problem != "" {
		return harness.Refused(problem, unsent("invalid"))
	}
	b.refreshBroker(ctx, args.InReplyTo)
	result := b.act(ctx, sendMessageTool.Name, args.InReplyTo, unsent, args.send)
	if !result.IsError {
		b.pending.Store(attention.Signal(""))
	}
	return result
}

// refreshBroker makes sure, before an answer to an event that may need a claim, that
// it is known whether there is a broker.
func (b *Toolbox) refreshBroker(ctx context.Context, id string) {
	v := b.kit.Mailbox.View(ctx)
	e := v.Current(id)
	if id == "" {
		e = b.turnEvent(v)
	}
	if e != nil && e.Decision.NeedsClaim() {
		b.kit.Broker.Present(ctx)
	}
}

// send queues the message, or says why not.
func (args *sendArguments) send(t *try) (any, attention.Refusal) {
	e := t.event
	if e != nil {
		args.IdempotencyKey = cmp.Or(args.IdempotencyKey, mailbox.ReplyKey(e))
		if mailbox.ReservedKey(args.IdempotencyKey, e) {
			return nil, keyReused
		}
		if before := t.SentAs(args.IdempotencyKey); before != nil {
			return repeated(before, e, args.Text)
		}
	}
	if refusal := args.permit(t); refusal.Refused() {
		return nil, refusal
	}
	id := t.Reply(e, mailbox.SentText, args.IdempotencyKey, protocol.ChatReply{
		Text: args.Text, Visibility: cmp.Or(args.Visibility, e.Visibility()), Directedness: args.Directedness,
	})
	t.FinishAccepted(t.turn, e)
	return sendResult{MessageID: id, Status: "sent"}, attention.Refusal{}
}

func (args *sendArguments) permit(t *try) attention.Refusal {
	e := t.event
	if refusal := t.permit(t.Standing(e, args.Text), args.Text); refusal.Refused() {
		return refusal
	}
	if args.Target != "" && !sameTarget(e, args.Target) {
		return attention.Refusal{
			Reason: "wrong_target",
			Advice: "An answer goes only where its event was said: leave target out, or give " + attention.HeaderValue(e.Content.Chat.ID) + ".",
		}
	}
	return attention.Refusal{}
}

// permit says why a text must not be sent in response to the event, whose standing is
// s.
func (t *try) permit(s attention.Standing, text string) attention.Refusal {
	if t.refusal.Refused() {
		return t.refusal
	}
	if refusal := attention.PermitMessage(s); refusal.Refused() {
		return refusal
	}
	switch {
	case attention.MeansSilence(text):
		return attention.Refusal{
			Reason: "silence", Advice: "Silence is not a text. To stay silent, end your turn without a message; if that word is the answer, say it in a sentence.",
		}
	case t.event.FromBroker() && !t.event.Origin.TakesWords():
		return attention.Refusal{
			Reason: "no_conversation",
			Advice: "Nobody reads an answer to this event. Answer the event for which you asked, or go on with your work; ask and the work tools reach others.",
		}
	}
	return attention.Refusal{}
}

// sameTarget reports whether a target is where an event was said: a conversation id,
// with or without the word for its kind, or the thread.
func sameTarget(e *mailbox.Entry, target string) bool {
	c := e.Content.Chat
	accepted := []string{c.ID, c.Kind + ":" + c.ID, string(e.Chat)}
	if c.ThreadID != "" {
		accepted = append(accepted, "thread:"+c.ThreadID, c.ID+":"+c.ThreadID, c.ThreadID)
	}
	return slices.Contains(accepted, target)
}

var keyReused = attention.Refusal{
	Reason: "key_reused", Advice: "This idempotencyKey belongs to another message. Leave it out, or use one that names this event.",
}

// repeated answers a call whose key was used before.
func repeated(before *mailbox.Sent, e *mailbox.Entry, text string) (any, attention.Refusal) {
	switch {
	case before.EventID != e.EventID:
		return nil, keyReused
	case before.Text == text:
		return sendResult{MessageID: before.MessageID, Status: "duplicate"}, attention.Refusal{}
	}
	return nil, attention.Refusal{
		Reason: "already_answered", Advice: "You have answered this event with other words. One event gets one answer: send nothing more for it.",
	}
}
