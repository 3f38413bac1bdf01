package logtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Epoch is the time of the first row of the logs that the tests write.
var Epoch = time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)

// A Script builds the rows of a log as a bus would, with one message per millisecond.
type Script struct {
	T    testing.TB
	Now  time.Time
	N    int
	Rows []activitylog.Row
}

// NewScript begins a log at [Epoch].
func NewScript(t testing.TB) *Script { return &Script{T: t, Now: Epoch} }

// Add adds a row with the current time of the script.
func (s *Script) Add(r activitylog.Row) {
	r.At = s.Now.UnixMicro()
	s.Rows = append(s.Rows, r)
}

// Message adds the rows of a message that all targets processed, and returns its id.
func (s *Script) Message(t protocol.MessageType, from, topic, content string, targets ...string) string {
	s.T.Helper()
	s.N++
	id := fmt.Sprintf("msg_%04d", s.N)
	s.Send(id, fmt.Sprintf(`{"messageId":%q,"type":%q,"from":%q,"timestamp":"2026-02-17T12:00:00Z","content":%s}`, id,
		t, from, content), from, topic, targets...)
	return id
}

// Send adds the rows of a message with that payload, which all targets processed.
func (s *Script) Send(id, payload, from, topic string, targets ...string) {
	s.T.Helper()
	if !json.Valid([]byte(payload)) {
		s.T.Fatalf("not JSON: %s", payload)
	}
	s.Now = s.Now.Add(time.Millisecond)
	s.Add(activitylog.Row{Event: activitylog.SendStart, MessageID: id, RPCID: "1", Actor: from, Topic: topic,
		Status: activitylog.StatusStart, Payload: []byte(payload)})
	for i, target := range targets {
		s.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: id, RPCID: fmt.Sprint(10 + i), Actor: target,
			Topic: topic, Status: activitylog.StatusStart})
	}
	s.Now = s.Now.Add(100 * time.Microsecond)
	for i, target := range targets {
		s.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: id, RPCID: fmt.Sprint(10 + i), Actor: target,
			Topic: topic, Status: activitylog.StatusOK, Payload: []byte(`{"processed":true}`)})
	}
	status := activitylog.StatusOK
	if len(targets) == 0 {
		status = activitylog.StatusNoSubscriber
	}
	s.Add(activitylog.Row{Event: activitylog.SendFinish, MessageID: id, RPCID: "1", Actor: from, Topic: topic,
		Status:  status,
		Payload: fmt.Appendf(nil, `{"accepted":true,"messageId":%q,"deliveredTo":%d}`, id, len(targets))})
}

// Sent returns the rows of message i as a bus appends them. Some values of i give an unusual
// outcome.
func Sent(i int, at time.Time) []activitylog.Row {
	id, of := fmt.Sprintf("msg_%06d", i), &activitylog.Sending{}
	row := func(event activitylog.Event, rpcID, actor, status, payload, text string) activitylog.Row {
		return activitylog.Row{At: at.UnixMicro() + int64(event), Event: event, MessageID: id, RPCID: rpcID,
			Actor: actor, Topic: "agent:a", Status: status, Payload: []byte(payload), Error: text, Of: of}
	}
	rows := []activitylog.Row{row(activitylog.SendStart, "07", "tg:1", activitylog.StatusStart,
		fmt.Sprintf(`{"messageId":%q,"type":"tg_message","from":"tg:1"}`, id), "")}
	addressee := `,"addressee":"ok"}`
	switch i % 5 {
	case 0:
		return append(rows, row(activitylog.SendFinish, "07", "tg:1", activitylog.StatusNoSubscriber,
			fmt.Sprintf(`{"accepted":true,"messageId":%q,"deliveredTo":0}`, id), ""))
	case 1:
		addressee = `,"addressee":"failed","failures":[]}`
	case 2:
		addressee = "}"
	}
	return append(rows,
		row(activitylog.ProcessStart, "12", "agent:a", activitylog.StatusStart, "", ""),
		row(activitylog.ProcessStart, "a-1", "log:x", activitylog.StatusStart, "", ""),
		row(activitylog.ProcessFinish, "12", "agent:a", activitylog.StatusOK, `{"processed":true}`, ""),
		row(activitylog.ProcessFinish, "a-1", "log:x", string(protocol.OutcomeTimeout), "", "no answer"),
		row(activitylog.SendFinish, "07", "tg:1", activitylog.StatusOK,
			fmt.Sprintf(`{"accepted":true,"messageId":%q,"deliveredTo":2%s`, id, addressee), ""))
}

// WantEntries returns the entries that a reader must return for the rows, as [Plain] formats
// them.
func WantEntries(rows []activitylog.Row) (list []string) {
	for i := range rows {
		e := rows[i].Entry(int64(i + 1))
		list = append(list, Plain(&e))
	}
	return list
}

// Plain returns the columns of an entry, separated by bars.
func Plain(e *activitylog.Entry) string {
	return strings.Join([]string{fmt.Sprint(e.ID), e.TS, e.Event, e.MessageID, e.RPCID, e.Actor, e.Topic, e.Status,
		string(e.Payload), e.Error}, "|")
}

// Sealed returns the numbers of the sealed files of the log at path.
func Sealed(t testing.TB, path string) []int {
	t.Helper()
	numbers, err := segment.Numbers(path)
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// Query returns the result of an SQL query, as any other program would read it. Each row is its
// columns, separated by bars.
func Query(t testing.TB, path, sql string) []string {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var rows []string
	err = sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		columns := make([]string, s.ColumnCount())
		for i := range columns {
			columns[i] = s.ColumnText(i)
			if s.ColumnType(i) == sqlite.TypeNull {
				columns[i] = "NULL"
			}
		}
		rows = append(rows, strings.Join(columns, "|"))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Numbered returns the send_start row of message i.
func Numbered(i int) activitylog.Row {
	return activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.SendStart,
		MessageID: fmt.Sprintf("msg_%08d", i), Status: activitylog.StatusStart}
}

// AttentionScript returns the records of two agents about five events each.
func AttentionScript(t testing.TB) *Script {
	s := NewScript(t)
	record := func(agent, content string, args ...any) {
		s.Message(protocol.TypeAgentEvent, agent, "system:attention", fmt.Sprintf(content, args...))
	}
	decide := func(agent, event, injection string) {
		record(agent, `{"event":"attention_decision","eventId":%q,"agent":%q,"directedness":"d","policy":"p","injection":%q,"priority":"normal","reason":"why"}`, event, agent, injection)
	}
	s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"é","sourceId":"e1"}`, "agent:a")
	decide("agent:a", "e1", "buffered")
	decide("agent:a", "e2", "buffered")
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":1,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":2,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","agent":"agent:a","turnId":"t1","attempt":2,"state":"finished"}`)
	record("agent:a", `{"event":"disposition","eventId":"e1","agent":"agent:a","disposition":"superseded"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"claimed"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"responded"}`)
	decide("agent:a", "e3", "notify")
	decide("agent:a", "e4", "tool_mailbox")
	record("agent:a", `{"event":"refusal","eventId":"e4","agent":"agent:a","tool":"send_message","reason":"must_not_respond"}`)
	record("agent:a", `{"event":"disposition","eventId":"e4","agent":"agent:a","disposition":"ignored"}`)
	decide("agent:a", "e10", "silent")
	record("agent:a", `{"event":"disposition","eventId":"e10","agent":"agent:a","disposition":"deferred"}`)
	// This agent records no turns, and claims to be another.
	decide("agent:b", "e1", "immediate")
	record("agent:b", `{"event":"attention_decision","eventId":"e2","agent":"agent:a","injection":"silent"}`)
	record("agent:b", `{"event":"disposition","eventId":"e2","agent":"agent:b","disposition":"ignored"}`)
	// These messages are not attention records of an event.
	record("agent:b", `{"event":"mood","eventId":"e1"}`)
	record("agent:b", `{"event":17}`)
	record("agent:b", `{"event":"post","eventId":"","messageId":"m-post","target":"tg:1"}`)
	record("agent:b", `{"event":"delivery","eventId":"","messageId":"m-post","status":"failed"}`)
	s.Message(protocol.TypeAgentEvent, "agent:b", "system:agents",
		`{"event":"disposition","eventId":"e1","agent":"agent:b"}`)
	return s
}

// MustRead returns the content of a file.
func MustRead(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// SentCommits returns the rows of [Sent] messages, in commits of one message or of one row.
func SentCommits(messages int) (commits [][]activitylog.Row, rows []activitylog.Row) {
	for i := range messages {
		list := Sent(i, time.Now())
		rows = append(rows, list...)
		if i%3 > 0 {
			commits = append(commits, list)
			continue
		}
		for _, r := range list { // each row may be the last of its file
			commits = append(commits, []activitylog.Row{r})
		}
	}
	return commits, rows
}

// SealAll seals the files of the log at path that a Writer has rotated.
func SealAll(t testing.TB, path string) (err error) {
	for _, n := range Sealed(t, path) {
		err = errors.Join(err, segment.Seal(t.Context(), segment.Path(path, n)))
	}
	return err
}

// ChatScript returns a log of a few messages of several types and peers.
func ChatScript(t testing.TB) *Script {
	s := NewScript(t)
	s.Add(activitylog.Row{Event: activitylog.PeerConnected, Actor: "tg:bot"})
	s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"50% of Hello_World"}`, "agent:a")
	s.Message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"hi"}`, "tg:bot")
	s.Message(protocol.TypeTGMessage, "tg:2", "agent:b", `{"text":"anyone?"}`)
	s.Add(activitylog.Row{Event: activitylog.Rejected, MessageID: "evil", Actor: "tg:9", Topic: "agent:a",
		Error: "may not send tg_reply"})
	return s
}
