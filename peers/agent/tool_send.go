package agent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/protocol"
)

// maxReply bounds the text of one message, in bytes.
const maxReply = 64 << 10

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

var visibilities = []string{"", "dm", "thread", "channel", "ephemeral"}

func (args *sendArguments) check() string {
	switch {
	case strings.TrimSpace(args.Text) == "":
		return "text is empty. To stay silent, send nothing."
	case len(args.Text) > maxReply:
		return fmt.Sprintf("text has %d bytes; at most %d are sent. Shorten it.", len(args.Text), maxReply)
	case len(args.IdempotencyKey) > maxKey:
		return fmt.Sprintf("idempotencyKey has %d bytes; at most %d are taken.", len(args.IdempotencyKey), maxKey)
	case !slices.Contains(visibilities, args.Visibility):
		return "visibility must be one of dm, thread, channel, ephemeral."
	case args.Directedness != "" && !slices.Contains(attention.Directednesses, attention.Directedness(args.Directedness)):
		return "directedness must be one of to_me, to_my_role, to_other, ambient."
	}
	return ""
}

func (b *toolbox) sendMessage(ctx context.Context, arguments json.RawMessage) harness.Result {
	var args sendArguments
	if problem := decode(arguments, &args); problem != "" {
		return harness.Refused(problem, nil)
	}
	if problem := args.check(); problem != "" {
		return harness.Refused(problem, sendResult{Status: "refused", Reason: "invalid"})
	}
	b.refreshBroker(ctx, args.InReplyTo)
	var result sendResult
	var refusal attention.Refusal
	err := b.a.inTx(ctx, func(tx *sql.Tx) (err error) {
		result, refusal, err = b.sendTx(ctx, tx, &args)
		return err
	})
	if errors.Is(err, outbox.ErrFull) {
		return harness.Refused("Too many messages wait to be sent. Try again later.", sendResult{Status: "refused", Reason: "outbox_full"})
	}
	if err != nil {
		return broken(err)
	}
	b.a.opts.crash("acted")
	if refusal.Refused() {
		if err := b.a.refuse(ctx, args.InReplyTo, "chat.send_message", refusal.Reason); err != nil {
			return broken(err)
		}
		return harness.Refused(refusal.Advice, sendResult{Status: "refused", Reason: refusal.Reason})
	}
	b.setPending("")
	return harness.Structured(result)
}

// sendTx queues the message, or says why not.
func (b *toolbox) sendTx(ctx context.Context, tx *sql.Tx, args *sendArguments) (sendResult, attention.Refusal, error) {
	at, err := b.look(ctx, tx, args.InReplyTo)
	if err != nil {
		return sendResult{}, attention.Refusal{}, err
	}
	e := at.entry
	if e != nil {
		args.InReplyTo = e.EventID
		if args.IdempotencyKey == "" {
			args.IdempotencyKey = replyKey(e)
		}
		if reservedKey(args.IdempotencyKey, e) {
			return sendResult{}, keyReused, nil
		}
		before, err := sentByKey(ctx, tx, args.IdempotencyKey)
		if err != nil {
			return sendResult{}, attention.Refusal{}, err
		}
		if before != nil {
			return repeated(before, e, args.Text)
		}
	}
	refusal, err := b.permitSend(ctx, tx, at, args)
	if err != nil || refusal.Refused() {
		return sendResult{}, refusal, err
	}
	if args.Visibility == "" {
		args.Visibility = visibilityOf(e)
	}
	id, err := b.a.queueReply(ctx, tx, e, "text", args.IdempotencyKey, protocol.ChatReply{
		Text: args.Text, Visibility: args.Visibility, Directedness: args.Directedness,
	})
	if err != nil {
		return sendResult{}, attention.Refusal{}, err
	}
	return sendResult{MessageID: id, Status: "sent"}, attention.Refusal{}, b.a.endAccepted(ctx, tx, at)
}

func (b *toolbox) permitSend(ctx context.Context, tx *sql.Tx, at attempt, args *sendArguments) (attention.Refusal, error) {
	if at.refusal.Refused() {
		return at.refusal, nil
	}
	standing, err := b.a.standing(ctx, tx, at.entry, args.Text)
	if err != nil {
		return attention.Refusal{}, err
	}
	if refusal := attention.PermitMessage(standing); refusal.Refused() {
		return refusal, nil
	}
	if attention.MeansSilence(args.Text) {
		return attention.Refusal{Reason: "silence", Advice: "Silence is not a text. To stay silent, end your turn without a message; if that word is the answer, say it in a sentence."}, nil
	}
	if at.entry.Chat == protocol.TopicBroker && !at.entry.Origin.takesWords() {
		return noConversation, nil
	}
	if args.Target != "" && !sameTarget(at.entry, args.Target) {
		return attention.Refusal{
			Reason: "wrong_target",
			Advice: "An answer goes only where its event was said: leave target out, or give " + attention.HeaderValue(at.entry.Content.Chat.ID) + ".",
		}, nil
	}
	return attention.Refusal{}, nil
}

var noConversation = attention.Refusal{
	Reason: "no_conversation",
	Advice: "Nobody reads an answer to this event. Answer the event for which you asked, or go on with your work; ask and the work tools reach others.",
}

// sameTarget: a conversation id, with or without the word for its kind, or the
// thread of the event.
func sameTarget(e *entry, target string) bool {
	c := e.Content.Chat
	accepted := []string{c.ID, c.Kind + ":" + c.ID, string(e.Chat)}
	if c.ThreadID != "" {
		accepted = append(accepted, "thread:"+c.ThreadID, c.ID+":"+c.ThreadID, c.ThreadID)
	}
	return slices.Contains(accepted, target)
}

// A sentRow is one message that was sent before.
type sentRow struct {
	messageID protocol.MessageID
	event     string
	text      string
}

func sentByKey(ctx context.Context, tx *sql.Tx, key string) (*sentRow, error) {
	var s sentRow
	err := tx.QueryRowContext(ctx, `SELECT message_id, event_id, text FROM sent WHERE key = ?`, key).Scan(&s.messageID, &s.event, &s.text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an earlier message: %w", err)
	}
	return &s, nil
}

var keyReused = attention.Refusal{
	Reason: "key_reused", Advice: "This idempotencyKey belongs to another message. Leave it out, or use one that names this event.",
}

// repeated answers a call whose key was used before.
func repeated(before *sentRow, e *entry, text string) (sendResult, attention.Refusal, error) {
	switch {
	case before.event != e.EventID:
		return sendResult{}, keyReused, nil
	case before.text == text:
		return sendResult{MessageID: before.messageID, Status: "duplicate"}, attention.Refusal{}, nil
	}
	return sendResult{}, attention.Refusal{
		Reason: "already_answered", Advice: "You have answered this event with other words. One event gets one answer: send nothing more for it.",
	}, nil
}
