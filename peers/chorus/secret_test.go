package chorus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/protocol"
	"hubbub/protocol/redact"
)

// TestSecrets_AppearNowhere drives both sides through success and failure, and then
// looks for every secret in the log, on the bus (its activity log), and in every
// file of the data folder but the key.
func TestSecrets_AppearNowhere(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t, nil)
	folder := filepath.Join(t.TempDir(), "chorus")
	r := start(t, b, folder, nil)
	spawner(t, b, "agent:a")
	agent, tg := b.Join(t, "agent:a", "agent:a"), b.Join(t, "tg:42", "tg:42")
	callback, outside := newReceiver(t), newReceiver(t)
	inbox := r.inbox("ops")
	var secrets []string
	secret := func(s string) string { secrets = append(secrets, s); return s }
	secret(inbox[strings.LastIndex(inbox, "/")+1:])
	// Agent side: a callback that works, one that fails, one where nobody listens.
	closed := httptest.NewServer(nil)
	closed.Close()
	for i, url := range []string{callback.url + "/" + secret("tok_good_0123456789"), callback.url + "/" + secret("tok_bad_0123456789") + "?fail=1", closed.URL + "/" + secret("tok_closed_0123456789")} {
		body := posted("c", string(rune('a'+i)), "hello", url)
		body["mcp"] = map[string]any{"url": closed.URL + "/" + secret("mcp_path_"+string(rune('a'+i))+"012345"), "headers": map[string]any{"Authorization": "Bearer " + secret("mcp_bearer_"+string(rune('a'+i))+"01234")}}
		post(t, inbox, body)
		callback.responding(func(w http.ResponseWriter, req *http.Request, _ int) bool {
			if req.URL.RawQuery == "" {
				return false
			}
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		proxy := offered(t, agent)
		post(t, proxy, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", "Bearer "+secret("bus_token_"+string(rune('a'+i))+"01234"))
		agent.Send(t, "chorus:ops.c", protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
		nextOutcome(t, agent)
	}
	// Service side: an agent that works, one that does not, and one where nobody listens.
	r.add("good", outside.url+"/inbox/"+secret("sk_good_0123456789"), chorus.AgentSettings{})
	r.add("bad", callback.url+"/inbox/"+secret("sk_bad_0123456789")+"?fail=1", chorus.AgentSettings{})
	r.add("closed", closed.URL+"/inbox/"+secret("sk_closed_0123456789"), chorus.AgentSettings{})
	for _, name := range []string{"bad", "closed", "good"} {
		says(t, tg, protocol.Topic("agent:"+name), dm("e-"+name, "hello?"))
		if name != "good" {
			nextReply(t, tg) // it could not be reached
		}
	}
	c := outside.next()
	url := c.body["callback"].(string)
	secret(url[strings.LastIndex(url, "/")+1:])
	bearer := c.body["mcp"].(map[string]any)["headers"].(map[string]any)["Authorization"].(string)
	secret(strings.TrimPrefix(bearer, "Bearer "))
	post(t, url, "nonsense")
	post(t, url+"x", "nonsense")
	post(t, inbox, "nonsense")
	post(t, url, `{"type":"message","content":"hi"}`)
	nextReply(t, tg)
	post(t, c.body["mcp"].(map[string]any)["url"].(string), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", bearer+"wrong")
	agents, err := r.store.Agents(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	inboxes, err := r.store.Inboxes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	agent.Leave()
	tg.Leave()
	b.Stop()
	places := map[string][]byte{"the log": []byte(r.logs.String()), "the list": []byte(asJSON(agents) + asJSON(inboxes))}
	addFiles(t, places, folder, 0o077)
	addFiles(t, places, filepath.Dir(b.Log), 0)
	if len(places["chorus.db"]) == 0 || len(places["agent-good.db"]) == 0 || len(places["activity.db"]) == 0 || len(places["the log"]) == 0 {
		t.Fatal("a place is empty; nothing was looked at")
	}
	for where, content := range places {
		for _, s := range secrets {
			if bytes.Contains(content, []byte(s)) {
				at := bytes.Index(content, []byte(s))
				t.Errorf("%s holds %q: ...%q", where, s, content[max(0, at-80):min(len(content), at+80)])
			}
		}
	}
}

// addFiles adds the contents of the files below a folder, by name. None may have one of the
// forbidden permissions.
func addFiles(t *testing.T, places map[string][]byte, folder string, forbidden fs.FileMode) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, f os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&forbidden != 0 {
			t.Errorf("%s has mode %s; want it for its owner alone", path, info.Mode())
		}
		if !f.IsDir() {
			places[f.Name()], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecrets_HaveShapes checks that the activity log and agents' tools show none of our secrets: they
// know them by their shapes.
func TestSecrets_HaveShapes(t *testing.T) {
	r := redact.New()
	for range 200 {
		for _, s := range append(chorus.NewSecrets(), protocol.NewDerivedToken("token", "https://h.example")) {
			if got := r.String("https://h.example/inbox/" + s + " is mine"); strings.Contains(got, s[:12]) || !strings.HasSuffix(got, " is mine") {
				t.Fatalf("%s is shown as %s", s, got)
			}
		}
	}
}

func TestSealer_RefusesAReadableKey(t *testing.T) {
	folder := t.TempDir()
	store, err := chorus.OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AddAgent(context.Background(), "ext", "https://example.com/inbox/sk_1", chorus.AgentSettings{}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(folder, "chorus.key")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v; want mode 0600", info.Mode(), err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := chorus.OpenStore(folder); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a key that others can read: %v; want a refusal that says what to do", err)
	}
	if err := os.WriteFile(key, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := chorus.OpenStore(folder); err == nil || !strings.Contains(err.Error(), "restore it from a backup, or remove it") {
		t.Errorf("a key that was cut: %v; want a refusal that says what to do", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if store, err = chorus.OpenStore(folder); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Agents(context.Background()); err == nil || !strings.Contains(err.Error(), "chorus.key") {
		t.Errorf("with another key: %v; want an error that names it", err)
	}
}

// TestProxy_AllowsOnlyTheAssignedAgent asks a bus with credentials.
func TestProxy_AllowsOnlyTheAssignedAgent(t *testing.T) {
	r := startNew(t, nil)
	callback, service := newReceiver(t), newService(t, "x")
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	tokens := map[string][]string{"Bearer of-a": {"agent:a"}, "Bearer of-b": {"agent:b"}, "Bearer of-all": {"agent:*"}, "Bearer of-tg": {"tg:*"}}
	broken := false
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		identities, ok := tokens[req.Header.Get("Authorization")]
		switch {
		case req.URL.Path != "/whoami" || req.Method != http.MethodGet:
			t.Errorf("the bus was asked %s %s", req.Method, req.URL.Path)
		case broken:
			w.WriteHeader(http.StatusInternalServerError)
		case !ok:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "n", "identities": identities})
		}
	}))
	t.Cleanup(bus.Close)
	body := posted("c", "m", "x", callback.url)
	body["mcp"] = map[string]any{"url": service.url}
	post(t, inbox, body)
	offered(t, agent)
	r.stop()

	// The same gateway, whose tokens a scripted bus knows.
	clock := newClock()
	again := start(t, r.bus, r.folder, func(o *chorus.Options) {
		o.Now = clock.now
		o.Peer.Dial = r.bus.Dial
		o.Peer.Buses = []string{strings.Replace(bus.URL, "http", "ws", 1)}
	})
	proxy := again.url + "/tools/ops/c"
	ask := func(bearer string) int {
		t.Helper()
		status, _ := post(t, proxy, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", bearer, "Accept", "application/json, text/event-stream")
		return status
	}
	for bearer, want := range map[string]int{
		"Bearer of-a": http.StatusOK, "Bearer of-all": http.StatusOK, "Bearer of-b": http.StatusUnauthorized,
		"Bearer of-tg": http.StatusUnauthorized, "Bearer of-nobody": http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		if got := ask(bearer); got != want {
			t.Errorf("%q: %d; want %d", bearer, got, want)
		}
	}
	if status, _ := post(t, again.url+"/tools/ops/other", "{}", "Authorization", "Bearer of-all"); status != http.StatusUnauthorized {
		t.Errorf("a channel that does not exist: %d; want it to look like another's", status)
	}
	delete(tokens, "Bearer of-a") // revoked: dead within a second
	clock.advance(900 * 1e6)
	if got := ask("Bearer of-a"); got != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d; want 401", got)
	}
	broken = true
	clock.advance(900 * 1e6)
	if got := ask("Bearer of-all"); got != http.StatusServiceUnavailable {
		t.Errorf("when the bus cannot be asked: %d; want 503", got)
	}
}
