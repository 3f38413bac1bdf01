package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Bounds of a question with choices. Its text must fit into one message. A choice is also the
// text that pressing its button sends.
const (
	maxQuestion = maxInterim
	minChoices  = 2
	maxChoices  = 8
	maxChoice   = 64 // bytes
)

var askChoiceTool = harness.Tool{
	Name:  "chat.ask_choice",
	Title: "Ask with choices",
	Description: "Answer a chat event with a question and 2 to 8 choices, shown as buttons where the chat has them. " +
		"It is the answer to the event. " +
		"The choice, or another reply, comes to you as a separate event.",
	OutputSchema: sendMessageTool.OutputSchema,
	Idempotent:   true,
}

type askChoiceArguments struct {
	Question  string  `json:"question" jsonschema:"what you ask, Markdown"`
	Choices   choices `json:"choices" jsonschema:"different words, at most 64 bytes each"`
	InReplyTo string  `json:"inReplyTo,omitempty" jsonschema:"eventId of the event; default: that of this turn"`
}

// check returns a problem with the arguments, or "".
func (args *askChoiceArguments) check() string {
	switch {
	case args.Question == "":
		return "question is empty, or nothing in it is for people."
	case len(args.Question) > maxQuestion:
		return fmt.Sprintf("question has %d bytes; at most %d are sent. Shorten it.", len(args.Question), maxQuestion)
	case len(args.Choices) < minChoices || len(args.Choices) > maxChoices:
		return fmt.Sprintf("there are %d choices; give between %d and %d.", len(args.Choices), minChoices, maxChoices)
	}
	for i, choice := range args.Choices {
		switch {
		case choice == "" || len(choice) > maxChoice || !text.IsCleanLine(choice) ||
			choice != strings.TrimSpace(choice):
			return fmt.Sprintf("choice %d must be one line of 1 to %d bytes.", i+1, maxChoice)
		case attention.VisibleText(choice) != choice:
			return fmt.Sprintf("choice %d has content that is not for people: thoughts, a tool call as text, or a "+
				"copy of the prompt.", i+1)
		case slices.Contains(args.Choices[:i], choice):
			return fmt.Sprintf("choice %d is a duplicate.", i+1)
		case decisions.IsValue(choice):
			return fmt.Sprintf("choice %d looks like a decision about a tool. Use other words.", i+1)
		}
	}
	return ""
}

func (b *Toolset) askChoice(ctx context.Context, args *askChoiceArguments) harness.Result {
	args.Question = strings.TrimSpace(VisibleText(args.Question))
	if problem := args.check(); problem != "" {
		return harness.ErrorResult(problem, result{Status: "refused", Reason: "invalid"})
	}
	b.refreshBroker(ctx, args.InReplyTo)
	answer := b.act(ctx, askChoiceTool, args.InReplyTo, result{Status: "refused"}, args.ask)
	if !answer.IsError {
		b.pending.Store(attention.Signal(""))
	}
	return answer
}

// ask queues the question, or refuses it.
func (args *askChoiceArguments) ask(t *attempt) result {
	e := t.event
	reply := protocol.ChatReply{Text: args.Question,
		Directedness: string(attention.MessageDirectedness(args.Question, ""))}
	for i, choice := range args.Choices {
		if e != nil && mailbox.SupportsButtons(e.Chat) {
			reply.Buttons = append(reply.Buttons, protocol.Button{Text: choice, Value: choice})
		} else {
			reply.Text += fmt.Sprintf("\n%d. %s", i+1, choice)
		}
	}
	if e != nil {
		switch before := t.SentAs(mailbox.ChoiceKey(e)); {
		case before != nil && before.Text != mailbox.WithButtons(reply.Text, reply.Buttons):
			t.refusal = otherText
			return result{}
		case before != nil:
			t.refusal = attention.Refusal{}
			return result{MessageID: before.MessageID, Status: "duplicate"}
		}
	}
	if t.permit(obligations.ReplyContext(&t.View, e, reply.Text), reply.Text) {
		return result{}
	}
	id := t.Reply(e, mailbox.SentText, mailbox.ChoiceKey(e), reply)
	lifecycle.FinishAccepted(t.Tx, t.turn, e)
	return result{MessageID: id, Status: "sent"}
}
