package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
)

// FuzzRows reads arbitrary rows: a payload is what a peer sent, and a log may
// come from elsewhere.
func FuzzRows(f *testing.F) {
	f.Add("send_start", "m", `{"type":"tg_message","from":"tg:1","inReplyTo":"x","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","content":{"sourceId":"e","createdAt":"2026-02-17T12:00:00Z"}}`, "2026-02-17T12:00:00.000000Z")
	f.Add("send_finish", "m", `{"deliveredTo":1,"failures":[{"peer":"a"}]}`, "2026-02-17T12:00:00Z")
	f.Add("log_gap", "", `{"lost":-1,"reason":7}`, "")
	f.Add("process_finish", "m", `{"processed":`, "yesterday")
	f.Add("send_start", "m", `{"type":"agent_event","content":{"event":"turn","mergedEventIds":[1]}}`, "9999-12-31T23:59:59.999999Z")
	f.Add("process_start", "\x00", `[[[[`, "0000-00-00")
	f.Fuzz(func(t *testing.T, event, id, payload, ts string) {
		var rows []activitylog.Entry
		for i, name := range []string{event, "send_start", "process_start", event, "process_finish", "send_finish", event} {
			for _, message := range []string{id, "other"} {
				e := activitylog.Entry{ID: int64(len(rows) + 1), TS: ts, Event: name, MessageID: message, Actor: "a", RPCID: "1", Payload: json.RawMessage(payload)}
				if i%2 == 1 {
					e.TS = "2026-02-17T12:00:00.000000Z"
				}
				rows = append(rows, e)
			}
		}
		c := &checker{verdict: &Verdict{}, longest: time.Minute, paths: []string{"log"}, tails: make([]tail, 1)}
		for i := range rows {
			checked := rows[i]
			c.add(&checked)
			activitylog.ParseAttention(&rows[i])
			activitylog.ParseChatEvent(&rows[i])
			if line, err := json.Marshal(&rows[i]); err != nil || !json.Valid(line) || strings.ContainsRune(string(line), '\n') {
				t.Fatalf("%s, %v", line, err)
			}
		}
		c.finish()
		if v := c.verdict; v.Messages != v.Complete+v.UnderWay+v.Cut+v.Elsewhere+int64(len(messageProblems(v)))+v.More {
			t.Fatalf("messages that are counted nowhere: %+v", v)
		}
	})
}

func messageProblems(v *Verdict) (list []Problem) {
	for _, p := range v.Problems {
		if !strings.HasPrefix(p.What, "the time ") && !strings.HasPrefix(p.What, "a log_gap ") {
			list = append(list, p)
		}
	}
	return list
}
