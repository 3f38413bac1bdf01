package broker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hubbub/protocol/collab"
)

func TestNewRecord_ChecksTimes(t *testing.T) {
	for _, raw := range []string{`1700000000000`, `"2023-11-14T22:13:20Z"`} {
		var m collab.Moment
		if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Unix() != 1700000000 {
			t.Errorf("%s is read as %v, %v", raw, m, err)
		}
	}
}

// TestParams_RefuseIDsWithControlCharacters checks one member of each kind in each family of
// methods. Texts that people write may have any characters.
func TestParams_RefuseIDsWithControlCharacters(t *testing.T) {
	d := newFixture(t)
	for _, c := range []struct{ method, params string }{
		{"claim.acquire", `{"eventId":"%"}`}, {"claim.release", `{"eventId":"%"}`}, {"claim.decline", `{"eventId":"e%"}`}, {"claim.get", `{"eventId":"%e"}`},
		{"decision.ask", `{"id":"%"}`}, {"decision.ask", `{"id":"d","eventId":"%"}`}, {"decision.ask", `{"id":"d","mayDecide":["tg:%"]}`},
		{"decision.decide", `{"id":"d","by":"tg:%"}`}, {"decision.get", `{"id":"%"}`}, {"decision.list", `{"after":"%"}`},
		{"obligation.open", `{"eventId":"%"}`}, {"obligation.open", `{"eventId":"e","author":"tg:%"}`}, {"obligation.react", `{"targetEventId":"%"}`},
		{"obligation.react", `{"targetEventId":"e","reactionId":"%"}`}, {"obligation.discharge", `{"eventId":"%","recipient":"agent:a"}`},
		{"work_item.create", `{"id":"%"}`}, {"work_item.create", `{"title":"t","parentId":"%"}`}, {"work_item.create", `{"title":"t","waitingOn":{"kind":"question","targetId":"%","label":"l"}}`},
		{"work_item.update", `{"id":"w","ownerId":"%"}`}, {"work_item.assign", `{"id":"%","ownerId":"a"}`}, {"question.ask", `{"title":"t","conversationId":"%"}`},
		{"message.post", `{"text":"t","targets":["%"]}`}, {"message.post", `{"text":"t","chat":{"identity":"tg:%","kind":"dm"}}`},
		{"message.post", `{"text":"t","obligation":{"blocks":"none","dischargeDelegate":{"id":"%"}}}`},
		{"conversation.create", `{"memberIds":["a","%"]}`}, {"invocation.create", `{"targetAgentId":"%","text":"t"}`}, {"binding.set", `{"surface":"tg","externalId":"%","agentId":"a"}`},
		{"identity.resolve", `{"label":"lead%"}`}, {"identity.announce", `{"endpointId":"%"}`}, {"identity.announce", `{"endpointId":"e","roles":["%"]}`}, {"flight.update", `{"id":"%","state":"running"}`},
		{"delivery.claim", `{"targetAgentId":"%"}`}, {"wake.explain", `{"messageId":"%"}`}, {"prompt.contract", `{"agentId":"%"}`},
	} {
		for _, bad := range []string{`\n`, `\u0000`, `\u001b[2J`, `\u007f`, `\u200b`, `\u202e`, `\ufffd`, `\u00a0`, `\u2003`, `\u2800`, `\u3000`} {
			e := d.mustRefuse(collab.CodeInvalid, "agent:a", c.method, json.RawMessage(strings.ReplaceAll(c.params, "%", bad)))
			if why := fmt.Sprint(e["error"]); !strings.Contains(why, "control or invisible characters") {
				t.Errorf("%s %s with %s: %s", c.method, c.params, bad, why)
			}
		}
	}
	d.mustRefuse(collab.CodeInvalid, "agent:a", collab.WorkArrived.Name, json.RawMessage(`{"name":"report\ud800"}`))
	d.do("cli:will.1", "work_item.create", m{"title": "two\nlines\tand \u200d more", "summary": "a\nb", "ownerId": "agent:a", "nextMoveOwnerId": "agent:a"})
}
