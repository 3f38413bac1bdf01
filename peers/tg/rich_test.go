package tg_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

const (
	tableText  = "As asked:\n\n| what | n |\n|---|---:|\n| **milk** | 2 |"
	tableRich  = "As asked:\nwhat n \nmilk 2"
	tablePlain = "As asked:\n\nwhat | n\n-----+--\nmilk | 2"
)

// TestTable_IsRichMessage covers a message, a growing draft and an edit. A server without rich
// messages is asked once, and a refused rich message is sent as text, unless the refusal has
// another reason.
func TestTable_IsRichMessage(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  tgtest.Fault
		noRich bool
		want   []string // methods of the calls that took effect or were refused permanently
		shown  string
	}{
		{"taken", tgtest.Fault{}, false, []string{"sendRichMessageDraft", "sendRichMessage", "editMessageText", "sendRichMessage"}, tableRich},
		{"not known", tgtest.Fault{Method: "sendRichMessageDraft", Status: http.StatusNotFound, Times: -1}, false, []string{"sendMessageDraft", "sendMessage", "editMessageText", "sendMessage"}, tablePlain},
		{"message not known", tgtest.Fault{Method: "sendRichMessage", Status: http.StatusNotFound, Times: 1}, false, []string{"sendRichMessageDraft", "sendMessage", "editMessageText", "sendMessage"}, tablePlain},
		{"refused once", tgtest.Fault{Method: "sendRichMessage", Status: http.StatusBadRequest, Times: 1}, false, []string{"sendRichMessageDraft", "sendMessage", "editMessageText", "sendRichMessage"}, tablePlain},
		{"edit refused", tgtest.Fault{Method: "editMessageText", Status: http.StatusBadRequest, Times: 1}, false, []string{"sendRichMessageDraft", "sendRichMessage", "editMessageText", "sendRichMessage"}, tableRich},
		{"busy", tgtest.Fault{Method: "sendRichMessage", Status: http.StatusTooManyRequests, RetryAfter: 1, Times: 1}, false, []string{"sendRichMessageDraft", "sendRichMessage", "editMessageText", "sendRichMessage"}, tableRich},
		{"not wanted", tgtest.Fault{}, true, []string{"sendMessageDraft", "sendMessage", "editMessageText", "sendMessage"}, tablePlain},
	} {
		t.Run(c.name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, h *fixture) {
				h.opts.NoRich = c.noRich
				dm, lead, source := h.talk()
				h.pass(5 * time.Second)
				if c.fault.Status != 0 {
					h.api.Fail(c.fault)
				}
				reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, Draft: tableText, InReplyTo: source})
				h.pass(3 * time.Second)
				reply(t, lead, dm.ID, protocol.ChatReply{Text: tableText, IdempotencyKey: "one"})
				h.pass(10 * time.Second)
				reply(t, lead, dm.ID, protocol.ChatReply{Text: tableText + "\n| tea | 1 |", Edits: "one", IdempotencyKey: "two"})
				h.pass(10 * time.Second)
				reply(t, lead, dm.ID, protocol.ChatReply{Text: tableText, IdempotencyKey: "three"})
				h.pass(10 * time.Second)
				var methods []string
				for _, call := range h.api.Calls("sendMessageDraft", "sendRichMessageDraft", "sendMessage", "sendRichMessage", "editMessageText") {
					methods = append(methods, call.Method)
				}
				h.expect("calls", slices.Compact(methods), c.want...)
				if first := h.api.Texts(dm.ID)[0]; first != c.shown {
					t.Errorf("shown %q, want %q", first, c.shown)
				}
				edited := h.api.Messages(dm.ID)[0].Text
				if want := c.want[3] == "sendRichMessage" && c.name != "edit refused"; strings.HasSuffix(edited, "\ntea 1") != want || !strings.Contains(edited, "tea") {
					t.Errorf("edited to %q", edited)
				}
			})
		})
	}
}

// TestTable_AtLimits checks that a larger table is sent as text without a refused call.
func TestTable_AtLimits(t *testing.T) {
	wide := func(columns int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("|x", columns) + "|"
	}
	long := func(rows int) string { return "|a|\n|-|\n" + strings.Repeat("|x|\n", rows-1) }
	deep := func(quotes int) string { return strings.Repeat(">", quotes) + " x\n\n|a|\n|-|" }
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		for i, text := range []string{wide(20), wide(21), long(499), long(500), deep(15), deep(16)} {
			reply(t, lead, dm.ID, protocol.ChatReply{Text: text, IdempotencyKey: fmt.Sprint(i)})
			h.pass(10 * time.Second)
		}
		var methods []string
		for _, call := range h.api.Calls("sendMessage", "sendRichMessage") {
			methods = append(methods, call.Method)
		}
		h.expect("calls", methods, "sendRichMessage", "sendMessage", "sendRichMessage", "sendMessage", "sendRichMessage", "sendMessage")
	})
}
