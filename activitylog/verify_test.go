package activitylog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func verdict(t *testing.T, paths ...string) *Verdict {
	t.Helper()
	v, err := opened(t, paths...).Verify(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// editedTable has the rows of a log as its view shows them.
const editedTable = `CREATE TABLE activity_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, event TEXT NOT NULL, message_id TEXT NOT NULL,
  rpc_id TEXT, actor TEXT, topic TEXT, status TEXT, payload_json TEXT, error TEXT, bus TEXT
);`

// storeEdited stores these rows again, each with all columns of its own.
const storeEdited = `DELETE FROM log.event; DELETE FROM log.batch; DELETE FROM log.tree; DELETE FROM log.checkpoint;
INSERT INTO log.event (id, at, kind, rpc_id, actor, topic, message_id, payload, status, error)
  SELECT id, CAST(strftime('%s', ts) AS INTEGER) * 1000000 + CAST(substr(ts, 21, 6) AS INTEGER),
    CASE event WHEN 'send_start' THEN 1 WHEN 'process_start' THEN 2 WHEN 'process_finish' THEN 3 WHEN 'send_finish' THEN 4
      WHEN 'rejected' THEN 5 WHEN 'peer_connected' THEN 6 WHEN 'peer_disconnected' THEN 7 WHEN 'subscribe' THEN 8
      WHEN 'unsubscribe' THEN 9 WHEN 'log_gap' THEN 10 ELSE 99 END,
    rpc_id, actor, topic, nullif(message_id, ''), payload_json, coalesce(status, ''), error FROM activity_log;
INSERT INTO log.batch (first, last, since, until) SELECT min(id), max(id), min(at), max(at) FROM log.event HAVING count(*) > 0;
DELETE FROM log.run WHERE first > (SELECT min(first) FROM log.run); UPDATE log.run SET bus = (SELECT max(bus) FROM activity_log);`

// change runs SQL on the rows of a log that nobody writes, as if they were a table.
func change(t *testing.T, path, sql string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path + ".edit")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(checkpointPath(path)); err != nil { // it would tell that the rows were changed
		t.Fatal(err)
	}
	defer os.Remove(path + ".edit") //nolint:errcheck // the folder goes with the test
	defer conn.Close()              //nolint:errcheck // all is stored
	if err := sqlitex.ExecuteTransient(conn, "ATTACH '"+path+"' AS log", nil); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{editedTable, "INSERT INTO activity_log SELECT * FROM log.activity_log;", sql, storeEdited} {
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			t.Fatal(err)
		}
	}
	var hashes []uint64
	err = sqlitex.Execute(conn, "SELECT DISTINCT message_id FROM log.event WHERE message_id IS NOT NULL", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		hashes = append(hashes, hashOf(s.ColumnText(0)))
		return nil
	}})
	slices.Sort(hashes)
	var blob []byte
	for _, h := range hashes {
		blob = binary.BigEndian.AppendUint64(blob, h)
	}
	if err := errors.Join(err, sqlitex.Execute(conn, "UPDATE log.batch SET hashes = ?", &sqlitex.ExecOptions{Args: []any{blob}})); err != nil {
		t.Fatal(err)
	}
}

// dayLog holds ten messages to two peers each, spread over ten minutes.
func dayLog(t *testing.T) string {
	s := newScript(t)
	for range 10 {
		s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`, "agent:a", "agent:b")
		s.now = s.now.Add(time.Minute)
	}
	return s.written("")
}

func TestAWholeLogIsWhole(t *testing.T) {
	v := verdict(t, dayLog(t))
	if !v.OK() || v.Rows != 60 || v.Messages != 10 || v.Complete != 10 || v.Cut+v.UnderWay+v.Elsewhere != 0 || len(v.Gaps) != 0 {
		t.Errorf("%+v", v)
	}
	if !v.First.Equal(epoch.Add(time.Millisecond)) || v.Last.Sub(v.First) < 9*time.Minute {
		t.Errorf("from %s to %s", v.First, v.Last)
	}
}

func TestWhatVerifyFinds(t *testing.T) {
	// Rows 1 to 6 are message 1 (start, 2 process_start, 2 process_finish, finish), and so on.
	for _, c := range []struct {
		name, sql, problem string
		check              func(*Verdict) bool
	}{
		{"lost start", "DELETE FROM activity_log WHERE id = 25", "it has no send_start row", nil},
		{"lost process_start", "DELETE FROM activity_log WHERE id = 26", "agent:a has 0 process_start and 1 process_finish rows", nil},
		{"lost process_finish", "DELETE FROM activity_log WHERE id = 28", "agent:a has 1 process_start and 0 process_finish rows", nil},
		{"lost pair", "DELETE FROM activity_log WHERE id IN (26, 28)", "its result counts 2 peers, and 1 have process rows", nil},
		{"stray finish", "INSERT INTO activity_log (ts, event, message_id, rpc_id, actor, status) SELECT ts, event, message_id, rpc_id, actor, status FROM activity_log WHERE id = 29", "it has no send_start row", nil},
		{"doubled finish", "UPDATE activity_log SET actor = 'agent:b', rpc_id = '11' WHERE id IN (26, 28)", "agent:b has 2 process_start and 2 process_finish rows", nil},
		{"bad gap", "INSERT INTO activity_log (ts, event, message_id) SELECT ts, 'log_gap', '' FROM activity_log WHERE id = 60", "a log_gap row does not say how many rows were lost", nil},
		{"cut by a kill", "DELETE FROM activity_log WHERE id BETWEEN 27 AND 30", "", func(v *Verdict) bool { return v.Cut == 1 && v.Complete == 9 }},
		{"under way", "DELETE FROM activity_log WHERE id = 60", "", func(v *Verdict) bool { return v.UnderWay == 1 && v.Complete == 9 }},
		{"pruned before", "DELETE FROM activity_log WHERE id = 1", "", func(v *Verdict) bool { return v.Cut == 1 && v.Complete == 9 }},
		{"explained by a gap", `UPDATE activity_log SET event = 'log_gap', message_id = '', payload_json = '{"lost":1,"reason":"full"}' WHERE id = 29`, "",
			func(v *Verdict) bool {
				return v.Cut == 1 && len(v.Gaps) == 1 && v.Gaps[0].Lost == 1 && v.Gaps[0].Reason == "full"
			}},
		{"sent again after a kill", "UPDATE activity_log SET event = 'send_start', rpc_id = '1' WHERE id = 30", "",
			func(v *Verdict) bool { return v.Cut >= 1 && v.OK() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := dayLog(t)
			change(t, path, c.sql)
			v := verdict(t, path)
			switch {
			case c.problem == "" && (!v.OK() || !c.check(v)):
				t.Errorf("%+v", v)
			case c.problem != "" && (len(v.Problems) != 1 || v.Problems[0].What != c.problem):
				t.Errorf("%+v; want %q", v.Problems, c.problem)
			}
		})
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	path := dayLog(t)
	page := make([]byte, 4096)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(page, 3*4096); err != nil {
		t.Fatal(err)
	}
	v, err := opened(t, path).Verify(t.Context(), nil)
	if err == nil && v.OK() {
		t.Error("a page of zeros was not noticed")
	}
}

// TestVerifyTellsOfDamage: a page that cannot be read does not hide what was found
// before it.
func TestVerifyTellsOfDamage(t *testing.T) {
	s := newScript(t)
	for range 500 {
		s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"`+strings.Repeat("x", 200)+`"}`, "agent:a")
	}
	path := s.written("")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages := len(raw) / pageSize
	for page := pages / 2; page < pages; page++ {
		clear(raw[page*pageSize:][:64])
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, quick := range []bool{false, true} {
		v, err := opened(t, path).Verify(t.Context(), &VerifyOptions{Quick: quick})
		if err != nil || v.OK() {
			t.Errorf("quick %t: %+v, %v", quick, v, err)
			continue
		}
		if last := v.Problems[len(v.Problems)-1]; !strings.Contains(last.What, "malformed") {
			t.Errorf("quick %t: the last of %d problems is %q", quick, len(v.Problems), last.What)
		}
	}
}

func TestVerifyOfAClusterWantsAllItsLogs(t *testing.T) {
	entry, target := newScript(t), newScript(t)
	id := entry.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	for i := range entry.w {
		entry.w[i].Payload = []byte(strings.Replace(string(entry.w[i].Payload), `"deliveredTo":0`, `"deliveredTo":1`, 1))
	}
	target.now = epoch.Add(-time.Second) // its clock is behind
	target.add(Row{Event: ProcessStart, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: StatusStart})
	target.add(Row{Event: ProcessFinish, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: "ok"})
	east, west := entry.written("east"), target.written("west")
	if v := verdict(t, east, west); !v.OK() || v.Complete != 1 {
		t.Errorf("both: %+v", v)
	}
	for _, path := range []string{east, west} {
		if v := verdict(t, path); v.Complete != 0 {
			t.Errorf("one that should be all: %+v", v)
		}
		v, err := opened(t, path).Verify(t.Context(), &VerifyOptions{Partial: true, Longest: time.Millisecond})
		if err != nil || !v.OK() || v.Cut+v.Elsewhere+v.UnderWay != 1 {
			t.Errorf("one of several: %+v, %v", v, err)
		}
	}
}

// TestVerifyBesideAPrune: what verify reads of a message may leave before it reads
// the rest.
func TestVerifyBesideAPrune(t *testing.T) {
	path := dayLog(t)
	change(t, path, "DELETE FROM activity_log WHERE id = (SELECT min(id) FROM activity_log WHERE event = 'process_finish')")
	r := opened(t, path)
	v, err := r.Verify(t.Context(), nil)
	if err != nil || len(v.Problems) != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := r.ignorePruned(t.Context(), v); err != nil || len(v.Problems) != 1 {
		t.Errorf("the rows are there, and the problem is not: %+v, %v", v, err)
	}
	cut := v.Cut
	change(t, path, fmt.Sprintf("DELETE FROM activity_log WHERE id <= %d", v.Problems[0].ID))
	if err := r.ignorePruned(t.Context(), v); err != nil || len(v.Problems) != 0 || v.Cut != cut+1 {
		t.Errorf("the rows have left: %+v, %v", v, err)
	}
}

// TestTwoSendsOfOneIDAreTwoPasses sends one message twice at the same moment, to one topic:
// the log says which rows belong together.
func TestTwoSendsOfOneIDAreTwoPasses(t *testing.T) {
	w, path, stop := started(t, nil)
	now := time.Now().UnixMicro()
	var each [2][]Row
	for i := range each {
		of, rpc := &Sending{}, fmt.Sprint(10+i)
		row := func(event Event, rpcID, actor, status, payload string) Row {
			return Row{At: now, Event: event, MessageID: "msg_1", RPCID: rpcID, Actor: actor, Topic: "agent:a", Status: status, Payload: []byte(payload), Of: of}
		}
		each[i] = []Row{
			row(SendStart, "1", "tg:1", StatusStart, `{"type":"tg_message","from":"tg:1"}`),
			row(ProcessStart, rpc, "agent:a", StatusStart, ""),
			row(ProcessFinish, rpc, "agent:a", StatusOK, `{"processed":true}`),
			row(SendFinish, "1", "tg:1", StatusOK, `{"accepted":true,"messageId":"msg_1","deliveredTo":1}`),
		}
	}
	for i := range each[0] {
		w.Append(each[0][i])
		w.Append(each[1][i])
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if v := verdict(t, path); !v.OK() || v.Complete != 2 {
		t.Errorf("%+v", v)
	}
}

// TestALoneLogOfAClusterIsToldWhatItNeeds has messages that another bus accepted.
func TestALoneLogOfAClusterIsToldWhatItNeeds(t *testing.T) {
	path := dayLog(t)
	change(t, path, "DELETE FROM activity_log WHERE id BETWEEN 13 AND 48 AND event LIKE 'send%'")
	v := verdict(t, path)
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, "6 messages have rows in the logs of other buses: name the log of each bus") || v.Elsewhere != 6 {
		t.Errorf("%+v", v)
	}
}

// TestASealedFileIsCheckedByItsChecksum changes one value in a file, as its owner could.
func TestASealedFileIsCheckedByItsChecksum(t *testing.T) {
	path, _ := segmented(t, 20, &Options{SegmentRows: 20})
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := verdict(t, path); !v.OK() {
		t.Fatalf("%+v", v)
	}
	conn, err := sqlite.OpenConn(segmentPath(path, 1), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(conn, "UPDATE event SET rpc_id = 9 WHERE id = 1", nil)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	if v := verdict(t, path); len(v.Problems) == 0 || !strings.Contains(v.Problems[0].What, "changed after it was sealed") {
		t.Errorf("%+v", v.Problems)
	}
}
