package bus_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/wire"

	_ "modernc.org/sqlite"
)

// rows reads the activity log, one line per row: event, message, rpc id, actor, topic, status,
// payload and error.
func rows(t *testing.T, b *bustest.Bus, where string) []string {
	t.Helper()
	b.Sync(t)
	db, err := sql.Open("sqlite", b.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	result, err := db.Query(`SELECT event, message_id, coalesce(rpc_id,'-'), coalesce(actor,'-'), coalesce(topic,'-'),
		coalesce(status,'-'), coalesce(payload_json,'-'), coalesce(error,'-') FROM activity_log WHERE ` + where + ` ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	var list []string
	for result.Next() {
		var c [8]string
		if err := result.Scan(&c[0], &c[1], &c[2], &c[3], &c[4], &c[5], &c[6], &c[7]); err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.Join(c[:], " | "))
	}
	return list
}

func expectRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows:\n%s\nwant %d", len(got), strings.Join(got, "\n"), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d\n got  %s\n want %s", i, got[i], want[i])
		}
	}
}

func TestRows_OfDelivery(t *testing.T) {
	b := bustest.Start(t, nil)
	p := rawPeer(t, b, "agent:x", "agent:x")
	s := rawPeer(t, b, "tg:1")
	message := `{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"é"}, "extra" : 1}`
	s.write(`{"jsonrpc":"2.0","id":"call-7","method":"sendMessage","params":{"topic":"agent:x","payload":` + message + `}}`)
	m, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	id := string(m.ID)
	p.write(`{"jsonrpc":"2.0","id":` + id + `,"result":{"processed":true,"status":"ok","message":"configured"}}`)
	if _, err := s.read(); err != nil {
		t.Fatal(err)
	}
	expectRows(t, rows(t, b, "message_id='m1'"),
		"send_start | m1 | call-7 | tg:1 | agent:x | start | "+message+" | -",
		"process_start | m1 | "+id+" | agent:x | agent:x | start | - | -",
		`process_finish | m1 | `+id+` | agent:x | agent:x | ok | {"processed":true,"status":"ok","message":"configured"} | -`,
		`send_finish | m1 | call-7 | tg:1 | agent:x | ok | {"accepted":true,"messageId":"m1","deliveredTo":1,"addressee":"ok"} | -`)
}

// TestRows_ContainNoSecrets sends secrets through the bus: the peer gets them, the log does not.
func TestRows_ContainNoSecrets(t *testing.T) {
	b := bustest.Start(t, &bus.Options{Redact: redact.New()})
	p := rawPeer(t, b, "agent:x", "agent:x")
	s := rawPeer(t, b, "tg:1")
	token, key := "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	message := `{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"my token is ` + token + `\nok"}}`
	s.write(`{"jsonrpc":"2.0","id":"7","method":"sendMessage","params":{"topic":"agent:x","payload":` + message + `}}`)
	m, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(m.Params), message) {
		t.Errorf("the peer got %s", m.Params)
	}
	id := string(m.ID)
	p.write(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"no access with ` + key + `"}}`)
	answer, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(answer.Result), key) {
		t.Errorf("the sender got %s", answer.Result)
	}
	kept := rows(t, b, "message_id='m1'")
	for _, row := range kept {
		if strings.Contains(row, token) || strings.Contains(row, key) {
			t.Errorf("the log has a secret: %s", row)
		}
	}
	if len(kept) != 4 || !strings.Contains(kept[0], `my token is [redacted:telegram-bot-token]\nok"}}`) || !strings.Contains(kept[2], "no access with [redacted:github-pat]") {
		t.Errorf("the rows are\n%s", strings.Join(kept, "\n"))
	}
	if found := b.Server().Counters().Redacted; found["telegram-bot-token"] != 1 || found["github-pat"] < 2 {
		t.Errorf("counted: %v", found)
	}
}

func TestRows_OfFailuresAndNoSubscriber(t *testing.T) {
	b := bustest.Start(t, nil)
	ok, bad := b.Join(t, "agent:a", "news"), b.Join(t, "agent:b", "news", "bad")
	bad.Refuse(func(*bustest.Delivery) error { return fmt.Errorf("no disk") })
	s := b.Join(t, "cli:s")
	for topic, want := range map[protocol.Topic]string{"news": "partial", "bad": "failed", "nobody": "no_subscriber"} {
		s.Send(t, topic, protocol.TypeAgentEvent, protocol.AgentOnline{})
		got := rows(t, b, fmt.Sprintf("topic='%s' AND event='send_finish'", topic))
		if len(got) != 1 || !strings.Contains(got[0], " | "+want+" | ") {
			t.Errorf("%s: %v; want status %s", topic, got, want)
		}
	}
	ok.Next(t)
	if got := rows(t, b, "topic='nobody'"); len(got) != 2 {
		t.Errorf("a message to nobody has the rows %v; want send_start and send_finish", got)
	}
	got := rows(t, b, "topic='bad' AND event='process_finish'")
	if len(got) != 1 || !strings.Contains(got[0], ` | error | {"code":-32603,"message":"no disk"} | no disk`) {
		t.Errorf("a failed delivery: %v", got)
	}
}

func TestRows_RefusedMessageHasOne(t *testing.T) {
	b := bustest.Start(t, nil)
	s := rawPeer(t, b, "agent:x")
	for i, c := range []struct{ from, kind string }{{"agent:x", "configure"}, {"agent:y", "agent_event"}, {"agent:x", "invented"}, {"nobody", "agent_event"}} {
		p := fmt.Sprintf(`{"messageId":"r%d","type":%q,"from":%q,"timestamp":"2026-02-17T12:00:00Z","content":{}}`, i, c.kind, c.from)
		if m := s.request("sendMessage", `{"topic":"tg:1","payload":`+p+`}`); !strings.Contains(string(m.Error), "-32602") {
			t.Errorf("%v: %s", c, m.Error)
		}
		got := rows(t, b, fmt.Sprintf("message_id='r%d'", i))
		if len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf("rejected | r%d | 1 | %s | tg:1 | ", i, c.from)) {
			t.Errorf("%v: rows %v; want one rejected", c, got)
		}
	}
	s.request("sendMessage", `{"topic":"tg:1"}`) // malformed, which is not a refusal
	if got := rows(t, b, "event='rejected'"); len(got) != 4 {
		t.Errorf("%d rejected rows; want 4", len(got))
	}
}

// TestRows_NoneForUnobservedPresence checks that a subscription that only lacks "observe" leaves no row when it
// is refused, whichever method it came with.
func TestRows_NoneForUnobservedPresence(t *testing.T) {
	b := bustest.Start(t, nil)
	stream, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close(wire.CloseNormal, "") })
	s := &raw{t, stream}
	for _, c := range []struct{ method, params, want string }{
		{"initialize", `{"clientId":"agent:x","subscriptions":[{"topic":"bus:presence"}]}`, "-32602"},
		{"initialize", `{"clientId":"agent:x"}`, ""},
		{"subscribe", `{"topic":"bus:presence"}`, "-32602"},
	} {
		if m := s.request(c.method, c.params); (m.Error != nil) != (c.want != "") || !strings.Contains(string(m.Error), c.want) {
			t.Errorf("%s %s: %s %s", c.method, c.params, m.Result, m.Error)
		}
	}
	if got := rows(t, b, "event='rejected'"); len(got) != 0 {
		t.Errorf("the rows are %v", got)
	}
}

func TestRows_OfSessions(t *testing.T) {
	b := bustest.Start(t, nil)
	p := rawPeer(t, b, "agent:x", "agent:*")
	p.request("unsubscribe", `{"topic":"agent:*"}`)
	p.stream.Close(1000, "")
	waitFor(t, func() bool { return len(b.Server().Peers()) == 0 })
	got := rows(t, b, "actor='agent:x'")
	want := []string{"peer_connected |  | - | agent:x", "subscribe |  | 1 | agent:x | agent:*", "unsubscribe |  | 1 | agent:x | agent:*", "peer_disconnected |  | - | agent:x"}
	if len(got) != len(want) {
		t.Fatalf("rows %v", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("row %d is %s; want %s...", i, got[i], want[i])
		}
	}
}
