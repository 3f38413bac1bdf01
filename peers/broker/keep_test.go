package broker

import (
	"testing"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/collab"
)

// TestLoad_ReadsOnlyOpenEntities makes the events unreadable: the broker still starts, and
// finished records can still be read.
func TestLoad_ReadsOnlyOpenEntities(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead")
	group(d, "")
	for _, id := range []string{"a", "b", "c"} {
		d.do("cli:will", "work_item.create", m{"id": id, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
		d.do("cli:will", "claim.acquire", m{"eventId": id})
		d.do("cli:will", "message.post", m{"id": "m" + id, "conversationId": "c", "text": "hi"})
	}
	for _, delivery := range d.do("agent:lead", "delivery.list", m{"targetAgentId": "lead"}).list("deliveries")[1:] {
		d.do("agent:lead", "delivery.ack", m{"id": delivery["id"]})
	}
	for _, id := range []string{"b", "c"} {
		d.do("cli:will", "work_item.update", m{"id": id, "state": "done"})
		token := d.do("cli:will", "claim.get", m{"eventId": id}).at("claim", "token")
		d.do("cli:will", "claim.release", m{"eventId": id, "token": token, "answered": true})
	}
	tx := store.On(t.Context(), d.db)
	tx.Exec(`DROP TRIGGER events_are_not_changed`)
	tx.Exec(`UPDATE events SET payload = 'nothing', metadata = 'nothing', type = 'unknown'`)
	if tx.Err() != nil {
		t.Fatal(tx.Err())
	}
	d.restart()
	s := d.state
	if len(s.records.cache) != 1 || len(s.deliveries.cache) != 1 || len(s.claims.cache) != 1 ||
		len(s.messages.cache)+len(s.created.cache)+len(s.wakes.cache) != 0 {
		t.Errorf("read %d records, %d deliveries, %d claims, %d messages",
			len(s.records.cache), len(s.deliveries.cache), len(s.claims.cache), len(s.messages.cache))
	}
	if list := d.do("cli:will", "work_item.list", nil).list("work_items"); len(list) != 3 || list[1]["state"] != "done" {
		t.Errorf("the work is %v", list)
	}
	if got := d.do("agent:lead", "claim.acquire", m{"eventId": "b"}); got["answered"] != true {
		t.Errorf("an answered event was granted: %v", got)
	}
	if token := d.do("agent:lead", "claim.acquire", m{"eventId": "new"})["token"]; token != 4.0 {
		t.Errorf("the next token is %v", token)
	}
	d.do("cli:will", "work_item.update", m{"id": "c", "state": "open"}) // reopened
	d.restart()
	if len(d.state.records.cache) != 2 {
		t.Errorf("read %d records after one was reopened", len(d.state.records.cache))
	}
}

// TestPrune_DeletesOldEvents checks that old events are deleted once they are published, with
// their closed records, and that open records stay and can still change.
func TestPrune_DeletesOldEvents(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead")
	group(d, "")
	d.do("cli:will", "work_item.create", m{"id": "open", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "state": "working"})
	d.do("cli:will", "work_item.create", m{"id": "done", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "state": "done"})
	d.do("cli:will", "message.post", m{"id": "m", "conversationId": "c", "text": "@lead hi"}) // it never takes it
	flight := d.do("cli:will", "invocation.create", m{"targetAgentId": "lead", "text": "go"}).at("flight", "id")
	old := d.state.seq
	d.sweep(100 * 24 * time.Hour)
	if d.state.first != 1 {
		t.Errorf("event %d is the first, though none was published", d.state.first)
	}
	tx := store.On(t.Context(), d.db)
	tx.Exec(`UPDATE published SET seq = ?`, d.state.seq)
	d.do("cli:will", "question.ask", m{"id": "q", "title": "t", "askedOfId": "cli:will"})
	d.sweep(time.Minute)
	if d.state.first != old+1 || store.Value[int64](tx, `SELECT min(seq) FROM events`) != old+1 {
		t.Errorf("the first event is %d; want %d", d.state.first, old+1)
	}
	d.restart()
	if list := d.do("cli:will", "events.list", nil).list("events"); list[0]["seq"] != float64(old+1) {
		t.Errorf("the events begin with %v", list[0])
	}
	d.mustRefuse(collab.CodeNotFound, "cli:will", "work_item.get", m{"id": "done"})
	d.mustRefuse(collab.CodeNotFound, "cli:will", "wake.explain", m{"messageId": "m"})
	if got := d.do("cli:will", "delivery.list", m{"targetAgentId": "lead"}).list("deliveries"); got[0]["status"] != "cancelled" {
		t.Errorf("a delivery of 100 days ago: %v", got[0])
	}
	d.do("cli:will", "conversation.get", m{"id": "c"})
	d.announce("lead")
	d.do("agent:lead", "work_item.update", m{"id": "open", "state": "review", "nextMoveOwnerId": "lead", "summary": "x"})
	d.do("agent:lead", "flight.get", m{"id": flight})
	d.do("agent:lead", "flight.update", m{"id": flight, "state": "completed"})
	if err := storetest.Exec(d.db, `DELETE FROM events WHERE seq > ?`, old); err == nil {
		t.Error("events that are kept can be deleted")
	}
}

// TestHeartbeat_LeavesNoRows checks that a heartbeat without news changes no table.
func TestHeartbeat_LeavesNoRows(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead", "other")
	group(d, "")
	rows := func() string {
		return store.Value[string](store.On(t.Context(), d.db), `SELECT (SELECT count(*) FROM events) || ' ' || (SELECT sum(seq) FROM entities)`)
	}
	before := rows()
	for range 100 {
		d.sweep(10 * time.Second)
		for _, name := range []string{"lead", "other"} {
			d.do(peerID("agent:"+name), "identity.heartbeat", m{"endpointId": "e-" + name})
		}
	}
	if after := rows(); after != before || d.state.Endpoints["e-lead"].Status != collab.StatusOnline {
		t.Errorf("%s rows after 200 heartbeats; there were %s", after, before)
	}
}
