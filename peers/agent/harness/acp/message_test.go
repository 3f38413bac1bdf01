package acp

import (
	"testing"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
)

// TestMessages_AreApart checks that a break separates the messages from a program, and that
// content other than text is shown or named.
func TestMessages_AreApart(t *testing.T) {
	says := func(text string) acpsdk.SessionUpdate { return acpsdk.UpdateAgentMessageText(text) }
	named := func(text, id string) acpsdk.SessionUpdate {
		u := says(text)
		u.AgentMessageChunk.MessageId = &id
		return u
	}
	content := func(c acpsdk.ContentBlock) acpsdk.SessionUpdate { return acpsdk.UpdateAgentMessage(c) }
	imageAt := func(uri string) acpsdk.ContentBlock {
		b := acpsdk.ImageBlock("UE5H", "image/png")
		b.Image.Uri = &uri
		return b
	}
	fileOf := func(uri, text string) acpsdk.ContentBlock {
		return acpsdk.ResourceBlock(acpsdk.EmbeddedResourceResource{TextResourceContents: &acpsdk.TextResourceContents{Uri: uri, Text: text}})
	}
	thought := acpsdk.UpdateAgentThoughtText("hm")
	done := acpsdk.UpdateToolCall("c1", acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted))
	for want, updates := range map[string][]acpsdk.SessionUpdate{
		"I read the file.\n\nThe port is 80.":    {says("I read the "), says("file."), thought, says("The port "), says("is 80.")},
		"First.\n\nSecond.":                      {says("First."), acpsdk.UpdatePlan(), says("Second.")},
		"A.\n\nB.":                               {says("A."), done, says("B.")},
		"One.\n\nTwo.":                           {named("On", "m1"), named("e.", "m1"), named("Two.", "m2")},
		"It is\nso.":                             {says("It is\n"), thought, says("so.")},
		"I think so.":                            {says("I"), done, says(" think"), thought, says(" so.")},
		"Ünal.\n\n日本。\n\n\"Ja\"":                 {says("Ünal."), thought, thought, says("日本。"), done, says("\"Ja\"")},
		"1. a\n\n2. b":                           {says("1. a"), thought, says(""), says("2. b")},
		"The end.":                               {thought, says("The end."), thought},
		"Last.":                                  {says("Let me look."), acpsdk.StartToolCall("c1", "Reading"), says("Last.")},
		"See [the report](https://a.example/r).": {says("See"), content(acpsdk.ResourceLinkBlock("the report", "https://a.example/r")), says(".")},
		"[one](https://a.example/1) [two](https://a.example/2) are new":     {content(acpsdk.ResourceLinkBlock("one", "https://a.example/1")), content(acpsdk.ResourceLinkBlock("two", "https://a.example/2")), says("are new")},
		"See ([a \\[draft\\]](<https://a.example/Foo_(bar)>)), p. 3":        {says("See ("), content(acpsdk.ResourceLinkBlock("a [draft]", "https://a.example/Foo_(bar)")), says("), p. 3")},
		"Done.\n\n[log](https://a.example/l) 2 lines":                       {says("Done."), thought, content(acpsdk.ResourceLinkBlock("log", "https://a.example/l")), says("2 lines")},
		"Here: [image](https://a.example/i.png) for you":                    {says("Here: "), content(imageAt("https://a.example/i.png")), says("for you")},
		"Here it is:\n`/w/a.py`:\n```\nprint(1)\n```\nRun it.":              {says("Here it is:"), content(fileOf("file:///w/a.py", "print(1)\n")), says("Run it.")},
		"`README.md`:\n````\n```sh\nls\n```\n````":                          {content(fileOf("README.md", "```sh\nls\n```"))},
		"Before.\n(an image, image/png, that cannot be shown here)\nAfter.": {says("Before."), content(acpsdk.ImageBlock("UE5H", "image/png")), says("After.")},
		"See\n(file: a.txt, `/tmp/a.txt`)":                                  {says("See"), content(acpsdk.ResourceLinkBlock("a.txt", "file:///tmp/a.txt"))},
		"(an image, image/png, that cannot be shown here)":                  {content(acpsdk.ImageBlock("UE5H", "image/png"))},
		"(a recording, audio/ogg, that cannot be played here)":              {content(acpsdk.AudioBlock("UE5H", "audio/ogg"))},
	} {
		c := &collector{report: func(harness.Progress) {}, calls: map[acpsdk.ToolCallId]callInfo{}}
		for _, u := range updates {
			c.handleUpdate(&u)
		}
		var o harness.Outcome
		c.writeOutcome(&o)
		if o.FinalText != want {
			t.Errorf("%q; want %q", o.FinalText, want)
		}
	}
}
