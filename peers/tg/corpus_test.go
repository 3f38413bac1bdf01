package tg_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"hubbub/peers/store/storetest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestCorpus_WhatAgentsReceive sends updates of every kind of the Bot API, and of unknown kinds,
// and compares what the agent receives with testdata/updates.golden. The file has a line for each
// update, followed by one for each tg_message or message from the bridge, or by the reason why no
// agent receives it.
func TestCorpus_WhatAgentsReceive(t *testing.T) {
	corpus, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	withFixture(t, func(t *testing.T, h *fixture) {
		h.dm("Will")
		h.api.Group(-10, "Team")
		h.api.Forum(-100500, "House")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.startSpawner("agent:lead")
		h.start()
		var golden bytes.Buffer
		out := json.NewEncoder(&golden)
		out.SetEscapeHTML(false)
		lines := bufio.NewScanner(bytes.NewReader(corpus))
		for lines.Scan() {
			var c struct {
				Case   string          `json:"case"`
				Update json.RawMessage `json:"update"`
			}
			var n struct {
				ID int64 `json:"update_id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(c.Update, &n); err != nil {
				t.Fatal(err)
			}
			if c.Case == "dm: button" { // they belong to two messages, which the corpus numbers
				for i, value := range []string{"yes", "late"} {
					reply(t, lead, 1001, protocol.ChatReply{Text: "May it?", Buttons: []protocol.Button{{Text: "Press", Value: value}}})
					h.pass(5 * time.Second)
					if err := storetest.Exec(h.db, `UPDATE sends SET message = ? WHERE reply = (SELECT max(id) FROM replies WHERE json_extract(content, '$.buttons') <> '')`, 50+i); err != nil {
						t.Fatal(err)
					}
				}
			}
			golden.WriteString("# " + c.Case + "\n")
			before := len(h.api.Calls("sendMessage"))
			h.api.InjectRaw(n.ID, c.Update)
			h.pass(time.Second)
			if !strings.Contains(c.Case, "album a") { // an album waits for more pictures
				h.pass(4 * time.Second)
			}
			for lead.Pending() > 0 {
				m := next(t, lead)
				m.Sequence = 0
				m.Author, m.Chat = nil, &protocol.Chat{Kind: m.Chat.Kind, ThreadID: m.Chat.ThreadID}
				if err := out.Encode(m); err != nil {
					t.Fatal(err)
				}
			}
			for _, call := range h.api.Calls("sendMessage")[before:] {
				golden.WriteString("the bridge: " + call.Message.Text + "\n")
			}
			var reason string
			if err := storetest.Scan(h.db, []any{&reason}, `SELECT reason FROM updates ORDER BY seq DESC LIMIT 1`); err != nil {
				t.Fatal(err)
			}
			if reason != "" {
				golden.WriteString("nobody hears of it: " + reason + "\n")
			}
		}
		compareGolden(t, "testdata/updates.golden", golden.Bytes())
	})
}

// compareGolden compares a result with a file, which -update writes.
func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d (go test -update writes it anew):\ngot  %s\nwant %s", path, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s has %d lines, and there are %d", path, len(w), len(g))
}

// TestCorpus_HasEveryKindOfUpdate checks the corpus against the kinds that the library knows.
func TestCorpus_HasEveryKindOfUpdate(t *testing.T) {
	corpus, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[models.Update]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !bytes.Contains(corpus, fmt.Appendf(nil, `"%s":`, name)) {
			t.Errorf("no line has %s", name)
		}
	}
}
