package tg_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// buttons are the buttons of a question.
var buttons = []protocol.Button{{Text: "Allow", Value: "dec_1:allow:once"}, {Text: "Deny", Value: "dec_1:deny"}, {Text: "Always", Value: "dec_1:allow:always"}}

// keyboard returns the buttons under a message, one line per row.
func keyboard(m *models.Message) string {
	if m.ReplyMarkup == nil {
		return ""
	}
	var rows []string
	for _, row := range m.ReplyMarkup.InlineKeyboard {
		line := ""
		for _, b := range row {
			line += fmt.Sprintf("[%s %s]", b.Text, b.CallbackData)
		}
		rows = append(rows, line)
	}
	return strings.Join(rows, "\n")
}

// TestButtons_AreShownUntilEdit checks that the last part of a text carries the buttons, that a
// press arrives as an answer with the button's value, and that one edit replaces the text and
// removes the buttons.
func TestButtons_AreShownUntilEdit(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		long := strings.Repeat("word ", 1000) + "May it?"
		reply(t, lead, dm.ID, protocol.ChatReply{Text: long, IdempotencyKey: "question", Buttons: buttons})
		h.texts(dm.ID, 2)
		sent := h.api.Calls("sendMessage")
		first, last := sent[0].Message, sent[1].Message
		if keyboard(first) != "" || keyboard(last) != "[Allow dec_1:allow:once][Deny dec_1:deny]\n[Always dec_1:allow:always]" {
			t.Errorf("under the first part stands %q, under the last %q", keyboard(first), keyboard(last))
		}
		h.api.Press(last, will, "dec_1:deny")
		if c := next(t, lead); c.Text != "dec_1:deny" || c.ReplyTo == nil || c.ReplyTo.Author != "agent:lead" || c.ReplyTo.SourceID != fmt.Sprintf("tg:123456:%d:%d", dm.ID, last.ID) {
			t.Errorf("the press became %+v", c)
		}
		for range 2 { // the agent repeats the edit; it is made once
			reply(t, lead, dm.ID, protocol.ChatReply{Text: "Denied by *Will*.", IdempotencyKey: "decided", Edits: "question"})
		}
		h.pass(10 * time.Second)
		edits := h.api.Calls("editMessageText")
		if len(edits) != 1 || edits[0].Message.ID != last.ID || edits[0].Message.Text != "Denied by Will." || len(edits[0].Message.Entities) != 1 || keyboard(edits[0].Message) != "" {
			t.Errorf("edited: %+v", edits)
		}
		var answers []string // a reaction to the message is one to the edit
		for lead.Pending() > 0 {
			var s protocol.DeliveryStatus
			if d := lead.Next(t); d.Message.Type == protocol.TypeDeliveryStatus && d.Decode(&s) == nil && s.IdempotencyKey == "decided" {
				answers = append(answers, s.Status+" "+s.SourceID)
			}
		}
		if want := fmt.Sprintf("[delivered tg:123456:%d:%d]", dm.ID, last.ID); fmt.Sprint(answers) != want {
			t.Errorf("the agent was told %v; want %s", answers, want)
		}
		h.texts(dm.ID, 2)
	})
}

// TestPress_ForgedIsRejected checks that a press counts only if a message of the chat shows the
// button, since members of a chat can send any data. The presser gets an answer.
func TestPress_ForgedIsRejected(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "May it?", IdempotencyKey: "question", Buttons: buttons})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "Something else."})
		h.texts(dm.ID, 2)
		sent := h.api.Calls("sendMessage")
		h.api.Press(sent[0].Message, will, "dec_2:allow:once")
		h.api.Press(sent[1].Message, will, "dec_1:allow:once")
		h.api.Press(sent[0].Message, will, "dec_1:allow:always")
		if c := next(t, lead); c.Text != "dec_1:allow:always" {
			t.Errorf("heard %q", c.Text)
		}
		h.pass(5 * time.Second)
		answers := map[string]string{}
		for _, c := range h.api.Calls("answerCallbackQuery") {
			answers[string(c.Params["callback_query_id"])] = string(c.Params["text"])
		}
		for data, refused := range map[string]bool{"dec_2:allow:once": true, "dec_1:allow:once": true, "dec_1:allow:always": false} {
			if got, ok := answers[`"callback-`+data+`"`]; !ok || strings.Contains(got, "doesn't belong to this bot") != refused {
				t.Errorf("who pressed %s was told %q, %t", data, got, ok)
			}
		}
		if log := h.log.String(); strings.Count(log, "press rejected") != 2 {
			t.Errorf("the log says %s", log)
		}
	})
}

// TestEdit_FallsBackToMessage covers a message that was deleted, one that may not have been sent,
// and one that never existed.
func TestEdit_FallsBackToMessage(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard, Times: 1})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "lost?", IdempotencyKey: "lost", Buttons: buttons})
		h.pass(5 * time.Second)
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "May it?", IdempotencyKey: "question", Buttons: buttons})
		h.pass(5 * time.Second)
		h.api.Fail(tgtest.Fault{Method: "editMessageText", Status: 400, Description: "Bad Request: message to edit not found", Times: 1})
		for _, edits := range []string{"question", "lost", "never"} {
			reply(t, lead, dm.ID, protocol.ChatReply{Text: "instead of " + edits, IdempotencyKey: "edit of " + edits, Edits: edits})
		}
		h.pass(10 * time.Second)
		got := h.api.Texts(dm.ID)
		if want := "instead of question|instead of lost|instead of never"; !strings.HasSuffix(strings.Join(got, "|"), want) {
			t.Errorf("sent %q; want at its end %s", got, want)
		}
	})
}

// TestEdit_IsRepeatedUntilAnswered checks that an interrupted edit is repeated, not reported as
// unknown.
func TestEdit_IsRepeatedUntilAnswered(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "May it?", IdempotencyKey: "question", Buttons: buttons})
		h.texts(dm.ID, 1)
		h.api.Fail(tgtest.Fault{Method: "editMessageText", Cut: tgtest.CutUnheard, Times: 2})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "Denied.", IdempotencyKey: "decided", Edits: "question"})
		h.pass(5 * time.Minute)
		h.texts(dm.ID, 1)
		if letters := h.deadLetters(); len(letters) != 0 {
			t.Errorf("dead letters %+v", letters)
		}
		if edits := h.api.Calls("editMessageText"); len(edits) == 0 || edits[len(edits)-1].Message.Text != "Denied." {
			t.Errorf("edits %+v", edits)
		}
	})
}

// TestButtons_InvalidAreRejected checks that no part of the reply is shown.
func TestButtons_InvalidAreRejected(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		many := make([]protocol.Button, 13)
		for i := range many {
			many[i] = protocol.Button{Text: "x", Value: fmt.Sprint(i)}
		}
		for name, r := range map[string]protocol.ChatReply{
			"no text":          {Signal: "done", InReplyTo: "tg:123456:1:1", Buttons: buttons},
			"an empty edit":    {Signal: "done", InReplyTo: "tg:123456:1:1", Edits: "question"},
			"too many":         {Text: "x", Buttons: many},
			"no words":         {Text: "x", Buttons: []protocol.Button{{Value: "v"}}},
			"no value":         {Text: "x", Buttons: []protocol.Button{{Text: "v"}}},
			"a value too long": {Text: "x", Buttons: []protocol.Button{{Text: "v", Value: strings.Repeat("v", 65)}}},
			"words too long":   {Text: "x", Buttons: []protocol.Button{{Text: strings.Repeat("v", 101), Value: "v"}}},
		} {
			if got := reply(t, lead, dm.ID, r); len(got.Failures) != 1 || got.Failures[0].Status != protocol.OutcomeRejected || !strings.Contains(got.Failures[0].Error, "button") {
				t.Errorf("%s: %+v", name, got)
			}
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "at the bound", Buttons: append(many[:11:11], protocol.Button{Text: strings.Repeat("v", 100), Value: strings.Repeat("v", 64)})})
		h.texts(dm.ID, 1)
	})
}
