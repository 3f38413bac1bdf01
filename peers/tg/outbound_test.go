package tg_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/markdown"
	"hubbub/peers/peer"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// talk starts a bridge with one chat that talks to agent:lead. It returns the chat, the agent,
// and the sourceId of the user's message.
func (h *fixture) talk() (models.Chat, *bustest.Scripted, string) {
	h.t.Helper()
	will, dm := h.dm("Will")
	lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
	h.start()
	h.api.Say(dm, will, "hello")
	h.pass(time.Second)
	h.assign(dm.ID, "agent:lead")
	return dm, lead, next(h.t, lead).SourceID
}

func reply(t *testing.T, agent *bustest.Scripted, chat int64, r protocol.ChatReply) protocol.SendResult {
	t.Helper()
	return agent.Send(t, topic(chat), protocol.TypeTGReply, r)
}

func TestReplies_AreSentOnceInOrder(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		other := h.bus.Join(t, "agent:other", "agent:other")
		var want []string
		start := time.Now()
		for i := range 5 {
			text := fmt.Sprint("answer ", i)
			want = append(want, text)
			for range 2 { // the agent never received the acknowledgement
				if r := reply(t, lead, dm.ID, protocol.ChatReply{Text: text, IdempotencyKey: fmt.Sprint("k", i)}); r.DeliveredTo != 1 {
					t.Errorf("result %+v", r)
				}
			}
		}
		reply(t, other, dm.ID, protocol.ChatReply{Text: "another agent's key", IdempotencyKey: "k0"})
		want = append(want, "another agent's key")
		if got := h.texts(dm.ID, 6); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		calls := h.api.Calls("sendMessage")
		for i := 1; i < len(calls); i++ {
			if gap := calls[i].At.Sub(calls[i-1].At); gap < time.Second {
				t.Errorf("messages %d and %d are %v apart", i, i+1, gap)
			}
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("six messages took %v", d)
		}
		for i := range 5 {
			if s := status(t, lead); s.Status != protocol.StatusDelivered || s.IdempotencyKey != fmt.Sprint("k", i) || s.SourceID == "" || s.MessageID == "" {
				t.Errorf("status %d is %+v", i, s)
			}
		}
	})
}

func TestReplies_AreSplitAndFormatted(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		long := strings.Repeat(strings.Repeat("word ", 200)+"\n\n", 9) // 9,000 units
		reply(t, lead, dm.ID, protocol.ChatReply{Text: long, ReplyTo: source})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "bold", Status: 400, Description: "Bad Request: can't parse entities: oops"})
		d := lead.NewMessage(protocol.TypeTGReply, protocol.ChatReply{Text: "**bold**"})
		d.InReplyTo = "msg_nobody_sent_this"
		if r, err := lead.Peer.Send(t.Context(), topic(dm.ID), d); err != nil || r.DeliveredTo != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "*it* [x](https://a.example)"})
		got := h.texts(dm.ID, 5)
		for i, text := range got[:3] {
			if markdown.Units(text) > 4096 || strings.TrimSpace(text) != text {
				t.Errorf("part %d has %d units", i, markdown.Units(text))
			}
		}
		calls := h.api.Calls("sendMessage")
		if calls[0].Message.ReplyToMessage == nil || calls[1].Message.ReplyToMessage != nil {
			t.Error("not exactly the first part quotes")
		}
		if m := calls[3].Message; m.Text != "bold" || len(m.Entities) != 0 {
			t.Errorf("the fallback is %q with %v", m.Text, m.Entities)
		}
		if m := calls[4].Message; m.Text != "it x" || len(m.Entities) != 2 {
			t.Errorf("the formatted one is %q with %v", m.Text, m.Entities)
		}
		if s := status(t, lead); s.Status != protocol.StatusDelivered || s.TelegramMessageID != int64(calls[0].Message.ID) {
			t.Errorf("the long one's status is %+v", s)
		}
	})
}

func TestRetryAfter_SurvivesRestart(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 429, RetryAfter: 40, Description: "Too Many Requests: retry after 40"})
		start := time.Now()
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "patience"})
		if s := status(t, lead); s.Status != protocol.StatusAccepted || !strings.Contains(s.Reason, "429") {
			t.Errorf("status %+v", s)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.pass(5 * time.Second)
		h.start()
		h.texts(dm.ID, 1)
		if d := h.api.Calls("sendMessage")[0].At.Sub(start); d < 40*time.Second || d > 45*time.Second {
			t.Errorf("it was sent after %v", d)
		}
		if s := status(t, lead); s.Status != protocol.StatusDelivered {
			t.Errorf("status %+v", s)
		}
	})
}

func TestUnknownOutcome_IsNotRepeated(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutAfter})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "arrived, but unanswered", IdempotencyKey: "a"})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard, Skip: 0})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "lost on the way", IdempotencyKey: "b"})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 502, Times: 2})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "a 5xx is an answer", IdempotencyKey: "c"})
		h.pass(2 * time.Minute)
		if got := h.api.Texts(dm.ID); !slices.Equal(got, []string{"arrived, but unanswered", "a 5xx is an answer"}) {
			t.Errorf("sent %q", got)
		}
		got := map[string][]string{}
		for lead.Pending() > 0 {
			s := status(t, lead)
			got[s.IdempotencyKey] = append(got[s.IdempotencyKey], s.Status)
		}
		want := map[string][]string{"a": {"unknown"}, "b": {"unknown"}, "c": {"accepted", "delivered"}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("statuses %v, want %v", got, want)
		}
	})
}

// TestReaction_UnansweredIsRepeated also checks that the chat does not wait long for it.
func TestReaction_UnansweredIsRepeated(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		h.api.Fail(tgtest.Fault{Method: "setMessageReaction", Cut: tgtest.CutUnheard, Times: 2})
		reply(t, lead, dm.ID, protocol.ChatReply{Signal: "seen", InReplyTo: source, IdempotencyKey: "a"})
		for _, want := range []string{protocol.StatusAccepted, protocol.StatusDelivered} {
			if s := status(t, lead); s.Status != want || s.IdempotencyKey != "a" {
				t.Errorf("status %+v, want %s", s, want)
			}
		}
		h.api.Fail(tgtest.Fault{Method: "setMessageReaction", Cut: tgtest.CutUnheard, Times: 1000})
		reply(t, lead, dm.ID, protocol.ChatReply{Signal: "working", InReplyTo: source, IdempotencyKey: "b"})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "the answer"})
		h.texts(dm.ID, 1)
		for _, want := range []string{protocol.StatusAccepted, protocol.StatusUnknown} {
			if s := status(t, lead); s.Status != want || s.IdempotencyKey != "b" {
				t.Errorf("status %+v, want %s", s, want)
			}
		}
	})
}

func TestUnknownOutcome_IsRepeatedOnRequest(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.ResendUnknown = true
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard, Times: 2})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "stubborn"})
		h.texts(dm.ID, 1)
	})
}

func TestPermanentRefusal_IsDeadLetter(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: something is wrong with it"})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "refused"})
		if s := status(t, lead); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, "something is wrong") {
			t.Errorf("status %+v", s)
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "could not be shown") {
			t.Errorf("Will reads %q", got)
		}
		will := models.User{ID: dm.ID, FirstName: "Will"}
		h.api.Member(dm, will, tgtest.StatusMember, tgtest.StatusRemoved)
		h.pass(time.Second)
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "to somebody who blocked the bot"})
		if s := status(t, lead); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, "no longer in this chat") {
			t.Errorf("status %+v", s)
		}
		h.api.Member(dm, will, tgtest.StatusRemoved, tgtest.StatusMember)
		h.pass(time.Second)
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "welcome back"})
		h.texts(dm.ID, 2)
	})
}

func TestThrottle_GroupLimit(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.GroupPerMinute = 5
		will := h.api.User("Will")
		team := h.api.Group(-10, "Team")
		_, dm := h.dm("Ann")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(team, will, "hello")
		h.pass(time.Second)
		h.assign(team.ID, "agent:lead")
		for i := range 12 {
			reply(t, lead, team.ID, protocol.ChatReply{Text: fmt.Sprint(i)})
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "a direct chat does not wait for the group"})
		h.texts(team.ID, 12)
		var times []time.Time
		for _, c := range h.api.Calls("sendMessage") {
			if c.ChatID == team.ID {
				times = append(times, c.At)
			}
		}
		for i := 5; i < len(times); i++ {
			if d := times[i].Sub(times[i-5]); d < time.Minute {
				t.Errorf("messages %d to %d within %v", i-4, i+1, d)
			}
		}
		if at := h.api.Calls("sendMessage")[:6]; !slices.ContainsFunc(at, func(c tgtest.Call) bool { return c.ChatID == dm.ID }) {
			t.Error("the direct chat waited for the group")
		}
	})
}

func TestRetryAfter_InTwoChatsHoldsBot(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		_, a := h.dm("Ann")
		_, b := h.dm("Bob")
		_, c := h.dm("Cai")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", ChatID: a.ID, Status: 429, RetryAfter: 100})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", ChatID: b.ID, Status: 429, RetryAfter: 50})
		reply(t, lead, a.ID, protocol.ChatReply{Text: "a"})
		h.pass(time.Second)
		reply(t, lead, c.ID, protocol.ChatReply{Text: "c1"})
		h.texts(c.ID, 1)
		reply(t, lead, b.ID, protocol.ChatReply{Text: "b"})
		h.pass(time.Second)
		reply(t, lead, c.ID, protocol.ChatReply{Text: "c2"})
		h.pass(30 * time.Second)
		h.texts(c.ID, 1)
		h.texts(a.ID, 1)
		h.texts(b.ID, 1)
		h.texts(c.ID, 2)
	})
}

func TestTyping(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		typed := func() int { return len(h.api.Calls("sendChatAction")) }
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, InReplyTo: source})
		h.pass(13 * time.Second)
		if n := typed(); n != 4 {
			t.Errorf("typing was shown %d times in 13 s, want 4", n)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "done", InReplyTo: source})
		h.pass(time.Second)
		n := typed()
		h.pass(20 * time.Second)
		if typed() != n {
			t.Error("typing goes on after the reply")
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true})
		h.pass(time.Minute)
		reply(t, lead, dm.ID, protocol.ChatReply{Signal: "working", InReplyTo: source})
		h.pass(10 * time.Minute)
		if got := typed() - n; got != 75 {
			t.Errorf("one word of the agent lasts %d signs, want 75 (5 minutes), whatever else it signals", got)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true})
		reply(t, lead, dm.ID, protocol.ChatReply{})
		h.pass(time.Second)
		n = typed()
		if h.pass(20 * time.Second); typed() != n {
			t.Error("typing goes on after the agent said that it ends")
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true})
		lead.Leave()
		h.pass(time.Second)
		n = typed()
		if h.pass(20 * time.Second); typed() != n {
			t.Error("typing goes on after the agent left the bus")
		}
	})
}

// TestTyping_ManyAgents checks that every agent has an indicator, however many there are.
func TestTyping_ManyAgents(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		var chats []int64
		for range 12 { // the bot's limit allows three at a time
			will, dm := h.dm("Will")
			h.api.Say(dm, will, "hello")
			next(t, lead)
			chats = append(chats, dm.ID)
		}
		for _, chat := range chats {
			reply(t, lead, chat, protocol.ChatReply{Text: "hello"})
		}
		begun := time.Now()
		for _, chat := range chats {
			reply(t, lead, chat, protocol.ChatReply{Typing: true})
		}
		h.pass(13 * time.Second)
		for _, chat := range chats {
			var signs []time.Duration
			for _, c := range h.api.Calls("sendChatAction") {
				if c.ChatID == chat {
					signs = append(signs, c.At.Sub(begun).Round(time.Millisecond))
				}
			}
			if len(signs) < 3 || signs[0] > 2*time.Second {
				t.Errorf("in chat %d the agent was seen typing after %v", chat, signs)
			}
		}
	})
}

func TestSignals(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		w3 := h.bus.Join(t, "agent:w3", "agent:w3")
		react := func(a *bustest.Scripted, signal, want string) {
			t.Helper()
			reply(t, a, dm.ID, protocol.ChatReply{Signal: signal, InReplyTo: source})
			if s := status(t, a); s.Status != protocol.StatusDelivered {
				t.Errorf("%s: %+v", signal, s)
			}
			if got := h.api.Reactions(dm.ID, 1); !slices.Equal(got, []string{want}) {
				t.Errorf("after %s: %q, want %q", signal, got, want)
			}
		}
		for _, s := range [][2]string{{"seen", "👀"}, {"agree", "👍"}, {"working", "👨‍💻"}, {"queued", "✍"}, {"claimed", "🫡"}, {"done", "👌"},
			{"declined", "🤷"}, {"blocked", "😨"}, {"unclear", "🤔"}} {
			react(lead, s[0], s[1])
		}
		react(w3, "seen", "🤔") // the other signal implies it
		react(w3, "declined", "🤔")
		if got := h.texts(dm.ID, 1); got[0] != "🤷 w3: declined" {
			t.Errorf("the line is %q", got)
		}
		if m := h.api.Calls("sendMessage")[0].Message; m.ReplyToMessage == nil || m.ReplyToMessage.ID != 1 {
			t.Errorf("the line is no answer to its message: %+v", m.ReplyToMessage)
		}
		h.api.Fail(tgtest.Fault{Method: "setMessageReaction", Status: 400, Description: "Bad Request: REACTION_INVALID"})
		react(lead, "done", "🤔")
		if got := h.texts(dm.ID, 2); got[1] != "👌 lead: done" {
			t.Errorf("the line is %q", got)
		}
		for _, bad := range []protocol.ChatReply{
			{Signal: "shrug", InReplyTo: source}, {Signal: "seen"}, {Text: "x", InReplyTo: "tg:999:1001:1"}, {Text: "x", ThreadID: "seven"}, {Text: " \n\t"},
		} {
			if r := reply(t, lead, dm.ID, bad); len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeRejected {
				t.Errorf("%+v gave %+v", bad, r)
			}
		}
		for _, bad := range []protocol.Topic{"tg:5000", "tg:team", "tg:123456"} {
			h.opts.AllowAll = false
			if r := lead.Send(t, bad, protocol.TypeTGReply, protocol.ChatReply{Text: "x"}); bad != "tg:5000" && len(r.Failures) != 1 {
				t.Errorf("%s gave %+v", bad, r)
			}
		}
	})
}

// broker answers claim.get with the given claims.
func (h *fixture) broker(t *testing.T, claims map[string]any) *bustest.Scripted {
	t.Helper()
	k := h.bus.Join(t, protocol.PeerBroker, "collab:*")
	k.Refuse(func(d *peer.Delivery) error {
		var r protocol.CollabRequest
		var p struct{ EventID string }
		if d.Message.Type != protocol.TypeCollabRequest || d.Decode(&r) != nil || json.Unmarshal(r.Params, &p) != nil {
			return nil
		}
		result, _ := json.Marshal(map[string]any{"claim": claims[p.EventID]})
		m := k.NewMessage(protocol.TypeCollabResult, protocol.CollabResult{RequestID: r.RequestID, OK: true, Result: result})
		go func() { _, _ = k.Peer.Send(context.Background(), d.Message.From.Topic(), m) }()
		return nil
	})
	return k
}

// team creates a group in which Will has said hello and two agents received it.
func (h *fixture) team() (group models.Chat, will models.User, w3, w4 *bustest.Scripted) {
	h.t.Helper()
	will, group = h.api.User("Will"), h.api.Group(-10, "Team")
	w3, w4 = h.bus.Join(h.t, "agent:w3", "agent:w3"), h.bus.Join(h.t, "agent:w4", "agent:w4")
	h.start()
	h.api.Say(group, will, "hello")
	h.pass(time.Second)
	h.assign(group.ID, "agent:w3")
	h.assign(group.ID, "agent:w4")
	return group, will, w3, w4
}

func TestClaims(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		alone := next(t, w3).SourceID // w4 joins later
		h.api.Say(team, will, "@backend-agents who can look?")
		role := next(t, w3).SourceID
		next(t, w4)
		h.api.Say(team, will, "@backend-agents once more")
		edited := next(t, w3).SourceID
		next(t, w4)
		h.api.Say(team, will, "@w4 you")
		mention := next(t, w3).SourceID
		next(t, w4)
		var others []string
		for range 3 {
			h.api.Say(team, will, "@backend-agents again")
			others = append(others, next(t, w3).SourceID)
			next(t, w4)
		}
		named, closed, offered := others[0], others[1], others[2]
		answer := func(a *bustest.Scripted, to string, token int64) protocol.DeliveryStatus {
			t.Helper()
			r := protocol.ChatReply{Text: "answer", InReplyTo: to}
			if token > 0 {
				r.Claim = &protocol.ReplyClaim{EventID: to, Token: token}
				r.InReplyTo = protocol.SourceOfEvent(to)
			}
			reply(t, a, team.ID, r)
			return status(t, a)
		}
		if s := answer(w3, role, 0); s.Status != protocol.StatusDelivered {
			t.Errorf("without a broker: %+v", s)
		}
		claims := map[string]any{
			role:                            map[string]any{"owner": "w3", "token": 7},
			named:                           map[string]any{"owner": "w4", "ownerIdentity": "agent:w3", "token": 3, "state": "held"},
			closed:                          map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 4, "state": "answered"},
			offered:                         map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 5, "state": "offered"},
			protocol.EditEventID(edited, 1): map[string]any{"owner": "w3", "token": 2},
		}
		h.broker(t, claims)
		for _, test := range []struct {
			name  string
			agent *bustest.Scripted
			to    string
			token int64
			want  string
		}{
			{"only one agent got it", w3, alone, 0, ""},
			{"it names the agent", w4, mention, 0, ""},
			{"it names another agent", w3, mention, 0, "needs a claim"},
			{"another agent holds it", w4, role, 0, "held by w3"},
			{"an old claim", w4, role, 6, "stale"},
			{"another's claim", w4, role, 7, "held by w3"},
			{"a claim that nobody gave", w3, role, 8, "was never granted"},
			{"the holder does not show its claim", w3, role, 0, "present the claim's token"},
			{"the holder", w3, role, 7, ""},
			{"its name is another identity's", w4, named, 3, "held by"},
			{"the identity that holds it", w3, named, 3, ""},
			{"another answered it", w4, closed, 0, "answered by w3"},
			{"the one who answered says more", w3, closed, 4, ""},
			{"it was given back", w4, offered, 0, "needs a claim"},
			{"the holder of the claim on an edit", w3, protocol.EditEventID(edited, 1), 2, ""},
			{"an old claim on an edit", w4, protocol.EditEventID(edited, 1), 1, "stale"},
		} {
			s := answer(test.agent, test.to, test.token)
			if test.want == "" && s.Status != protocol.StatusDelivered ||
				test.want != "" && (s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, test.want)) {
				t.Errorf("%s: %+v, want %q", test.name, s, test.want)
			}
		}
	})
}

func TestTyping_ObeysRetryAfter(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendChatAction", Status: 429, RetryAfter: 60, Description: "Too Many Requests: retry after 60"})
		from := time.Now()
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, InReplyTo: source})
		h.pass(29 * time.Second)
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, InReplyTo: source})
		h.pass(28 * time.Second)
		if n := len(h.api.Calls("sendChatAction")); n != 0 {
			t.Errorf("typing was shown %d times while Telegram asked for none", n)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, InReplyTo: source})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "patience"})
		h.texts(dm.ID, 1)
		if got := h.api.Calls("sendMessage")[0].At.Sub(from); got < 60*time.Second {
			t.Errorf("a message was sent after %s, and Telegram asked for 60 s", got)
		}
	})
}

func TestReaction_FailureCausesNoNotice(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		h.api.Fail(tgtest.Fault{Method: "setMessageReaction", Status: 400, Description: "Bad Request: message to react not found"})
		reply(t, lead, dm.ID, protocol.ChatReply{Signal: "seen", InReplyTo: source})
		if s := status(t, lead); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, "not found") {
			t.Errorf("status %+v", s)
		}
		h.texts(dm.ID, 0)
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "gone", Status: 400, Description: "Bad Request: chat not found"})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "gone"})
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "could not be shown") {
			t.Errorf("of an answer that is lost Will reads %q", got)
		}
	})
}
