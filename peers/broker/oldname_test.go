package broker

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// oldLog is what a version before identities wrote: evil announced the names of another
// agent and of a person; boss is a person and ann an agent, and lead is both.
const oldLog = `
collab.agent.online|agent:ann|{"logicalAgentId":"ann","endpointId":"ea","identity":"agent:ann","wakePolicy":"auto","status":"online","announcedAt":"T","lastHeartbeatAt":"T"}
collab.agent.online|agent:evil|{"logicalAgentId":"chief","endpointId":"ee","identity":"agent:evil","wakePolicy":"auto","status":"online","announcedAt":"T","lastHeartbeatAt":"T"}
collab.agent.online|agent:lead|{"logicalAgentId":"lead","endpointId":"el","identity":"agent:lead","wakePolicy":"auto","status":"online","announcedAt":"T","lastHeartbeatAt":"T"}
collab.conversation.created|cli:lead.x1|{"id":"c","kind":"group","masterId":"chief","memberIds":["ann","boss"],"createdById":"lead","createdAt":"T"}
collab.question.created|cli:boss.x1|{"id":"q0","kind":"question","title":"t","createdById":"boss","askedById":"boss","askedOfId":"ann","nextMoveOwnerId":"ann","state":"open","acceptanceState":"none","createdAt":"T","updatedAt":"T"}
collab.question.created|agent:ann|{"id":"q1","kind":"question","title":"t","createdById":"ann","askedById":"ann","askedOfId":"boss","nextMoveOwnerId":"boss","state":"open","acceptanceState":"none","createdAt":"T","updatedAt":"T"}
collab.question.created|agent:ann|{"id":"q2","kind":"question","title":"t","createdById":"ann","askedById":"ann","askedOfId":"lead","nextMoveOwnerId":"lead","state":"open","acceptanceState":"none","createdAt":"T","updatedAt":"T"}
collab.delivery.requested|collab:broker|{"id":"d","targetAgentId":"chief","reason":"invocation","policy":"must_ack","status":"pending","conversationId":"c","attempts":0,"createdAt":"T","updatedAt":"T"}
collab.agent.offline|collab:broker|{"logicalAgentId":"chief","endpointId":"ee","identity":"agent:evil","wakePolicy":"auto","status":"offline","announcedAt":"T","lastHeartbeatAt":"T"}
collab.agent.heartbeat|agent:evil|{"logicalAgentId":"chief","endpointId":"ee","identity":"agent:evil","wakePolicy":"auto","status":"online","announcedAt":"T","lastHeartbeatAt":"T"}
collab.agent.heartbeat|agent:ann|{"logicalAgentId":"ann","endpointId":"ea","identity":"agent:ann","wakePolicy":"auto","status":"online","announcedAt":"T","lastHeartbeatAt":"T"}
`

// TestALogWithoutIdentitiesDecidesByThem opens what a released version left, and has each
// try what is not its own.
func TestALogWithoutIdentitiesDecidesByThem(t *testing.T) {
	d := newDesk(t)
	d.names = nil // no credential grants any
	db, err := store.Open(filepath.Join(t.TempDir(), "broker.db"), Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	at := stamp(d.now)
	for line := range strings.Lines(strings.TrimSpace(oldLog)) {
		part := strings.SplitN(strings.ReplaceAll(strings.TrimSpace(line), `"T"`, `"`+at+`"`), "|", 3)
		e := collab.Event{Seq: int64(len(d.log) + 1), At: at, CollabEvent: protocol.CollabEvent{
			ID: "evt_" + part[1] + at, Type: part[0], Source: part[1], Target: "x", Payload: json.RawMessage(part[2]),
		}}
		appendEvent(store.On(t.Context(), db), e)
		d.log = append(d.log, e)
	}
	if d.state, err = load(t.Context(), db, d.now); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]protocol.PeerID{"q0": "agent:ann", "q1": "cli:boss", "q2": ""} {
		if got := d.state.records.get(id).AskedOfIdentity; got != want {
			t.Errorf("%s was asked of %q; want %q", id, got, want)
		}
	}
	if c := d.state.conversations.get("c"); c.CreatedByIdentity != "cli:lead" || c.MasterIdentity != "agent:chief" ||
		c.MemberIdentities[0] != "agent:ann" || len(c.MemberIdentities) != 2 {
		t.Errorf("the conversation is %+v", c)
	}
	if len(d.state.endpoints) != 2 || d.state.endpoints["ee"] != nil {
		t.Errorf("the endpoints are %v", sortedKeys(d.state.endpoints))
	}
	d.refuse(collab.CodeNotFound, "agent:evil", "identity.heartbeat", m{"endpointId": "ee"})
	d.refuse(collab.CodeForbidden, "agent:evil", "delivery.claim", m{"targetAgentId": "chief"})
	for _, id := range []string{"q0", "q1", "q2"} {
		d.refuse(collab.CodeForbidden, "agent:evil", "question.answer", m{"id": id, "answer": "x"})
		d.refuse(collab.CodeForbidden, "agent:lead", "question.answer", m{"id": id, "answer": "x"})
	}
	d.refuse(collab.CodeForbidden, "agent:boss", "question.answer", m{"id": "q1", "answer": "x"})
	d.do("agent:ann", "question.answer", m{"id": "q0", "answer": "x"})
	d.do("cli:boss", "question.answer", m{"id": "q1", "answer": "x"})
	d.do("cli:will", "question.answer", m{"id": "q2", "answer": "x"})
	d.wantWakes("agent:ann next_move_owner", "agent:ann next_move_owner")
	d.do("agent:chief", "identity.announce", m{"endpointId": "ec"})
	if d.do("agent:chief", "delivery.claim", m{"targetAgentId": "chief"}).at("delivery", "id") != "d" {
		t.Error("what waited for chief is not chief's")
	}
}
