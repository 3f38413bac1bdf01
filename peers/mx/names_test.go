package mx

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/protocol"

	"maunium.net/go/mautrix/event"
)

// TestPeople_OfAName checks whom a name means in a room: its members first, by the name that they
// show or by that of their account.
func TestPeople_OfAName(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), Database))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := &outbound{account: &account{db: db, bot: "@hubbub:hs"}}
	err = store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO chats (chat, room) VALUES ('!old:hs', '!new:hs'), ('!other:hs', '!other:hs')`)
		for _, m := range [][3]string{
			{"!new:hs", "@ann:hs", "Sam"}, {"!new:hs", "@will:hs", "Will"}, {"!new:hs", "@o:hs", "Özlem"},
			{"!new:hs", "@a_b:hs", ""}, {"!new:hs", "@hubbub:hs", "Hubbub"}, {"!new:hs", "@axb:hs", "X"},
			{"!other:hs", "@mallory:hs", "Sam"}, {"!other:hs", "@zoe:hs", "Zoe"}, {"!other:hs", "@zoe:elsewhere", "Z"},
			{"!other:hs", "@ann:hs", "Sam"},
		} {
			tx.Exec(`INSERT INTO members (room, user, name, called, joined) VALUES (?, ?, ?, ?, 1)`, m[0], m[1], m[2], strings.ToLower(m[2]))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]protocol.PeerID{
		"sam":    {"mx:@ann:hs"}, // the other one is not in this room
		"WILL":   {"mx:@will:hs"},
		"özlem":  {"mx:@o:hs"},
		"a_b":    {"mx:@a_b:hs"},
		"zoe":    {"mx:@zoe:elsewhere", "mx:@zoe:hs"},
		"hubbub": nil,
		"nobody": nil,
		"":       nil,
	} {
		err := store.InTx(t.Context(), db, func(tx *store.Tx) {
			if got := out.People(tx, "mx:!old:hs", name); !slices.Equal(got, want) {
				t.Errorf("%q means %q, want %q", name, got, want)
			}
			if got := out.People(tx, "mx:!other:hs", "sam"); len(got) != 2 {
				t.Errorf("two are called Sam, got %q", got)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCommands_OfBridgeAndAgents checks which texts are commands of the bridge, and what agents get for
// the others: they know their own commands by "/".
func TestCommands_OfBridgeAndAgents(t *testing.T) {
	for text, want := range map[string]struct{ command, arguments, text string }{
		"!stop":                 {"stop", "", ""},
		"!stop!":                {"stop", "", ""},
		"!STOP!!!":              {"stop", "", ""},
		"！stop":                 {"stop", "", ""},
		"！stop。":                {"stop", "", ""},
		"!halt.":                {"halt", "", ""},
		"!help?":                {"help", "", ""},
		"!start":                {"start", "", ""},
		"!start now, please":    {"start", "now, please", ""},
		"!pair abc":             {"pair", "abc", ""},
		"!Stop now please":      {"stop", "now please", ""},
		"!work @lead fix it":    {"work", "@lead fix it", ""},
		"!ask @second who?":     {"ask", "@second who?", ""},
		"!ask which one is it?": {"", "", "/ask which one is it?"},
		"!ask @hubbub which?":   {"", "", "/ask @hubbub which?"},
		"!close":                {"", "", "/close"},
		"！close.":               {"", "", "/close"},
		"!close mx:$e1":         {"", "", "/close mx:$e1"},
		"!deploy":               {"", "", "!deploy"},
		"!":                     {"", "", "!"},
		"!!!":                   {"", "", "!!!"},
		"!?":                    {"", "", "!?"},
		"！！":                    {"", "", "！！"},
		"/stop":                 {"", "", "/stop"},
		"no !stop":              {"", "", "no !stop"},
	} {
		a := &account{bot: "@hubbub:hs", opts: (&Options{}).withDefaults()}
		raw, err := json.Marshal(event.MessageEventContent{MsgType: event.MsgText, Body: text})
		if err != nil {
			t.Fatal(err)
		}
		h, err := a.parseMessage(&rawEvent{ID: "$1", Type: "m.room.message", Sender: "@will:hs", Content: raw})
		if err != nil || h.command != want.command || h.arguments != want.arguments ||
			h.command == "" && h.data.Content.Text != want.text {
			t.Errorf("%q: command %q with %q, else %q; %v", text, h.command, h.arguments, h.data.Content.Text, err)
		}
	}
}

// TestCommands_WithWordsAreForTheAgents checks that words after a command that takes none make it a message for the
// bot, as its name does.
func TestCommands_WithWordsAreForTheAgents(t *testing.T) {
	for text, want := range map[string]bool{
		"!help me to choose one": true, "!start planning my holiday": true, "!stop the dishwasher": true, "！help 我选一个": true,
		"!status of the parcel?": true, "!who, me": true,
		"!help": false, "!start": false, "!stop now": false, "!help please!": false, "!work list": false, "!deploy it": false, "help me": false,
	} {
		a := &account{bot: "@hubbub:hs", opts: (&Options{}).withDefaults()}
		raw, err := json.Marshal(event.MessageEventContent{MsgType: event.MsgText, Body: text})
		if err != nil {
			t.Fatal(err)
		}
		h, err := a.parseMessage(&rawEvent{ID: "$1", Type: "m.room.message", Sender: "@will:hs", Content: raw})
		if err != nil || h.isQuestion() != want || slices.Contains(h.data.Names, "hubbub") != want || want && h.data.Content.Text != text {
			t.Errorf("%q is a question: %v, for %q, as %q; %v", text, h.isQuestion(), h.data.Names, h.data.Content.Text, err)
		}
	}
}
