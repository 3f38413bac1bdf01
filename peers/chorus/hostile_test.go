package chorus_test

import (
	"net/http"
	"strings"
	"testing"

	"hubbub/peers/chorus"
	"hubbub/protocol"
)

// TestCallbackKey_DiffersFromNumber checks that an agent that names some events "1" and "2" and
// leaves others without a key loses none of them.
func TestCallbackKey_DiffersFromNumber(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url+"/in", chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "hello"))
	callback := outside.next().body["callback"].(string)
	for _, e := range []struct{ body, key string }{
		{`{"type":"status","status":"thinking"}`, ""},
		{`{"type":"message","content":"the answer"}`, "1"},
		{`{"type":"message","content":"the answer"}`, "1"}, // repeated
		{`{"type":"message","content":"and more"}`, ""},
	} {
		var header []string
		if e.key != "" {
			header = []string{"Idempotency-Key", e.key}
		}
		if status, answer := post(t, callback, e.body, header...); status != http.StatusOK {
			t.Fatalf("%s: %d %s", e.body, status, answer)
		}
	}
	var got []string
	for len(got) < 2 {
		got = append(got, nextReply(t, tg).Text)
	}
	if strings.Join(got, ", ") != "the answer, and more" {
		t.Errorf("the chat got %q", got)
	}
}

// TestExternalAgent_DeletedMessageIsWithdrawn checks that neither the message's text nor that of
// its edits can be read any more, and that a late answer is not posted.
func TestExternalAgent_DeletedMessageIsWithdrawn(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url+"/in", chorus.AgentSettings{})
	event := func(id, kind, text string, sequence int64) protocol.ChatMessage {
		m := dm(id, text)
		m.Event, m.Sequence = kind, sequence
		return m
	}
	says(t, tg, "agent:ext", dm("e1", "secret one"))
	outside.next()
	says(t, tg, "agent:ext", event("e1", "edit", "secret two", 2))
	x := toolsOf(t, outside.next())
	says(t, tg, "agent:ext", event("e1", "delete", "", 4))
	says(t, tg, "agent:ext", event("e1", "edit", "secret three", 3)) // overtaken
	says(t, tg, "agent:ext", event("e2", "delete", "", 2))           // overtook its message
	says(t, tg, "agent:ext", dm("e2", "secret four"))
	says(t, tg, "agent:ext", dm("e3", "hello"))
	if c := outside.next(); c.body["message"].(map[string]any)["content"] != "hello" {
		t.Errorf("posted %v", c.body["message"])
	}
	for _, tool := range []string{"chat.list_events", "chat.read_thread"} {
		shown, problem := x.call(tool, map[string]any{})
		if text := asJSON(shown); problem != "" || strings.Contains(text, "secret") || !strings.Contains(text, "hello") {
			t.Errorf("%s shows %s %s", tool, text, problem)
		}
	}
}

// TestExternalAgent_ReadsEditsWithoutSequence covers a chat that does not number its edits.
func TestExternalAgent_ReadsEditsWithoutSequence(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url+"/in", chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "deploy to prod"))
	outside.next()
	for _, text := range []string{"deploy to test", "deploy to staging"} {
		edit := dm("e1", text)
		edit.Event = "edit"
		says(t, tg, "agent:ext", edit)
		if c := outside.next(); c.body["message"].(map[string]any)["content"] != text {
			t.Errorf("posted %v; want %q", c.body["message"], text)
		}
	}
}
