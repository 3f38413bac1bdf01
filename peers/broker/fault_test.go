package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"
)

// A failed write gives no answer and leaves no trace: the bus gets refusals, and the state is
// that of the log.
func TestWriter_RefusesRequestsOfAFailedWrite(t *testing.T) {
	b := bustest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	start(t, b, path, nil)
	will := join(t, b, "cli:will")
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	db, err := store.OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := storetest.Exec(db, `CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	params, err := json.Marshal(object{"id": "m1", "conversationId": "c", "text": "x"})
	if err != nil {
		t.Fatal(err)
	}
	request := protocol.CollabRequest{Method: "message.post", Params: params, RequestID: "r"}
	sent := will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, request)
	if sent.Addressee != protocol.AddresseeFailed || !strings.Contains(fmt.Sprint(sent.Failures), "cannot store") {
		t.Errorf("sent = %+v", sent)
	}
	if got := will.do("conversation.get", object{"id": "c"}); len(got["messages"].([]any)) != 0 {
		t.Errorf("the message is shown although it was not stored: %v", got)
	}
	if err := storetest.Exec(db, `DROP TRIGGER full`); err != nil {
		t.Fatal(err)
	}
	if r := will.askAs("r", "message.post", json.RawMessage(params)); !r.OK {
		t.Errorf("after the disk has room again: %+v", r.Error)
	}
	if n := len(will.results); n != 0 {
		t.Errorf("%d more answers", n)
	}
}

func TestEvents_AreAppendOnly(t *testing.T) {
	b := bustest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	start(t, b, path, nil)
	join(t, b, "cli:will").do("conversation.create", object{"id": "c", "kind": "group"})
	db, err := store.OpenExisting(path) // the broker may be writing
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{`DELETE FROM events`, `UPDATE events SET payload = '{}'`} {
		if err := storetest.Exec(db, statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// An agent that does not take its wake gets it again, and delays no other agent's wake.
func TestWake_IsSentUntilTaken(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
	lead, other, will := join(t, b, "agent:lead"), join(t, b, "agent:other"), join(t, b, "cli:will")
	lead.do("identity.announce", object{"endpointId": "e1"})
	other.do("identity.announce", object{"endpointId": "e2"})
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	var mu sync.Mutex
	ids := map[protocol.MessageID]int{}
	taken := make(chan struct{}, 10)
	lead.Refuse(func(d *bustest.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if ids[d.Message.MessageID]++; ids[d.Message.MessageID] == 1 {
			return errors.New("not now")
		}
		taken <- struct{}{}
		return nil
	})
	will.do("message.post", object{"conversationId": "c", "text": "@lead hi"})
	will.do("message.post", object{"conversationId": "c", "text": "@other hi"})
	other.event(collab.EventWoken.Name)
	wait(t, taken)
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 1 {
		t.Errorf("the repetition has another messageId: %v", ids)
	}
	if got := will.do("identity.resolve", object{"label": "lead"})["identity"].(object); got["status"] != "online" {
		t.Errorf("an agent that failed is %v", got["status"])
	}
}

// A rejected message is not repeated for ever: the next wake and the next answer come within a
// minute.
func TestWake_RejectedDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
		defer r.stop()
		lead, will := join(t, b, "agent:lead"), join(t, b, "cli:will")
		lead.do("identity.announce", object{"endpointId": "e1"})
		will.do("conversation.create", object{"id": "c", "kind": "group"})
		marker := "poison"
		lead.rejected.Store(&marker)
		begun := time.Now()
		will.do("message.post", object{"conversationId": "c", "text": "@lead poison"})
		will.do("message.post", object{"conversationId": "c", "text": "@lead hi"})
		for text := ""; text != "@lead hi"; {
			text, _ = decode(t, lead.event(collab.EventWoken.Name).Payload)["message"].(object)["text"].(string)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the next wake took %s", took)
		}
		deliveries := will.do("delivery.list", object{"targetAgentId": "lead"})["deliveries"].([]any)
		if d := deliveries[0].(object); d["status"] != "pending" || d["wake"] != "missed" {
			t.Errorf("the delivery that was not wanted: %v", d)
		}
		begun = time.Now()
		lead.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, protocol.CollabRequest{Method: "identity.list", RequestID: "poison"})
		lead.do("identity.list", nil)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the next answer took %s", took)
		}
	})
}

// TestNotification_WaitsForAnAbsentBridge covers notifications of people in the bridge's chats.
// Notifications of agents do not wait.
func TestNotification_WaitsForAnAbsentBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
		defer r.stop()
		will := join(t, b, "cli:will")
		will.do("work_item.create", object{"id": "w", "title": "the bill", "ownerId": "tg:42", "nextMoveOwnerId": "tg:42"})
		timetest.Advance(8 * time.Hour)
		bridge := join(t, b, "tg:42")
		timetest.Advance(time.Minute) // between two attempts
		payload := decode(t, bridge.event(collab.EventWakeDecided.Name).Payload)
		if payload["recordId"] != "w" || payload["title"] != "the bill" || payload["sweep"] != true {
			t.Errorf("the chat is told %v", payload)
		}
	})
}

// TestEscalation_NotifiesAPersonInTheirOwnChat checks that a person who does not write to the
// agent is notified at once how to answer in its place. About other questions, the agent or a
// reminder tells them.
func TestEscalation_NotifiesAPersonInTheirOwnChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
		defer r.stop()
		bridge, worker := join(t, b, "tg:42"), join(t, b, "agent:worker")
		worker.do("question.ask", object{"id": "q-1", "title": "which region?", "askedOfId": "tg:42"})
		level := collab.EscalationQuestionID("1")
		worker.do("question.ask", object{"id": level, "title": "please answer in its place", "askedOfId": "tg:42"})
		if payload := decode(t, bridge.event(collab.EventQuestionCreated.Name).Payload); payload["id"] != level {
			t.Errorf("the person is told %v", payload)
		}
	})
}

// A hanging subscriber of collab:events delays events, but does not stop them, and does not delay
// answers.
func TestPublisher_ContinuesPastAHangingSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		r := start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
		defer r.stop()
		hung := make(chan struct{})
		stuck := b.Join(t, "cli:stuck", "collab:events")
		stuck.Refuse(func(*bustest.Delivery) error { <-hung; return nil })
		defer close(hung)
		watch, will := join(t, b, "cli:watch", "collab:events"), join(t, b, "cli:will")
		begun := time.Now()
		for i := range 20 {
			will.do("conversation.create", object{"id": fmt.Sprint("c", i), "kind": "group"})
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("answers took %s", took)
		}
		for i := range 20 {
			if seq := decode(t, wait(t, watch.events).Metadata)["seq"]; seq != float64(i+1) {
				t.Fatalf("fact %v came as number %d", seq, i+1)
			}
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("20 facts took %s", took)
		}
	})
}

// An absent requester does not keep its answer forever, and other requesters do not wait for it.
func TestAnswerer_GivesUpOnAnAbsentRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		path := filepath.Join(t.TempDir(), "broker.db")
		r := start(t, b, path, nil)
		defer r.stop()
		gone := b.Join(t, "cli:gone") // it does not listen on its own topic
		gone.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, protocol.CollabRequest{Method: "identity.list", RequestID: "1"})
		will := join(t, b, "cli:will")
		will.do("identity.list", nil)
		timetest.Advance(2 * time.Minute)
		late := join(t, b, "cli:gone2", "cli:gone")
		timetest.Advance(10 * time.Minute)
		if n := len(late.results); n != 0 {
			t.Errorf("%d answers came after they were given up", n)
		}
		r.stop()
		db, err := store.OpenExisting(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var n int
		if err := storetest.Scan(db, []any{&n}, `SELECT count(*) FROM answers`); err != nil || n != 0 {
			t.Errorf("%d answers are kept, %v", n, err)
		}
	})
}

// The broker ends when another takes its identity.
func TestBroker_EndsWhenReplaced(t *testing.T) {
	b := bustest.Start(t, nil)
	first := start(t, b, filepath.Join(t.TempDir(), "one.db"), nil)
	start(t, b, filepath.Join(t.TempDir(), "two.db"), nil)
	if err := wait(t, first.done); !errors.Is(err, peer.ErrReplaced) {
		t.Errorf("the first ended with %v", err)
	}
	first.done <- nil
}

// A request for more than fits into a frame gets pages that fit.
func TestResult_FitsIntoAFrame(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), nil)
	will := join(t, b, "cli:will")
	will.do("conversation.create", object{"id": "c", "kind": "group", "masterId": "gone"})
	long := strings.Repeat("\x01", 40_000) // six bytes each as JSON
	for i := range 3 {
		r := will.ask("message.post", object{"id": fmt.Sprint("m", i), "conversationId": "c", "text": long})
		if r.Error == nil || r.Error.Code != "unavailable" {
			t.Fatalf("got %+v", r.Error)
		}
	}
	if r := will.ask("message.post", object{"conversationId": "c", "text": long + long}); r.OK || r.Error.Code != "invalid" {
		t.Errorf("a text of half a megabyte: %+v", r.Error)
	}
	n, pages := 0, 0
	var next any = 0
	for next != nil {
		page := will.do("events.list", object{"after": next, "limit": 1000})
		n += len(page["events"].([]any))
		next = page["next"]
		pages++
	}
	if n != 7 || pages < 2 {
		t.Errorf("%d events in %d pages", n, pages)
	}
	gone := join(t, b, "agent:gone")
	gone.do("identity.announce", object{"endpointId": "e"})
	for range 3 {
		gone.event(collab.EventWoken.Name)
	}
}

// A wake that the bus refuses, because it exceeds a frame or is not granted, is parked: later
// wakes do not wait behind it.
func TestWake_RefusedByTheBusDelaysNoOther(t *testing.T) {
	b := bustest.Start(t, &bustest.Options{MaxFrame: 16 << 10})
	startOver(t, &peer.Options{Buses: []string{b.URL()}}, filepath.Join(t.TempDir(), "broker.db"), nil)
	lead, will := join(t, b, "agent:lead"), join(t, b, "cli:will")
	lead.do("identity.announce", object{"endpointId": "e1"})
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	text := "@lead " + strings.Repeat("x", 14_000)
	for i := range 200 { // each mentioned once more
		text += fmt.Sprintf(" @a%d", i)
	}
	params, err := json.Marshal(object{"id": "long", "conversationId": "c", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	// Its answer would not fit either, and does not come.
	sent := will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, protocol.CollabRequest{Method: "message.post", Params: params, RequestID: "long"})
	if sent.Addressee != protocol.AddresseeOK {
		t.Fatalf("sent = %+v", sent)
	}
	will.do("message.post", object{"id": "short", "conversationId": "c", "text": "@lead hi"})
	woken := lead.event(collab.EventWoken.Name)
	if got := decode(t, woken.Payload)["message"].(object)["id"]; got != "short" {
		t.Errorf("woken for %v", got)
	}
}
