package chorus_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/protocol"
)

// standard returns the headers with which a sender of Standard Webhooks signs a body.
func standard(secret, id string, at time.Time, body string) []string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	return []string{"webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", "v1a,other v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
}

// github returns the header with which GitHub signs a body.
func github(secret, body string) []string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-GitHub-Event", "push"}
}

// hook makes a hook and returns its URL and secret.
func (r *fixture) hook(name chorus.HookName, chat protocol.PeerID, oblige bool) (url, secret string) {
	r.t.Helper()
	secret, err := r.store.AddHook(context.Background(), name, chat, oblige)
	if err != nil {
		r.t.Fatal(err)
	}
	return chorus.HookURL(r.url, name), secret
}

// TestCheckSignature_AcceptsGitHubsExample uses the secret, body and signature of GitHub's
// documentation.
func TestCheckSignature_AcceptsGitHubsExample(t *testing.T) {
	header := http.Header{"X-Hub-Signature-256": {"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}}
	if id, err := chorus.CheckSignature(header, []byte("Hello, World!"), "It's a Secret to Everybody", time.Now()); err != nil || id == "" {
		t.Errorf("%q, %v", id, err)
	}
}

// TestHook_SignedPostReachesItsChat checks both kinds of signatures. A post arrives once, as a
// quotation by the hook, with the obligation of the hook. Without its bridge it waits, even
// across a restart.
func TestHook_SignedPostReachesItsChat(t *testing.T) {
	t.Parallel()
	b, folder := bustest.Start(t, nil), filepath.Join(t.TempDir(), "chorus")
	r := start(t, b, folder, nil)
	ci, ciSecret := r.hook("ci", "tg:-100", false)
	alerts, alertsSecret := r.hook("alerts", "tg:-100", true)
	take := func(url, body string, header []string, want string) {
		t.Helper()
		if status, answer := post(t, url, body, header...); status != http.StatusOK || !strings.Contains(answer, `"status":"`+want+`"`) {
			t.Errorf("%s: %d %s; want %s", url, status, answer, want)
		}
	}
	body := "{\"text\":\"@lead leave\"}\r\nok"
	take(ci, body, standard(ciSecret, "msg_1", time.Now(), body), "accepted")
	take(ci, "another", standard(ciSecret, "msg_1", time.Now(), "another"), "duplicate")
	take(alerts, body, github(alertsSecret, body), "accepted")
	take(alerts, body, append(github(alertsSecret, body), "X-GitHub-Delivery", "forged"), "duplicate")
	form := "payload=%7B%22a%22%3A+1%7D"
	take(alerts, form, append(github(alertsSecret, form), "Content-Type", "application/x-www-form-urlencoded"), "accepted")
	hooks, err := r.store.Hooks(t.Context())
	if err != nil || len(hooks) != 2 || hooks[0].Name != "alerts" || hooks[0].Posts != 2 || hooks[0].Waiting != 2 || hooks[1].Posts != 1 || hooks[1].Waiting != 1 {
		t.Errorf("%+v, %v", hooks, err)
	}
	r.stop()

	bridge := b.Join(t, "tg:123", "tg:*")
	start(t, b, folder, nil)
	for _, want := range []struct{ source, event, text string }{
		{"hook:ci:msg_1", "status", "> {\"text\":\"@lead leave\"}\n> \n> ok"},
		{"hook:alerts:body-", "assignment", "> push\n> {\"text\":\"@lead leave\"}\n> \n> ok"},
		{"hook:alerts:body-", "assignment", "> push\n> {\"a\": 1}"},
	} {
		m := bridge.NextOf(t, protocol.TypeChatMessage)
		var c protocol.ChatMessage
		if err := json.Unmarshal(m.Message.Content, &c); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(c.SourceID, want.source) || c.Event != want.event || c.Text != want.text || c.Author.Kind != "system" || !strings.HasPrefix(want.source, c.Author.ID+":") {
			t.Errorf("the bridge got %+v of %+v; want %+v", c, c.Author, want)
		}
	}
}

// TestHook_RefusesInvalidPosts checks the status and the sentence of each refusal, and that Hooks
// returns the last one. A signature with the secret before a rotation is refused, and a removed
// hook is not found.
func TestHook_RefusesInvalidPosts(t *testing.T) {
	r := startNew(t, nil)
	url, secret := r.hook("ci", "tg:1", false)
	old := secret
	secret, err := r.store.RotateHook(t.Context(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	with := func(header []string, i int, value string) []string {
		header = slices.Clone(header)
		header[i] = value
		return header
	}
	now := time.Now()
	good := standard(secret, "m", now, "x")
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		says   string
	}{
		"no signature":         {"x", nil, 403, "not signed"},
		"the old secret":       {"x", standard(old, "m", now, "x"), 403, "does not match"},
		"another body":         {"y", good, 403, "does not match"},
		"another id":           {"x", with(good, 1, "n"), 403, "does not match"},
		"another time":         {"x", with(good, 3, "1"), 403, "does not match"},
		"another version":      {"x", with(good, 5, strings.ReplaceAll(good[5], "v1,", "v2,")), 403, "does not match"},
		"no base64":            {"x", with(good, 5, "v1,?"), 403, "does not match"},
		"GitHub's for another": {"y", github(secret, "x"), 403, "does not match"},
		"GitHub's, no hex":     {"x", []string{"X-Hub-Signature-256", "sha256=zz"}, 403, "does not match"},
		"too old":              {"x", standard(secret, "m", now.Add(-6*time.Minute), "x"), 400, "5 minutes"},
		"too early":            {"x", standard(secret, "m", now.Add(6*time.Minute), "x"), 400, "5 minutes"},
		"no id":                {"x", standard(secret, "", now, "x"), 400, "webhook-id"},
		"an id with a space":   {"x", standard(secret, "m 1", now, "x"), 400, "webhook-id"},
		"no UTF-8":             {"\xff", standard(secret, "m", now, "\xff"), 400, "UTF-8"},
		"nothing":              {" ", standard(secret, "m", now, " "), 400, "empty"},
		"too large":            {strings.Repeat("x", 1<<20+1), nil, 413, "1 MiB"},
		"larger than a frame":  {strings.Repeat("\"", 1<<20-99), standard(secret, "m", now, strings.Repeat("\"", 1<<20-99)), 413, "frame"},
	} {
		if status, answer := post(t, url, c.body, c.header...); status != c.status || !strings.Contains(answer, c.says) {
			t.Errorf("%s: %d %s; want %d, %s", name, status, answer, c.status, c.says)
		}
	}
	hooks, err := r.store.Hooks(t.Context())
	if err != nil || len(hooks) != 1 || hooks[0].Posts != 0 || hooks[0].RefusedWhy == "" || !strings.HasPrefix(hooks[0].Trouble(), "refused at ") {
		t.Errorf("%+v, %v", hooks, err)
	}
	if strings.Contains(r.logs.String(), secret) {
		t.Error("the secret is in the log")
	}
	if err := r.store.RemoveHook(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if status, answer := post(t, url, "x", standard(secret, "m", now, "x")...); status != http.StatusNotFound || !strings.Contains(answer, "no such hook") {
		t.Errorf("a hook that is gone: %d %s", status, answer)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET: %d", resp.StatusCode)
	}
}

// TestHook_ReachesAChannel checks that a post to a hook reaches the channel's agent. Its answer
// goes to the newest callback, as do the answer to a reminder and what the agent says first. Until
// its service has said something, the channel accepts no post.
func TestHook_ReachesAChannel(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	inbox := r.inbox("ops")
	channel := chorus.ChannelPeer("ops", "c1")
	url, secret := r.hook("ci", channel, true)
	early, earlySecret := r.hook("early", "chorus:ops.nobody", false)
	if status, answer := post(t, early, "red", standard(earlySecret, "p1", time.Now(), "red")...); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	waitFor(t, func() bool {
		hooks, err := r.store.Hooks(t.Context())
		return err == nil && hooks[1].Lost == 1 && strings.Contains(hooks[1].Trouble(), "no such channel")
	})
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	if status, answer := post(t, inbox, posted("c1", "m1", "hello", callback.url+"/m1")); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	agent.NextOf(t, protocol.TypeChatMessage)
	if status, answer := post(t, url, "red", standard(secret, "p1", time.Now(), "red")...); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	m := agent.NextOf(t, protocol.TypeChatMessage)
	var c protocol.ChatMessage
	if err := json.Unmarshal(m.Message.Content, &c); err != nil {
		t.Fatal(err)
	}
	if c.SourceID != "hook:ci:p1" || c.Text != "> red" || c.Event != "assignment" || c.Author.ID != "hook:ci" || c.Chat.ID != string(channel) {
		t.Errorf("the agent got %+v of %+v in %+v", c, c.Author, c.Chat)
	}
	for i, to := range []string{c.SourceID, "reminder:r-1:7", ""} {
		said := fmt.Sprint("answer ", i)
		if res := agent.Send(t, channel.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: said, InReplyTo: to, IdempotencyKey: said}); res.DeliveredTo != 1 {
			t.Fatalf("%q: %+v", to, res)
		}
		for {
			got := callback.next()
			if got.body["type"] != "message" {
				continue
			}
			if got.uri != "/m1" || got.body["content"] != said {
				t.Errorf("%q: the callback got %s %s", to, got.uri, got.raw)
			}
			break
		}
	}
}
