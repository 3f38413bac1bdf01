package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/protocol"
)

// TestFragments_OfGroupAreOneTurn plays messages of a channel. Will's messages near his mention
// are fragments of it unless they address somebody else.
func TestFragments_OfGroupAreOneTurn(t *testing.T) {
	file := []protocol.Attachment{{Kind: "photo", Name: "oven.jpg"}}
	type said struct {
		text  string
		after time.Duration // the previous message
		m     protocol.ChatMessage
	}
	long := strings.Repeat("the oven hums ", 300)
	other := by(post("", ""), "78", "human")
	for name, c := range map[string]struct {
		said []said
		want string // the parts of each turn
	}{
		"a name alone, then the question":    {[]said{{text: "@lead"}, {text: "how long?", after: 800 * time.Millisecond}}, "@lead|how long?"},
		"a name alone waits longer":          {[]said{{text: "@lead:"}, {text: "how long?", after: 4 * time.Second}}, "@lead:|how long?"},
		"two fragments after it":             {[]said{{text: "@lead what"}, {text: "about"}, {text: "the oven", after: time.Second}}, "@lead what|about|the oven"},
		"a text that the chat has split":     {[]said{{text: "@lead " + long}, {text: long}, {text: "so what now?"}}, "@lead " + long + "|" + long + "|so what now?"},
		"the mention at its end":             {[]said{{text: long}, {text: long}, {text: "what now, @lead?"}}, long + "|" + long + "|what now, @lead?"},
		"a forward after a comment":          {[]said{{text: "@lead is that so?"}, {text: "> the gate is closed", m: protocol.ChatMessage{Forwarded: "Mia"}}}, "@lead is that so?|> the gate is closed"},
		"a forward before it":                {[]said{{text: "> closed", m: protocol.ChatMessage{Forwarded: "Mia"}}, {text: "@lead is that so?", after: time.Second}}, "> closed|@lead is that so?"},
		"a file after a question":            {[]said{{text: "@lead what is this?"}, {after: 6 * time.Second, m: protocol.ChatMessage{Attachments: file}}}, "@lead what is this?;|"},
		"a file before a question":           {[]said{{m: protocol.ChatMessage{Attachments: file}}, {text: "@lead what is this?", after: 8 * time.Second}}, "||@lead what is this?"},
		"a place after a question":           {[]said{{text: "@lead how far?"}, {text: "[location: 1, 2]", after: 6 * time.Second}}, "@lead how far?;[location: 1, 2]"},
		"a poll after a question":            {[]said{{text: "@lead your vote?"}, {text: "[poll: When?]\n1. Mon\n2. Tue", after: 8 * time.Second}}, "@lead your vote?;[poll: When?]\n1. Mon\n2. Tue"},
		"a contact before a question":        {[]said{{text: "[contact: Zoe 123]"}, {text: "@lead who is that?", after: 7 * time.Second}}, "[contact: Zoe 123]|@lead who is that?"},
		"forwards, then a typed question":    {[]said{{text: "> closed", m: protocol.ChatMessage{Forwarded: "Mia"}}, {text: "> open", m: protocol.ChatMessage{Forwarded: "Zoe"}}, {text: "@lead who is right?", after: 9 * time.Second}}, "> closed|> open|@lead who is right?"},
		"a forward found after a question":   {[]said{{text: "@lead is that so?"}, {text: "> closed", after: 8 * time.Second, m: protocol.ChatMessage{Forwarded: "Mia"}}}, "@lead is that so?;> closed"},
		"a forward of long before":           {[]said{{text: "> closed", m: protocol.ChatMessage{Forwarded: "Mia"}}, {text: "@lead what now?", after: 15 * time.Second}}, "@lead what now?"},
		"another person writes between":      {[]said{{text: "@lead what"}, {text: "lunch?", m: other}, {text: "about the oven"}}, "@lead what|about the oven"},
		"what is for another person":         {[]said{{text: "@lead what now?"}, {text: "@dave open please"}}, "@lead what now?"},
		"what comes later":                   {[]said{{text: "@lead what now?"}, {text: "nice weather", after: 5 * time.Second}}, "@lead what now?"},
		"what came long before":              {[]said{{text: "nice weather"}, {text: "@lead what now?", after: 5 * time.Second}}, "@lead what now?"},
		"what was written long before it":    {[]said{{text: "lunch", m: protocol.ChatMessage{CreatedAt: "1999-12-31T09:00:00Z"}}, {text: "@lead now?", m: protocol.ChatMessage{CreatedAt: "1999-12-31T11:00:00Z"}}}, "@lead now?"},
		"thanks are no part of it":           {[]said{{text: "@lead what now?"}, {text: "thanks"}}, "@lead what now?"},
		"what another person says before it": {[]said{{text: "the oven hums", m: other}, {text: "@lead what now?"}}, "@lead what now?"},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(answering("here")), &agent.Options{}, func(t *testing.T, w *fixture) {
				for i, s := range c.said {
					w.sleep(s.after + 100*time.Millisecond)
					m := s.m
					plain := post(fmt.Sprint("e", i+1), s.text)
					m.SourceID, m.Text, m.Chat = plain.SourceID, plain.Text, plain.Chat
					if m.Author == nil {
						m.Author = plain.Author
					}
					w.say(m)
				}
				w.sleep(40 * time.Second)
				var got []string
				for _, turn := range w.stub.seen() {
					got = append(got, strings.Join(partsOf(&turn), "|"))
				}
				if strings.Join(got, ";") != c.want {
					t.Errorf("turns %q; want %q", got, c.want)
				}
			})
		})
	}
}

// TestFragments_OfThreadAreOneTurn plays messages of a thread in which the agent takes part. Will's
// messages just before a mention belong to it, and other messages remain knocks.
func TestFragments_OfThreadAreOneTurn(t *testing.T) {
	other := by(post("", ""), "78", "human")
	file := protocol.ChatMessage{Attachments: []protocol.Attachment{{Kind: "photo", Name: "oven.jpg"}}}
	for name, c := range map[string]struct {
		said []protocol.ChatMessage
		want string // the parts of each turn; a knock has none
	}{
		"a sentence before the mention":   {[]protocol.ChatMessage{{Text: "the oven hums"}, {Text: "@lead why?"}}, "the oven hums|@lead why?"},
		"three before it":                 {[]protocol.ChatMessage{{Text: "the"}, {Text: "oven"}, {Text: "hums"}, {Text: "why, @lead?"}}, "the|oven|hums|why, @lead?"},
		"before and after it":             {[]protocol.ChatMessage{{Text: "the oven hums"}, {Text: "@lead"}, {Text: "why?"}}, "the oven hums|@lead|why?"},
		"a file before it":                {[]protocol.ChatMessage{file, {Text: "@lead what is it?"}}, "||@lead what is it?"},
		"a forward before it":             {[]protocol.ChatMessage{{Text: "> closed", Forwarded: "Mia"}, {Text: "@lead true?"}}, "> closed|@lead true?"},
		"another person's sentence":       {[]protocol.ChatMessage{{Text: "the oven hums", Author: other.Author}, {Text: "@lead why?"}}, ";@lead why?"},
		"without a mention it is a knock": {[]protocol.ChatMessage{{Text: "the oven hums"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(answering("here")), nil, func(t *testing.T, w *fixture) {
				w.say(inThread(post("e0", "@lead hello"), "T1"))
				w.sleep(time.Minute)
				for i, m := range c.said {
					w.sleep(500 * time.Millisecond)
					plain := inThread(post(fmt.Sprint("e", i+1), ""), "T1")
					m.SourceID, m.Chat = plain.SourceID, plain.Chat
					if m.Author == nil {
						m.Author = plain.Author
					}
					w.say(m)
				}
				w.sleep(time.Minute)
				var got []string
				for _, turn := range w.stub.seen()[1:] {
					got = append(got, strings.Join(partsOf(&turn), "|"))
				}
				if strings.Join(got, ";") != c.want || len(got) == 0 {
					t.Errorf("turns %q; want %q", got, c.want)
				}
			})
		})
	}
}

// TestFragment_EditKeepsIt checks that an edit of a fragment, before and after the answer, changes
// nothing about whom it is for.
func TestFragment_EditKeepsIt(t *testing.T) {
	withFixture(t, newStub(answering("here")), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "the oven hums"))
		w.sleep(time.Second)
		w.say(post("e2", "@lead what is it?"))
		w.say(post("e3", "is it the fan"))
		w.sleep(time.Second)
		w.say(edit(post("e1", "the oven howls"), "the oven howls", 1))
		w.say(edit(post("e3", "is it the fan?"), "is it the fan?", 1))
		w.sleep(10 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 1 {
			t.Fatalf("%d turns", len(turns))
		}
		equal(t, "parts", partsOf(&turns[0]), []string{"the oven howls", "@lead what is it?", "is it the fan?"})
		w.wantDispositions("e1 ignored", "e1 superseded", "e2 superseded", "e3 responded")
	})
}

// TestReaction_SecondThumbBeginsNoTurn checks that a second thumb under a question, taken back and set again or
// another person's, begins no second turn, and that one under another question does.
func TestReaction_SecondThumbBeginsNoTurn(t *testing.T) {
	thumb := func(id, source, who, signal string) protocol.ChatMessage {
		m := by(post(id, ""), who, "human")
		m.Event, m.Signal, m.ReplyTo = "reaction", signal, &protocol.ReplyTo{SourceID: source, Author: "agent:lead"}
		return m
	}
	withFixture(t, newStub(answering("Should I go on?")), nil, func(t *testing.T, w *fixture) {
		shown := func(source string) {
			w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{
				Status: protocol.StatusDelivered, IdempotencyKey: w.replies[len(w.replies)-1].IdempotencyKey, SourceID: source,
			})
		}
		w.say(post("e1", "@lead deploy"))
		w.sleep(5 * time.Second)
		shown("q1")
		for i, c := range []struct {
			source, who, signal string
			turns               int
		}{
			{"q1", "77", "working", 1}, {"q1", "77", "agree", 2}, {"q1", "77", "", 2}, {"q1", "77", "agree", 2},
			{"q1", "78", "agree", 2}, {"q1", "79", "agree", 2}, {"q1", "78", "declined", 3}, {"q1", "77", "agree", 3},
			{"q1", "78", "", 3}, {"q1", "78", "declined", 3}, {"q1", "79", "declined", 3}, {"q1", "79", "unclear", 4},
			{"q1", "77", "unclear", 4},
		} {
			w.say(thumb(fmt.Sprint("r", i), c.source, c.who, c.signal))
			w.sleep(5 * time.Second)
			if got := len(w.stub.seen()); got != c.turns {
				t.Errorf("after %+v there were %d turns", c, got)
			}
		}
		w.say(post("e2", "@lead and now?"))
		w.sleep(5 * time.Second)
		shown("q2")
		for i, who := range []string{"78", "77"} {
			w.say(thumb(fmt.Sprint("s", i), "q2", who, "agree"))
			w.sleep(5 * time.Second)
		}
		if got := len(w.stub.seen()); got != 6 {
			t.Errorf("%d turns in the end", got)
		}
	})
}

// TestReaction_TakenBackAfterItsAnswerCounts takes a thumb back while the answer to it waits for the
// bridge. The event ends as answered, and the same thumb again begins no turn.
func TestReaction_TakenBackAfterItsAnswerCounts(t *testing.T) {
	withFixture(t, newStub(answering("Should I go on?")), nil, func(t *testing.T, w *fixture) {
		thumb := func(id string) protocol.ChatMessage {
			m := inReply(post(id, "👍"), "q1")
			m.Event, m.Signal = protocol.EventReaction, "agree"
			return m
		}
		w.say(post("e1", "@lead deploy"))
		w.sleep(5 * time.Second)
		w.shown(w.replies[0], "q1")
		w.tg.Refuse(func(d *bustest.Delivery) error {
			if d.Message.Type == protocol.TypeTGReply {
				return errors.New("not now")
			}
			return nil
		})
		w.say(thumb("r1"))
		w.sleep(5 * time.Second)
		gone := post("r1", "")
		gone.Event = protocol.EventDelete
		w.say(gone)
		w.say(thumb("r2"))
		w.sleep(5 * time.Second)
		w.tg.Refuse(nil)
		w.sleep(time.Minute)
		if got := len(w.stub.seen()); got != 2 {
			t.Errorf("%d turns; want one for the message and one for the thumb", got)
		}
		w.wantTexts("Should I go on?", "Should I go on?")
		w.wantDispositions("e1 responded", "r2 ignored", "r1 responded")
	})
}
