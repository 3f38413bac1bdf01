package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/write"
	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

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
	if err := os.RemoveAll(merkle.CheckpointPath(path)); err != nil { // it would reveal the change
		t.Fatal(err)
	}
	defer os.Remove(path + ".edit") //nolint:errcheck // the test removes the folder
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
		hashes = append(hashes, segment.HashOf(s.ColumnText(0)))
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
	s := logtest.NewScript(t)
	for range 10 {
		s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`, "agent:a", "agent:b")
		s.Now = s.Now.Add(time.Minute)
	}
	return writetest.Log(s, "")
}

func TestVerify_AcceptsCompleteLog(t *testing.T) {
	v := verdict(t, dayLog(t))
	if !v.OK() || v.Rows != 60 || v.Messages != 10 || v.Complete != 10 || v.Cut+v.UnderWay+v.Elsewhere != 0 || len(v.Gaps) != 0 {
		t.Errorf("%+v", v)
	}
	if !v.First.Equal(logtest.Epoch.Add(time.Millisecond)) || v.Last.Sub(v.First) < 9*time.Minute {
		t.Errorf("from %s to %s", v.First, v.Last)
	}
}

func TestVerify_FindsEachFault(t *testing.T) {
	// Rows 1 to 6 are message 1 (start, 2 process_start, 2 process_finish, finish), and so on.
	for _, c := range []struct {
		name, sql, problem string
		check              func(*Verdict) bool
	}{
		{"lost start", "DELETE FROM activity_log WHERE id = 25", "it has no send_start row", nil},
		{"lost process_start", "DELETE FROM activity_log WHERE id = 26", "agent:a has 0 process_start and 1 process_finish rows", nil},
		{"lost process_finish", "DELETE FROM activity_log WHERE id = 28", "agent:a has 1 process_start and 0 process_finish rows", nil},
		{"lost pair", "DELETE FROM activity_log WHERE id IN (26, 28)", "its result counts 2 peers, and 1 have process rows", nil},
		{"stray finish", "INSERT INTO activity_log (ts, event, message_id, rpc_id, actor, status) SELECT ts, event, message_id, rpc_id, actor, status FROM activity_log WHERE id = 29;" +
			"INSERT INTO activity_log (ts, event, message_id) SELECT ts, 'subscribe', '' FROM activity_log WHERE id = 60", "it has no send_start row", nil},
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

func TestVerify_FindsDamagedFile(t *testing.T) {
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
	v, err := Verify(t.Context(), opened(t, path), nil)
	if err == nil && v.OK() {
		t.Error("a page of zeros was not noticed")
	}
}

// TestVerify_ReportsFaultsBeforeDamage checks that an unreadable page does not
// hide the faults found before it.
func TestVerify_ReportsFaultsBeforeDamage(t *testing.T) {
	s := logtest.NewScript(t)
	for range 500 {
		s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"`+strings.Repeat("x", 200)+`"}`, "agent:a")
	}
	path := writetest.Log(s, "")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages := len(raw) / segment.PageSize
	for page := pages / 2; page < pages; page++ {
		clear(raw[page*segment.PageSize:][:64])
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, quick := range []bool{false, true} {
		v, err := Verify(t.Context(), opened(t, path), &VerifyOptions{Quick: quick})
		if err != nil || v.OK() {
			t.Errorf("quick %t: %+v, %v", quick, v, err)
			continue
		}
		if last := v.Problems[len(v.Problems)-1]; !strings.Contains(last.What, "malformed") {
			t.Errorf("quick %t: the last of %d problems is %q", quick, len(v.Problems), last.What)
		}
	}
}

func TestVerify_NeedsAllLogsOfCluster(t *testing.T) {
	entry, target := logtest.NewScript(t), logtest.NewScript(t)
	id := entry.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	for i := range entry.Rows {
		entry.Rows[i].Payload = []byte(strings.Replace(string(entry.Rows[i].Payload), `"deliveredTo":0`, `"deliveredTo":1`, 1))
	}
	target.Now = logtest.Epoch.Add(-time.Second) // its clock is behind
	target.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: activitylog.StatusStart})
	target.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: "ok"})
	east, west := writetest.Log(entry, "east"), writetest.Log(target, "west")
	if v := verdict(t, east, west); !v.OK() || v.Complete != 1 {
		t.Errorf("both: %+v", v)
	}
	for _, path := range []string{east, west} {
		if v := verdict(t, path); v.Complete != 0 {
			t.Errorf("one that should be all: %+v", v)
		}
		v, err := Verify(t.Context(), opened(t, path), &VerifyOptions{Partial: true, Longest: time.Millisecond})
		if err != nil || !v.OK() || v.Cut+v.Elsewhere+v.UnderWay != 1 {
			t.Errorf("one of several: %+v, %v", v, err)
		}
	}
}

// TestVerify_DuringPrune removes rows of a message after verify has read other
// rows of it.
func TestVerify_DuringPrune(t *testing.T) {
	path := dayLog(t)
	change(t, path, "DELETE FROM activity_log WHERE id = (SELECT min(id) FROM activity_log WHERE event = 'process_finish')")
	r := opened(t, path)
	v, err := Verify(t.Context(), r, nil)
	if err != nil || len(v.Problems) != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := ignorePruned(t.Context(), r, v); err != nil || len(v.Problems) != 1 {
		t.Errorf("the rows are there, and the problem is not: %+v, %v", v, err)
	}
	cut := v.Cut
	change(t, path, fmt.Sprintf("DELETE FROM activity_log WHERE id <= %d", v.Problems[0].ID))
	if err := ignorePruned(t.Context(), r, v); err != nil || len(v.Problems) != 0 || v.Cut != cut+1 {
		t.Errorf("the rows have left: %+v, %v", v, err)
	}
}

// TestVerify_SeparatesTwoSendsOfOneID sends one message twice at the same moment to one
// topic: the log records which rows belong together.
func TestVerify_SeparatesTwoSendsOfOneID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	now := time.Now().UnixMicro()
	var each [2][]activitylog.Row
	for i := range each {
		of, rpc := &activitylog.Sending{}, fmt.Sprint(10+i)
		row := func(event activitylog.Event, rpcID, actor, status, payload string) activitylog.Row {
			return activitylog.Row{At: now, Event: event, MessageID: "msg_1", RPCID: rpcID, Actor: actor, Topic: "agent:a", Status: status, Payload: []byte(payload), Of: of}
		}
		each[i] = []activitylog.Row{
			row(activitylog.SendStart, "1", "tg:1", activitylog.StatusStart, `{"type":"tg_message","from":"tg:1"}`),
			row(activitylog.ProcessStart, rpc, "agent:a", activitylog.StatusStart, ""),
			row(activitylog.ProcessFinish, rpc, "agent:a", activitylog.StatusOK, `{"processed":true}`),
			row(activitylog.SendFinish, "1", "tg:1", activitylog.StatusOK, `{"accepted":true,"messageId":"msg_1","deliveredTo":1}`),
		}
	}
	var rows []activitylog.Row
	for i := range each[0] {
		rows = append(rows, each[0][i], each[1][i])
	}
	writetest.Store(t, path, nil, rows)
	if v := verdict(t, path); !v.OK() || v.Complete != 2 {
		t.Errorf("%+v", v)
	}
}

// TestVerify_NamesFlagsForSingleLogOfCluster uses messages that another bus
// accepted.
func TestVerify_NamesFlagsForSingleLogOfCluster(t *testing.T) {
	path := dayLog(t)
	change(t, path, "DELETE FROM activity_log WHERE id BETWEEN 13 AND 48 AND event LIKE 'send%'")
	v := verdict(t, path)
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, "6 messages have rows in the logs of other buses: name the log of each bus") || v.Elsewhere != 6 {
		t.Errorf("%+v", v)
	}
}

// TestVerify_ComparesChecksumOfSealedFile changes one value in a file, as its owner
// could.
func TestVerify_ComparesChecksumOfSealedFile(t *testing.T) {
	path, _ := writetest.Segmented(t, 20, &write.Options{SegmentRows: 20})
	if err := logtest.SealAll(t, path); err != nil {
		t.Fatal(err)
	}
	if v := verdict(t, path); !v.OK() {
		t.Fatalf("%+v", v)
	}
	conn, err := sqlite.OpenConn(segment.Path(path, 1), sqlite.OpenReadWrite)
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

// TestVerify_AcceptsAKillDuringARotation checks a log without an active segment.
func TestVerify_AcceptsAKillDuringARotation(t *testing.T) {
	path, rows := writetest.Segmented(t, 40, &write.Options{SegmentRows: 30, SegmentAge: 100 * 365 * 24 * time.Hour})
	numbers := logtest.Sealed(t, path)
	if err := os.Rename(path, segment.Path(path, numbers[len(numbers)-1]+1)); err != nil {
		t.Fatal(err)
	}
	v := verdict(t, path)
	if !v.OK() || v.Rows != int64(len(rows)) || len(v.Audits) != 1 || v.Audits[0].Signed != v.Audits[0].Entries {
		t.Errorf("%+v", v)
	}
}
