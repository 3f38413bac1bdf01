package tg_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/outbox"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

func TestCommands_DescribeChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		team := h.api.Group(-10, "Team")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		h.start()
		h.pass(time.Second)
		said := 0
		command := func(text string) string {
			t.Helper()
			h.api.Say(dm, will, text)
			said++
			return h.texts(dm.ID, said)[said-1]
		}
		is := func(text, want string) {
			t.Helper()
			if got := command(text); got != want {
				t.Errorf("%s says %q, want %q", text, got, want)
			}
		}
		const empty = "There is no agent yet. Your first message starts one."
		const nothing = "\n\nMessages waiting for an agent: 0\nAnswers waiting for Telegram: 0"
		is("/halt", "There is no agent in this chat.")
		is("/pair", "This chat already has access. To give a group access, add the bot to it and send /pair CODE there.")
		is("/pair ABCD", "This chat already has access.")
		is("/agents", empty)
		is("/status", empty+nothing)
		is("/stop", "Stopped. The agents don't see messages from here and don't answer until you send /start.")
		is("/stop", "This chat is already stopped. Send /start to continue.")
		is("/status", empty+nothing+"\nThis chat is stopped. Send /start to continue.")
		is("/start", "This chat is running again. The agents see your messages.")
		if system.Pending() != 0 {
			t.Error("an agent is asked for, and nobody wrote to one")
		}
		h.api.Say(team, will, "/pair")
		if got := h.texts(team.ID, 1); got[0] != "This chat already has access." {
			t.Errorf("the group reads %q", got)
		}
		h.api.Say(dm, will, "hello")
		r := request(t, system)
		system.Send(t, r.Topic, protocol.TypeSpawnResult, protocol.SpawnResult{RequestID: r.RequestID, Status: protocol.SpawnFailed, Error: "no memory"})
		said++ // it is notified
		h.texts(dm.ID, said)
		is("/status", empty+"\n\nMessages waiting for an agent: 1\nAnswers waiting for Telegram: 0\nTrouble: no memory")
		h.assign(dm.ID, "agent:away")
		is("/agents", "Agents of this chat:\n• @away, not reached yet")
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: no"})
		h.api.Say(dm, will, "/agents") // gets no answer
		h.pass(5 * time.Second)
		const lost = "\nAnswers waiting for Telegram: 0\nAnswers that may not have arrived: 1"
		if got := command("/status"); !strings.HasPrefix(got, "Agents of this chat:\n• @away, not reached yet\n\n") || !strings.HasSuffix(got, lost) {
			t.Errorf("/status says %q", got)
		}
	})
}

// TestMenu_IsPublishedAgainAfterRefusal also checks that the bridge works without the menu.
func TestMenu_IsPublishedAgainAfterRefusal(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.api.Fail(tgtest.Fault{Method: "setMyCommands", Status: 400})
		h.start()
		h.pass(time.Minute)
		h.api.Say(dm, will, "/agents")
		h.texts(dm.ID, 1)
		if !h.log.has("menu not accepted") || len(h.api.Calls("setMyCommands")) != 0 {
			t.Error("the log does not say that the menu was refused")
		}
		for range 2 {
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			h.start()
			h.pass(time.Second)
			if n := len(h.api.Calls("setMyCommands")); n != 1 {
				t.Errorf("the menu was taken %d times", n)
			}
		}
	})
}

// TestReply_InvalidIsRejected also checks that replies at the limits are accepted.
func TestReply_InvalidIsRejected(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		for _, c := range []struct {
			to      protocol.Topic
			content any
			why     string
		}{
			{topic(dm.ID), map[string]int{"text": 7}, "the content of this tg_reply cannot be read"},
			{topic(dm.ID), protocol.ChatReply{Text: strings.Repeat("x", 64<<10+1)}, "the text has 65537 bytes; at most 65536 are allowed"},
			{topic(dm.ID), protocol.ChatReply{Typing: true, Draft: strings.Repeat("x", protocol.MaxDraft+1)}, "the draft has 4001 bytes; at most 4000 are shown"},
			{topic(dm.ID), protocol.ChatReply{Text: "x", ThreadID: "-1"}, `threadId "-1" is not a number`},
			{topic(dm.ID), protocol.ChatReply{Text: "x", ReplyTo: "tg:999:1:1"}, "tg:999:1:1 is a message of another bot"},
			{topic(123456), protocol.ChatReply{Text: "x"}, "this is the bot itself; the address of a chat is tg:<chat id>"},
			{"tg:team", protocol.ChatReply{Text: "x"}, "is not a Telegram chat"},
		} {
			r := lead.Send(t, c.to, protocol.TypeTGReply, c.content)
			if len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeRejected || !strings.Contains(r.Failures[0].Error, c.why) {
				t.Errorf("%q: %+v", c.why, r.Failures)
			}
		}
		for _, taken := range []protocol.ChatReply{
			{Text: strings.Repeat("x", 64<<10)}, {Typing: true, Draft: strings.Repeat("x", protocol.MaxDraft), InReplyTo: source}, {Text: "x", ThreadID: "0"},
		} {
			if r := reply(t, lead, dm.ID, taken); r.DeliveredTo != 1 {
				t.Errorf("%.20q%.20q: %+v", taken.Text, taken.Draft, r)
			}
		}
		h.texts(dm.ID, 17) // 16 of 4,096 characters, and the last one
	})
}

// TestReply_ToUnadmittedChatIsRejected covers known and unknown chats.
func TestReply_ToUnadmittedChatIsRejected(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		ann, annDM := h.dm("Ann")
		h.opts.AllowAll, h.opts.AllowUsers, h.opts.AllowChats = false, []int64{will.ID}, []int64{-10}
		team := h.api.Group(-10, "Team")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		if r := reply(t, lead, annDM.ID, protocol.ChatReply{Text: "x"}); len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Error, fmt.Sprintf("this bot has no chat %d", annDM.ID)) {
			t.Errorf("a stranger's chat: %+v", r)
		}
		h.api.Say(annDM, ann, "/start") // now the chat is known
		h.texts(annDM.ID, 1)
		reply(t, lead, annDM.ID, protocol.ChatReply{Text: "x"})
		if s := status(t, lead); s.Status != protocol.StatusFailed || s.Reason != "this chat is no longer admitted" {
			t.Errorf("a stranger's chat that is known: %+v", s)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "first"}) // a chat without any message
		reply(t, lead, team.ID, protocol.ChatReply{Text: "first"})
		h.texts(dm.ID, 1)
		h.texts(team.ID, 1)
		var kinds string
		if err := storetest.Scan(h.db, []any{&kinds}, `SELECT group_concat(kind, ' ') FROM (SELECT kind FROM chats WHERE chat <> ? ORDER BY chat)`, annDM.ID); err != nil || kinds != "supergroup private" {
			t.Errorf("the chats are %q, %v", kinds, err)
		}
	})
}

// TestReply_FullQueueIsRejected checks that an agent's reply is refused for now, and that the
// bridge's own texts are dropped, so that no update waits for them.
func TestReply_FullQueueIsRejected(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.MaxPending = 8 // a quarter of it for each chat
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 429, RetryAfter: 60})
		for i, want := range []int{1, 1, 0} {
			r := reply(t, lead, dm.ID, protocol.ChatReply{Text: fmt.Sprint(i)})
			if r.DeliveredTo != want || want == 0 && (r.Failures[0].Status == protocol.OutcomeRejected || !strings.Contains(r.Failures[0].Error, "too many replies are waiting for Telegram; try again later")) {
				t.Errorf("reply %d: %+v", i, r)
			}
		}
		h.api.Say(dm, h.api.User("Will"), "/help")
		h.pass(2 * time.Second)
		if s := h.states(); s["new"] != 0 || s["skipped"] != 1 {
			t.Errorf("the states are %v", s)
		}
		if got := h.texts(dm.ID, 2); !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("sent %q", got)
		}
	})
}

// TestReaction_FallsBackToText also checks that an invalid reaction is not set.
func TestReaction_FallsBackToText(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		for why, about := range map[string]string{
			"is not a Telegram message, so it cannot get a reaction": "elsewhere", "tg:123456:999:1 is not in this chat": "tg:123456:999:1",
		} {
			reply(t, lead, dm.ID, protocol.ChatReply{Signal: "done", InReplyTo: about})
			if s := status(t, lead); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, why) {
				t.Errorf("about %s: %+v", about, s)
			}
		}
		for i, words := range []string{"REACTION_EMPTY", "not enough rights to react", "message can't be reacted to"} {
			h.api.Fail(tgtest.Fault{Method: "setMessageReaction", Status: 400, Description: "Bad Request: " + words})
			reply(t, lead, dm.ID, protocol.ChatReply{Signal: "done", InReplyTo: source})
			if got := h.texts(dm.ID, i+1); got[i] != "👌 lead: done" {
				t.Errorf("%s: %q", words, got)
			}
		}
		// Any other signal replaces "seen", whichever agent sets it. A repetition makes no call.
		w3 := h.bus.Join(t, "agent:w3", "agent:w3")
		for _, c := range []struct {
			agent  *bustest.Scripted
			signal string
		}{{lead, "seen"}, {w3, "seen"}, {lead, "seen"}, {w3, "working"}, {w3, "working"}} {
			reply(t, c.agent, dm.ID, protocol.ChatReply{Signal: c.signal, InReplyTo: source})
			h.pass(3 * time.Second)
		}
		if got := h.api.Calls("setMessageReaction"); len(got) != 2 || len(h.api.Texts(dm.ID)) != 3 {
			t.Errorf("%d reactions were set, and the chat reads %q", len(got), h.api.Texts(dm.ID))
		}
		if got := h.api.Reactions(dm.ID, 1); !slices.Equal(got, []string{"👨‍💻"}) {
			t.Errorf("the reaction is %q", got)
		}
	})
}

func TestVisibility_PrivateReplyIsNotShownToGroup(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, _ := h.team()
		dm := h.api.DM(will)
		for i, visibility := range []string{"dm", "ephemeral"} {
			reply(t, w3, team.ID, protocol.ChatReply{Text: "x", Visibility: visibility})
			if s := status(t, w3); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, `the visibility "`+visibility+`" would be seen by everybody`) {
				t.Errorf("%s: %+v", visibility, s)
			}
			reply(t, w3, dm.ID, protocol.ChatReply{Text: "x", Visibility: visibility})
			h.texts(dm.ID, i+1)
			if s := status(t, w3); s.Status != protocol.StatusDelivered {
				t.Errorf("%s, to a direct chat: %+v", visibility, s)
			}
		}
		said := len(h.api.Texts(team.ID))
		reply(t, w3, team.ID, protocol.ChatReply{Text: "for all", Visibility: "channel"})
		if got := h.texts(team.ID, said+1); got[said] != "for all" {
			t.Errorf("the group reads %q", got)
		}
	})
}

// TestRemoval_IsLearntFromRefusal checks that a refusal closes the chat until a message arrives
// from it, and that other refusals concern only their message.
func TestRemoval_IsLearntFromRefusal(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will, _ := h.dm("Will")
		will.ID = dm.ID
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "one", Status: 403, Description: "Forbidden: TOPIC_CLOSED"})
		for _, text := range []string{"one", "two"} {
			reply(t, lead, dm.ID, protocol.ChatReply{Text: text})
		}
		h.pass(10 * time.Second)
		if got := h.api.Texts(dm.ID); !slices.Contains(got, "two") {
			t.Errorf("sent %q", got)
		}
		for i, words := range []string{
			"bot was blocked by the user", "bot was kicked from the supergroup chat", "user is deactivated", "bot is not a member of the channel chat",
			"the group chat was deleted", "bot can't initiate conversation with a user",
		} {
			h.api.Fail(tgtest.Fault{Method: "sendMessage", Text: "three", Status: 403, Description: "Forbidden: " + words})
			reply(t, lead, dm.ID, protocol.ChatReply{Text: fmt.Sprint("three ", i)})
			h.pass(5 * time.Second)
			reply(t, lead, dm.ID, protocol.ChatReply{Text: "four"})
			h.pass(5 * time.Second)
			last := ""
			for lead.Pending() > 0 {
				last = status(t, lead).Reason
			}
			if last != "the bot is no longer in this chat" || slices.Contains(h.api.Texts(dm.ID), "four") {
				t.Errorf("after %q: %q, and the chat reads %q", words, last, h.api.Texts(dm.ID))
			}
			h.api.Say(dm, will, "I am here")
			next(t, lead)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "five"})
		h.pass(5 * time.Second)
		if got := h.api.Texts(dm.ID); got[len(got)-1] != "five" {
			t.Errorf("sent %q", got)
		}
	})
}

func TestReply_EmptyMarkdownIsShownAsWritten(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		const definition = "[site]: https://a.example"
		reply(t, lead, dm.ID, protocol.ChatReply{Text: definition})
		if got := h.texts(dm.ID, 1); got[0] != definition {
			t.Errorf("sent %q", got)
		}
	})
}

// TestReplyToNotice_IsForFirstAgent checks replies to the bridge's own messages, which the bot
// has written.
func TestReplyToNotice_IsForFirstAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		next(t, w3)
		h.api.Say(team, will, "/agents")
		h.texts(team.ID, 1)
		h.api.Reply(h.api.Calls("sendMessage")[0].Message, will, "who is first?")
		for _, agent := range []*bustest.Scripted{w3, w4} {
			if c := next(t, agent); c.ReplyTo == nil || c.ReplyTo.Author != "agent:w3" {
				t.Errorf("the answer is to %+v", c.ReplyTo)
			}
		}
		if s := h.states(); s["skipped"] != 1 || s["done"] != 2 {
			t.Errorf("the states are %v", s)
		}
	})
}

func TestQueue_DescribesItems(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will, _ := h.dm("Will")
		will.ID = dm.ID
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Delay: 5 * time.Second})
		m := lead.NewMessage(protocol.TypeTGReply, protocol.ChatReply{Text: "an answer"})
		if _, err := lead.Peer.Send(t.Context(), topic(dm.ID), m); err != nil {
			t.Fatal(err)
		}
		lead.Leave()
		h.api.Say(dm, will, "a question")
		h.pass(8 * time.Second)
		var got []string
		for _, l := range h.letters(outbox.StatePending, outbox.StateSending) {
			got = append(got, fmt.Sprintf("%s %d: %s%s", l.queue.Name, l.queue.Bot, l.agent, l.text))
		}
		slices.Sort(got)
		if want := []string{"agents 123456: a question", fmt.Sprintf("status 123456: %s is delivered", m.MessageID)}; !slices.Equal(got, want) {
			t.Errorf("the operator sees %q, want %q", got, want)
		}
	})
}
