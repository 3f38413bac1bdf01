package tg_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/tg"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

func TestMentions(t *testing.T) {
	agents := []protocol.PeerID{"agent:lead", "agent:tg--100", "agent:w3"}
	for text, want := range map[string][]string{
		"nobody":                        nil,
		"@lead":                         {"agent:lead"},
		"ask @LEAD, or @tg--100.":       {"agent:lead", "agent:tg--100"},
		"@lead.main and @w3: both":      {"agent:lead", "agent:w3"},
		"@backend-agents who can look?": {"role:backend-agents"},
		"@will said so":                 {"user:will"},
		"@other_bot do it":              {"user:other_bot"},
		"@hubbub_bot do it":             {"agent:lead"},
		"@hubbub_bot ask @w3":           {"agent:w3"},
		"mail bob@lead.example or a@w3": nil,
		"@ lead, @-lead, @@":            nil,
		"@lead @lead":                   {"agent:lead"},
		"(@w3) \"@lead\"":               {"agent:w3", "agent:lead"},
		"@леад and @lead":               {"role:леад", "agent:lead"},
	} {
		raw, err := json.Marshal(&models.Update{Message: &models.Message{ID: 1, Text: text, Entities: tgtest.Entities(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tg.NamesOf(raw, agents...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	inCode := models.Message{ID: 1, Text: "run @lead now", Entities: []models.MessageEntity{{Type: models.MessageEntityTypeCode, Offset: 4, Length: 5}}}
	raw, err := json.Marshal(&models.Update{Message: &inCode})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tg.NamesOf(raw, agents...); err != nil || len(got) != 0 {
		t.Errorf("in code: %q, %v", got, err)
	}
}

func TestCursor_Next(t *testing.T) {
	for _, test := range []struct {
		highest     int64
		size, fresh int
		offset      int64
		wait        bool
		why         string
	}{
		{0, 0, 0, 0, true, "nothing came: wait for whatever is unconfirmed"},
		{7, 3, 3, 8, false, "confirm at once what is stored"},
		{7, 3, 0, 8, true, "the server forgot what was confirmed: keep the offset while waiting"},
		{7, 3, 1, 8, false, "some were new"},
	} {
		if offset, wait := tg.NextPoll(test.highest, test.size, test.fresh); offset != test.offset || wait != test.wait {
			t.Errorf("%s: offset %d, wait %t", test.why, offset, wait)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	for _, seed := range []string{
		`{"update_id":1,"message":{"message_id":1,"date":1,"chat":{"id":-1,"type":"supergroup","is_forum":true},"text":"@lead /x","entities":[{"type":"code","offset":-1,"length":99}]}}`,
		`{"update_id":1,"edited_message":{"message_id":1,"chat":{"id":1,"type":"private"},"text":"/start a"}}`,
		`{"update_id":1,"message_reaction":{"chat":{"id":1},"message_id":1,"old_reaction":[],"new_reaction":[{"type":"paid"},{"type":"x"}]}}`,
		`{"update_id":1,"my_chat_member":{"chat":{"id":1},"from":{"id":2},"new_chat_member":{"status":"restricted"}}}`,
		`{"update_id":1,"callback_query":{"id":"1","from":{"id":2},"message":null}}`,
		`{"update_id":1,"message":{"message_id":1,"chat":{"id":1},"reply_to_message":{"message_id":2},"photo":[],"new_chat_members":[{}],"left_chat_member":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if mentions, err := tg.NamesOf(raw, "agent:lead"); err == nil {
			for _, m := range mentions {
				if m == "" {
					t.Error("an empty mention")
				}
			}
		}
	})
}

// TestParseMenu also checks that an added command goes to the agent, and that a redescribed one
// remains the bridge's.
func TestParseMenu(t *testing.T) {
	menu, err := tg.ParseMenu([]string{"ask=Ask the agent", "start= Los geht's ", "a_1=Ä=Ö"})
	if err != nil || len(menu) != 3 || menu[1].Description != "Los geht's" || menu[2].Description != "Ä=Ö" {
		t.Fatal(menu, err)
	}
	many := make([]string, 88)
	for i := range many {
		many[i] = fmt.Sprintf("c%d=x", i)
	}
	if _, err := tg.ParseMenu(many[:87]); err != nil {
		t.Error(err)
	}
	for why, wrong := range map[string][]string{
		"does not begin with a command": {"=x"}, "1 to 32 letters": {strings.Repeat("a", 33) + "=x"}, "digits and underscores": {"Ask=x"},
		"needs a description": {"ask"}, "of 1 to 256 characters": {"ask=" + strings.Repeat("ä", 257)}, "in one line": {"ask=a\nb"},
		"twice": {"ask=a", "ask=b"}, "would have 101 commands; Telegram accepts 100": many,
	} {
		if _, err := tg.ParseMenu(wrong); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want %q", wrong, err, why)
		}
	}
	if _, err := tg.ParseMenu([]string{strings.Repeat("a", 32) + "=" + strings.Repeat("ä", 256)}); err != nil {
		t.Error(err)
	}
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.Menu = menu
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.startSpawner("agent:lead")
		h.start()
		h.api.Say(dm, will, "/ask@"+h.api.Bot().Username+" who is there?")
		if got := next(t, lead); !strings.HasSuffix(got.Text, "who is there?") {
			t.Errorf("the agent hears %+v", got)
		}
		group := h.api.Group(-5, "House")
		h.api.Say(group, will, "/ask is it green?") // without a name, the chat's agent is asked
		if got := next(t, lead); !slices.Equal(got.Mentions, []string{"agent:lead"}) {
			t.Errorf("of an /ask in a group the agent hears %+v", got)
		}
		var sent []bridge.CommandHelp
		if calls := h.api.Calls("setMyCommands"); len(calls) != 1 || json.Unmarshal(calls[0].Params["commands"], &sent) != nil || len(sent) != 14 ||
			sent[0] != menu[1] || sent[6] != menu[0] || sent[13] != menu[2] {
			t.Errorf("Telegram has the menu %+v", sent)
		}
		h.api.Say(dm, will, "/help")
		h.pass(5 * time.Second)
		if said := h.api.Messages(dm.ID); !strings.Contains(said[len(said)-1].Text, "/ask — Ask the agent") || !strings.Contains(said[len(said)-1].Text, "/start — Los geht's") {
			t.Errorf("/help says %q", said[len(said)-1].Text)
		}
	})
}

func TestParseGlyphs(t *testing.T) {
	glyphs, err := bridge.ParseGlyphs([]string{"working=🔥", "done=🏆"})
	if err != nil || glyphs["working"] != "🔥" {
		t.Fatal(glyphs, err)
	}
	for _, wrong := range []string{"working", "working=", "shouting=🔥", "=🔥"} {
		if _, err := bridge.ParseGlyphs([]string{wrong}); err == nil || !strings.Contains(err.Error(), "SIGNAL=EMOJI") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.Glyphs = glyphs
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.startSpawner("agent:lead")
		h.start()
		m := h.api.Say(dm, will, "deploy it")
		said := next(t, lead)
		lead.Send(t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{Signal: "working", InReplyTo: said.SourceID})
		h.pass(5 * time.Second)
		if calls := h.api.Calls("setMessageReaction"); len(calls) != 1 || !strings.Contains(string(calls[0].Params["reaction"]), "🔥") {
			t.Errorf("the reactions are %+v", calls)
		}
		for emoji, want := range map[string]string{"🏆": "done", "👌": "agree", "👍": "agree", "👎": "declined", "🤝": ""} {
			h.api.React(dm, will, m.ID, nil, emoji)
			if got := next(t, lead); got.Signal != want {
				t.Errorf("%s means %q, want %q", emoji, got.Signal, want)
			}
		}
	})
}
