package chorus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"hubbub/peers/chorus"
	"hubbub/peers/netguard"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// changed returns a message with one changed member.
func changed(callback string) func(func(m map[string]any)) map[string]any {
	return func(change func(m map[string]any)) map[string]any {
		m := posted("c", "m", "hello", callback)
		change(m)
		return m
	}
}

func sub(m map[string]any, name string) map[string]any { return m[name].(map[string]any) }

// invalidBodies returns bodies that an inbox refuses.
func invalidBodies(callback string) map[string]any {
	with := changed(callback)
	return map[string]any{
		"no channel":                    with(func(m map[string]any) { delete(m, "channel") }),
		"no channel.id":                 with(func(m map[string]any) { delete(sub(m, "channel"), "id") }),
		"no message":                    with(func(m map[string]any) { delete(m, "message") }),
		"no message.id":                 with(func(m map[string]any) { delete(sub(m, "message"), "id") }),
		"no sender":                     with(func(m map[string]any) { delete(sub(m, "message"), "sender") }),
		"no content":                    with(func(m map[string]any) { delete(sub(m, "message"), "content") }),
		"no callback":                   with(func(m map[string]any) { delete(m, "callback") }),
		"null channel":                  with(func(m map[string]any) { m["channel"] = nil }),
		"a list as channel":             with(func(m map[string]any) { m["channel"] = []any{} }),
		"a number as id":                with(func(m map[string]any) { sub(m, "channel")["id"] = 7 }),
		"an id with a zero-width space": with(func(m map[string]any) { sub(m, "message")["id"] = "m\u200b1" }),
		"a channel with a joiner":       with(func(m map[string]any) { sub(m, "channel")["id"] = "c\u200d" }),
		"a sender that turns the text":  with(func(m map[string]any) { sub(m, "message")["sender"] = "a\u202eb" }),
		"a sender that nobody sees":     with(func(m map[string]any) { sub(m, "message")["sender"] = "\u200b\u2060" }),
		"a blank id":                    with(func(m map[string]any) { sub(m, "message")["id"] = " " }),
		"a long id":                     with(func(m map[string]any) { sub(m, "message")["id"] = strings.Repeat("x", 2000) }),
		"a number as content":           with(func(m map[string]any) { sub(m, "message")["content"] = 7 }),
		"a number as name":              with(func(m map[string]any) { sub(m, "channel")["name"] = 7 }),
		"empty content":                 with(func(m map[string]any) { sub(m, "message")["content"] = "" }),
		"blank content":                 with(func(m map[string]any) { sub(m, "message")["content"] = " \n\t" }),
		"content that nobody sees":      with(func(m map[string]any) { sub(m, "message")["content"] = "\u200b\ufeff \u2060" }),
		"an attachment without address": with(func(m map[string]any) { sub(m, "message")["attachments"] = []any{map[string]any{"name": "a.pdf"}} }),
		"a number as attachment":        with(func(m map[string]any) { sub(m, "message")["attachments"] = []any{1} }),
		"an inline attachment":          with(func(m map[string]any) { sub(m, "message")["attachments"] = []any{"data:text/plain,x"} }),
		"a file as attachment":          with(func(m map[string]any) { sub(m, "message")["attachments"] = []any{"file:///etc/passwd"} }),
		"attachments of another type":   with(func(m map[string]any) { sub(m, "message")["attachments"] = "a.pdf" }),
		"too many attachments":          with(func(m map[string]any) { sub(m, "message")["attachments"] = make([]any, 33) }),
		"another case":                  with(func(m map[string]any) { m["Callback"] = m["callback"]; delete(m, "callback") }),
		"a relative callback":           with(func(m map[string]any) { m["callback"] = "/cb" }),
		"a file callback":               with(func(m map[string]any) { m["callback"] = "file:///etc/passwd" }),
		"a private callback":            with(func(m map[string]any) { m["callback"] = "http://10.0.0.1/cb" }),
		"an mcp without url":            with(func(m map[string]any) { m["mcp"] = map[string]any{} }),
		"an mcp string":                 with(func(m map[string]any) { m["mcp"] = "https://example.com" }),
		"a private mcp":                 with(func(m map[string]any) { m["mcp"] = map[string]any{"url": "http://169.254.169.254/"} }),
		"a bad header": with(func(m map[string]any) {
			m["mcp"] = map[string]any{"url": callback, "headers": map[string]any{"A b": "c"}}
		}),
		"a split header": with(func(m map[string]any) {
			m["mcp"] = map[string]any{"url": callback, "headers": map[string]any{"A": "b\r\nC: d"}}
		}),
		"a Host header": with(func(m map[string]any) {
			m["mcp"] = map[string]any{"url": callback, "headers": map[string]any{"host": "x"}}
		}),
		"a number as header": with(func(m map[string]any) {
			m["mcp"] = map[string]any{"url": callback, "headers": map[string]any{"A": 1}}
		}),
		"two of one name": with(func(m map[string]any) {
			m["mcp"] = []any{map[string]any{"name": "a", "url": callback}, map[string]any{"name": "a", "url": callback}}
		}),
		"too many mcp servers": with(func(m map[string]any) { m["mcp"] = make([]any, 17) }),
		"no JSON":              "hello",
		"half JSON":            `{"channel":`,
		"a list":               "[]",
		"null":                 "null",
		"nothing":              "",
		"broken UTF-8":         "{\"channel\":{\"id\":\"\xff\"}}",
		"unpaired surrogate":   `{"channel":{"id":"c"},"message":{"id":"m","sender":"a\ud800","content":"c"},"callback":"` + callback + `"}`,
		"very deep":            strings.Repeat("[", 100_000),
	}
}

func TestInbox_RefusesInvalidBodies(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	inbox, with := r.inbox("ops"), changed(callback.url)
	for name, body := range invalidBodies(callback.url) {
		status, answer := post(t, inbox, body)
		if status != http.StatusBadRequest || !strings.Contains(answer, "error") {
			t.Errorf("%s: %d %s; want 400 with a reason", name, status, answer)
		}
	}
	for name, body := range map[string]any{
		"unknown members": with(func(m map[string]any) { m["x"] = 1; sub(m, "message")["y"] = []any{1} }),
		"attachments": with(func(m map[string]any) {
			sub(m, "message")["id"], sub(m, "message")["content"] = "m2", ""
			sub(m, "message")["attachments"] = []any{"https://files.example/a.pdf", map[string]any{"name": "b", "url": "https://files.example/b"}}
		}),
		"an attachment with a name in lines": with(func(m map[string]any) {
			sub(m, "message")["id"] = "m6"
			sub(m, "message")["attachments"] = []any{map[string]any{"name": "a\nb\u202e.pdf", "url": "https://files.example/a"}}
		}),
		"no attachments": with(func(m map[string]any) { sub(m, "message")["id"], sub(m, "message")["attachments"] = "m5", []any{} }),
		"null mcp":       with(func(m map[string]any) { sub(m, "message")["id"], m["mcp"] = "m3", nil }),
		"empty mcp list": with(func(m map[string]any) { sub(m, "message")["id"], m["mcp"] = "m4", []any{} }),
	} {
		if status, answer := post(t, inbox, body); status != http.StatusOK {
			t.Errorf("%s: %d %s; want 200", name, status, answer)
		}
	}
	callback.none()
}

func TestInbox_LimitsTheSizeOfMessages(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	inbox := r.inbox("ops")
	fits := posted("c", "fits", strings.Repeat("x", 1<<20-4096), callback.url)
	if status, answer := post(t, inbox, fits); status != http.StatusOK {
		t.Errorf("a body below the limit: %d %s; want 200", status, answer)
	}
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	agent.NextOf(t, protocol.TypeChatMessage) // it really fits
	if status, _ := post(t, inbox, posted("c", "large", strings.Repeat("x", 1<<20), callback.url)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body above the limit: %d; want 413", status)
	}
	// Escaped, it is larger than a frame, although the body is not too large.
	if status, _ := post(t, inbox, `{"channel":{"id":"c"},"message":{"id":"e","sender":"a","content":"`+strings.Repeat("<", 300<<10)+`"},"callback":"`+callback.url+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a message above the frame: %d; want 413", status)
	}
	// A body without a length is read no further than the limit.
	req, err := http.NewRequest(http.MethodPost, inbox, struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", 2<<20))})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a long stream: %d; want 413", resp.StatusCode)
	}
}

// TestInbox_InvalidSecretsGetTheSameAnswer checks that unknown, wrong, rotated and revoked
// connection strings get the same answer and headers for every body.
func TestInbox_InvalidSecretsGetTheSameAnswer(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	ctx := context.Background()
	rotated, revoked := r.inbox("rotated"), r.inbox("revoked")
	live, err := r.store.RotateInbox(ctx, "rotated")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.RevokeInbox(ctx, "revoked"); err != nil {
		t.Fatal(err)
	}
	if status, _ := post(t, chorus.ConnectionString(r.url, live), posted("c", "m", "x", callback.url)); status != http.StatusOK {
		t.Errorf("the new string: %d; want 200", status)
	}
	dead := []string{rotated, revoked, r.url + "/inbox/sk_unknown", r.url + "/inbox/x", chorus.ConnectionString(r.url, live) + "x", r.url + "/inbox/%00"}
	for _, body := range []any{posted("c", "m2", "x", callback.url), "not JSON", strings.Repeat("x", 1<<20+1), ""} {
		var first string
		for _, url := range dead {
			raw, ok := body.(string)
			if !ok {
				raw = asJSON(body)
			}
			resp, err := http.Post(url, "application/json", strings.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 1000)
			n, _ := resp.Body.Read(answer)
			resp.Body.Close()
			resp.Header.Del("Date")
			got := fmt.Sprint(resp.StatusCode, asJSON(resp.Header), string(answer[:n]))
			if first == "" {
				first = got
			}
			if got != first || resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s answers %s; the first answered %s", url, got, first)
			}
		}
	}
	if _, err := r.store.RotateInbox(ctx, "revoked"); err == nil {
		t.Error("a revoked inbox was rotated")
	}
	if _, err := r.store.CreateInbox(ctx, "rotated"); err == nil {
		t.Error("an inbox was created twice")
	}
	if _, err := r.store.CreateInbox(ctx, "revoked"); err != nil {
		t.Errorf("a revoked inbox cannot be created anew: %v", err)
	}
}

// TestEgress_ChecksTargetsWhenDialed covers a name, a redirect and a literal address.
func TestEgress_ChecksTargetsWhenDialed(t *testing.T) {
	inner := newReceiver(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(inner.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	outer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+port+"/stolen", http.StatusTemporaryRedirect)
	}))
	outer.Listener.Close()
	if outer.Listener, err = net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skip("this machine has one loopback address only:", err)
	}
	outer.Start()
	t.Cleanup(outer.Close)
	r := startNew(t, func(o *chorus.Options) { o.Allow = prefixesOf("127.0.0.2/32") })
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	for i, callback := range []string{outer.URL, "http://localtest.invalid:" + port} {
		if status, answer := post(t, inbox, posted("c", fmt.Sprint(i), "x", callback)); status != http.StatusOK {
			t.Fatalf("%s: %d %s", callback, status, answer)
		}
		agent.NextOf(t, protocol.TypeChatMessage)
		agent.Send(t, "chorus:ops.c", protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
		if got := nextOutcome(t, agent); !strings.Contains(got, "failed ") {
			t.Errorf("%s: %s; want it failed", callback, got)
		}
	}
	inner.none()
	for _, callback := range []string{inner.url, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://localhost:" + port} {
		if status, answer := post(t, inbox, posted("c", callback, "x", callback)); status != http.StatusBadRequest || !strings.Contains(answer, "--allow-target") {
			t.Errorf("%s: %d %s; want 400 that names the flag", callback, status, answer)
		}
	}
}

// TestInbox_LimitsWaitingMessages also checks the limit of concurrent callers.
func TestInbox_LimitsWaitingMessages(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	slow, quick := r.inbox("slow"), r.inbox("quick")
	const admitted = 16
	for i := range admitted { // each is let in, and does not send its body
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", strings.TrimPrefix(slow, r.url))
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("caller %d: %q, %v", i, line, err)
		}
	}
	if status, _ := post(t, slow, posted("c", "m", "x", callback.url)); status != http.StatusServiceUnavailable {
		t.Errorf("one caller more: %d; want 503", status)
	}
	if status, _ := post(t, quick, posted("c", "m", "x", callback.url)); status != http.StatusOK {
		t.Errorf("another inbox: %d; want 200", status)
	}
}

// FuzzInboxBody checks that no body crashes the gateway, and that an accepted one has every
// required member.
func FuzzInboxBody(f *testing.F) {
	valid, err := json.Marshal(posted("c", "m", "x", "https://example.com/cb"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte(`{"channel":{"id":"c"},"message":{"id":"m","sender":"s","content":"c"},"callback":"https://[::1]/","mcp":[{"url":"http://x","headers":{"A":"b"}}]}`))
	f.Add([]byte(`{"channel":[],"message":null,"callback":7,"mcp":{}}`))
	f.Add([]byte("{\"channel\":{\"id\":\"\\ud800\"}}"))
	f.Add([]byte(strings.Replace(string(valid), `"m"`, `"m\u001b[2J"`, 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := chorus.ParseInboxMessage(body, netguard.New(nil))
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("the error is %d bytes long; it may repeat what was sent", len(err.Error()))
			}
			return
		}
		if p.ChannelID == "" || p.MessageID == "" || p.Sender == "" || p.Callback == "" {
			t.Errorf("accepted %+v", p)
		}
		if strings.ContainsFunc(string(p.ChannelID)+p.MessageID+p.Sender, unicode.IsControl) || !text.IsCleanName(string(p.ChannelID)+p.MessageID) {
			t.Errorf("accepted control characters: %+q", p)
		}
		if err := protocol.CheckPeerID(string(chorus.ChannelPeer("ops", p.ChannelID))); err != nil {
			t.Errorf("the channel cannot be a peer: %v", err)
		}
		for _, s := range p.MCP {
			if s.URL == "" {
				t.Errorf("accepted an MCP server without an address: %+v", p.MCP)
			}
		}
	})
}

// FuzzCallbackBody covers what external agents send.
func FuzzCallbackBody(f *testing.F) {
	for _, body := range []string{`{"type":"message","content":"x"}`, `{"type":"tool_call","name":"n","args":{},"id":"1"}`, `{"type":"tool_result","content":[1],"id":"\ud800"}`, `{"type":7}`, `[]`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := chorus.ParseEvent(body)
		if err != nil {
			return
		}
		if _, err := json.Marshal(e); err != nil || !text.IsCleanName(e.ID) {
			t.Errorf("what was accepted cannot be passed on: %+v, %v", e, err)
		}
	})
}

func TestChannelPeer_EscapesTheChannelID(t *testing.T) {
	tests := map[chorus.ChannelID]string{
		"ch_abc123":   "chorus:ops.ch_abc123",
		"C04-ABC":     "chorus:ops.C04-ABC",
		"a.b:c/d e":   "chorus:ops.a%2Eb%3Ac%2Fd%20e",
		"*?[]{}\\%":   "chorus:ops.%2A%3F%5B%5D%7B%7D%5C%25",
		"é":           "chorus:ops.%C3%A9",
		"\x00\n":      "chorus:ops.%00%0A",
		"a%2Eb":       "chorus:ops.a%252Eb",
		"~deadbeef":   "chorus:ops.%7Edeadbeef",
		"../../spawn": "chorus:ops.%2E%2E%2F%2E%2E%2Fspawn",
	}
	for id, want := range tests {
		if got := chorus.ChannelPeer("ops", id); string(got) != want {
			t.Errorf("%q: %s; want %s", id, got, want)
		}
	}
	long := chorus.ChannelID(strings.Repeat("ä", 500))
	a, b := chorus.ChannelPeer("ops", long), chorus.ChannelPeer("ops", long+"b")
	if a == b || len(a) > protocol.MaxPattern || !strings.Contains(string(a), "~") {
		t.Errorf("long ids: %s and %s; want two that differ and can be granted", a, b)
	}
	if protocol.CheckTopic(string(a)) != nil || protocol.RoleOf(a) != protocol.RoleChorus {
		t.Errorf("%s is no channel", a)
	}
}
