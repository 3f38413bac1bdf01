package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus"
	"hubbub/bus/grant"
	"hubbub/peers/broker"
	client "hubbub/peers/collab"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"

	"github.com/rs/zerolog"
)

// TestConsole_DecidesAsItsVisitor checks that a visitor decides over the real bus and broker
// under the credential's name, until the credential is revoked.
func TestConsole_DecidesAsItsVisitor(t *testing.T) {
	dir, log := t.TempDir(), zerolog.Nop()
	file := grant.NewFile(filepath.Join(dir, grant.FileName))
	issue := func(c grant.Credential) (string, *grant.Credential) {
		token, err := file.Create(c)
		if err != nil {
			t.Fatal(err)
		}
		held, ok := file.Lookup(token)
		if !ok {
			t.Fatal("the credential is not there")
		}
		return token, held
	}
	operator, _ := issue(grant.Credential{Name: "will", Identities: []string{"cli:*"}, Subscribe: []string{"*"}, Publish: []string{"*"}})
	watcher, _ := issue(grant.Credential{Name: "watcher", Identities: []string{"cli:watcher"}, Subscribe: []string{"*"}})
	_, everything := issue(grant.Credential{Name: "all", Identities: []string{"*"}, Subscribe: []string{"*"}, Publish: []string{"*"}})

	s := &settings{NoLog: true, bus: bus.Options{Listen: "127.0.0.1:0", Credentials: file, Log: &log}}
	view := s.newView(dir, &log)
	server := bus.New(nil, &s.bus)
	run := func(work func(ctx context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- work(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("ended: %v", err)
			}
		}
	}
	defer view.start(server)()
	defer run(server.Run)()
	link := &peer.Options{Dial: func(context.Context) (jsonrpc.Stream, error) {
		ours, theirs := wire.Pipe(nil)
		go server.ServeStream(theirs, "test", everything)
		return ours, nil
	}}
	db, err := store.Open(filepath.Join(dir, "broker.db"), broker.Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ready := make(chan struct{})
	defer run(broker.New(db, peer.New(protocol.PeerBroker, link), &broker.Options{OnReady: func() { close(ready) }}).Run)()
	<-ready
	lead := peer.New("agent:lead", link)
	asking := client.New("agent:lead", lead.Send, nil)
	lead.Handle(protocol.TypeCollabResult, asking.Take)
	lead.Handle(protocol.TypeChatMessage, func(ctx context.Context, d *peer.Delivery) error {
		var m protocol.ChatMessage
		if err := d.Decode(&m); err != nil {
			return err
		}
		for _, r := range []protocol.ChatReply{
			{Text: "to another", InReplyTo: "msg_0"}, {Typing: true, InReplyTo: string(d.Message.MessageID)},
			{Text: m.Author.DisplayName + " in " + m.Chat.ID + " said " + m.Text, InReplyTo: string(d.Message.MessageID)},
		} {
			if _, err := lead.Send(ctx, d.Message.From.Topic(), lead.NewMessage(protocol.TypeTGReply, r)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := lead.Subscribe(t.Context(), "agent:lead"); err != nil {
		t.Fatal(err)
	}
	defer run(lead.Run)()
	if _, err := collab.DecisionAsk.Ask(t.Context(), asking, collab.ApprovalAskParams{ID: "dec_1", ApprovalParams: collab.ApprovalParams{
		Tool: "shell", Arguments: "make", Digest: "abc", Chat: "tg:42", MayDecide: []string{}, ExpiresAt: protocol.FormatTime(time.Now().Add(time.Hour)),
	}}); err != nil {
		t.Fatal(err)
	}

	ask := func(token, method, path, form string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/console/"+path, strings.NewReader(form))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		view.console.ServeHTTP(w, r)
		return w.Code, w.Body.String() + w.Header().Get("Location")
	}
	decide := func(token, do string) (int, string) {
		return ask(token, http.MethodPost, "decision", url.Values{"id": {"dec_1"}, "do": {do}}.Encode())
	}
	if _, body := ask(operator, http.MethodGet, "decisions", ""); !strings.Contains(body, "dec_1") || !strings.Contains(body, "come from the broker") {
		t.Errorf("the page is %s", body)
	}
	if code, body := decide(watcher, "always"); code != http.StatusForbidden {
		t.Errorf("a watcher decided: %d %s", code, body)
	}
	if code, body := decide(operator, "always"); code != http.StatusSeeOther {
		t.Errorf("allowed: %d %s", code, body)
	}
	if got, err := collab.DecisionGet.Ask(t.Context(), asking, collab.IDParams{ID: "dec_1"}); err != nil || got.Decision.Describe() != "allowed by cli:will for this tool always" {
		t.Errorf("it is %s, %v", got.Decision.Describe(), err)
	}
	if code, body := decide(operator, "deny"); code != http.StatusConflict || !strings.Contains(body, "no longer open") {
		t.Errorf("denied after it: %d %s", code, body)
	}
	held, _ := file.Lookup(operator)
	last := &brokerClient{view, file, held, ""}
	if code, body := decide(operator, "revoke"); code != http.StatusSeeOther || !strings.Contains(body, "revoked") {
		t.Errorf("revoked: %d %s", code, body)
	}
	talk := func(token, agent string) (int, string) {
		return ask(token, http.MethodPost, "agent", url.Values{"id": {agent}, "said": {"hello"}}.Encode())
	}
	for range 2 { // one conversation
		if code, body := talk(operator, "agent:lead"); code != http.StatusOK || !strings.Contains(body, "</b> will in cli:will.chat-lead said hello<") {
			t.Errorf("said: %d %s", code, body)
		}
	}
	if code, body := talk(operator, "agent:gone"); code != http.StatusOK || !strings.Contains(body, "Agent:gone is not on the bus") {
		t.Errorf("said to nobody: %d %s", code, body)
	}
	narrow, _ := issue(grant.Credential{Name: "narrow", Identities: []string{"cli:console"}, Subscribe: []string{"*"}, Publish: []string{"*"}})
	if code, body := talk(narrow, "agent:lead"); code != http.StatusOK || !strings.Contains(body, "The credential may not be cli:NAME.chat-lead") {
		t.Errorf("said by who cannot be answered: %d %s", code, body)
	}
	if code, body := talk(watcher, "agent:lead"); code != http.StatusForbidden {
		t.Errorf("a watcher spoke: %d %s", code, body)
	}
	if err := file.RevokeKeepIssued("will"); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Call(t.Context(), collab.DecisionList.Name, collab.ApprovalListParams{}); err == nil || !strings.Contains(err.Error(), "no longer valid") {
		t.Errorf("asked with a revoked credential: %v", err)
	}
}

func TestConsoleIdentity_IsThePersonsIfGranted(t *testing.T) {
	for want, c := range map[string]*grant.Credential{
		"cli:console.": nil,
		"cli:will.":    {Name: "will", Identities: []string{"cli:*"}},
		"cli:console,": {Name: "will", Identities: []string{"cli:console"}},
		"cli:console;": {Name: "a b", Identities: []string{"cli:console"}},
	} {
		id := string(consoleIdentity(c, ".0123456789", ""))
		if run := strings.HasSuffix(want, "."); run && (!strings.HasPrefix(id, want) || len(id) != len(want)+10) || !run && id != "cli:console" {
			t.Errorf("%+v asks as %s", c, id)
		}
	}
	for want, c := range map[protocol.PeerID]*grant.Credential{ // as ann, where that may be
		"cli:ann.run": {Name: "will", Identities: []string{"cli:*"}}, "cli:will.run": {Name: "will", Identities: []string{"cli:will.*"}},
	} {
		if id := consoleIdentity(c, ".run", "cli:ann"); id != want {
			t.Errorf("%+v asks as %s", c, id)
		}
	}
}
