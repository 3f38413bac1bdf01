package broker

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
	"hubbub/protocol/collab"

	"github.com/google/go-cmp/cmp"
)

// A fixture decides requests without a database and a bus, on a clock that the
// test moves.
type fixture struct {
	t     testing.TB
	state *state
	now   time.Time
	log   []collab.Event
	sent  []sending
	wants []spawnRequest
	ids   int
	names []string  // that the bus lets every sender announce
	db    *store.DB // nil for a state in memory
}

func peerID(s string) protocol.PeerID { return protocol.PeerID(s) }

func newFixture(t testing.TB) *fixture {
	return &fixture{t: t, state: newState(nil), names: []string{"*"}, now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
}

// newStoredFixture is newFixture with a database that holds the closed records.
func newStoredFixture(t testing.TB) *fixture {
	t.Helper()
	d := newFixture(t)
	d.db = storetest.Open(t, "broker", filepath.Join(t.TempDir(), "broker.db"), func(path string) (*store.DB, error) { return store.Open(path, Schema) })
	t.Cleanup(func() { d.db.Close() })
	if err := storetest.Exec(d.db, `PRAGMA synchronous = OFF`); err != nil {
		t.Fatal(err)
	}
	d.restart()
	return d
}

// restart reads the state again. Endpoints keep the time of their last sign of life.
func (d *fixture) restart() {
	d.t.Helper()
	before := d.state.Endpoints
	var err error
	if d.state, err = load(d.t.Context(), d.db, d.now); err != nil {
		d.t.Fatal(err)
	}
	for id, e := range d.state.Endpoints {
		e.Seq, e.LastHeartbeatAt = before[id].Seq, before[id].LastHeartbeatAt
		d.state.heartbeats = max(d.state.heartbeats, e.Seq)
	}
}

// turn begins a turn of the given caller.
func (d *fixture) turn(from protocol.PeerID) *tx {
	if d.db != nil {
		d.state.tables.tx = store.On(d.t.Context(), d.db)
	}
	return &tx{
		view: view{d.state, d.state.Caller(from, d.names)}, now: d.now,
		opts:  &Options{EndpointTimeout: 30 * time.Second, StaleAfter: 10 * time.Minute, RetireAfter: 24 * time.Hour, Keep: 90 * 24 * time.Hour},
		db:    d.pruned(),
		newID: func(prefix string) string { d.ids++; return fmt.Sprintf("%s%06d", prefix, d.ids) },
		stored: func(seq int64) (collab.Event, error) {
			if seq < 1 || seq > int64(len(d.log)) {
				return collab.Event{}, fmt.Errorf("no event %d", seq)
			}
			return d.log[seq-1], nil
		},
	}
}

// pruned is the database of a stored fixture, so that its sweeps prune.
func (d *fixture) pruned() *store.Tx {
	if d.db == nil {
		return nil
	}
	return d.state.tables.tx
}

// end keeps what a turn brought about and checks that the log alone gives the
// same state.
func (d *fixture) end(t *tx) {
	d.t.Helper()
	d.log = append(d.log, t.events...)
	d.sent = append(d.sent, t.sends...)
	d.wants = append(d.wants, t.spawnRequests...)
	if d.db == nil {
		return
	}
	tx := t.state.tables.tx
	for _, e := range t.events {
		appendEvent(tx, e)
	}
	d.state.tables.flush()
	tx.Exec(`UPDATE applied SET seq = ?`, d.state.seq)
	if d.state.tables.evict(); tx.Err() != nil {
		d.t.Fatal(tx.Err())
	}
}

func (d *fixture) checkRebuild() {
	d.t.Helper()
	again := newState(nil)
	for _, e := range d.log {
		if err := again.apply(e); err != nil {
			d.t.Fatalf("rebuilding: %v", err)
		}
	}
	d.same(again)
}

func (d *fixture) same(rebuilt *state) {
	d.t.Helper()
	for id, e := range rebuilt.Endpoints { // heartbeats are not events
		if now := d.state.Endpoints[id]; now != nil {
			e.Seq, e.LastHeartbeatAt = now.Seq, now.LastHeartbeatAt
		}
	}
	rebuilt.heartbeats = d.state.heartbeats
	if !reflect.DeepEqual(d.state, rebuilt) {
		d.t.Fatalf("the rebuilt state differs:\n%s", cmp.Diff(d.state, rebuilt, cmp.Exporter(func(reflect.Type) bool { return true })))
	}
}

// ask decides a request and returns its answer.
func (d *fixture) ask(from protocol.PeerID, name string, params any) protocol.CollabResult {
	d.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		d.t.Fatal(err)
	}
	t := d.turn(from)
	r := request{from: from, content: protocol.CollabRequest{Method: name, Params: raw, RequestID: "r"}}
	t.digest = digest(t.caller.Name, r.content)
	var result json.RawMessage
	if err := rules.Attempt(func() { result, _ = decideRequest(t, r, "r") }); err != nil {
		d.t.Fatalf("%s: %v", name, err)
	}
	d.end(t)
	var answer protocol.CollabResult
	if err := json.Unmarshal(result, &answer); err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// do is ask for a request that must succeed. It returns the result.
func (d *fixture) do(from protocol.PeerID, name string, params any) result {
	d.t.Helper()
	a := d.ask(from, name, params)
	if !a.OK {
		d.t.Fatalf("%s by %s: %s: %s %s", name, from, a.Error.Code, a.Error.Message, a.Error.Details)
	}
	return parse(d.t, a.Result)
}

// mustRefuse is ask for a request that must fail with the code. It returns the
// details, with the message in them.
func (d *fixture) mustRefuse(code collab.Code, from protocol.PeerID, name string, params any) result {
	d.t.Helper()
	a := d.ask(from, name, params)
	if a.OK || a.Error.Code != string(code) {
		d.t.Fatalf("%s by %s gives %+v %s; want %s", name, from, a.Error, a.Result, code)
	}
	details := result{}
	if a.Error.Details != nil {
		details = parse(d.t, a.Error.Details)
	}
	details["error"] = a.Error.Message
	return details
}

// sweep does what is due.
func (d *fixture) sweep(later time.Duration) {
	d.t.Helper()
	d.now = d.now.Add(later)
	t := d.turn(protocol.PeerBroker)
	t.caller = rules.BrokerCaller
	if err := rules.Attempt(func() { t.sweep(true) }); err != nil {
		d.t.Fatal(err)
	}
	d.end(t)
}

// wakes returns "agent rule" of every wake sent since the last call.
func (d *fixture) wakes() (list []string) {
	for _, s := range d.sent {
		if s.deliveryID != "" {
			w := parse(d.t, s.event.Payload)
			list = append(list, fmt.Sprintf("%s %s", s.to, w["rule"]))
		}
	}
	d.sent = nil
	return list
}

func (d *fixture) wantWakes(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.wakes()); diff != "" {
		d.t.Errorf("wakes (-want +got):\n%s", diff)
	}
}

// announce makes agents known, each with one endpoint "e-NAME".
func (d *fixture) announce(names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.do(protocol.PeerID("agent:"+name), "identity.announce", m{"logicalAgentId": name, "endpointId": "e-" + name})
	}
}

type (
	m      = map[string]any
	result map[string]any
)

func parse(t testing.TB, raw json.RawMessage) result {
	t.Helper()
	var out result
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// at returns the value at a path such as "wake.rule".
func (r result) at(path ...string) any {
	var v any = map[string]any(r)
	for _, key := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[key]
	}
	return v
}

func (r result) list(key string) []result {
	items, _ := r[key].([]any)
	var out []result
	for _, item := range items {
		out = append(out, item.(map[string]any))
	}
	return out
}
