package agent_test

import (
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// TestService_IsNotifiedThatNoAnswerFollows covers thanks, a part of a longer message, and messages
// beyond a budget, of which the first gets a notice.
func TestService_IsNotifiedThatNoAnswerFollows(t *testing.T) {
	opts := &agent.Options{Budget: &attention.Budget{AuthorTurns: 1}}
	withFixture(t, newStub(answering("Found.")), opts, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:ops.c1", "chorus:*")
		for _, said := range [][]protocol.ChatMessage{
			{dm("e1", "Thanks!")},
			{dm("e2", "look at the deploy"), dm("e3", "and the logs")},
			{dm("e4", "what about the disk?")},
			{dm("e5", "what about the network?")},
		} {
			for _, m := range said {
				gateway.Send(t, "agent:lead", protocol.TypeChatMessage, m)
			}
			w.sleep(10 * time.Second)
		}
		var got []string
		for gateway.Pending() > 0 {
			m := content[struct{ InReplyTo, Text, Disposition string }](t, gateway.Next(t))
			switch {
			case m.Disposition != "":
				got = append(got, m.InReplyTo+" "+m.Disposition)
			case strings.Contains(m.Text, "turns for one author (1)"):
				got = append(got, m.InReplyTo+" notice")
			case m.Text != "":
				got = append(got, m.InReplyTo+" "+m.Text)
			}
		}
		want := []string{"e1 acknowledged", "e2 superseded", "e3 Found.", "e4 notice", "e4 failed", "e5 failed"}
		equal(t, "messages to the service", got, want)
	})
}

// TestService_IsNotifiedOfARefusedRepeat checks that an agent that asks through a service does not wait for an
// answer that would repeat the last one.
func TestService_IsNotifiedOfARefusedRepeat(t *testing.T) {
	withFixture(t, newStub(answering("I agree.")), nil, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:ops.c1", "chorus:*")
		var got []string
		for _, id := range []string{"e1", "e2"} {
			gateway.Send(t, "agent:lead", protocol.TypeChatMessage, by(dm(id, "shall we, "+id+"?"), "agent:w3", "agent"))
			w.sleep(10 * time.Second)
			for gateway.Pending() > 0 {
				m := content[struct{ InReplyTo, Text, Disposition string }](t, gateway.Next(t))
				got = append(got, m.InReplyTo+" "+m.Text+m.Disposition)
			}
		}
		equal(t, "messages to the service", got, []string{"e1 I agree.", "e2 failed"})
	})
}

// TestService_IsNotifiedThatAMessageWasTaken covers messages that are not stored as events: the answer to a
// question, and a command.
func TestService_IsNotifiedThatAMessageWasTaken(t *testing.T) {
	ran, opts := 0, *approving
	opts.Version = attention.Version0811
	withFixture(t, newStub(sensitive(&ran)), &opts, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:ops.c1", "chorus:*")
		var got []string
		for _, m := range []protocol.ChatMessage{dm("e1", "deploy"), dm("e2", "yes"), dm("e3", "/close")} {
			for range 2 { // the second is a repetition
				gateway.Send(t, "agent:lead", protocol.TypeChatMessage, m)
			}
			w.sleep(10 * time.Second)
			for gateway.Pending() > 0 {
				if r := content[struct{ InReplyTo, Disposition string }](t, gateway.Next(t)); r.Disposition != "" {
					got = append(got, r.InReplyTo+" "+r.Disposition)
				}
			}
		}
		equal(t, "ends reported to the service", got, []string{"e2 acknowledged", "e3 acknowledged"})
		if ran != 1 {
			t.Errorf("the call ran %d times", ran)
		}
	})
}
