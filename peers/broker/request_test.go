package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

// answered decides a request, and returns its answer.
func (d *fixture) answered(from protocol.PeerID, requestID, method, params string) protocol.CollabResult {
	d.t.Helper()
	d.ids++
	tr := d.turn(from)
	r := request{from: from, messageID: protocol.MessageID(fmt.Sprint("in", d.ids)), content: protocol.CollabRequest{
		Method: method, Params: json.RawMessage(params), RequestID: requestID,
	}}
	if err := rules.Attempt(func() { answerRequest(tr, r) }); err != nil || tr.db.Err() != nil || len(tr.answers) != 1 {
		d.t.Fatalf("%d answers, %v, %v", len(tr.answers), err, tr.db.Err())
	}
	d.end(tr)
	var out protocol.CollabResult
	if err := json.Unmarshal(tr.answers[0].content, &out); err != nil || tr.answers[0].inReplyTo != r.messageID {
		d.t.Fatalf("%s in reply to %s, %v", tr.answers[0].content, tr.answers[0].inReplyTo, err)
	}
	return out
}

// TestStoredAnswer_ExpiresAfterADay checks that the day begins with the last request.
func TestStoredAnswer_ExpiresAfterADay(t *testing.T) {
	d := newStoredFixture(t)
	create := func() string {
		t.Helper()
		return parse(t, d.answered("cli:will", "r1", "conversation.create", `{"kind":"dm"}`).Result).at("conversation", "id").(string)
	}
	first := create()
	for range 2 {
		d.now = d.now.Add(24*time.Hour - time.Microsecond)
		if again := create(); again != first {
			t.Errorf("repeated within a day: %s; it was %s", again, first)
		}
	}
	d.now = d.now.Add(24 * time.Hour)
	if again := create(); again == first {
		t.Error("repeated after a day, it is remembered")
	}
}

// TestStoredAnswer_IsForTheSameRequest checks that a repetition gets the first result, that
// refused and reading requests run again, and that another request with that id is refused and
// changes nothing.
func TestStoredAnswer_IsForTheSameRequest(t *testing.T) {
	d := newStoredFixture(t)
	kept := func() int {
		return store.Value[int](store.On(t.Context(), d.db), `SELECT count(*) FROM answers WHERE kept = 1`)
	}
	update := func() protocol.CollabResult {
		return d.answered("cli:will", "update", "work_item.update", `{"id":"w","title":"new"}`)
	}
	if got := update(); got.OK || got.Error.Code != string(collab.CodeNotFound) || kept() != 0 {
		t.Errorf("%+v, %d kept", got, kept())
	}
	work := `{"id":"w","title":"t","ownerId":"a","nextMoveOwnerId":"a"}`
	if got := d.answered("cli:will", "create", "work_item.create", work); !got.OK || kept() != 1 {
		t.Errorf("%+v, %d kept", got, kept())
	}
	if got := update(); !got.OK || kept() != 2 {
		t.Errorf("asked again: %+v, %d kept", got, kept())
	}
	before := len(d.log)
	for range 2 {
		if got := d.answered("cli:will", "create", "work_item.create", strings.ReplaceAll(work, `"t"`, `"u"`)); got.OK || got.Error.Code != string(collab.CodeConflict) {
			t.Errorf("another request of that id: %+v", got)
		}
		if got := d.answered("cli:will", "create", "work_item.create", `{"title":"t", "id":"w", "nextMoveOwnerId":"a", "ownerId":"a"}`); !got.OK || parse(t, got.Result).at("work_item", "title") != "t" {
			t.Errorf("the same once more: %+v", got)
		}
		if got := d.answered("cli:else", "create", "work_item.get", `{"id":"w"}`); !got.OK || parse(t, got.Result).at("work_item", "title") != "new" {
			t.Errorf("a request of somebody else: %+v", got)
		}
	}
	if len(d.log) != before || kept() != 2 {
		t.Errorf("%d events of repetitions, %d kept", len(d.log)-before, kept())
	}
}

// TestMessagePost_ReportsADuplicate also covers a message that could wake nobody.
func TestMessagePost_ReportsADuplicate(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead")
	group(d, "")
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	for id, text := range map[string]string{"quiet": "hi", "away": "@lead hi"} {
		var before int
		for i := range 3 {
			got := d.answered("cli:will", id, "message.post", `{"conversationId":"c","text":"`+text+`"}`)
			part := got.Result
			if got.OK != (id == "quiet") {
				t.Fatalf("%s: %+v", id, got)
			} else if !got.OK {
				part = got.Error.Details
			}
			if i == 0 {
				before = len(d.log)
			}
			if duplicate := parse(t, part)["duplicate"]; (duplicate == true) != (i > 0) || len(d.log) != before {
				t.Errorf("%s, posted %d times: %v, %d more events", id, i+1, duplicate, len(d.log)-before)
			}
		}
	}
}

func TestResult_IsBounded(t *testing.T) {
	for n, ok := range map[int]bool{960<<10 - 2: true, 960<<10 - 1: false} { // and two quotes
		var got protocol.CollabResult
		if err := json.Unmarshal(encodeResult("r", strings.Repeat("x", n), nil), &got); err != nil || got.OK != ok || got.RequestID != "r" {
			t.Errorf("a result of %d bytes and two: %v, %v", n, got.OK, err)
		}
		if !ok && (got.Error.Code != string(collab.CodeInvalid) || !strings.Contains(got.Error.Message, "983041 bytes and at most 983040")) {
			t.Errorf("refused with %+v", got.Error)
		}
	}
}

// TestEvent_HasTheBrokerAsSource checks that the broker is the source of its own decisions, and
// the caller of other events.
func TestEvent_HasTheBrokerAsSource(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("agent:a", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	d.do("agent:lead", "claim.acquire", m{"eventId": "e"})
	d.do("agent:a", "claim.acquire", m{"eventId": "e"})
	d.do("agent:lead", "claim.release", m{"eventId": "e", "token": 1})
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	var got []string
	for _, e := range d.log {
		got = append(got, strings.TrimPrefix(e.Type, "collab.")+" "+e.Source)
	}
	want := []string{
		"agent.online agent:lead", "work_item.created agent:a", "wake.decided collab:broker", "delivery.requested collab:broker", "delivery.woken collab:broker",
		"claim.granted agent:lead", "claim.contended agent:a", "claim.offered collab:broker", "agent.offline collab:broker",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are\n%s", strings.Join(got, "\n"))
	}
}

// TestResolution_OfAnAgentWithoutEndpoints checks that it differs from that of an agent that
// never announced itself.
func TestResolution_OfAnAgentWithoutEndpoints(t *testing.T) {
	d := newFixture(t)
	d.do("agent:w7", "identity.announce", m{"endpointId": "e", "logicalAgentId": "helper"})
	d.sweep(time.Minute)
	d.sweep(48 * time.Hour)
	for label, want := range map[string]string{
		"w7": "agent:w7 no longer has endpoints", "helper": "agent:helper no longer has endpoints", "agent:w7": "agent:w7 no longer has endpoints", "agent:helper": "agent:helper no longer has endpoints", "nobody": "nobody announced",
	} {
		if why := d.mustRefuse(collab.CodeUnknownTarget, "cli:will", "identity.resolve", m{"label": label}); !strings.Contains(why["error"].(string), want) {
			t.Errorf("%s: %v; want %s", label, why["error"], want)
		}
	}
}

// TestWakeDecision_GivesTheReasonForNobody checks the reason that people read.
func TestWakeDecision_GivesTheReasonForNobody(t *testing.T) {
	lead := rules.Party{Name: "lead", ID: "agent:lead"}
	done := &rules.Record{WorkItem: collab.WorkItem{ID: "w", Kind: collab.KindWorkItem, State: collab.WorkDone}}
	for _, c := range []struct {
		s    rules.Situation
		want string
	}{
		{rules.Situation{}, "nobody was named, and nobody is responsible"},
		{rules.Situation{Sender: rules.Caller{Identity: "agent:lead"}, Master: lead}, "nobody else is responsible"},
		{rules.Situation{Final: true, Master: lead}, "the message is informational: it expects nothing"},
		{rules.Situation{Record: done, Master: lead}, "work item w is done"},
		{rules.Situation{Thanks: true, Explicit: []rules.Party{lead}}, "the message only says thanks, which needs no answer"},
		{rules.Situation{Final: true, Explicit: []rules.Party{lead}}, "lead: was named explicitly"},
		{rules.Situation{Master: lead}, "lead: answers for the conversation"},
	} {
		d := rules.ChooseWake(c.s)
		if woken := strings.HasPrefix(c.want, "lead"); d.Reason != c.want || (d.TargetAgentID == "lead") != woken || d.Outcome != collab.OutcomeNobody {
			t.Errorf("%q, for %q; want %q", d.Reason, d.TargetAgentID, c.want)
		}
	}
}

// TestResolution_BoundsItsOptions bounds the agents that a name may mean.
func TestResolution_BoundsItsOptions(t *testing.T) {
	d := newFixture(t)
	for i := range 25 {
		d.do(peerID(fmt.Sprint("agent:n", i)), "identity.announce", m{"logicalAgentId": "lead", "endpointId": fmt.Sprintf("e%02d", i), "workspaceId": fmt.Sprint("w", i)})
	}
	why := d.mustRefuse(collab.CodeAmbiguous, "cli:will", "identity.resolve", m{"label": "lead"})
	if list := why.list("candidates"); len(list) != 20 || list[0]["endpointId"] != "e00" || list[19]["endpointId"] != "e19" {
		t.Errorf("candidates are %v", list)
	}
}

// TestPromptContract_BoundsOpenWork also covers work whose next move is the agent's.
func TestPromptContract_BoundsOpenWork(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	for i := range 12 {
		d.do("cli:will", "work_item.create", m{"id": fmt.Sprintf("item%02d", i), "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	}
	d.do("cli:will", "work_item.update", m{"id": "item03", "nextMoveOwnerId": "cli:will"})
	text := d.do("agent:lead", "prompt.contract", m{"agentId": "lead", "workItemId": "item01"})["contract"].(string)
	_, open, _ := strings.Cut(text, "item01")
	for i := range 12 {
		id := fmt.Sprintf("item%02d", i)
		if want := i != 3 && i != 1; strings.Contains(open, id) != want && i != 1 {
			t.Errorf("%s is listed: %v", id, !want)
		}
	}
	d.do("cli:will", "work_item.create", m{"id": "item12", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	if text := d.do("agent:lead", "prompt.contract", m{"agentId": "lead", "workItemId": "item01"})["contract"].(string); strings.Contains(text, "item12") {
		t.Error("an eleventh is listed")
	}
}

// TestSweep_CancelsDeliveriesThatNobodyTook checks that best-effort deliveries are cancelled
// after the stale time, and others after the retention.
func TestSweep_CancelsDeliveriesThatNobodyTook(t *testing.T) {
	d := newFixture(t)
	d.announce("a")
	group(d, "")
	d.do("agent:a", "message.post", m{"id": "m1", "conversationId": "c", "text": "hello"})
	d.do("cli:will", "message.post", m{"id": "m2", "conversationId": "c", "text": "seen", "kind": "status", "inReplyTo": "m1"})
	d.do("cli:will", "message.post", m{"id": "m3", "conversationId": "c", "text": "@a go"})
	for _, c := range []struct {
		later     time.Duration
		m2, other string
	}{
		{10*time.Minute - time.Microsecond, "pending", "pending"}, {time.Microsecond, "cancelled", "pending"},
		{90*24*time.Hour - 10*time.Minute - time.Microsecond, "cancelled", "pending"}, {time.Microsecond, "cancelled", "cancelled"},
	} {
		d.sweep(c.later)
		list := d.do("cli:will", "delivery.list", m{"targetAgentId": "agent:a"}).list("deliveries")
		if len(list) != 2 || list[0]["status"] != c.m2 || list[1]["status"] != c.other {
			t.Errorf("after %v more they are %v", c.later, list)
		}
	}
	d.checkRebuild()
}

// TestAnnounce_EndsThePredecessor covers endpoints of the same identity, workspace and project.
func TestAnnounce_EndsThePredecessor(t *testing.T) {
	d := newFixture(t)
	announce := func(who, endpoint, workspace, project string) {
		d.do(peerID(who), "identity.announce", m{"endpointId": endpoint, "workspaceId": workspace, "projectPath": project})
	}
	announce("agent:a", "same", "w", "/p")
	announce("agent:a", "project", "w", "/q")
	announce("agent:a", "workspace", "v", "/p")
	announce("agent:b", "identity", "w", "/p")
	announce("agent:a", "new", "w", "/p/")
	for id, want := range map[string]string{"same": "offline", "project": "online", "workspace": "online", "identity": "online", "new": "online"} {
		if got := d.state.Endpoints[id].Status; got != want {
			t.Errorf("%s is %s; want %s", id, got, want)
		}
	}
	for _, method := range []string{"identity.heartbeat", "identity.leave"} {
		d.mustRefuse(collab.CodeNotFound, "agent:a", method, m{"endpointId": "nowhere"})
		d.mustRefuse(collab.CodeForbidden, "agent:a", method, m{"endpointId": "identity"})
	}
	before := len(d.log)
	d.do("agent:a", "identity.leave", m{"endpointId": "same"}) // it is offline already
	d.do("agent:a", "identity.heartbeat", m{"endpointId": "new"})
	if len(d.log) != before {
		t.Errorf("%d events of what changes nothing", len(d.log)-before)
	}
	d.do("agent:a", "identity.heartbeat", m{"endpointId": "same"})
	if e := d.log[len(d.log)-1]; len(d.log) != before+1 || e.Type != collab.EventOnline.Name || d.state.Endpoints["same"].Status != "online" {
		t.Errorf("the last event is %s", e.Type)
	}
}

// factsOf makes a publisher with the given number of stored events.
func factsOf(t *testing.T, n int, send sendFunc) *publisher {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "broker.db"), Schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		for i := range n {
			appendEvent(tx, factOf(int64(i+1)))
		}
	}); err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	connected := func(ctx context.Context) error { return ctx.Err() }
	return newPublisher(db, connected, send, func(func(*store.Tx)) {}, &log)
}

func factOf(seq int64) collab.Event {
	return collab.Event{Seq: seq, At: formatTime(time.Now()), CollabEvent: protocol.CollabEvent{
		ID: fmt.Sprint(seq), Type: "t", Source: "agent:a", Target: "x", Payload: json.RawMessage("{}"),
	}}
}

// TestPublisher_SendsInOrder checks that events are sent in order, 64 at once, a tenth of a
// second after an unanswered one, and that the published position has no gaps.
func TestPublisher_SendsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		var times []time.Duration
		begun, first, rest := time.Now(), make(chan struct{}), make(chan struct{})
		p := factsOf(t, 300, func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
			mu.Lock()
			sent, times = append(sent, string(m.MessageID)), append(times, time.Since(begun))
			mu.Unlock()
			if topic != protocol.TopicCollabEvents || m.From != protocol.PeerBroker {
				t.Errorf("sent to %s as %s", topic, m.From)
			}
			wait := rest
			if m.MessageID == "msg_1" {
				wait = first
			}
			select {
			case <-wait:
				return protocol.SendResult{}, nil
			case <-ctx.Done():
				return protocol.SendResult{}, ctx.Err()
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.run(ctx) }()
		settled := func() int64 { p.mu.Lock(); defer p.mu.Unlock(); return p.settled }
		timetest.Advance(time.Hour)
		mu.Lock()
		if len(sent) != 64 || times[1] != 100*time.Millisecond || times[63] != 6300*time.Millisecond || settled() != 0 {
			t.Errorf("%d were sent, at %v; up to %d are done", len(sent), times, settled())
		}
		mu.Unlock()
		close(rest)
		timetest.Advance(time.Second)
		mu.Lock()
		if len(sent) != 300 || settled() != 0 {
			t.Errorf("%d were sent; up to %d are done, although the first is not", len(sent), settled())
		}
		for i, id := range sent {
			if id != fmt.Sprint("msg_", i+1) {
				t.Fatalf("at %d came %s", i+1, id)
			}
		}
		mu.Unlock()
		close(first)
		timetest.Advance(time.Second)
		if settled() != 300 || len(p.done) != 0 {
			t.Errorf("up to %d are done, and %d are remembered", settled(), len(p.done))
		}
		add := func(seq int64) {
			if err := store.InTx(t.Context(), p.db, func(tx *store.Tx) { appendEvent(tx, factOf(seq)) }); err != nil {
				t.Fatal(err)
			}
		}
		add(301)
		p.wake.Notify()
		p.wake.Notify()
		timetest.Advance(time.Second)
		if settled() != 301 {
			t.Errorf("after a notice up to %d are done", settled())
		}
		add(302) // not notified: it polls every minute
		timetest.Advance(time.Minute)
		if settled() != 302 {
			t.Errorf("after a minute up to %d are done", settled())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPublisher_KeepsTheOrderWhileTheBusIsAway checks that no event overtakes one that was not sent or was
// interrupted, whatever the connection does, and that a restart begins with the first that is not done.
func TestPublisher_KeepsTheOrderWhileTheBusIsAway(t *testing.T) {
	const count = 300
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			received := 0
			up, down := make(chan struct{}), make(chan struct{}) // closed when the connection comes and goes
			state := func() (<-chan struct{}, <-chan struct{}) { mu.Lock(); defer mu.Unlock(); return up, down }
			upTo := func(most time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.Int64N(int64(most)))
			}
			connected := func(ctx context.Context) error {
				up, _ := state()
				select {
				case <-up:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			p := factsOf(t, count, func(ctx context.Context, _ protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
				if err := connected(ctx); err != nil {
					return protocol.SendResult{}, err
				}
				_, down := state()
				n, arrives, answer := 0, upTo(20) > 0, upTo(300*time.Millisecond)
				mu.Lock()
				if _, err := fmt.Sscanf(string(m.MessageID), "msg_%d", &n); err != nil || arrives && n > received+1 {
					t.Errorf("event %s came after %d (%v)", m.MessageID, received, err)
				}
				if arrives {
					received = max(received, n)
				}
				mu.Unlock()
				if !arrives {
					return protocol.SendResult{}, errors.New("the bus is busy")
				}
				select {
				case <-time.After(answer):
					return protocol.SendResult{}, nil
				case <-down:
					return protocol.SendResult{}, peer.ErrInterrupted
				}
			})
			p.ready = connected
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.run(ctx) }()
			for settled := int64(0); settled < count; {
				timetest.Advance(upTo(3 * time.Second)) // away
				mu.Lock()
				close(up)
				mu.Unlock()
				timetest.Advance(upTo(5 * time.Second))
				mu.Lock()
				up = make(chan struct{})
				close(down)
				down = make(chan struct{})
				mu.Unlock()
				p.mu.Lock()
				settled = p.settled
				p.mu.Unlock()
			}
			end()
			if err := <-ended; err != nil || received != count {
				t.Errorf("%d of %d arrived, %v", received, count, err)
			}
		})
	}
}

func TestFactMessage_HasItsSeq(t *testing.T) {
	for metadata, want := range map[string]string{"": `{"seq":7}`, "{}": `{"seq":7}`, `{"a":1}`: `{"seq":7,"a":1}`, "[]": `{"seq":7}`} {
		if got := string(withSeq(json.RawMessage(metadata), 7)); got != want {
			t.Errorf("%s becomes %s", metadata, got)
		}
	}
	if m := factMessage(factOf(7), "_to"); m.MessageID != "msg_7_to" || m.Type != protocol.TypeCollabEvent {
		t.Errorf("it is %+v", m)
	}
}
