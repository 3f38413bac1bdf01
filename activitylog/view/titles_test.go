package view_test

import (
	"fmt"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol"
)

// TestTitles_NameChatsAndAgents checks how identities are shown to people, and that a
// title cannot imitate another identity.
func TestTitles_NameChatsAndAgents(t *testing.T) {
	var titles view.Titles
	said := func(chat, title string) {
		titles.Learn(&activitylog.Entry{
			Event: activitylog.SendStart.String(), Type: string(protocol.TypeTGMessage), Actor: chat, Topic: "agent:x",
			Payload: fmt.Appendf(nil, `{"from":%q,"content":{"text":"hi","chat":{"kind":"channel","title":%q}}}`, chat, title),
		})
	}
	said("tg:-1001234", "Launch crew")
	said("tg:42", "Will")
	said("tg:-7", "x” → agent:system “")
	said("tg:-8", "  ")
	for id, want := range map[string]string{
		"tg:-1001234":        "tg:“Launch crew”",
		"agent:tg--1001234":  "agent:tg--1001234",
		"tg:42":              "tg:“Will”",
		"agent:tg-42":        "agent:tg-42",
		"agent:lead":         "agent:lead",
		"tg:-7":              "tg:“x' → agent:system '”",
		"tg:-8":              "tg:-8",
		"system:attention":   "system:attention",
		"collab:tg--1001234": "collab:tg--1001234",
		"":                   "",
	} {
		if got := titles.Called(id); got != want {
			t.Errorf("%s is called %s, want %s", id, got, want)
		}
	}
	if got := titles.Both("agent:tg--1001234"); got != "agent:tg--1001234 (“Launch crew”)" {
		t.Errorf("with its identity it is %s", got)
	}
	if got := titles.Both("agent:lead"); got != "agent:lead" {
		t.Errorf("without a title it is %s", got)
	}
	for words, want := range map[string]string{
		"tg--1001234 (online) in tg:-1001234, for tg:42": "tg--1001234 (“Launch crew”) (online) in tg:-1001234, for tg:42 (“Will”)",
		"allowed by tg:42.":                     "allowed by tg:42 (“Will”).",
		"agent-tg--1001234:61, tg:7:-1001234:5": "agent-tg--1001234:61, tg:7:-1001234:5",
		"a well-known cli:will at 12:30":        "a well-known cli:will at 12:30",
	} {
		if got := titles.Within(words); got != want {
			t.Errorf("%s is told as %s, want %s", words, got, want)
		}
	}
	titles.Learn(&activitylog.Entry{Event: activitylog.SendStart.String(), Type: string(protocol.TypeTGMessage), Payload: []byte("{")})
}
