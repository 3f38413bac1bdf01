package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

var remindTool = harness.Tool{
	Name:  "chat.remind",
	Title: "Set a reminder",
	Description: "Schedule an event of this chat that only you see; then write there what is needed. Give when and " +
		"text to set a " +
		"reminder, cancel to delete one, and neither to list those of this chat. If its time passes while you are " +
		"not running, it occurs once.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"status":{"type":"string","enum":["set","cancelled","listed","refused"]},
		"reminders":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"chat":{"type":"string"},"text":{"type":"string"},"cron":{"type":"string"},
		"zone":{"type":"string"},"setFor":{"type":"string"},"set":{"type":"string"},"due":{"type":"string"}}}},"reason":{"type":"string"}},"required":["status"]}`),
}

const maxReminder = 2000 // bytes of its text

type remindArguments struct {
	When   string `json:"when,omitempty" jsonschema:"a local time (2027-01-31 17:00, tomorrow 9:00, Friday 17:30), a time with its zone (2027-01-31T17:00:00+01:00), a duration from now (45m, in 2 hours), or what repeats (daily 09:00, every Monday 8:30, every other day 9:00, last day of every month 17:00, or a cron expression of five fields, 0 9 * * 1-5)"`
	Text   string `json:"text,omitempty" jsonschema:"what you want to be told"`
	Zone   string `json:"zone,omitempty" jsonschema:"time zone of local times, such as Europe/Berlin; default: that of the chat, which the header of the turn shows"`
	Target string `json:"target,omitempty" jsonschema:"the chat, such as tg:42; needed only outside of a chat's turn"`
	Cancel string `json:"cancel,omitempty" jsonschema:"id of a reminder to take back"`
}

// A remindResult is the result of chat.remind.
type remindResult struct {
	Status    string               `json:"status"` // set, cancelled or listed
	Reminders []reminders.Reminder `json:"reminders,omitempty"`
}

func (b *Toolset) remind(ctx context.Context, args *remindArguments) harness.Result {
	return b.speakFirst(ctx, remindTool, func(t *attempt) any { return args.remind(t, b) })
}

// remind does what the arguments request, in the chat of the turn or toolset. Only a toolset
// without a chat reaches all reminders.
func (args *remindArguments) remind(t *attempt, b *Toolset) remindResult {
	invalid := func(advice string) remindResult {
		t.refuse(attention.Refusal{Reason: "invalid", Advice: advice})
		return remindResult{}
	}
	chat := b.chat
	if chat == protocol.TopicBroker { // a wake belongs to no chat
		chat = ""
	}
	set := args.When != "" || args.Text != ""
	switch {
	case t.refusal.Refused():
		return remindResult{}
	case args.Cancel != "" && set:
		return invalid("Cancel one reminder or set one, not both in one call.")
	case args.Cancel != "":
		if !reminders.Cancel(t.Tx, args.Cancel, chat, "the agent cancelled it") {
			return invalid("There is no such reminder here. Call chat.remind without arguments to list them.")
		}
		return remindResult{Status: "cancelled"}
	case !set:
		return remindResult{Status: "listed", Reminders: reminders.List(&t.View, chat)}
	case strings.TrimSpace(args.Text) == "" || len(args.Text) > maxReminder:
		return invalid("Give a text of at most 2000 bytes: you will be shown nothing else.")
	}
	there := t.event
	if there == nil || there.Chat != chat || chat == "" {
		target := cmp.Or(args.Target, string(chat))
		if target == "" {
			return invalid("Name the target: the chat, such as tg:42, for the reminder.")
		}
		if there = t.AssignedChat(target); there == nil || chat != "" && there.Chat != chat {
			t.refuse(notAssigned)
			return remindResult{}
		}
	} else if args.Target != "" && t.AssignedChat(args.Target) != nil && t.AssignedChat(args.Target).Chat != chat {
		t.refuse(otherChat)
		return remindResult{}
	}
	r := reminders.Reminder{Chat: there.Chat, Location: *there.Content.Chat, Text: strings.TrimSpace(args.Text),
		SetFor: eventID(t.event)}
	err := r.Schedule(args.When, args.Zone, b.provider.ZoneOf(there.Content.Chat), time.Now())
	call := r.Set.Format(time.RFC3339Nano)
	if t.turn != nil { // which may repeat the call
		call = t.turn.ID
	}
	r.ID = "r-" + postDigest(call, string(r.Chat), args.When, r.Zone, r.Text)[:10]
	if err == nil {
		r, err = reminders.Set(t.Tx, r)
	}
	if errors.Is(err, reminders.ErrInvalid) {
		return invalid(strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + ".")
	}
	return remindResult{Status: "set", Reminders: []reminders.Reminder{r}}
}
