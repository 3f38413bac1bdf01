package broker_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A guardedFixture is a bus with credentials and a broker.
type guardedFixture struct {
	t    *testing.T
	bus  *bustest.Bus
	file *grant.File
}

func newGuardedFixture(t *testing.T) *guardedFixture {
	t.Helper()
	dir := t.TempDir()
	g := &guardedFixture{t: t, file: grant.NewFile(filepath.Join(dir, grant.FileName))}
	token := g.token(grant.Credential{Name: "broker", Identities: []string{"collab:broker"}, Subscribe: []string{"collab:*"}, Publish: []string{"*"}})
	g.bus = bustest.StartWithCredentials(t, g.file)
	startOver(t, &peer.Options{Buses: []string{g.bus.URL()}, Token: token}, filepath.Join(dir, "broker.db"), &broker.Options{})
	return g
}

func (g *guardedFixture) token(c grant.Credential) string {
	g.t.Helper()
	token, err := g.file.Create(c)
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// join connects a peer with a credential for its identity alone, which grants names.
func (g *guardedFixture) join(id protocol.PeerID, names ...string) *client {
	g.t.Helper()
	token := g.token(grant.Credential{
		Name: string(id), Identities: []string{string(id)}, Subscribe: []string{string(id)}, Publish: []string{"collab:*"}, Names: names,
	})
	return asking(g.t, g.bus.JoinWithToken(g.t, token, id, protocol.Pattern(id)))
}

// refused makes a request that must be refused with a code, and returns the refusal's message.
func (c *client) refused(code collab.Code, method string, params any) string {
	c.t.Helper()
	r := c.ask(method, params)
	if r.OK || r.Error.Code != string(code) {
		c.t.Fatalf("%s by %s gives %s %+v; want %s", method, c.ID(), r.Result, r.Error, code)
	}
	return r.Error.Message
}

// TestAnnounce_RefusesTheNameOfAnother checks an agent that announces names of others.
func TestAnnounce_RefusesTheNameOfAnother(t *testing.T) {
	g := newGuardedFixture(t)
	boss, evil := g.join("cli:boss"), g.join("agent:evil")
	says := evil.refused(collab.CodeForbidden, "identity.announce", object{"logicalAgentId": "boss", "endpointId": "e"})
	if !strings.Contains(says, "credentials.toml") {
		t.Errorf("the refusal does not say what to do: %s", says)
	}
	for _, name := range []string{"agent:boss", "cli:boss", "tg:42", "42", "lead", "Boss", "b\u200boss", "everyone"} {
		if r := evil.ask("identity.announce", object{"logicalAgentId": name, "endpointId": "e"}); r.OK {
			t.Errorf("evil announced %q", name)
		}
	}
	boss.refused(collab.CodeForbidden, "identity.announce", object{"endpointId": "p"})
	evil.do("identity.announce", object{"endpointId": "e"})
	if got := boss.do("identity.list", nil)["identities"].([]any); len(got) != 1 || got[0].(object)["agentIdentity"] != "agent:evil" {
		t.Errorf("the identities are %v", got)
	}
}

// TestAnnounce_AcceptsAGrantedName checks that a name is accepted for as long as a credential
// grants it.
func TestAnnounce_AcceptsAGrantedName(t *testing.T) {
	g := newGuardedFixture(t)
	will := g.join("cli:will")
	w := will.do("work_item.create", object{"id": "w", "title": "t", "ownerId": "boss", "nextMoveOwnerId": "boss", "wake": true})
	if w["work_item"].(object)["ownerIdentity"] != "agent:boss" {
		t.Errorf("created %v", w)
	}
	deputy := g.join("agent:deputy", "boss", "will")
	deputy.do("identity.announce", object{"logicalAgentId": "boss", "endpointId": "e"})
	if e := deputy.event(collab.EventWoken.Name); e.Target != "agent:boss" {
		t.Errorf("woken by %+v", e)
	}
	deputy.do("work_item.update", object{"id": "w", "state": "working"})
	deputy.refused(collab.CodeForbidden, "identity.announce", object{"logicalAgentId": "will", "endpointId": "e2"}) // a person's name cannot be granted
	if err := g.file.Put(grant.Credential{
		Name: "agent:deputy", SHA256: credentialOf(t, g.file, "agent:deputy"), Identities: []string{"agent:deputy"},
		Subscribe: []string{"agent:deputy"}, Publish: []string{"collab:*"},
	}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); { // within a second of the change
		if r := deputy.ask("work_item.update", object{"id": "w", "summary": "x"}); !r.OK {
			break
		}
		g.bus.Sync(t)
	}
	deputy.refused(collab.CodeForbidden, "work_item.update", object{"id": "w", "state": "review"})
	deputy.refused(collab.CodeForbidden, "delivery.list", object{"targetAgentId": "boss"})
	deputy.refused(collab.CodeNotFound, "identity.heartbeat", object{"endpointId": "e"})
}

func credentialOf(t *testing.T, file *grant.File, name string) string {
	t.Helper()
	for _, c := range file.List() {
		if c.Name == name {
			return c.SHA256
		}
	}
	t.Fatalf("no credential %s", name)
	return ""
}

// TestCaller_ActsForNobodyElse checks an agent with the same bare name as a person, and one with
// another name, on records of the person and of another agent.
func TestCaller_ActsForNobodyElse(t *testing.T) {
	g := newGuardedFixture(t)
	person, worker, evil, namesake := g.join("cli:boss"), g.join("agent:worker"), g.join("agent:evil"), g.join("agent:boss")
	worker.do("identity.announce", object{"endpointId": "w"})
	person.do("question.list", nil)
	asked := worker.do("question.ask", object{"id": "q", "title": "may I?", "askedOfId": "cli:boss"})["question"].(object)
	if asked["askedOfId"] != "boss" || asked["askedOfIdentity"] != "cli:boss" || asked["nextMoveOwnerIdentity"] != "cli:boss" {
		t.Errorf("the question is %v", asked)
	}
	worker.do("work_item.create", object{"id": "w", "title": "t", "ownerId": "worker", "nextMoveOwnerId": "worker", "requestedById": "cli:boss"})
	worker.do("work_item.update", object{"id": "w", "state": "review", "acceptanceState": "pending", "nextMoveOwnerId": "cli:boss"})
	for _, other := range []*client{evil, namesake} {
		other.ask("identity.announce", object{"logicalAgentId": "boss", "endpointId": "e-" + string(other.ID())})
		other.refused(collab.CodeForbidden, "question.answer", object{"id": "q", "answer": "yes"})
		other.refused(collab.CodeForbidden, "question.decline", object{"id": "q"})
		other.refused(collab.CodeForbidden, "work_item.update", object{"id": "w", "acceptanceState": "accepted"})
		other.refused(collab.CodeForbidden, "work_item.update", object{"id": "w", "state": "done"})
	}
	if r := person.ask("work_item.create", object{"title": "t", "ownerId": "boss", "nextMoveOwnerId": "boss"}); r.OK || r.Error.Code != "ambiguous" ||
		!strings.Contains(r.Error.Message, "say agent:boss or cli:boss") {
		t.Errorf("work for a name of two: %s %+v", r.Result, r.Error)
	}
	person.do("work_item.update", object{"id": "w", "acceptanceState": "accepted", "state": "done"})
	person.do("question.answer", object{"id": "q", "answer": "yes"})
}

// TestDeliveryClaim_RefusesDeliveriesOfAnother uses deliveries for an agent that has not started.
func TestDeliveryClaim_RefusesDeliveriesOfAnother(t *testing.T) {
	g := newGuardedFixture(t)
	will, evil := g.join("cli:will"), g.join("agent:evil")
	will.do("conversation.create", object{"id": "c", "kind": "group", "masterId": "agent:boss"})
	posted := will.ask("message.post", object{"conversationId": "c", "text": "for the boss only"})
	var details struct{ Deliveries []collab.Delivery }
	if posted.OK || decodeInto(t, posted.Error.Details, &details) || len(details.Deliveries) != 1 || details.Deliveries[0].TargetIdentity != "agent:boss" {
		t.Fatalf("posted %+v %s", posted.Error, posted.Error.Details)
	}
	id := details.Deliveries[0].ID
	evil.ask("identity.announce", object{"logicalAgentId": "boss", "endpointId": "e"})
	evil.do("identity.announce", object{"endpointId": "e", "roles": []string{"boss", "will"}})
	evil.refused(collab.CodeForbidden, "delivery.list", object{"targetAgentId": "boss"})
	evil.refused(collab.CodeForbidden, "delivery.claim", object{"targetAgentId": "agent:boss"})
	evil.refused(collab.CodeForbidden, "delivery.ack", object{"id": id})
	evil.refused(collab.CodeForbidden, "delivery.nack", object{"id": id})
	if r := will.ask("message.post", object{"conversationId": "c", "text": "@will look"}); r.OK && len(decode(t, r.Result)["deliveries"].([]any)) > 0 {
		t.Errorf("a role took what was meant for a person: %s", r.Result)
	}
	if len(evil.events) > 0 {
		t.Errorf("evil was woken: %+v", <-evil.events)
	}
	boss := g.join("agent:boss")
	boss.do("identity.announce", object{"endpointId": "b"})
	boss.event(collab.EventWoken.Name)
	boss.do("delivery.ack", object{"id": id})
}

// TestCaller_CannotImpersonate covers claims, bindings, flights and endpoints of another caller.
func TestCaller_CannotImpersonate(t *testing.T) {
	g := newGuardedFixture(t)
	boss, evil, will := g.join("agent:boss"), g.join("agent:evil"), g.join("cli:will")
	boss.do("identity.announce", object{"endpointId": "b"})
	evil.do("identity.announce", object{"endpointId": "e"})
	token := boss.do("claim.acquire", object{"eventId": "x"})["token"]
	evil.refused(collab.CodeForbidden, "claim.release", object{"eventId": "x", "token": token, "answered": true})
	evil.refused(collab.CodeForbidden, "identity.heartbeat", object{"endpointId": "b"})
	evil.refused(collab.CodeForbidden, "identity.announce", object{"endpointId": "b"})
	evil.refused(collab.CodeForbidden, "binding.set", object{"surface": "tg", "externalId": "1", "agentId": "boss"})
	flight := will.do("invocation.create", object{"targetAgentId": "boss", "text": "go"})["flight"].(object)["id"]
	evil.refused(collab.CodeForbidden, "flight.update", object{"id": flight, "state": "completed"})
	evil.refused(collab.CodeForbidden, "flight.update", object{"id": flight, "state": "cancelled"})
	boss.do("flight.update", object{"id": flight, "state": "completed"})
}

func decodeInto(t *testing.T, raw []byte, into any) (failed bool) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Errorf("%s: %v", raw, err)
		return true
	}
	return false
}
