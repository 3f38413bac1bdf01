package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// entry returns a row of the log about message m.
func entry(id int64, event, actor, topic, status, payload string) activitylog.Entry {
	return activitylog.Entry{
		ID: id, TS: protocol.FormatTime(time.UnixMilli(1_700_000_000_000 + id)), Event: event,
		MessageID: "m", Actor: actor, Topic: topic, Status: status, Payload: json.RawMessage(payload),
	}
}

// newPublication returns a message that was sent to one target.
func newPublication(t *testing.T, kind protocol.MessageType, from, topic, status string, content any) *publication {
	t.Helper()
	m := protocol.NewMessage(kind, protocol.PeerID(from), content)
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	n := NewPrinter(NewChatServer("key"), nil, nil, io.Discard, 140)
	n.idle = false
	for _, e := range []activitylog.Entry{
		entry(12, "send_start", from, topic, "start", string(raw)),
		entry(13, "process_start", "agent:x", topic, "start", ""),
		entry(14, "process_finish", "agent:x", topic, status, "{}"),
		entry(15, "send_finish", from, topic, "ok", "{}"),
	} {
		n.update([]activitylog.Entry{e})
	}
	if len(n.messages) != 1 {
		t.Fatalf("%d passages ended", len(n.messages))
	}
	return n.messages[0]
}

func TestDescribe(t *testing.T) {
	for name, c := range map[string]struct {
		p    *publication
		want *annotation // nil if the demo does not show the message
	}{
		"a message": {
			newPublication(t, protocol.TypeSpawnRequest, "tg:1", "system:spawn", "ok", protocol.SpawnRequest{}),
			&annotation{rows: "#12-15", summary: "spawn_request  tg:1 → system:spawn", outcome: "✓\u00a0agent:x\u00a03.0\u00a0ms"},
		},
		"a failed delivery": {
			newPublication(t, protocol.TypeTGMessage, "tg:1", "agent:x", "timeout", protocol.ChatMessage{Text: "hi"}),
			&annotation{rows: "#12-15", summary: "tg_message  tg:1 → agent:x", outcome: "✗\u00a0timeout\u00a0agent:x\u00a03.0\u00a0ms", failed: true},
		},
		"a decision": {
			newPublication(t, protocol.TypeAgentEvent, "agent:x", "system:attention", "ok", protocol.AttentionDecision{
				Event: "attention_decision", Directedness: "to_me", Policy: "must_respond", Injection: "buffered", Reason: "mentioned\x1b",
			}),
			&annotation{rows: "#12-15", summary: "agent:x decides: to_me, must_respond, buffered", reason: "mentioned\uFFFD"},
		},
		"a disposition": {
			newPublication(t, protocol.TypeAgentEvent, "agent:x", "system:attention", "ok", protocol.Disposition{Event: "disposition", Disposition: "responded", Reason: "sent"}),
			&annotation{rows: "#12-15", summary: "agent:x ends the event: responded", reason: "sent"},
		},
		"a refusal": {
			newPublication(t, protocol.TypeAgentEvent, "agent:x", "system:attention", "ok", protocol.Refusal{Event: "refusal", Tool: "chat.send_message", Reason: "no claim"}),
			&annotation{rows: "#12-15", summary: "agent:x is refused: chat.send_message", reason: "no claim", failed: true},
		},
		"a granted claim": {
			newPublication(t, protocol.TypeCollabResult, "collab:broker", "agent:x", "ok", protocol.CollabResult{OK: true, Result: json.RawMessage(`{"granted":true,"token":7}`)}),
			&annotation{rows: "#12-15", summary: "collab_result claim granted, token 7  collab:broker → agent:x", outcome: "✓\u00a0agent:x\u00a03.0\u00a0ms"},
		},
		"a refused claim": {
			newPublication(t, protocol.TypeCollabResult, "collab:broker", "agent:x", "ok", protocol.CollabResult{OK: true, Result: json.RawMessage(`{"granted":false,"owner":"agent:y"}`)}),
			&annotation{rows: "#12-15", summary: "collab_result claim refused, agent:y has it  collab:broker → agent:x", outcome: "✓\u00a0agent:x\u00a03.0\u00a0ms"},
		},
		"a heartbeat": {newPublication(t, protocol.TypeCollabRequest, "agent:x", "collab:broker", "ok", protocol.CollabRequest{Method: "identity.heartbeat"}), nil},
		"typing":      {newPublication(t, protocol.TypeTGReply, "agent:x", "tg:1", "ok", protocol.ChatReply{Typing: true}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, part := describe(c.p)
			if part != (c.want != nil) {
				t.Fatalf("part of the story: %t", part)
			}
			if part {
				if diff := cmp.Diff(*c.want, got, cmp.AllowUnexported(annotation{}), cmpopts.IgnoreFields(annotation{}, "at")); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestPrinter_SkipsIncompleteMessages(t *testing.T) {
	n := NewPrinter(NewChatServer("key"), nil, nil, io.Discard, 140)
	n.idle = false
	n.update([]activitylog.Entry{entry(15, "send_finish", "tg:1", "agent:x", "ok", "{}")})
	if len(n.messages) > 0 {
		t.Error("a passage began at its end")
	}
}

func TestPrint_FitsTerminal(t *testing.T) {
	for name, columns := range map[string]int{"wide": 140, "narrow": 80} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			n := NewPrinter(NewChatServer("key"), nil, nil, &out, columns)
			at := time.Now()
			n.print(
				[]Line{{At: at, Author: "Will", Text: strings.Repeat("long ", 30)}, {At: at.Add(2), Author: "Hubbub", Bot: true, Text: "ok\x1b[31m"}},
				[]annotation{{at: at.Add(1), rows: "#1-4", summary: "spawn_request  tg:1 → system:spawn", outcome: "✓\u00a0agent:system\u00a0\u00a01.0\u00a0ms"}, {at: at.Add(3), rows: "#5-8", summary: "agent:x decides: to_me", reason: strings.Repeat("because ", 20)}},
			)
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
					t.Errorf("a line has %d columns, more than %d: %s", n, columns, line)
				}
			}
			for _, want := range []string{"Will:", "Hubbub: ok\uFFFD[31m", "#1-4", "✓\u00a0agent:system", "because because"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestLineOf(t *testing.T) {
	call := func(method, params string) tgtest.Call {
		c := tgtest.Call{Method: method, ChatID: 5}
		if err := json.Unmarshal([]byte(params), &c.Params); err != nil {
			t.Fatal(err)
		}
		return c
	}
	l, ok := lineOf("Bot", call("setMessageReaction", `{"message_id":7,"reaction":[{"type":"emoji","emoji":"👀"}]}`))
	if !ok || l.Text != "reacts 👀 to message 7" || l.Message != 7 || !l.Bot {
		t.Errorf("a reaction: %+v, %t", l, ok)
	}
	if _, ok := lineOf("Bot", call("setMessageReaction", `{"message_id":7,"reaction":[]}`)); ok {
		t.Error("a removed reaction is visible")
	}
	if _, ok := lineOf("Bot", call("sendChatAction", `{"action":"typing"}`)); ok {
		t.Error("typing is a line")
	}
}

func TestFeed_DropsOldLines(t *testing.T) {
	f := &feed{}
	for range maxLines + 5 {
		f.add(Line{})
	}
	lines, _ := f.after(0)
	if len(lines) != maxLines || lines[0].N != 6 {
		t.Errorf("%d lines from %d on", len(lines), lines[0].N)
	}
	if lines, _ := f.after(maxLines + 3); len(lines) != 2 {
		t.Errorf("%d lines after the last but two", len(lines))
	}
}

func TestAddress_SaysAndReadsLines(t *testing.T) {
	stage := NewChatServer("the-key")
	web := httptest.NewServer(stage)
	defer web.Close()
	a := Address{URL: web.URL, Key: "the-key", Data: t.TempDir()}
	said, err := a.Say(t.Context(), false, "hello")
	if err != nil {
		t.Fatal(err)
	}
	lines, last, err := a.Lines(t.Context(), 0)
	if err != nil || len(lines) != 1 || lines[0].Text != "hello" || lines[0].Author != "You" || last != said.N {
		t.Errorf("lines %+v, last %d, %v", lines, last, err)
	}
	if stage.API.Pending() != 1 {
		t.Errorf("%d updates wait for the bot", stage.API.Pending())
	}
	if _, err := (Address{URL: web.URL, Key: "wrong"}).Say(t.Context(), true, "x"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a stranger could type: %v", err)
	}
	if _, err := a.Say(t.Context(), true, "  "); err == nil {
		t.Error("nothing could be said")
	}
	web.Close()
	if _, err := a.Say(t.Context(), true, "x"); !errors.Is(err, ErrNoDemo) {
		t.Errorf("to a demo that has ended: %v", err)
	}
}

func TestChatServer_EndsWithContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stage := NewChatServer("key")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stage.Run(ctx, l) }()
	resp, err := http.Post("http://"+l.Addr().String()+"/bot"+stage.API.Token()+"/sendMessage", "application/json", //nolint:noctx // short
		strings.NewReader(`{"chat_id":-1001,"text":"from the bot"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if lines, err := stage.feed.wait(t.Context(), 0); err != nil || lines[0].Text != "from the bot" || !lines[0].Bot {
		t.Errorf("%+v, %v", lines, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAddress_IsPrivate(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	a := Address{URL: "http://127.0.0.1:1", Key: "k", Data: t.TempDir()}
	if _, err := ReadAddress(""); err == nil || !strings.Contains(err.Error(), "hubbub demo") {
		t.Errorf("without a demo: %v", err)
	}
	remove, err := writeAddress(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"", a.Data} {
		if got, err := ReadAddress(data); err != nil || got != a {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
	path := filepath.Join(a.Data, addressFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAddress(a.Data); err == nil {
		t.Error("a file that others could have written was trusted")
	}
	remove()
	if _, err := ReadAddress(""); err == nil {
		t.Error("the address of an ended demo is still there")
	}
}
