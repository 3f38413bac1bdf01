package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/protocol"
)

// sticker returns a sticker, which comes with its emoji.
func sticker(id string) protocol.ChatMessage {
	m := dm(id, "👍")
	m.Attachments = []protocol.Attachment{{Kind: "sticker"}}
	return m
}

// TestDecision_IsMadeInWords checks that only a clear word of a person who may decide, in answer
// to the question, decides. The person's other messages while the question is open change
// nothing, and the chat explains how to decide.
func TestDecision_IsMadeInWords(t *testing.T) {
	to := func(m protocol.ChatMessage, source string) protocol.ChatMessage {
		m.ReplyTo = &protocol.ReplyTo{SourceID: source, Author: "agent:lead"}
		return m
	}
	mention := func(m protocol.ChatMessage, who ...string) protocol.ChatMessage {
		m.Mentions = who
		return m
	}
	reaction := func(emoji, signal string) protocol.ChatMessage {
		m := to(dm("2", emoji), "shown")
		m.Event, m.Signal = protocol.EventReaction, signal
		return m
	}
	for name, c := range map[string]struct {
		said      []protocol.ChatMessage
		want      string // of the decisions
		explained int    // times that the chat explained how to decide
		group     bool
	}{
		"yes please, at once": {[]protocol.ChatMessage{dm("2", "yes please")}, "allowed", 0, false},
		"in German":           {[]protocol.ChatMessage{dm("2", "Ja, gerne!")}, "allowed", 0, false},
		"in Hindi":            {[]protocol.ChatMessage{to(dm("2", "जी हाँ"), "shown")}, "allowed", 0, false},
		"a typed thumb":       {[]protocol.ChatMessage{dm("2", "👍🏾")}, "allowed", 0, false},
		"a check mark put on": {[]protocol.ChatMessage{reaction("✅", "done")}, "allowed", 0, false},
		"an OK put on":        {[]protocol.ChatMessage{reaction("👌", "")}, "allowed", 0, false},
		"a heart put on":      {[]protocol.ChatMessage{reaction("❤", "")}, "", 0, false},
		"a shrug put on":      {[]protocol.ChatMessage{reaction("🤷", "declined")}, "denied", 0, false},
		"no thanks":           {[]protocol.ChatMessage{dm("2", "no, thanks")}, "denied", 0, false}, "in Turkish": {[]protocol.ChatMessage{dm("2", "Hayır, olmaz")}, "denied", 0, false},
		"yes, but not yet":    {[]protocol.ChatMessage{dm("2", "yes, but not yet")}, "", 1, false},
		"a doubt, then a yes": {[]protocol.ChatMessage{dm("2", "maybe"), dm("3", "ok, go ahead")}, "allowed", 1, false},
		"a doubt, edited":     {[]protocol.ChatMessage{dm("2", "hmm"), edit(dm("2", ""), "yes", 1)}, "", 2, false},
		"wait":                {[]protocol.ChatMessage{dm("2", "ok wait"), dm("3", "wait")}, "", 2, false},
		"another matter":      {[]protocol.ChatMessage{dm("2", "what does make do?")}, "", 1, false},
		"a photo":             {[]protocol.ChatMessage{{SourceID: "2", Text: "yes", Chat: dm("", "").Chat, Author: dm("", "").Author, Attachments: []protocol.Attachment{{Kind: "photo"}}}}, "", 1, false},
		"a sticker, twice":    {[]protocol.ChatMessage{sticker("2"), sticker("3")}, "", 1, false}, "a sticker for nobody": {[]protocol.ChatMessage{sticker("2")}, "", 0, true},
		"to somebody else":     {[]protocol.ChatMessage{mention(dm("2", "@ann yes"), "user:ann")}, "", 0, true},
		"to another message":   {[]protocol.ChatMessage{to(dm("2", "yes"), "other")}, "", 0, false},
		"of a stranger":        {[]protocol.ChatMessage{by(to(dm("2", "yes"), "shown"), "66", "human")}, "", 0, true},
		"forwarded":            {[]protocol.ChatMessage{{SourceID: "2", Text: "yes", Forwarded: "Ann", Chat: dm("", "").Chat, Author: dm("", "").Author}}, "", 0, false},
		"a reply in a group":   {[]protocol.ChatMessage{to(dm("2", "Sí, claro"), "shown")}, "allowed", 0, true},
		"a mention in a group": {[]protocol.ChatMessage{mention(dm("2", "@lead да, давай"), "agent:lead")}, "allowed", 0, true},
		"a colon after it":     {[]protocol.ChatMessage{mention(dm("2", "@lead: yes"), "agent:lead")}, "allowed", 0, true}, "a colon, then a no": {[]protocol.ChatMessage{mention(dm("2", "@lead: 👎"), "agent:lead")}, "denied", 0, true}, "a colon, then a wink": {[]protocol.ChatMessage{mention(dm("2", "@lead ;) yes"), "agent:lead")}, "", 1, true},
		"for nobody in a group": {[]protocol.ChatMessage{dm("2", "yes"), dm("3", "yes")}, "", 1, true}, "for two in a group": {[]protocol.ChatMessage{mention(dm("2", "@lead @ann yes"), "agent:lead", "user:ann")}, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
				place := func(m protocol.ChatMessage) protocol.ChatMessage {
					if c.group {
						m.Chat = &protocol.Chat{ID: "42", Kind: "channel"}
					}
					return m
				}
				w.say(place(mention(dm("1", "@lead deploy"), "agent:lead")))
				w.sleep(10 * time.Second)
				asked := w.asked()
				w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{
					Status: protocol.StatusDelivered, IdempotencyKey: asked.IdempotencyKey, SourceID: "shown",
				})
				for _, m := range c.said {
					w.say(place(m))
					w.sleep(2500 * time.Millisecond)
				}
				w.sleep(10 * time.Second)
				states, explained, questions := []string(nil), 0, 0
				for _, v := range w.verdicts() {
					states = append(states, strings.Fields(v)[0])
				}
				for _, r := range w.replies {
					explained += strings.Count(r.Text, "decides nothing")
					questions += min(1, len(r.Buttons))
				}
				if strings.Join(states, " ") != c.want || ran != strings.Count(c.want, "allowed") || explained != c.explained || questions != 1 {
					t.Errorf("decided %q, ran %d times, asked %d times, told %d times how: %+v", states, ran, questions, explained, w.replies)
				}
			})
		})
	}
}

// TestDecision_AWordCanStillBeChanged covers words that are followed by others, edited or deleted.
func TestDecision_AWordCanStillBeChanged(t *testing.T) {
	gone := dm("2", "")
	gone.Event = protocol.EventDelete
	for name, c := range map[string]struct {
		then protocol.ChatMessage
		want string
	}{
		"a condition":   {dm("3", "but only on staging"), ""},
		"not yet":       {dm("3", "not yet though"), ""},
		"a no":          {dm("3", "no"), "denied tg:77 <nil>"},
		"please":        {dm("3", "yes please"), "allowed tg:77 once"},
		"a courtesy":    {dm("3", "bitte"), "allowed tg:77 once"},
		"an apology":    {dm("3", "sorry"), ""},
		"a thumb down":  {dm("3", "👎"), "denied tg:77 <nil>"},
		"edited":        {edit(dm("2", "yes"), "yesterday", 1), ""},
		"corrected":     {edit(dm("2", "yes"), "Yes!", 1), "allowed tg:77 once"},
		"deleted":       {gone, ""},
		"somebody else": {by(dm("3", "but only on staging"), "66", "human"), "allowed tg:77 once"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				w.say(dm("2", "yes"))
				w.sleep(time.Second)
				w.say(c.then)
				w.sleep(20 * time.Second)
				if got := strings.Join(w.verdicts(), ", "); got != c.want || ran != strings.Count(c.want, "allowed") {
					t.Errorf("decided %q and ran %d times; want %q", got, ran, c.want)
				}
			})
		})
	}
}

// TestDecision_AsksOnceForOneCall checks that a call is asked about once, even if the message is
// edited in between, whatever people say.
func TestDecision_AsksOnceForOneCall(t *testing.T) {
	ran := 0
	withFixture(t, newStub(sensitive(&ran)), &agent.Options{Approve: approving.Approve, ComposeCap: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		for i := range 5 {
			w.sleep(3 * time.Second)
			w.say(dm(fmt.Sprint("m", i), fmt.Sprint("and number ", i)))
		}
		w.say(edit(dm("1", ""), "deploy, please", 1))
		w.sleep(10 * time.Second)
		questions := slices.DeleteFunc(slices.Clone(w.replies), func(r protocol.ChatReply) bool { return len(r.Buttons) == 0 })
		if len(questions) != 1 || len(w.verdicts()) != 0 {
			t.Fatalf("asked %d times: %q", len(questions), w.verdicts())
		}
		w.say(dm("2", questions[0].Buttons[0].Value))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts()[:1], []string{"allowed tg:77 once"})
	})
}
