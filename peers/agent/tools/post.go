package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/budget"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

var postTool = harness.Tool{
	Name:  "chat.post",
	Title: "Post without an event",
	Description: "Post a message to a chat that you are assigned to, without an event there. It is not an answer: " +
		"answer events with chat.send_message. " +
		"Only a few posts a day are allowed, and your reason is recorded. Other agents are not woken unless you " +
		"mention them (@name). Repeating a call is safe.",
	OutputSchema: sendMessageTool.OutputSchema,
	Idempotent:   true,
}

const maxThread = 200 // bytes of the id of a thread

type postArguments struct {
	Target         string                 `json:"target" jsonschema:"the chat, such as tg:42, or its conversation id"`
	ThreadID       string                 `json:"threadId,omitempty" jsonschema:"a thread or topic of that chat; default: none"`
	Text           string                 `json:"text" jsonschema:"the message, Markdown"`
	Reason         string                 `json:"reason" jsonschema:"why you speak, for the record"`
	Directedness   attention.Directedness `json:"directedness,omitempty" jsonschema:"whom the message obliges; default: whom it mentions, else nobody"`
	IdempotencyKey string                 `json:"idempotencyKey,omitempty" jsonschema:"tells two posts of the same words apart"`
}

func (b *Toolset) post(ctx context.Context, args *postArguments) harness.Result {
	args.Text = VisibleText(args.Text)
	args.Reason = text.Clip(text.OneLine(strings.TrimSpace(args.Reason)), maxReason)
	message := sendArguments{Text: args.Text, Directedness: args.Directedness, IdempotencyKey: args.IdempotencyKey}
	problem := message.check()
	switch {
	case problem == "" && args.Target == "":
		problem = "target is empty. Name the chat, such as tg:42."
	case problem == "" && (len(args.ThreadID) > maxThread || !text.IsCleanName(args.ThreadID)):
		problem = "threadId is not the id of a thread. chat.list_events shows those of the chat."
	case problem == "" && args.Reason == "":
		problem = "reason is empty. Say why you post; it is recorded."
	}
	if problem != "" {
		return harness.ErrorResult(problem, result{Status: "refused", Reason: "invalid"})
	}
	return b.speakFirst(ctx, postTool, func(t *attempt) any { return args.post(t, b) })
}

func eventID(e *mailbox.Entry) string {
	if e == nil {
		return ""
	}
	return e.EventID
}

// post queues the message, or refuses it.
func (args *postArguments) post(t *attempt, b *Toolset) result {
	if t.refusal.Refused() {
		return result{}
	}
	there := t.AssignedChat(args.Target)
	if there == nil {
		t.refuse(notAssigned)
		return result{}
	}
	p := mailbox.Post{Cause: t.event, Reason: args.Reason, Text: args.Text}
	if t.turn != nil {
		p.Turn = t.turn.ID
	}
	there.Content.Chat.ThreadID = args.ThreadID
	p.Thread, p.Visibility = args.ThreadID, there.Visibility()
	p.Directedness = string(attention.MessageDirectedness(args.Text, args.Directedness))
	key, before := args.key(t, there.Chat)
	if before != nil {
		return result{MessageID: before.MessageID, Status: "duplicate"}
	}
	p.Key = key
	if t.refuse(t.permitPost(there, args.Text, b.provider.MaxPosts)) {
		return result{}
	}
	return result{MessageID: p.Queue(t.Tx, there), Status: "sent"}
}

// repeatTime is how long a call that belongs to no turn and has no idempotencyKey may be repeated.
// Later the same words are another post.
const repeatTime = 10 * time.Minute

// key returns the key of the post, and the message that an earlier call with the same meaning has
// sent, or nil.
func (args *postArguments) key(t *attempt, chat protocol.Topic) (key string, before *mailbox.Sent) {
	keyOf := func(call string) string {
		return mailbox.PostKey + postDigest(call, string(chat)+args.ThreadID, args.IdempotencyKey, args.Text)
	}
	switch {
	case t.turn != nil:
		key = keyOf(t.turn.ID)
	case args.IdempotencyKey != "":
		key = keyOf("")
	default:
		now := time.Now().UTC()
		period := now.Truncate(repeatTime)
		key = keyOf(period.String())
		before = t.SentWhere(`key = ? AND sent_at > ?`, keyOf(period.Add(-repeatTime).String()),
			now.Add(-repeatTime).UnixMicro())
	}
	return key, cmp.Or(before, t.SentAs(key))
}

// postDigest returns a digest that identifies repeated calls.
func postDigest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// permitPost checks that the agent may post to a chat. A post from a turn of the same chat must
// also be permitted as a reply to the turn's event.
func (t *attempt) permitPost(there *mailbox.Entry, text string, bound int) attention.Refusal {
	f := budget.FactsForPost(&t.Tx.View, there)
	s := attention.ReplyContext{Known: true, Policy: attention.PolicyMayRespond}
	if t.event != nil && t.event.Chat == there.Chat {
		s = obligations.ReplyContext(&t.View, t.event, text)
		s.Replied, s.Disposition, s.LeaveEvent = false, "", false
	}
	s.Left = s.Left || f.Left
	if s.Exchange == "" {
		s.Exchange = f.Exchange
	}
	switch refusal := attention.PermitMessage(s); {
	case refusal.Refused():
		return refusal
	case attention.MeansSilence(text):
		return silence
	case f.Halted:
		return attention.Refusal{Reason: "halted",
			Advice: "A person has halted you there. Say nothing until you are resumed."}
	case bound > 0 && f.Posts >= bound:
		return attention.Refusal{
			Reason: attention.BudgetPosts,
			Advice: fmt.Sprintf("You have posted %d times there within a day, which is the limit. Wait until "+
				"somebody writes.", bound),
		}
	}
	return attention.Refusal{}
}

var notAssigned = attention.Refusal{
	Reason: "not_assigned",
	Advice: "You are not assigned to that chat. Name one that talks to you: its address, such as tg:42, or its " +
		"conversation id.",
}
