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
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

var sendMessageTool = harness.Tool{
	Name:  "chat.send_message",
	Title: "Send a message",
	Description: "Answer a chat event with one message. An event gets one answer, in its own chat. " +
		"To stay silent, do not call this. Mention somebody (@name) only to oblige them. Repeating a call with the " +
		"same idempotencyKey and text is safe.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"messageId":{"type":"string"},
		"status":{"type":"string","enum":["sent","duplicate","refused"]},"reason":{"type":"string"}},"required":["status"]}`),
	Idempotent: true,
}

type sendArguments struct {
	obligationArguments
	Target         string                 `json:"target,omitempty" jsonschema:"conversation id of the event (reply_target); may be left out"`
	InReplyTo      string                 `json:"inReplyTo,omitempty" jsonschema:"eventId of the event that is answered"`
	Text           string                 `json:"text" jsonschema:"the message, Markdown"`
	IdempotencyKey string                 `json:"idempotencyKey,omitempty" jsonschema:"stable key, reused when the call is repeated"`
	Visibility     visibility             `json:"visibility,omitempty"`
	Directedness   attention.Directedness `json:"directedness,omitempty" jsonschema:"whom the message obliges"`
	Interim        bool                   `json:"interim,omitempty" jsonschema:"a short note that you are working on it, once per event; your answer replaces it and is still due"`
}

// maxInterim bounds the bytes of an interim message, which must fit into one message everywhere.
const maxInterim = 1000

var visibilities = []visibility{"dm", "thread", "channel", "ephemeral"}

// check returns a problem with the arguments, or "".
func (args *sendArguments) check() string {
	switch {
	case strings.TrimSpace(args.Text) == "":
		return "text is empty. To stay silent, send nothing."
	case len(args.Text) > MaxReply:
		return fmt.Sprintf("text has %d bytes; at most %d are sent. Shorten it.", len(args.Text), MaxReply)
	case args.Interim && len(args.Text) > maxInterim:
		return fmt.Sprintf("text has %d bytes; an interim message has at most %d. Shorten it.", len(args.Text),
			maxInterim)
	case len(args.IdempotencyKey) > maxKey:
		return fmt.Sprintf("idempotencyKey has %d bytes; at most %d are allowed. Use a shorter one.", len(args.IdempotencyKey), maxKey)
	case !text.IsCleanName(args.IdempotencyKey):
		return "idempotencyKey must be " + text.NameRule + "."
	case args.Visibility != "" && !slices.Contains(visibilities, args.Visibility):
		return "visibility must be one of dm, thread, channel, ephemeral."
	case args.Directedness != "" && !slices.Contains(attention.Directednesses, args.Directedness):
		return "directedness must be one of to_me, to_my_role, to_other, ambient."
	}
	return args.obligationArguments.check(args.Interim)
}

func (b *Toolset) sendMessage(ctx context.Context, args *sendArguments) harness.Result {
	if answer := VisibleText(args.Text); answer == "" && args.Text != "" {
		return harness.ErrorResult(notPublic.Advice, result{Status: "refused", Reason: notPublic.Reason})
	} else {
		args.Text = answer
	}
	if problem := args.check(); problem != "" {
		return harness.ErrorResult(problem, result{Status: "refused", Reason: "invalid"})
	}
	id, unclear := b.eventAtTarget(ctx, args)
	b.refreshBroker(ctx, id)
	answer := b.act(ctx, sendMessageTool, id, result{Status: "refused"}, func(t *attempt) result {
		t.refuse(unclear)
		return args.send(t)
	})
	if !answer.IsError && !args.Interim {
		b.pending.Store(attention.Signal(""))
	}
	return answer
}

// eventAtTarget returns the id of the event that a message answers. Outside of turns and of the tools of a chat, a
// message may name only a target. It then answers the event that an earlier call with its key and text answered,
// or the only event that waits at the target. If several or none wait there, eventAtTarget returns a refusal.
func (b *Toolset) eventAtTarget(ctx context.Context, args *sendArguments) (id string, unclear attention.Refusal) {
	if args.InReplyTo != "" || args.Target == "" || b.turnID != "" || b.chat != "" {
		return args.InReplyTo, unclear
	}
	v := b.provider.Mailbox.View(ctx)
	if before := v.SentAs(args.IdempotencyKey); before != nil && before.Text == args.Text {
		if e := v.Entry(before.EventID); e != nil && sameTarget(e, args.Target) {
			return e.EventID, unclear
		}
	}
	var open []string
	for _, e := range v.Events(`WHERE ` + mailbox.AnswerableCondition + ` ORDER BY seq DESC`) {
		if sameTarget(e, args.Target) {
			open = append(open, e.EventID)
		}
	}
	if len(open) != 1 {
		return "", ambiguousEvent(open[:min(len(open), 20)])
	}
	return open[0], unclear
}

// refreshBroker checks whether there is a broker before an answer to an event that may need a
// claim.
func (b *Toolset) refreshBroker(ctx context.Context, id string) {
	v := b.provider.Mailbox.View(ctx)
	e := v.Current(id)
	if id == "" {
		e = b.turnEvent(v)
	}
	if e != nil && e.Decision.NeedsClaim() {
		b.provider.Broker.Present(ctx)
	}
}

// send queues the message, or refuses it. A call with a key that was used before gets the earlier
// result.
func (args *sendArguments) send(t *attempt) result {
	if args.Interim {
		return args.sendInterim(t)
	}
	e := t.event
	if e != nil {
		args.IdempotencyKey = cmp.Or(args.IdempotencyKey, mailbox.NextReplyKey(&t.View, e))
		before := t.SentAs(args.IdempotencyKey)
		switch {
		case mailbox.ReservedKey(args.IdempotencyKey, e), before != nil && before.EventID != e.EventID:
			t.refusal = keyReused
			return result{}
		case before != nil && before.Text != args.Text:
			t.refusal = otherText
			return result{}
		case before != nil:
			t.refusal = attention.Refusal{}
			return result{MessageID: before.MessageID, Status: "duplicate"}
		}
	}
	if args.isRefused(t) {
		return result{}
	}
	reply := protocol.ChatReply{
		Text: args.Text, Visibility: string(args.Visibility),
		Directedness: string(attention.MessageDirectedness(args.Text, args.Directedness)),
	}
	waited := args.apply(t, &reply)
	if t.refusal.Refused() {
		return result{}
	}
	id := t.Reply(e, mailbox.SentText, args.IdempotencyKey, reply)
	if waited != "" {
		obligations.OpenOwn(t.Tx, e, id, args.Text, waited, reply.Obligation)
	}
	lifecycle.FinishAccepted(t.Tx, t.turn, e)
	return result{MessageID: id, Status: "sent"}
}

// sendInterim queues an interim message, or refuses it. An interim message needs the same
// permission as an answer, and there is at most one.
func (args *sendArguments) sendInterim(t *attempt) result {
	e := t.event
	if e != nil {
		switch before := t.Interim(e); {
		case before != nil && before.Text != args.Text:
			t.refuse(interimSent)
			return result{}
		case before != nil:
			t.refusal = attention.Refusal{}
			return result{MessageID: before.MessageID, Status: "duplicate"}
		}
	}
	if args.isRefused(t) || e.FromBroker() && e.Origin.ConversationID == "" && t.refuse(noConversation) {
		return result{}
	}
	id := t.Reply(e, mailbox.SentInterim, mailbox.InterimKey(e), protocol.ChatReply{
		Text: args.Text, Visibility: string(args.Visibility),
	})
	return result{MessageID: id, Status: "sent"}
}

// isRefused refuses a message that may not be sent for the event or not be shown there, and reports whether it did.
func (args *sendArguments) isRefused(t *attempt) bool {
	e := t.event
	isPrivate := args.Visibility == "dm" || args.Visibility == "ephemeral"
	return t.permit(obligations.ReplyContext(&t.View, e, args.Text), args.Text) ||
		args.Target != "" && !sameTarget(e, args.Target) && t.refuse(wrongTarget(e)) ||
		isPrivate && e.Visibility() != "dm" && t.refuse(notPrivate)
}

// permit checks that a text may be sent in response to the event, and reports whether it is
// refused.
func (t *attempt) permit(s attention.ReplyContext, text string) (refused bool) {
	switch {
	case t.refuse(attention.PermitMessage(s)):
	case attention.MeansSilence(text):
		t.refuse(silence)
	case t.event.FromBroker() && !t.event.Origin.TakesText():
		t.refuse(noConversation)
	}
	return t.refusal.Refused()
}

var (
	keyReused = attention.Refusal{
		Reason: "key_reused",
		Advice: "This idempotencyKey belongs to another message. Leave it out, or use one that includes the id of " +
			"this event.",
	}
	otherText = attention.Refusal{
		Reason: "already_answered",
		Advice: "You have answered this event with another text. One event gets one answer: send nothing more for it.",
	}
	interimSent = attention.Refusal{
		Reason: "interim_sent",
		Advice: "This event already has an interim message. Send the answer itself, without interim.",
	}
	silence = attention.Refusal{
		Reason: "silence", Advice: "Silence is not a text. To stay silent, end your turn without a message; if that " +
			"word is the answer, say it in a sentence.",
	}
	notPublic = attention.Refusal{
		Reason: "not_for_people", Advice: attention.NothingVisible,
	}
	markupOpen = attention.Refusal{
		Reason: "not_for_people",
		Advice: "What you wrote is inside a thought, a tool call or a copy of the prompt that was not closed, and no " +
			"person is shown those. " +
			"If it is finished, begin your next text with </think>, and write the answer plainly.",
	}
	notPrivate = attention.Refusal{
		Reason: "not_private",
		Advice: "Everybody in this chat would read that. If they may, leave visibility out; else write to the person's " +
			"own chat with chat.post.",
	}
	noConversation = attention.Refusal{
		Reason: "no_conversation",
		Advice: "Nobody reads an answer to this event. Answer the event for which you asked, or continue your work; " +
			"ask and the work tools reach others.",
	}
)

func wrongTarget(e *mailbox.Entry) attention.Refusal {
	return attention.Refusal{
		Reason: "wrong_target", Advice: "An answer goes only to the chat of its event: leave target out, or give " +
			attention.HeaderValue(e.Content.Chat.ID) + ".",
	}
}

// sameTarget reports whether target names the conversation or thread of an event, with or without
// its kind.
func sameTarget(e *mailbox.Entry, target string) bool {
	c := e.Content.Chat
	accepted := []string{c.ID, c.Kind + ":" + c.ID, string(e.Chat)}
	if c.ThreadID != "" {
		accepted = append(accepted, "thread:"+c.ThreadID, c.ID+":"+c.ThreadID, c.ThreadID)
	}
	return slices.Contains(accepted, target)
}

// outputTool is the tool name in records of output that a program sends without a tool call.
const outputTool = "callback"

// SendOutput queues a part of the answer of a turn that a program has accepted. All parts count
// as one answer; a repeated key has no effect. It fails with a *harness.RefusedError if the
// policy forbids the answer. See harness.Host.
func (k *Provider) SendOutput(ctx context.Context, t *mailbox.Turn, o harness.Output) error {
	b := k.ForChat("")
	if !o.Stale {
		if err := b.ensureClaim(ctx, t.EventID); err != nil {
			return fmt.Errorf("claiming %s: %w", t.EventID, err)
		}
	}
	refusal, err := b.attempt(harness.WithRevision(ctx, t.ID, o.Revision), outputTool, t.EventID,
		func(now *attempt) { sendPart(now, t.ID, o) })
	if err != nil {
		return err
	}
	k.OnChange()
	if refusal.Refused() {
		return &harness.RefusedError{Reason: refusal.Reason, Advice: refusal.Advice}
	}
	return nil
}

// sendPart sends a part of an answer. Markup that one part leaves open, such as a thought or a
// tool call, continues in the next.
func sendPart(t *attempt, turn string, o harness.Output) {
	e := t.event
	empty := o.Text == ""
	text, inner := attention.VisibleTextAfter(mailbox.OpenMarkup(&t.View, turn, o.Revision), o.Text,
		allNames...)
	o.Text = text
	reply := obligations.ReplyContext(&t.View, e, o.Text)
	if e != nil && t.HasReplied(e) {
		continueAnswer(&reply)
	}
	switch {
	case o.Stale:
		t.refusal = cancelled
	case t.SentAs(o.Key) != nil: // a repeated part succeeds whatever has happened since
		t.refusal = attention.Refusal{}
	case t.refusal.Refused():
	case o.Text == "" && !empty:
		mailbox.SetOpenMarkup(t.Tx, turn, o.Revision, inner)
		if t.refuse(notPublic); attention.HiddenPartContinues(inner, allNames...) {
			t.refusal = markupOpen
		}
	case !t.permit(reply, o.Text):
		mailbox.SetOpenMarkup(t.Tx, turn, o.Revision, inner)
		t.Reply(e, mailbox.SentText, o.Key, protocol.ChatReply{Text: o.Text})
		lifecycle.FinishAccepted(t.Tx, t.turn, e)
	}
}

// continueAnswer changes the context of an answered event to that of an answer in progress,
// however its first part ended.
func continueAnswer(s *attention.ReplyContext) {
	s.Replied, s.LeaveEvent = false, false
	if s.Disposition == attention.DispositionResponded || s.Disposition == attention.DispositionFailed {
		s.Disposition = ""
	}
}
