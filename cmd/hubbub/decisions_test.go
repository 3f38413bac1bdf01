package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/view"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestADecisionHidesNothingAtTheCommandLine: what takes no room or turns the text round is
// spelled.
func TestADecisionHidesNothingAtTheCommandLine(t *testing.T) {
	a := collab.Approval{ApprovalParams: collab.ApprovalParams{Tool: "she\u200bll", Arguments: "make \u202e~ fr- mr\u2066\ufeff\u2800"}}
	var out bytes.Buffer
	(&printer{w: &out}).decision(&a, new(view.Titles))
	for what, said := range map[string]string{"one": out.String(), "the list": strings.Join(decisionListing.row(&awaited{Approval: a}, time.Now()), " ")} {
		if !strings.Contains(said, `she\u200bll`) || !strings.Contains(said, `make \u202e~ fr- mr\u2066\ufeff\u2800`) {
			t.Errorf("%s: %q", what, said)
		}
	}
}

// TestWhichReplyAnswers: of what an agent says, hubbub chat waits for the answer to what was said
// last, or to what that decided.
func TestWhichReplyAnswers(t *testing.T) {
	type heard struct{ ours, answered bool }
	for _, c := range []struct {
		what    string
		replies []protocol.ChatReply
		want    heard // of the last
	}{
		{"the answer", []protocol.ChatReply{{InReplyTo: "m2", Text: "yes"}}, heard{true, true}},
		{"to an earlier message", []protocol.ChatReply{{InReplyTo: "m1", Text: "late"}}, heard{false, false}},
		{"to an earlier line", []protocol.ChatReply{{InReplyTo: "m1b", Text: "first"}}, heard{true, false}},
		{"a sign that it is at it", []protocol.ChatReply{{InReplyTo: "m2", Signal: "working"}}, heard{true, false}},
		{"a sign that says it", []protocol.ChatReply{{InReplyTo: "m2", Signal: "done"}}, heard{true, true}},
		{"a verdict", []protocol.ChatReply{{InReplyTo: "m1", Text: "Decision: allowed", Edits: "decision:d"}}, heard{true, false}},
		{"what was decided", []protocol.ChatReply{{InReplyTo: "m1", Edits: "decision:d"}, {InReplyTo: "m1", Text: "it ran"}}, heard{true, true}},
	} {
		dialogue, got := typist{sent: []string{"m1b", "m2"}, awaits: []string{"m2"}}, heard{}
		for i := range c.replies {
			got.ours, got.answered = dialogue.hear(&c.replies[i])
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// TestWhatAnAgentWasBeforeIsNoAgentOfItsOwn: who lists one that was started again once, and
// one that is offline.
func TestWhatAnAgentWasBeforeIsNoAgentOfItsOwn(t *testing.T) {
	var list []collab.Listed[collab.Endpoint]
	for _, e := range []collab.Endpoint{
		{Identity: "agent:a", EndpointID: "before", Status: collab.StatusOffline}, {Identity: "agent:a", EndpointID: "now", Status: collab.StatusOnline},
		{Identity: "agent:b", EndpointID: "away", Status: collab.StatusOffline},
	} {
		raw, err := collab.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, collab.Listed[collab.Endpoint]{RawMessage: raw})
	}
	ghost, shown := ghosts(list), []string{}
	for _, raw := range list {
		if e, err := raw.Read(); err != nil {
			t.Error(err)
		} else if !ghost(&e) {
			shown = append(shown, e.EndpointID)
		}
	}
	if got := strings.Join(shown, " "); got != "now away" {
		t.Errorf("who shows %s", got)
	}
}
