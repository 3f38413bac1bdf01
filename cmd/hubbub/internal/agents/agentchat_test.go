package agents

import (
	"testing"

	"hubbub/protocol"
)

// TestMatchReply checks that hubbub chat waits for the answer to the last message, or to
// what it decided.
func TestMatchReply(t *testing.T) {
	type heard struct{ ours, answered bool }
	for _, c := range []struct {
		what    string
		replies []protocol.ChatReply
		want    heard // for the last reply
	}{
		{"the answer", []protocol.ChatReply{{InReplyTo: "m2", Text: "yes"}}, heard{true, true}},
		{"to an earlier message", []protocol.ChatReply{{InReplyTo: "m1", Text: "late"}}, heard{false, false}},
		{"to an earlier line", []protocol.ChatReply{{InReplyTo: "m1b", Text: "first"}}, heard{true, false}},
		{"a sign that it is at it", []protocol.ChatReply{{InReplyTo: "m2", Signal: "working"}}, heard{true, false}},
		{"a sign that says it", []protocol.ChatReply{{InReplyTo: "m2", Signal: "done"}}, heard{true, true}},
		{"a verdict", []protocol.ChatReply{{InReplyTo: "m1", Text: "Decision: allowed", Edits: "decision:d"}}, heard{true, false}},
		{"what was decided", []protocol.ChatReply{{InReplyTo: "m1", Edits: "decision:d"}, {InReplyTo: "m1", Text: "it ran"}}, heard{true, true}},
	} {
		dialogue, got := agentChat{sent: []string{"m1b", "m2"}, awaiting: []string{"m2"}}, heard{}
		for i := range c.replies {
			got.ours, got.answered = dialogue.matchReply(&c.replies[i])
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}
