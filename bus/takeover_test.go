package bus

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// joins connects a peer in memory, with its subscriptions.
func joins(t *testing.T, srv *Server, id, subscriptions string) (far jsonrpc.Stream, next func() string) {
	t.Helper()
	return joinsWith(t, srv, nil, id, subscriptions)
}

func joinsWith(t *testing.T, srv *Server, credential *grant.Credential, id, subscriptions string) (far jsonrpc.Stream, next func() string) {
	t.Helper()
	near, far := wire.Pipe(nil)
	srv.start(near, "test", credential)
	next = func() string {
		frame, err := far.Read()
		if err != nil {
			return err.Error()
		}
		return string(frame)
	}
	asks(t, far, "0", "initialize", `{"clientId":"`+id+`","subscriptions":[`+subscriptions+`]}`)
	if answer := next(); !strings.Contains(answer, `"result"`) {
		t.Fatalf("initialize: %s", answer)
	}
	return far, next
}

func asks(t *testing.T, far jsonrpc.Stream, id, method, params string) {
	t.Helper()
	if err := far.Write(jsonrpc.AppendRequestText(nil, id, method, params)); err != nil {
		t.Fatal(err)
	}
}

// answers says that a delivery was processed.
func answers(t *testing.T, far jsonrpc.Stream, request string) {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(request))
	if err != nil || string(m.Method) != "processMessage" {
		t.Fatalf("got %s; want a delivery", request)
	}
	if err := far.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))); err != nil {
		t.Fatal(err)
	}
}

// inBubble runs a bus in a bubble of synctest.
func inBubble(t *testing.T, o *Options, test func(t *testing.T, srv *Server)) {
	inBubbleLogged(t, nil, o, test)
}

// inBubbleLogged is inBubble with an activity log.
func inBubbleLogged(t *testing.T, log Log, o *Options, test func(t *testing.T, srv *Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(log, o)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.run(ctx, nil) }()
		test(t, srv)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func message(n int) string {
	return fmt.Sprintf(`{"topic":"t","payload":{"messageId":"m%d","type":"agent_event","from":"cli:s","timestamp":"2026-02-17T12:00:00Z","content":{}}}`, n)
}

// TestTakeover_MovesUnsentDeliveries fills the window and the queue of a peer that
// is then replaced: it answers what it has, and the newer session gets the rest in order.
func TestTakeover_MovesUnsentDeliveries(t *testing.T) {
	inBubble(t, &Options{PeerWindow: 2}, func(t *testing.T, srv *Server) {
		older, toOlder := joins(t, srv, "agent:x", `{"topic":"t"}`)
		sender, result := joins(t, srv, "cli:s", ``)
		for i := range 5 {
			asks(t, sender, fmt.Sprint(i+1), "sendMessage", message(i))
		}
		first, second := toOlder(), toOlder()
		newer, toNewer := joins(t, srv, "agent:x", `{"topic":"t"}`)
		asks(t, older, "7", "sendMessage", message(7))
		if refused := toOlder(); !strings.Contains(refused, "-32001") || !strings.Contains(refused, errReplaced) {
			t.Errorf("a replaced session sent a message: %s", refused)
		}
		asks(t, older, "8", "initialize", `{"clientId":"agent:x"}`)
		if refused := toOlder(); !strings.Contains(refused, "-32001") {
			t.Errorf("a replaced session took its identity again: %s", refused)
		}
		answers(t, older, first)
		answers(t, older, second)
		if end := toOlder(); !strings.Contains(end, "4001") {
			t.Errorf("the older session got %s; want its end, 4001", end)
		}
		for i := 2; i < 5; i++ {
			request := toNewer()
			if !strings.Contains(request, fmt.Sprintf(`"m%d"`, i)) {
				t.Fatalf("the newer session got %s; want m%d", request, i)
			}
			answers(t, newer, request)
		}
		for range 5 {
			if r := result(); !strings.Contains(r, `"deliveredTo":1}`) {
				t.Errorf("a result is %s; want one delivery", r)
			}
		}
	})
}

// TestTakeover_MovedDeliveryKeepsItsRowID moves deliveries to a newer session: two from the queue
// of the older one, and one whose target was looked up before the takeover. The rows of each
// delivery have one rpc_id, although the newer session numbers its requests from 1.
func TestTakeover_MovedDeliveryKeepsItsRowID(t *testing.T) {
	log := &busyLog{}
	inBubbleLogged(t, log, &Options{PeerWindow: 1}, func(t *testing.T, srv *Server) {
		older, toOlder := joins(t, srv, "agent:x", `{"topic":"t"}`)
		sender, result := joins(t, srv, "cli:s", ``)
		for i := range 3 {
			asks(t, sender, fmt.Sprint(i), "sendMessage", message(i))
		}
		first := toOlder()
		before := srv.index.targets("t")
		newer, toNewer := joins(t, srv, "agent:x", `{"topic":"t"}`)
		answers(t, older, first)
		late := newPublication(srv, time.Now(), []byte("3"), protocol.Send{Topic: "t", Payload: []byte("{}"), MessageID: "m3"}, nil)
		late.sender = srv.sessions.session("cli:s")
		b := srv.newBatch()
		late.route(b, before)
		b.flush()
		for range 3 {
			answers(t, newer, toNewer())
		}
		for range 4 {
			if r := result(); !strings.Contains(r, `"deliveredTo":1}`) {
				t.Errorf("a result is %s; want one delivery", r)
			}
		}
	})
	ids := map[string][]string{}
	for _, r := range log.rows {
		if r.Event == activitylog.ProcessStart || r.Event == activitylog.ProcessFinish {
			ids[r.MessageID] = append(ids[r.MessageID], r.RPCID)
		}
	}
	want := map[string][]string{"m0": {"1", "1"}, "m1": {"2", "2"}, "m2": {"3", "3"}, "m3": {"", ""}}
	if !maps.EqualFunc(ids, want, slices.Equal) {
		t.Errorf("the ids of the rows are %q; want %q", ids, want)
	}
}

// TestTakeover_GraceEnds replaces a peer that answers nothing with one that does not subscribe:
// deliveries that it was sent fail as offline and written after two seconds, and the others fail
// as offline at once.
func TestTakeover_GraceEnds(t *testing.T) {
	inBubble(t, &Options{PeerWindow: 1}, func(t *testing.T, srv *Server) {
		_, toOlder := joins(t, srv, "agent:x", `{"topic":"t"}`)
		sender, result := joins(t, srv, "cli:s", ``)
		asks(t, sender, "1", "sendMessage", message(1))
		asks(t, sender, "2", "sendMessage", message(2))
		toOlder()
		synctest.Wait() // the second message is queued
		begun := time.Now()
		joins(t, srv, "agent:x", ``)
		if len(srv.Peers()) != 2 || len(srv.Members()) != 2 {
			t.Errorf("the peers are %v; want the newer session and the sender", srv.Peers())
		}
		if r := result(); !strings.Contains(r, `"id":2,`) || !strings.Contains(r, `"offline"`) || strings.Contains(r, "written") || time.Since(begun) > 0 {
			t.Errorf("of what was not sent, after %s: %s", time.Since(begun), r)
		}
		asks(t, sender, "3", "sendMessage", message(3))
		if r := result(); !strings.Contains(r, `"deliveredTo":0}`) {
			t.Errorf("a message after the takeover: %s", r)
		}
		if r := result(); !strings.Contains(r, `"id":1,`) || !strings.Contains(r, `"offline"`) || !strings.Contains(r, `"written":true`) {
			t.Errorf("of what was sent: %s", r)
		}
		if took := time.Since(begun); took < takeoverGrace || took > takeoverGrace+2*(100*time.Millisecond) {
			t.Errorf("the grace took %s", took)
		}
		if end := toOlder(); !strings.Contains(end, "4001") {
			t.Errorf("the older session got %s; want its end, 4001", end)
		}
	})
}

// TestTakeover_EndsReplacedSessionWithRevokedToken checks that a session ends with its credential
// even during its grace.
func TestTakeover_EndsReplacedSessionWithRevokedToken(t *testing.T) {
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	credential := func(name string) *grant.Credential {
		all := []string{"*"}
		token, err := file.Create(grant.Credential{Name: name, Identities: all, Subscribe: all, Publish: all})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := file.Lookup(token)
		return c
	}
	leaked, kept := credential("leaked"), credential("kept")
	inBubble(t, &Options{Credentials: file}, func(t *testing.T, srv *Server) {
		_, toOlder := joinsWith(t, srv, leaked, "agent:x", `{"topic":"t"}`)
		sender, result := joinsWith(t, srv, kept, "cli:s", ``)
		asks(t, sender, "1", "sendMessage", message(1))
		toOlder()
		joinsWith(t, srv, kept, "agent:x", ``)
		begun := time.Now()
		if _, err := file.Revoke("leaked", nil); err != nil {
			t.Fatal(err)
		}
		if end := toOlder(); !strings.Contains(end, "1008") || time.Since(begun) >= takeoverGrace {
			t.Errorf("after %s it got %s; want its end, 1008, before the grace ends", time.Since(begun), end)
		}
		if r := result(); !strings.Contains(r, `"id":1,`) || !strings.Contains(r, `"offline"`) {
			t.Errorf("of what it was sent: %s", r)
		}
	})
}

// TestInitialize_TakesNoIdentityWhenLate handles an initialize long after its
// connection was opened, as if the program had been suspended.
func TestInitialize_TakesNoIdentityWhenLate(t *testing.T) {
	srv := New(nil, nil)
	stream, _ := wire.Pipe(nil)
	s := srv.openSession(stream, "here", nil)
	s.conn.opened = s.conn.opened.Add(-srv.options.InitializeTimeout - time.Second)
	s.acquireBatch()
	if err := s.handle([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:a"}}`)); err != nil {
		t.Fatal(err)
	}
	s.releaseBatch()
	if srv.sessions.session("agent:a") != nil {
		t.Error("it has its identity")
	}
}

// TestDeliver_FindsPeerThatJustCame looks up the targets of a message from another bus
// just before one of them returns to this bus: the other bus must learn that the message
// was not sent to it. A peer that is no longer subscribed does not matter.
func TestDeliver_FindsPeerThatJustCame(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, srv *Server) {
		before := srv.index.targets("t")
		joins(t, srv, "agent:back", `{"topic":"t"}`)
		joins(t, srv, "agent:else", `{"topic":"other"}`)
		joins(t, srv, "agent:ear", `{"topic":"t","observe":true}`)
		named, gone := srv.selectNamed(before, []protocol.PeerID{"agent:back", "agent:else", "agent:ear", "agent:away"}, "t")
		if slices.Sort(gone); len(named) != 0 || !slices.Equal(gone, []protocol.PeerID{"agent:away", "agent:back"}) {
			t.Errorf("sent to %d, gone %q", len(named), gone)
		}
	})
}

// TestTakeover_UnderTraffic takes an identity over again and again while three peers send
// to it: every message reaches exactly one session, and none fails. In a bubble, no stall of the
// machine lasts longer than the grace of a replaced session.
func TestTakeover_UnderTraffic(t *testing.T) {
	inBubble(t, &Options{PeerWindow: 4}, takeOverUnderTraffic)
}

func takeOverUnderTraffic(t *testing.T, srv *Server) {
	var mu sync.Mutex
	seen := map[string]int{}
	var sending sync.WaitGroup
	serve := func(round int) {
		far, next := joins(t, srv, "agent:x", `{"topic":"t"}`)
		go func() {
			for {
				request := next()
				m, err := jsonrpc.Parse([]byte(request))
				if err != nil {
					return // closed
				}
				var sender, n int
				at := strings.Index(request, `"messageId":"m`)
				if _, err := fmt.Sscanf(request[at:], `"messageId":"m%d-%d"`, &sender, &n); err != nil {
					t.Errorf("%s: %v", request, err)
				}
				mu.Lock()
				seen[fmt.Sprint(sender, "-", n)]++
				mu.Unlock()
				if far.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"processed":true}`))) != nil {
					return
				}
			}
		}()
	}
	serve(0)
	const count = 800
	for k := range 3 {
		far, next := joins(t, srv, fmt.Sprint("cli:s", k), ``)
		sending.Go(func() {
			for i := range count {
				params := fmt.Sprintf(`{"topic":"t","payload":{"messageId":"m%d-%d","type":"agent_event","from":"cli:s%d","timestamp":"2026-02-17T12:00:00Z","content":{}}}`, k, i, k)
				if err := far.Write(jsonrpc.AppendRequestText(nil, fmt.Sprint(i+1), "sendMessage", params)); err != nil {
					t.Error(err)
					return
				}
				if i%8 == 7 {
					for range 8 {
						if r := next(); !strings.Contains(r, `"deliveredTo":1}`) {
							t.Errorf("%d-%d: %s", k, i, r)
							return
						}
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { sending.Wait(); close(done) }()
	takeovers := 0
	for over := false; !over; takeovers++ {
		serve(takeovers + 1)
		select {
		case <-done:
			over = true
		default:
		}
	}
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if len(seen) != 3*count {
		t.Errorf("%d messages were delivered; want %d (%d takeovers)", len(seen), 3*count, takeovers)
	}
	t.Logf("%d takeovers", takeovers)
}
