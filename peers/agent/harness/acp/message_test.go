package acp

import (
	"strings"
	"testing"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
)

// TestMessages_AreApart checks that a break separates the messages of a program, and that content
// other than text is shown or named.
func TestMessages_AreApart(t *testing.T) {
	says := func(text string) acpsdk.SessionUpdate { return acpsdk.UpdateAgentMessageText(text) }
	named := func(text, id string) acpsdk.SessionUpdate {
		u := says(text)
		u.AgentMessageChunk.MessageId = &id
		return u
	}
	content := func(c acpsdk.ContentBlock) acpsdk.SessionUpdate { return acpsdk.UpdateAgentMessage(c) }
	thought := acpsdk.UpdateAgentThoughtText("hm")
	done := acpsdk.UpdateToolCall("c1", acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted))
	for want, updates := range map[string][]acpsdk.SessionUpdate{
		"I read the file.\n\nThe port is 80.": {says("I read the "), says("file."), thought, says("The port "), says("is 80.")},
		"First.\n\nSecond.":                   {says("First."), acpsdk.UpdatePlan(), says("Second.")},
		"A.\n\nB.":                            {says("A."), done, says("B.")},
		"One.\n\nTwo.":                        {named("On", "m1"), named("e.", "m1"), named("Two.", "m2")},
		"It is\nso.":                          {says("It is\n"), thought, says("so.")},
		"The end.":                            {thought, says("The end."), thought},
		"Last.":                               {says("Let me look."), acpsdk.StartToolCall("c1", "Reading"), says("Last.")},
		"See\n[the report](https://a.example/r).":              {says("See"), content(acpsdk.ResourceLinkBlock("the report", "https://a.example/r")), says(".")},
		"See\n(file: a.txt, `/tmp/a.txt`)":                     {says("See"), content(acpsdk.ResourceLinkBlock("a.txt", "file:///tmp/a.txt"))},
		"(an image, image/png, that cannot be shown here)":     {content(acpsdk.ImageBlock("UE5H", "image/png"))},
		"(a recording, audio/ogg, that cannot be played here)": {content(acpsdk.AudioBlock("UE5H", "audio/ogg"))},
	} {
		c := &collector{report: func(harness.Progress) {}, calls: map[acpsdk.ToolCallId]callInfo{}}
		for _, u := range updates {
			c.handleUpdate(&u)
		}
		var o harness.Outcome
		c.writeOutcome(&o)
		if got := strings.ReplaceAll(o.FinalText, ")\n.", ")."); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
