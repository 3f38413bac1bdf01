package tg_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/bridge"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

var asking = protocol.ChatReply{
	Text: "lead asks to run shell\nMay it?", IdempotencyKey: "q", MayPress: []string{"tg:1001"},
	Buttons: []protocol.Button{{Text: "Allow", Value: "dec_1:allow:once"}, {Text: "Deny", Value: "dec_1:deny"}, {Text: "Allow for this session", Value: "dec_1:allow:session"}},
}

var decided = protocol.ChatReply{Text: "lead asks to run shell\nDecision: allowed by tg:1001.", IdempotencyKey: "d", Edits: "q"}

// pressAnswers returns the answers to presses, in order.
func (h *fixture) pressAnswers() (said []string) {
	for _, c := range h.api.Calls("answerCallbackQuery") {
		said = append(said, c.Text())
	}
	return said
}

// shows returns the bot's messages in a chat, each with its buttons by rows.
func (h *fixture) shows(chat int64) (list []string) {
	for _, m := range h.api.Messages(chat) {
		said := m.Text
		if k := m.ReplyMarkup; k != nil {
			for _, row := range k.InlineKeyboard {
				said += " |"
				for _, b := range row {
					said += " [" + b.Text + "]"
				}
			}
		}
		list = append(list, said)
	}
	return list
}

// asked starts a bridge with a group of Will and Ann, in which the agent has asked Will.
func (h *fixture) asked() (group models.Chat, will, ann models.User, lead *bustest.Scripted) {
	h.t.Helper()
	group, will, ann, lead = h.groupOfLead()
	q := asking
	q.MayPress = []string{fmt.Sprint("tg:", will.ID)}
	reply(h.t, lead, group.ID, q)
	h.pass(10 * time.Second)
	return group, will, ann, lead
}

// groupOfLead starts the bridge with a group of Will and Ann that is assigned to agent:lead.
func (h *fixture) groupOfLead() (group models.Chat, will, ann models.User, lead *bustest.Scripted) {
	h.t.Helper()
	will, ann = h.api.User("Will"), h.api.User("Ann")
	group = h.api.Group(-5, "House")
	lead = h.bus.Join(h.t, "agent:lead", "agent:lead")
	h.start()
	h.api.Say(group, will, "deploy")
	h.pass(time.Second)
	h.assign(group.ID, "agent:lead")
	next(h.t, lead)
	return group, will, ann, lead
}

func (h *fixture) expect(what string, got []string, want ...string) {
	h.t.Helper()
	if !slices.Equal(got, want) {
		h.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestPress_IsDeliveredAndMessageEdited(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, ann, lead := h.asked()
		h.expect("shown", h.shows(group.ID), "lead asks to run shell\nMay it? | [Allow] [Deny] | [Allow for this session]")
		m := h.api.Messages(group.ID)[0]
		status(t, lead)
		h.api.Press(m, ann, "dec_1:deny")
		h.pass(10 * time.Second)
		h.api.Press(m, will, "dec_1:allow:always")
		h.pass(10 * time.Second)
		if lead.Pending() != 0 {
			t.Errorf("the agent heard of a press that does not count")
		}
		h.api.Press(m, will, "dec_1:allow:once")
		e := next(t, lead)
		if e.Text != "dec_1:allow:once" || e.ReplyTo == nil || e.ReplyTo.Author != "agent:lead" || e.Author.ID != fmt.Sprint(will.ID) || !strings.Contains(e.SourceID, ":button:") {
			t.Errorf("heard %+v", e)
		}
		reply(t, lead, group.ID, decided)
		reply(t, lead, group.ID, decided)
		h.pass(10 * time.Second)
		h.expect("shown", h.shows(group.ID), decided.Text)
		if s := status(t, lead); s.Status != protocol.StatusDelivered || s.IdempotencyKey != "d" || s.TelegramMessageID != int64(m.ID) {
			t.Errorf("status %+v", s)
		}
		h.api.Press(m, will, "dec_1:allow:session")
		h.pass(10 * time.Second)
		if lead.Pending() != 0 {
			t.Errorf("the agent heard of a press that came too late")
		}
		h.expect("told", h.pressAnswers(), "This isn't for you to decide; only @will can.", "This button doesn't belong to this bot, or its message is too old.",
			"", "Decision: allowed by tg:1001.")
		for _, why := range []string{"that is for somebody else", "that no message of this chat has", "whose question is answered"} {
			if !h.log.has("press rejected: a button " + why) {
				t.Errorf("the log does not say %q", why)
			}
		}
		if s := h.states(); s["skipped"] != 3 {
			t.Errorf("states %v", s)
		}
	})
}

// TestPress_NamesWhoMayDecide checks that a rejected press names people without a username, too.
func TestPress_NamesWhoMayDecide(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, ann, lead := h.asked()
		mia := models.User{ID: 77, FirstName: "Mia", LastName: "Mo"}
		h.api.Say(group, mia, "deploy that, too")
		q := asking
		q.IdempotencyKey, q.MayPress = "two", []string{"tg:77", fmt.Sprint("tg:", will.ID), "tg:78"}
		reply(t, lead, group.ID, q)
		h.pass(10 * time.Second)
		h.api.Press(h.api.Messages(group.ID)[1], ann, "dec_1:deny")
		h.pass(10 * time.Second)
		h.expect("told", h.pressAnswers(), "This isn't for you to decide; only Mia Mo, @will, tg:78 can.")
	})
}

// TestPress_AfterQueuedEditIsLate checks that a decision counts before it is shown.
func TestPress_AfterQueuedEditIsLate(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, _, lead := h.asked()
		status(t, lead)
		h.api.Fail(tgtest.Fault{Method: "editMessageText", Status: 502, Times: 3})
		reply(t, lead, group.ID, decided)
		h.api.Press(h.api.Messages(group.ID)[0], will, "dec_1:deny")
		h.pass(time.Second)
		h.expect("told", h.pressAnswers(), "Decision: allowed by tg:1001.")
		h.pass(time.Minute)
		h.expect("shown", h.shows(group.ID), decided.Text)
	})
}

func TestEdit_OfDeletedMessageIsSent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, _, _, lead := h.asked()
		h.api.Delete(h.api.Messages(group.ID)[0])
		reply(t, lead, group.ID, decided)
		h.pass(time.Minute)
		h.expect("shown", h.shows(group.ID), decided.Text)
		other := decided
		other.IdempotencyKey, other.Edits, other.Text = "e", "of nobody", "of nothing"
		reply(t, lead, group.ID, other)
		h.pass(time.Minute)
		h.expect("shown", h.shows(group.ID), decided.Text, "of nothing")
	})
}

// TestPress_RevealsUnconfirmedMessage checks that a press reveals the number of a message whose
// send got no answer.
func TestPress_RevealsUnconfirmedMessage(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		q := asking
		q.MayPress = nil
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutAfter})
		reply(t, lead, dm.ID, q)
		h.pass(time.Minute)
		if s := status(t, lead); s.Status != protocol.StatusUnknown {
			t.Fatalf("status %+v", s)
		}
		m := h.api.Messages(dm.ID)[0]
		h.api.Press(m, will, "dec_2:deny")
		h.pass(time.Second)
		h.api.Press(m, will, "dec_1:deny")
		if e := next(t, lead); e.Text != "dec_1:deny" {
			t.Errorf("heard %+v", e)
		}
		reply(t, lead, dm.ID, decided)
		h.pass(time.Minute)
		h.expect("shown", h.shows(dm.ID), decided.Text)
	})
}

func TestPress_InRevokedChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, _, lead := h.asked()
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.opts.AllowAll = false
		h.start()
		for lead.Pending() > 0 {
			status(t, lead)
		}
		h.api.Press(h.api.Messages(group.ID)[0], will, "dec_1:deny")
		h.pass(10 * time.Second)
		h.expect("told", h.pressAnswers(), "This bot is private and no longer serves this chat, so the button does nothing.")
		if lead.Pending() != 0 {
			t.Error("the agent heard of it")
		}
	})
}

// TestPress_BeforeEditIsAnsweredInWords checks that a press between another one and the edit that
// shows the outcome is answered with the earlier press, and still reaches the agent.
func TestPress_BeforeEditIsAnsweredInWords(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, _, lead := h.asked()
		q := asking
		q.IdempotencyKey, q.MayPress = "open", nil
		q.Buttons = []protocol.Button{{Text: "Soup", Value: "soup"}, {Text: "Salad", Value: "salad"}, {Text: "Both", Value: "both"}}
		reply(t, lead, group.ID, q)
		h.pass(10 * time.Second)
		first, open := h.api.Messages(group.ID)[0], h.api.Messages(group.ID)[1]
		mia, ann := h.api.User("Mia"), h.api.User("Ann")
		h.api.Press(open, mia, "soup")
		h.pass(2 * time.Second)
		h.api.Press(open, mia, "salad")
		h.api.Press(open, ann, "both")
		h.api.Press(first, will, "dec_1:deny")
		h.pass(2 * time.Second)
		h.api.Press(first, will, "dec_1:allow:once")
		h.pass(10 * time.Second)
		const soon = " The result is shown here in a moment."
		h.expect("told", h.pressAnswers(), "", "You have pressed “Soup” already."+soon, "Mia pressed “Soup” before you."+soon, "",
			"You have pressed “Deny” already."+soon)
		var heard []string
		for lead.Pending() > 0 {
			if d := lead.Next(t); d.Message.Type == protocol.TypeTGMessage {
				var m protocol.ChatMessage
				_ = d.Decode(&m)
				heard = append(heard, m.Text)
			}
		}
		h.expect("heard", heard, "soup", "salad", "both", "dec_1:deny", "dec_1:allow:once")
	})
}

// TestPress_AfterRefusedEditIsAnsweredWithOutcome checks that a press is answered with the outcome although
// Telegram refused the edit, and that the outcome is a separate message.
func TestPress_AfterRefusedEditIsAnsweredWithOutcome(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, _, lead := h.asked()
		m := h.api.Messages(group.ID)[0]
		h.api.Fail(tgtest.Fault{Method: "editMessageText", Status: 400, Description: "Bad Request: message can't be edited", Times: 1})
		reply(t, lead, group.ID, decided)
		h.pass(10 * time.Second)
		if got := h.shows(group.ID); len(got) != 2 || got[1] != decided.Text {
			t.Fatalf("shown %q", got)
		}
		h.api.Press(m, will, "dec_1:deny")
		h.pass(10 * time.Second)
		h.expect("told", h.pressAnswers(), "Decision: allowed by tg:1001.")
	})
}

// TestButtons_RefusedBecomeText checks that a question whose buttons Telegram refuses is shown with
// their texts.
func TestButtons_RefusedBecomeText(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		for i, refusal := range []string{"BUTTON_DATA_INVALID", "BUTTON_TYPE_INVALID", "REPLY_MARKUP_INVALID",
			"can't parse inline keyboard button: text is too long", "inline keyboard is not allowed here"} {
			h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: " + refusal, Times: 1})
			reply(t, lead, dm.ID, protocol.ChatReply{Text: fmt.Sprint("Which *one*? ", i), IdempotencyKey: fmt.Sprint("q", i),
				Buttons: []protocol.Button{{Text: "Soup", Value: "1"}, {Text: "Salad", Value: "2"}}})
			h.texts(dm.ID, i+1)
			if got := h.shows(dm.ID)[i]; got != fmt.Sprintf("Which one? %d\n\nReply to this message with one of: Soup, Salad", i) {
				t.Errorf("%s: shown %q", refusal, got)
			}
		}
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: BUTTON_DATA_INVALID", Skip: 1})
		long := strings.TrimSpace(strings.Repeat("word ", 818)) // without the choices, it fits into one message
		reply(t, lead, dm.ID, protocol.ChatReply{Text: long, IdempotencyKey: "long", Buttons: []protocol.Button{{Text: "Soup", Value: "1"}}})
		if got := h.texts(dm.ID, 7); !strings.HasSuffix(got[6], "word\n\nReply to this message with one of: Soup") {
			t.Errorf("a long question: shown %.40q, ..., %.80q", got[5], got[6])
		}
		if letters := h.deadLetters(); len(letters) != 0 {
			t.Errorf("dead letters %+v", letters)
		}
	})
}

// TestStop_ClosesQuestions checks that /stop removes the buttons of open questions and says so
// there. A press says so, too, and an agent's later additions change nothing.
func TestStop_ClosesQuestions(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		group, will, ann, lead := h.asked()
		q := asking
		q.Text, q.IdempotencyKey, q.MayPress = strings.Repeat("word ", 900)+"?", "long", nil
		reply(t, lead, group.ID, q)
		q.Text, q.IdempotencyKey = "Soup?", "soup"
		reply(t, lead, group.ID, q)
		h.pass(10 * time.Second)
		reply(t, lead, group.ID, protocol.ChatReply{Text: "Soup it is.", IdempotencyKey: "chosen", Edits: "soup"})
		h.pass(10 * time.Second)
		shown := h.api.Messages(group.ID)
		h.api.Say(group, ann, "/stop")
		h.pass(time.Minute)
		if m := next(t, lead); m.Text != "stop" || !slices.Equal(m.Mentions, []string{"agent:lead"}) {
			t.Errorf("heard %q for %q", m.Text, m.Mentions)
		}
		const note = "This chat was stopped, so nobody waits for an answer."
		got := h.shows(group.ID)
		if len(got) != 5 || got[0] != "lead asks to run shell\nMay it?\n\n"+note || got[2] != note || got[3] != "Soup it is." {
			t.Errorf("shown %q", got)
		}
		reply(t, lead, group.ID, decided)
		reply(t, lead, group.ID, protocol.ChatReply{Text: "too late", IdempotencyKey: "late"})
		h.api.Press(shown[0], will, "dec_1:deny")
		h.pass(10 * time.Second)
		h.expect("told", h.pressAnswers(), note)
		if got := h.shows(group.ID); len(got) != 5 || !strings.HasSuffix(got[0], note) {
			t.Errorf("shown at the end %q", got)
		}
	})
}

// TestStop_ClosesQuestionsBeingSent checks that /stop closes a question whose sending has begun: the
// question loses its buttons as soon as it is shown, and nothing is shown of one that Telegram refuses.
func TestStop_ClosesQuestionsBeingSent(t *testing.T) {
	for what, c := range map[string]struct {
		fault tgtest.Fault
		want  []string
	}{
		"shown later": {tgtest.Fault{}, []string{"lead asks to run shell\nMay it?\n\nThis chat was stopped, so nobody waits for an answer.", bridge.StopText("/", false)}},
		"refused":     {tgtest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 30}, []string{bridge.StopText("/", false)}},
	} {
		t.Run(what, func(t *testing.T) {
			withFixture(t, func(t *testing.T, h *fixture) {
				group, _, ann, lead := h.groupOfLead()
				hold := make(chan struct{})
				c.fault.Method, c.fault.Text, c.fault.Hold = "sendMessage", "May it?", hold
				h.api.Fail(c.fault)
				reply(t, lead, group.ID, asking)
				h.pass(time.Second)
				h.api.Say(group, ann, "/stop")
				h.pass(time.Second)
				close(hold)
				h.pass(time.Minute)
				shown := h.api.Messages(group.ID)
				h.expect("shown", h.shows(group.ID), c.want...)
				for _, m := range shown {
					if m.ReplyMarkup != nil {
						t.Errorf("%q has its buttons", m.Text)
					}
				}
			})
		})
	}
}
