package view_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// TestDurations_InWords covers both sides of every change of unit.
func TestDurations_InWords(t *testing.T) {
	const ms, s, day = time.Millisecond, time.Second, 24 * time.Hour
	for _, c := range []struct {
		d                time.Duration
		short, long, ago string // ago with " " between
	}{
		{-90 * s, "-90.0 s", "", "0s"},
		{-3 * time.Microsecond, "-3 µs", "", "0s"},
		{0, "0 µs", "0 µs", "0s"},
		{999 * time.Microsecond, "999 µs", "999 µs", "0s"},
		{ms, "1.0 ms", "1.0 ms", "0s"},
		{9900 * time.Microsecond, "9.9 ms", "9.9 ms", "0s"},
		{10 * ms, "10 ms", "10 ms", "0s"},
		{999 * ms, "999 ms", "999 ms", "0s"},
		{s, "1.0 s", "1.00 s", "1s"},
		{9990 * ms, "10.0 s", "9.99 s", "9s"},
		{10 * s, "10.0 s", "10.0 s", "10s"},
		{59990 * ms, "60.0 s", "59.9 s", "59s"},
		{time.Minute, "60.0 s", "1m 00s", "1m"},
		{99 * s, "99.0 s", "1m 39s", "1m"},
		{100 * s, "1m40s", "1m 40s", "1m"},
		{time.Hour - s, "59m59s", "59m 59s", "59m"},
		{time.Hour, "1h0m0s", "1h 00m", "1h 00m"},
		{48*time.Hour - time.Minute, "47h59m0s", "47h 59m", "47h 59m"},
		{48 * time.Hour, "48h0m0s", "2 days", "2d"},
		{10*day + time.Hour, "241h0m0s", "10 days", "10d"},
	} {
		if got := []string{view.Short(c.d), view.Long(c.d), view.Ago(c.d, " ")}; !slices.Equal(got, []string{c.short, c.long, c.ago}) {
			t.Errorf("%v is %q; want %q", c.d, got, []string{c.short, c.long, c.ago})
		}
	}
}

func TestNumbers_InWords(t *testing.T) {
	for v, want := range map[any]string{
		0: "0 rows", 1: "1 row", int64(-1): "-1 rows", 999: "999 rows", 1000: "1,000 rows", -1234567: "-1,234,567 rows",
		12345.6: "12,346 rows", 1.0: "1 row",
	} {
		if got := view.Many(v, "row"); got != want {
			t.Errorf("%v is %q; want %q", v, got, want)
		}
	}
	if got := view.Plural(2, "reply", "replies"); got != "2 replies" {
		t.Errorf("two are %q", got)
	}
}

// TestQuery_BecomesFilter covers every field, and checks that an error names the
// wrong one.
func TestQuery_BecomesFilter(t *testing.T) {
	now := time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)
	q := view.Query{
		Topic: "tg:*", Peer: "agent:lead", Status: "timeout", Text: "deploy", Since: "15m", Until: "2026-02-17T11:59:00Z",
		Types: []string{"tg_message", "tg_reply"}, Events: []string{"send_start", "log_gap"},
	}
	f, err := q.Filter(now)
	if err != nil || f.Topic != "tg:*" || f.Peer != "agent:lead" || f.Status != "timeout" || f.Text != "deploy" ||
		!f.Since.Equal(now.Add(-15*time.Minute)) || !f.Until.Equal(now.Add(-time.Minute)) ||
		!slices.Equal(f.Types, []protocol.MessageType{protocol.TypeTGMessage, protocol.TypeTGReply}) ||
		!slices.Equal(f.Events, []activitylog.Event{activitylog.SendStart, activitylog.LogGap}) {
		t.Errorf("it is read as %+v, %v", f, err)
	}
	if f, err := (&view.Query{}).Filter(now); err != nil || f.Topic+f.Peer != "" || !f.Since.IsZero() || !f.Until.IsZero() {
		t.Errorf("an empty query is read as %+v, %v", f, err)
	}
	q = view.Query{Topic: "!system:*", Peer: "!cli:*", Types: []string{"!tg_message"}, Brief: true}
	if f, err := q.Filter(now); err != nil || f.Topic+f.Peer != "" || len(f.Types) != 0 || !f.Brief ||
		f.NotTopic != "system:*" || f.NotPeer != "cli:*" || !slices.Equal(f.NotTypes, []protocol.MessageType{protocol.TypeTGMessage}) {
		t.Errorf("what is not wanted is read as %+v, %v", f, err)
	}
	for _, q := range []view.Query{{Brief: true, Status: "ok"}, {Brief: true, Events: []string{"send_start"}}} {
		if f, err := q.Filter(now); err != nil || f.Brief {
			t.Errorf("%+v is read in brief, %v", q, err)
		}
	}
	for says, q := range map[string]view.Query{
		`peer "!": `: {Peer: "!"},
		`topic "` + strings.Repeat("*", 300) + `"`:               {Topic: strings.Repeat("*", 300)},
		`peer "` + strings.Repeat("*", 300) + `"`:                {Peer: strings.Repeat("*", 300)},
		`status "fine" is not a status of a row: start`:          {Status: "fine"},
		`since "then" is neither`:                                {Since: "then"},
		`until "then" is neither`:                                {Until: "then"},
		`type "letter" is not a message type: `:                  {Types: []string{"tg_message", "letter"}},
		`event "party" is not an event of the log: send_start, `: {Events: []string{"party"}},
	} {
		if _, err := q.Filter(now); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v is refused with %v; want %s", q, err, says)
		}
	}
	if at, err := view.Moment("since", "0s", now); err != nil || !at.Equal(now) {
		t.Errorf("no time before now is %v, %v", at, err)
	}
	if at, err := view.Moment("since", "2026-02-17", now); err != nil || at.Format(time.DateTime) != "2026-02-17 00:00:00" || at.Location() != time.Local {
		t.Errorf("a date is read as %v, %v", at, err)
	}
}

func TestRow_AsSentence(t *testing.T) {
	for _, test := range []struct {
		event                activitylog.Event
		payload, fault, want string
	}{
		{activitylog.LogGap, `{"lost":1234}`, "disk is full", "1234 rows could not be written: disk is full"},
		{activitylog.LogGap, `lost`, "disk is full", "disk is full"},
		{activitylog.PeerConnected, `{"remote":"127.0.0.1:1"}`, "", ""},
		{activitylog.ProcessStart, `{}`, "", ""},
		{activitylog.ProcessFinish, `{"processed":true,"message":"done"}`, "", "done"},
		{activitylog.ProcessFinish, `{"processed":false,"message":"no"}`, "it hung up", "it hung up"},
		{activitylog.SendFinish, `{"deliveredTo":0}`, "", "nobody is subscribed"},
		{activitylog.SendFinish, `{"deliveredTo":2,"failures":[{"peer":"agent:a","status":"timeout"}]}`, "", "delivered to 2, agent:a timeout"},
		{activitylog.SendFinish, `?`, "", ""},
		{activitylog.SendStart, `{"content":{"text":"say \"hello\""}}`, "", `"say \"hello\""`},
		{activitylog.SendStart, `{"content":{"event":"spawn","status":"failed","message":"no room"}}`, "", "spawn: failed no room"},
		{activitylog.SendStart, `{"content":{"event":"online","agent":"agent:lead"}}`, "", "online"},
		{activitylog.SendStart, `{"content":{}}`, "", "{}"},
		{activitylog.SendStart, `{"content":{"text":"hello"}}`, "and no more", `"hello" and no more`},
		{activitylog.SendStart, `{}`, "", ""},
		{activitylog.SendStart, `?`, "", ""},
		{activitylog.SendStart, `{"content":{"event":"spawn"}}`, "", "spawn"},
		{activitylog.PeerDisconnected, `{"x":1}`, "gone", "gone"},
		{activitylog.ProcessFinish, `?`, "", ""},
		{activitylog.SendStart, `{"content":{"event":"turn","state":"started","attempt":1}}`, "", "turn started"},
	} {
		e := activitylog.Entry{Event: test.event.String(), Payload: []byte(test.payload), Error: test.fault}
		if got := view.Full.Row(&e); got != test.want {
			t.Errorf("%s %s: %q; want %q", test.event, test.payload, got, test.want)
		}
	}
	e := activitylog.Entry{Event: activitylog.SendStart.String(), Payload: []byte(`{"content":{}}`)}
	if got := view.Brief.Row(&e); got != "" {
		t.Errorf("an empty content is %q in brief", got)
	}
}

func TestRecord_InWords(t *testing.T) {
	type record map[string]any
	for _, c := range []struct {
		record      record
		full, brief string
	}{
		{
			record{"event": "attention_decision", "directedness": "to_me", "policy": "must_respond", "injection": "buffered", "priority": "normal", "reason": "direct_message"},
			"decided: to_me, must_respond, buffered, because direct_message", "must_respond, buffered: direct_message",
		},
		{
			record{"event": "attention_decision", "directedness": "to_me", "policy": "must_respond", "injection": "immediate", "priority": "urgent"},
			"decided: to_me, must_respond, immediate, urgent", "must_respond, immediate: ",
		},
		{record{"event": "turn", "state": "started", "attempt": 1, "mergedEventIds": []string{"a"}}, "turn started", "turn started"},
		{
			record{"event": "turn", "state": "failed", "attempt": 2, "mergedEventIds": []string{"a", "b"}, "reason": "r"},
			"turn failed (attempt 2), for 2 events at once, because r", "turn failed",
		},
		{
			record{"event": "turn", "state": "finished", "inputTokens": 100, "cachedTokens": 60, "outputTokens": 7, "usd": 0.0025},
			"turn finished, 100 tokens in (60 of them cached) and 7 out, 0.0025 US dollars", "turn finished",
		},
		{record{"event": "turn", "state": "finished", "inputTokens": 1, "usd": 0}, "turn finished, 1 tokens in and 0 out", "turn finished"},
		{record{"event": "turn", "state": "finished", "outputTokens": 2, "cachedTokens": 1}, "turn finished, 0 tokens in (1 of them cached) and 2 out", "turn finished"},
		{record{"event": "budget", "bound": 5}, "no turn: a bound of 5 was reached", "budget"},
		{record{"event": "refusal", "tool": "chat.react", "reason": "left"}, "refused: chat.react, because left", "refusal: left"},
		{record{"event": "disposition", "disposition": "ignored"}, "ended: ignored", "ignored"},
		{record{"event": "disposition", "disposition": "ignored", "reason": "ambient"}, "ended: ignored, because ambient", "ignored: ambient"},
		{record{"event": "claim", "granted": true, "token": 3}, "claimed: token 3, by the broker", "claim"},
		{record{"event": "claim", "granted": true, "token": 3, "via": "local"}, "claimed: token 3, by the local", "claim"},
		{record{"event": "claim", "granted": false, "owner": "w4"}, "lost the claim to w4", "claim"},
		{record{"event": "claim"}, "lost the claim to another agent", "claim"},
		{record{"event": "delivery", "kind": "text", "messageId": "msg_1", "status": "failed", "reason": "r"}, "delivery of text msg_1: failed, because r", "delivery: r"},
		{record{"event": "delivery", "status": "failed"}, "delivery of: failed", "delivery"},
		{record{"event": "reminder", "state": "set", "reminderId": "r-1", "due": "noon", "reason": "r"}, "reminder r-1 set for noon, because r", "reminder: r"},
		{record{"event": "reminder", "state": "due", "reminderId": "r-1", "due": "noon"}, "reminder r-1 due", "reminder"},
		{record{"event": "post", "target": "tg:1", "messageId": "msg_1", "directedness": "to_me", "reason": "r"}, "spoke first in tg:1, to_me: msg_1, because r", "post: r"},
		{
			record{"event": "tool", "tool": "login", "arguments": json.RawMessage(`{"user":"a","passwd":"hunter2"}`), "resultBytes": 6, "resultSha256": "01"},
			`called login {"user":"a","passwd":"[redacted:named]"}, result of 6 bytes, sha256 01`, "tool",
		},
		{record{"event": "escalation", "with": "w4"}, "escalated: a person was called into the exchange with w4", "escalation"},
		{
			record{"event": "tool", "tool": "search", "arguments": json.RawMessage(`{"q":1}`), "resultBytes": 6, "resultSha256": "0123456789abcdef"},
			`called search {"q":1}, result of 6 bytes, sha256 0123456789ab`, "tool",
		},
		{
			record{"event": "tool", "tool": "search", "arguments": json.RawMessage(strings.Repeat("1", 200)), "resultSha256": "01"},
			"called search " + strings.Repeat("1", 200) + ", result of 0 bytes, sha256 01", "tool",
		},
		{
			record{"event": "tool", "tool": "search", "arguments": json.RawMessage(strings.Repeat("1", 201)), "resultSha256": "01"},
			"called search " + text.Clip(strings.Repeat("1", 201), 200) + ", result of 0 bytes, sha256 01", "tool",
		},
		{record{"event": "tool", "tool": "search", "arguments": json.RawMessage("1")}, "called search 1: no result was recorded", "tool"},
		{record{"event": "tool", "tool": "search", "failed": true, "resultBytes": 6, "resultSha256": "01"}, "called search: failed, result of 6 bytes, sha256 01", "tool"},
		{record{"event": "tool", "tool": "search"}, "called search: no result was recorded", "tool"},
		{record{"event": "decision", "tool": "shell", "state": "allowed", "by": "tg:77", "scope": "once", "decisionId": "dec_1", "digest": "0123456789abcdef"},
			"decision dec_1 about shell: allowed by tg:77, scope once, arguments sha256 0123456789ab", "shell: allowed by tg:77"},
		{record{"event": "decision", "tool": "shell", "state": "cancelled", "decisionId": "dec_2", "digest": "01", "reason": "its turn ended"},
			"decision dec_2 about shell: cancelled by nobody, arguments sha256 01, because its turn ended", "shell: cancelled by nobody: its turn ended"},
		{record{"event": "progress", "message": "half"}, "progress: half", "progress"},
		{record{"event": "party", "reason": "r"}, "recorded party, because r", "party: r"},
	} {
		content, err := json.Marshal(c.record)
		r, err2 := protocol.ParseRecord(content)
		if err := cmp.Or(err, err2); err != nil {
			t.Fatal(err)
		}
		if got := view.Full.Record(&r); got != c.full {
			t.Errorf("in full %q; want %q", got, c.full)
		}
		if got := view.Brief.Record(&r); got != c.brief {
			t.Errorf("in brief %q; want %q", got, c.brief)
		}
	}
}
