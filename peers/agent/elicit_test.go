package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// TestElicit_IsAnsweredInWords checks that the author of the turn's message answers in their
// chat. A question of that person, messages from others and a thumbs-up are not answers. "Wait"
// takes one back.
func TestElicit_IsAnsweredInWords(t *testing.T) {
	to := func(m protocol.ChatMessage, source string) protocol.ChatMessage {
		m.ReplyTo = &protocol.ReplyTo{SourceID: source, Author: "agent:lead"}
		return m
	}
	thumb := to(dm("2", "👍"), "shown")
	thumb.Event, thumb.Signal = protocol.EventReaction, "agree"
	down := to(dm("2", "👎"), "shown")
	down.Event, down.Signal = protocol.EventReaction, "declined"
	named := dm("2", "@lead eu-west")
	named.Mentions = []string{"agent:lead"}
	for name, c := range map[string]struct {
		said  []protocol.ChatMessage
		want  string
		group bool
	}{
		"at once":               {[]protocol.ChatMessage{dm("2", "eu-west")}, "accept eu-west", false},
		"in a reply":            {[]protocol.ChatMessage{to(dm("2", "us-east"), "shown")}, "accept us-east", true},
		"with a mention":        {[]protocol.ChatMessage{named}, "accept eu-west", true},
		"in two messages":       {[]protocol.ChatMessage{dm("2", "eu-west"), dm("3", "if it is free")}, "accept eu-west\nif it is free", false},
		"after a question":      {[]protocol.ChatMessage{dm("2", "which are there?"), dm("3", "eu")}, "accept eu", false},
		"after a pause":         {[]protocol.ChatMessage{dm("2", "one sec"), dm("3", "eu")}, "accept eu", false},
		"taken back":            {[]protocol.ChatMessage{dm("2", "eu-west"), dm("3", "or which is cheap?")}, "", false},
		"held back":             {[]protocol.ChatMessage{dm("2", "eu-west"), dm("3", "wait")}, "", false},
		"after it was held":     {[]protocol.ChatMessage{dm("2", "eu-west"), dm("3", "hold on"), dm("4", "us")}, "accept us", false},
		"for nobody in a group": {[]protocol.ChatMessage{dm("2", "eu-west")}, "", true},
		"of a stranger":         {[]protocol.ChatMessage{by(to(dm("2", "eu-west"), "shown"), "66", "human")}, "", true},
		"a thumb up":            {[]protocol.ChatMessage{thumb}, "", false},
		"a thumb down":          {[]protocol.ChatMessage{down}, "decline", false},
		"no":                    {[]protocol.ChatMessage{dm("2", "no thanks")}, "decline", false},
		"stop":                  {[]protocol.ChatMessage{dm("2", "stop")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			s := newStub(func(ctx context.Context, turn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
				if turn.Event.EventID != "1" {
					return harness.Outcome{State: harness.Finished}, nil
				}
				action, content := harness.Elicit(ctx, turn.Approver, "deploy.run", "Which region?",
					json.RawMessage(`{"type":"object","properties":{"region":{"type":"string"}},"required":["region"]}`))
				if got = action; content != nil {
					got += " " + content["region"].(string)
				}
				return harness.Outcome{State: harness.Finished}, context.Cause(ctx)
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				place := func(m protocol.ChatMessage) protocol.ChatMessage {
					if c.group {
						m.Chat = &protocol.Chat{ID: "42", Kind: "channel"}
					}
					return m
				}
				order := dm("1", "@lead deploy")
				order.Mentions = []string{"agent:lead"}
				w.say(place(order))
				w.sleep(10 * time.Second)
				asked := w.asked()
				if !strings.Contains(asked.Text, "Which region?") || !strings.Contains(asked.Text, "region: text") || !strings.Contains(asked.Text, "in words") ||
					len(asked.Buttons) != 1 || !slices.Equal(asked.MayPress, []string{"tg:77"}) {
					t.Fatalf("asked %+v", asked)
				}
				w.shown(asked, "shown")
				for _, m := range c.said {
					w.say(place(m))
					w.sleep(time.Second)
				}
				w.sleep(15 * time.Second)
				if (got != c.want) && !(c.want == "" && got == "cancel") {
					t.Errorf("%q; want %q", got, c.want)
				}
			})
		})
	}
}
