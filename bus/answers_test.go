package bus_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// TestClassifyAnswer_AllForms gives one answer after the other to the same message.
func TestClassifyAnswer_AllForms(t *testing.T) {
	b := bustest.Start(t, nil)
	peer := rawPeer(t, b, "agent:odd", "agent:odd")
	sender := b.Join(t, "cli:op")
	long := strings.Repeat("é", 400)
	for _, c := range []struct {
		answer string // after the id
		status protocol.Outcome
		text   string
	}{
		{`"result":{"processed":true,"status":"ok"}`, protocol.OutcomeOK, ""},
		{`"result":{}`, protocol.OutcomeOK, ""},
		{`"result":{"processed":null}`, protocol.OutcomeOK, ""},
		{`"result":{"processed":false}`, protocol.OutcomeRejected, "the peer refused the message"},
		{`"result":{"processed":false,"message":"not today"}`, protocol.OutcomeRejected, "not today"},
		{`"result":{"processed":false,"reason":"closed"}`, protocol.OutcomeRejected, "closed"},
		{`"result":{"processed":false,"reason":"closed","message":"not today"}`, protocol.OutcomeRejected, "closed: not today"},
		{`"result":{"processed":false,"reason":7,"message":"not today"}`, protocol.OutcomeRejected, "not today"},
		{`"result":{"processed":false,"message":7}`, protocol.OutcomeRejected, "the peer refused the message"},
		{`"result":{"processed":"yes"}`, protocol.OutcomeError, "unusable answer: result.processed must be true or false"},
		{`"result":{"processed":true,"processed":false}`, protocol.OutcomeError, "unusable answer: "},
		{`"result":[]`, protocol.OutcomeError, "unusable answer: result must be an object"},
		{`"result":{},"result":{}`, protocol.OutcomeError, "unusable answer: "},
		{`"result":{},"error":{"code":1,"message":"m"}`, protocol.OutcomeError, "unusable answer: "},
		{`"error":{"code":-32000,"message":"disk full"}`, protocol.OutcomeError, "disk full"},
		{`"error":{"code":-32000}`, protocol.OutcomeError, "the peer answered with an error"},
		{`"error":7`, protocol.OutcomeError, "the peer answered with an error"},
		{`"error":{"code":1,"message":"` + long + `"}`, protocol.OutcomeError, long[:500] + "..."},
		{`"neither":1`, protocol.OutcomeError, "unusable answer: "},
	} {
		result := make(chan protocol.SendResult, 1)
		go func() { result <- sender.Send(t, "agent:odd", protocol.TypeAgentEvent, protocol.AgentOnline{}) }()
		m, err := peer.read()
		for err == nil && m.Kind != jsonrpc.KindRequest { // an error to the answer before
			m, err = peer.read()
		}
		if err != nil {
			t.Fatal(err)
		}
		peer.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + c.answer + `}`)
		peer.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`) // twice
		r := <-result
		switch {
		case c.status == protocol.OutcomeOK && (r.DeliveredTo != 1 || len(r.Failures) != 0 || r.Addressee != protocol.AddresseeOK):
			t.Errorf("%.60s: %+v; want it processed", c.answer, r)
		case c.status != protocol.OutcomeOK && (r.DeliveredTo != 0 || len(r.Failures) != 1 || r.Addressee != protocol.AddresseeFailed):
			t.Errorf("%.60s: %+v; want one failure", c.answer, r)
		case c.status != protocol.OutcomeOK && (r.Failures[0].Status != c.status || !strings.HasPrefix(r.Failures[0].Error, c.text)):
			t.Errorf("%.60s: %+v; want %s %q", c.answer, r.Failures[0], c.status, c.text)
		}
	}
}

// TestBadInput_IsAnsweredAndKeepsConnection breaks a rule, and then sends a
// ping.
func TestBadInput_IsAnsweredAndKeepsConnection(t *testing.T) {
	b := bustest.Start(t, &bus.Options{InitializeTimeout: time.Minute})
	early, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := &raw{t, early}
	ready := rawPeer(t, b, "agent:x", "agent:x")
	for _, c := range []struct {
		peer        *raw
		frame, want string // of the error; empty for no answer
	}{
		{before, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `-32001`},
		{before, `{"jsonrpc":"2.0","method":"ping"}`, ``},
		{before, `{"jsonrpc":"2.0","id":1`, `-32700`},
		{before, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `-32602`},
		{before, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":""}}`, `-32602`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:y"}}`, `-32001`},
		{ready, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `-32600`},
		{ready, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `-32600`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"explode"}`, `-32601`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"unsubscribe","params":{"topic":"agent:y"}}`, `-32003`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"unsubscribe","params":{}}`, `-32602`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"topic":"a[b]"}}`, `only * and ? are special`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"sendMessage","params":{"topic":"x"}}`, `-32602`},
		{ready, `{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"ping"}`, `-32602`},
		{ready, `{"jsonrpc":"2.0","id":99,"result":{}}`, ``},
		{ready, `{"jsonrpc":"2.0","id":"99","error":{}}`, ``},
	} {
		c.peer.write(c.frame)
		if c.want != "" {
			m, err := c.peer.read()
			if err != nil || !strings.Contains(string(m.Error), c.want) {
				t.Errorf("%s: %s %s, %v; want an error with %s", c.frame, m.Result, m.Error, err, c.want)
			}
		}
		c.peer.write(`{"jsonrpc":"2.0","id":"still there","method":"ping"}`)
		if m, err := c.peer.read(); err != nil || string(m.ID) != `"still there"` {
			t.Errorf("after %s: %s %s %s, %v; want the answer to the ping", c.frame, m.ID, m.Result, m.Error, err)
		}
	}
	if info := b.Server().Peers(); len(info) != 1 || info[0].ID != "agent:x" || len(info[0].Subscriptions) != 1 {
		t.Errorf("the peers are %+v", info)
	}
}

// TestObserver_IsNotWaitedFor uses one peer that observes and one that does both.
func TestObserver_IsNotWaitedFor(t *testing.T) {
	b := bustest.Start(t, nil)
	watcher := rawPeer(t, b, "cli:watcher")
	watcher.request("subscribe", `{"topic":"agent:*","observe":true}`)
	both := rawPeer(t, b, "agent:both", "agent:b*")
	both.request("subscribe", `{"topic":"agent:*","observe":true}`)
	sender := b.Join(t, "cli:op")
	if r := sender.Send(t, "agent:a", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 0 || len(r.Failures) != 0 {
		t.Errorf("a message that is only observed: %+v; want nobody waited for", r)
	}
	result := make(chan protocol.SendResult, 1)
	go func() { result <- sender.Send(t, "agent:both", protocol.TypeAgentEvent, protocol.AgentOnline{}) }()
	for _, p := range []*raw{watcher, both} {
		for _, topic := range []string{"agent:a", "agent:both"} {
			m, err := p.read()
			var in protocol.ProcessParams
			if err != nil || json.Unmarshal(m.Params, &in) != nil || string(in.Topic) != topic {
				t.Fatalf("got %s on %q, %v; want a message on %s", m.Method, in.Topic, err, topic)
			}
			if p == both { // the answer to an observation is ignored, the other one counts
				p.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`)
			}
		}
	}
	if r := <-result; r.DeliveredTo != 1 || r.Addressee != protocol.AddresseeOK {
		t.Errorf("a message to one that subscribes and observes: %+v; want it delivered once", r)
	}
	if got := rows(t, b, "actor='cli:watcher' AND event LIKE 'process%'"); len(got) != 0 {
		t.Errorf("an observation is in the log: %v", got)
	}
}
