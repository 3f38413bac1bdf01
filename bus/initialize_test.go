package bus

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/write"
	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// kept is a log that keeps its rows.
type kept struct {
	rows []activitylog.Row
	then func() // runs after each append; may be nil
}

func (k *kept) Admit() error       { return nil }
func (k *kept) Stats() write.Stats { return write.Stats{} }

func (k *kept) TryAppend(_ time.Duration, rows ...activitylog.Row) bool {
	k.Append(rows...)
	return true
}

func (k *kept) Append(rows ...activitylog.Row) {
	k.rows = append(k.rows, rows...)
	if k.then != nil {
		k.then()
	}
}

// events are those of the rows, in their order.
func (k *kept) events() (events []activitylog.Event) {
	for _, r := range k.rows {
		events = append(events, r.Event)
	}
	return events
}

// TestInitialize_HandlesSessionThatEndsMeanwhile ends a session before it gets its clientId,
// after that, and once it belongs to a peer. It never stays in the bus, and the log has as many
// ends as beginnings.
func TestInitialize_HandlesSessionThatEndsMeanwhile(t *testing.T) {
	const id = "agent:a"
	for name, c := range map[string]struct {
		end  func(s *session, end func())
		rows []activitylog.Event
	}{
		"before it has its id": {func(s *session, end func()) {
			end()
			if s.takeIdentity(s.server.newBatch(), id, nil, func() {}) {
				t.Error("a session that has ended got an identity")
			}
		}, nil},
		"before it is announced": {func(s *session, end func()) {
			s.batch = s.server.newBatch()
			s.takeIdentity(s.batch, id, map[protocol.Pattern]bool{"t": false}, func() {})
			end()
			s.recordConnect(nil, nil)
		}, []activitylog.Event{activitylog.PeerConnected, activitylog.PeerDisconnected}},
		"once it is announced": {func(s *session, end func()) {
			s.batch = s.server.newBatch()
			s.takeIdentity(s.batch, id, nil, func() {})
			s.recordConnect(nil, map[protocol.Pattern]bool{"t": false})
			end()
		}, []activitylog.Event{activitylog.PeerConnected, activitylog.Subscribe, activitylog.PeerDisconnected}},
	} {
		log := &kept{}
		srv := New(log, nil)
		stream, _ := wire.Pipe(nil)
		s := srv.openSession(stream, "here", nil)
		b := srv.newBatch()
		c.end(s, func() { s.end(b, "it must") })
		if events := log.events(); !slices.Equal(events, c.rows) {
			t.Errorf("%s: rows %v; want %v", name, events, c.rows)
		}
		if len(srv.sessions.peers) > 0 || len(srv.sessions.sessions) > 0 || len(srv.Peers()) > 0 {
			t.Errorf("%s: it is still there", name)
		}
	}
}

// TestInitialize_EndsWhatIsNoLongerGranted withdraws a grant after it was checked, before the
// session belongs to a peer, and before a subscription counts.
func TestInitialize_EndsWhatIsNoLongerGranted(t *testing.T) {
	log := &kept{}
	srv := New(log, nil)
	stream, _ := wire.Pipe(nil)
	s := srv.openSession(stream, "here", &grant.Credential{Name: "c", Identities: []string{"agent:a"}, Subscribe: []string{"*"}})
	withdraw := func() { s.client.credential.Store(&grant.Credential{Name: "c"}) }

	withdraw()
	if granted, err := s.addPattern("agent:a", false); granted || err == nil {
		t.Errorf("subscribed without a grant: %v", err)
	}
	if all, _ := srv.index.size(); all != 0 || len(s.patterns) != 0 {
		t.Errorf("%d subscriptions are routed to, %v", all, s.patterns)
	}

	s.client.credential.Store(&grant.Credential{Name: "c", Identities: []string{"agent:a"}})
	log.then = withdraw // once the session is recorded as the peer's
	s.acquireBatch()
	if err := s.handle([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:a"}}`)); err != nil {
		t.Fatal(err)
	}
	s.releaseBatch()
	srv.shutdown.background.Wait()
	if want := []activitylog.Event{activitylog.PeerConnected, activitylog.PeerDisconnected}; !slices.Equal(log.events(), want) {
		t.Errorf("rows %v; want %v", log.events(), want)
	}
	if len(srv.Peers()) > 0 || s.lifecycle.endReason != errRevoked.Error() {
		t.Errorf("it is a peer although its identity was withdrawn; ended because %q", s.lifecycle.endReason)
	}
}

// TestRevoke_LeavesNoIssuedCredential revokes an issuer after its token was
// checked and before its request gets the file.
func TestRevoke_LeavesNoIssuedCredential(t *testing.T) {
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	if _, err := file.Create(grant.Credential{Name: "spawner", Identities: []string{"agent:system"}, Issue: []string{"agent:*"}}); err != nil {
		t.Fatal(err)
	}
	issuer := file.List()[0]
	srv := New(nil, &Options{Credentials: file})
	ask := func(name string) int {
		w := httptest.NewRecorder()
		body := strings.NewReader(`{"name":"` + name + `","identities":["agent:` + name + `"]}`)
		(httpAPI{srv}).issue(w, httptest.NewRequest(http.MethodPost, "/credentials", body), &issuer)
		return w.Code
	}
	if code := ask("before"); code != http.StatusCreated {
		t.Fatalf("before: %d", code)
	}
	if err := file.RevokeKeepIssued("spawner"); err != nil {
		t.Fatal(err)
	}
	if code := ask("after"); code != http.StatusUnauthorized {
		t.Errorf("after: %d; want 401", code)
	}
	if list := file.List(); len(list) != 1 || list[0].Name != "before" || list[0].Issuer != "" {
		t.Errorf("the credentials are %v", list)
	}
}

// TestCreate_TokenIsValidAtOnce uses a token that another program has just
// created, before the next sweep.
func TestCreate_TokenIsValidAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	file := grant.NewFile(path)
	srv := New(nil, &Options{Credentials: file})
	if _, err := grant.NewFile(path).Create(grant.Credential{Name: "first", Identities: []string{"agent:a"}}); err != nil {
		t.Fatal(err)
	}
	srv.readCredentials()
	token, err := grant.NewFile(path).Create(grant.Credential{Name: "second", Identities: []string{"agent:b"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://bus.example/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	if c, err := (httpAPI{srv}).authenticate(r); err != nil || c.Name != "second" {
		t.Errorf("the token gives %v, %v", c, err)
	}
	r.Header.Set("Authorization", "Bearer "+token+"x")
	if _, err := (httpAPI{srv}).authenticate(r); err == nil {
		t.Error("a wrong token is good")
	}
}

// A watchedStream calls a function before each frame that the bus writes.
type watchedStream struct {
	jsonrpc.Stream
	onWrite func()
}

func (s *watchedStream) Write(frame []byte) error { s.onWrite(); return s.Stream.Write(frame) }

// TestInitialize_AnswersOnceSubscribed checks that the session is subscribed when its peer gets the
// answer, because others may send to the peer from then on. It covers a new identity and one that
// is taken over.
func TestInitialize_AnswersOnceSubscribed(t *testing.T) {
	srv := New(nil, nil)
	for range 3 {
		near, far := wire.Pipe(nil)
		var found atomic.Int64
		srv.start(&watchedStream{near, func() { found.Store(int64(len(srv.index.targets("news:1")))) }}, "test", nil)
		asks(t, far, "0", "initialize", `{"clientId":"agent:a","subscriptions":[{"topic":"news:*"},{"topic":"agent:a"}]}`)
		if _, err := far.Read(); err != nil {
			t.Fatal(err)
		}
		if n := found.Load(); n != 1 {
			t.Errorf("%d sessions get a message when initialize is answered; want 1", n)
		}
	}
}

// TestInitialize_ListsPeerOnceAnswered checks that the bus lists a peer at the moment of its
// answer, for a new peer and for a takeover.
func TestInitialize_ListsPeerOnceAnswered(t *testing.T) {
	srv := New(nil, nil)
	for _, name := range []string{"new", "replacing"} {
		stream, _ := wire.Pipe(nil)
		s := srv.openSession(stream, "here", nil)
		listed := false
		s.takeIdentity(srv.newBatch(), "agent:a", nil, func() { listed = s.lifecycle.ready.Load() })
		if peers := srv.Peers(); !listed || len(peers) != 1 {
			t.Errorf("the %s peer is listed: %v; the peers are %v", name, listed, peers)
		}
	}
}
