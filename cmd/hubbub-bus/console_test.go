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

// A consoleFixture is the console of a bus with credentials, a broker and the agent lead, which
// repeats each message.
type consoleFixture struct {
	t                 *testing.T
	view              *view
	file              *grant.File
	agent             *client.Client // lead's connection to the broker
	operator, watcher string         // tokens
}

func newConsoleFixture(t *testing.T) *consoleFixture {
	dir, log := t.TempDir(), zerolog.Nop()
	f := &consoleFixture{t: t, file: grant.NewFile(filepath.Join(dir, grant.FileName))}
	f.operator = f.issue(grant.Credential{Name: "will", Identities: []string{"cli:*"}, Subscribe: []string{"*"}, Publish: []string{"*"}})
	f.watcher = f.issue(grant.Credential{Name: "watcher", Identities: []string{"cli:watcher"}, Subscribe: []string{"*"}})
	everything, _ := f.file.Lookup(f.issue(grant.Credential{Name: "all", Identities: []string{"*"}, Subscribe: []string{"*"}, Publish: []string{"*"}}))

	s := &settings{NoLog: true, bus: bus.Options{Listen: "127.0.0.1:0", Credentials: f.file, Log: &log}}
	f.view = s.newView(dir, &log)
	server := bus.New(nil, &s.bus)
	t.Cleanup(f.view.start(server))
	f.run(server.Run)
	link := &peer.Options{Dial: func(context.Context) (jsonrpc.Stream, error) {
		ours, theirs := wire.Pipe(nil)
		go server.ServeStream(theirs, "test", everything)
		return ours, nil
	}}
	db, err := store.Open(filepath.Join(dir, "broker.db"), broker.Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ready := make(chan struct{})
	f.run(broker.New(db, peer.New(protocol.PeerBroker, link), &broker.Options{OnReady: func() { close(ready) }}).Run)
	<-ready

	lead := peer.New("agent:lead", link)
	f.agent = client.New("agent:lead", lead.Send, nil)
	lead.Handle(protocol.TypeCollabResult, f.agent.Take)
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
	f.run(lead.Run)
	if err := lead.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// issue creates a credential and returns its token.
func (f *consoleFixture) issue(c grant.Credential) string {
	f.t.Helper()
	token, err := f.file.Create(c)
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// run runs work until the end of the test.
func (f *consoleFixture) run(work func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("ended: %v", err)
		}
	})
}

// mustAnswer makes a request and checks its status and its body or redirect.
func (f *consoleFixture) mustAnswer(token, method, path string, form url.Values, code int, want string) {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, "http://127.0.0.1/console/"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	f.view.console.ServeHTTP(w, r)
	if body := w.Body.String() + w.Header().Get("Location"); w.Code != code || !strings.Contains(body, want) {
		f.t.Errorf("%s %v: %d %s; want %d with %q", path, form, w.Code, body, code, want)
	}
}

// decide decides dec_1.
func (f *consoleFixture) decide(token, do string, code int, want string) {
	f.t.Helper()
	f.mustAnswer(token, http.MethodPost, "decision", url.Values{"id": {"dec_1"}, "do": {do}}, code, want)
}

// talk says hello to an agent.
func (f *consoleFixture) talk(token, agent string, code int, want string) {
	f.t.Helper()
	f.mustAnswer(token, http.MethodPost, "agent", url.Values{"id": {agent}, "said": {"hello"}}, code, want)
}

// TestConsole_DecidesAsItsVisitor checks that a visitor decides over the real bus and broker
// under the credential's name.
func TestConsole_DecidesAsItsVisitor(t *testing.T) {
	f := newConsoleFixture(t)
	if _, err := collab.DecisionAsk.Ask(t.Context(), f.agent, collab.ApprovalAskParams{ID: "dec_1", ApprovalParams: collab.ApprovalParams{
		Tool: "shell", Arguments: "make", Digest: "abc", Chat: "tg:42", MayDecide: []string{}, ExpiresAt: protocol.FormatTime(time.Now().Add(time.Hour)),
	}}); err != nil {
		t.Fatal(err)
	}
	f.mustAnswer(f.operator, http.MethodGet, "decisions", nil, http.StatusOK, "dec_1")
	f.mustAnswer(f.operator, http.MethodGet, "decisions", nil, http.StatusOK, "come from the broker")
	f.decide(f.watcher, "always", http.StatusForbidden, "")
	f.decide(f.operator, "always", http.StatusSeeOther, "")
	if got, err := collab.DecisionGet.Ask(t.Context(), f.agent, collab.IDParams{ID: "dec_1"}); err != nil || got.Decision.Describe() != "allowed by cli:will for this tool always" {
		t.Errorf("the decision is %s, %v", got.Decision.Describe(), err)
	}
	f.decide(f.operator, "deny", http.StatusConflict, "no longer open")
	f.decide(f.operator, "revoke", http.StatusSeeOther, "revoked")
}

// TestConsole_TalksAsItsVisitor checks that a visitor's messages to an agent are sent under the
// credential's name, in one conversation, if the credential may receive the answer.
func TestConsole_TalksAsItsVisitor(t *testing.T) {
	f := newConsoleFixture(t)
	for range 2 {
		f.talk(f.operator, "agent:lead", http.StatusOK, "</b> will in cli:will.chat-lead said hello<")
	}
	f.talk(f.operator, "agent:gone", http.StatusOK, "Agent:gone is not on the bus")
	narrow := f.issue(grant.Credential{Name: "narrow", Identities: []string{"cli:console"}, Subscribe: []string{"*"}, Publish: []string{"*"}})
	f.talk(narrow, "agent:lead", http.StatusOK, "The credential may not be cli:NAME.chat-lead")
	f.talk(f.watcher, "agent:lead", http.StatusForbidden, "")
}

func TestConsole_RefusesRevokedCredential(t *testing.T) {
	f := newConsoleFixture(t)
	held, _ := f.file.Lookup(f.operator)
	c := &brokerClient{f.view, f.file, held, ""}
	if err := f.file.RevokeKeepIssued("will"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), collab.DecisionList.Name, collab.ApprovalListParams{}); err == nil || !strings.Contains(err.Error(), "no longer valid") {
		t.Errorf("a call with a revoked credential: %v", err)
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
	for want, c := range map[protocol.PeerID]*grant.Credential{ // as ann, if that is allowed
		"cli:ann.run": {Name: "will", Identities: []string{"cli:*"}}, "cli:will.run": {Name: "will", Identities: []string{"cli:will.*"}},
	} {
		if id := consoleIdentity(c, ".run", "cli:ann"); id != want {
			t.Errorf("%+v asks as %s", c, id)
		}
	}
}
