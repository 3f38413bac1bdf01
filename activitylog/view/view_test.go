package view_test

import (
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
)

func TestRow_AsPhrase(t *testing.T) {
	for _, test := range []struct {
		event                activitylog.Event
		payload, fault, want string
	}{
		{activitylog.LogGap, `{"lost":1234}`, "disk is full", "1,234 rows lost: disk is full"},
		{activitylog.LogGap, `{"lost":1}`, "disk is full", "1 row lost: disk is full"},
		{activitylog.PeerConnected, `{"remote":"127.0.0.1:1"}`, "", "from 127.0.0.1:1"},
		{activitylog.ProcessFinish, `{"processed":true}`, "", ""},
		{activitylog.ProcessFinish, ``, "it hung up", "it hung up"},
		{activitylog.SendFinish, `{"deliveredTo":2}`, "", "delivered to 2"},
		{activitylog.SendFinish, `{"deliveredTo":0,"failures":[{"peer":"agent:a","status":"timeout"}]}`, "", "delivered to 0, agent:a: timeout"},
		{activitylog.SendFinish, `{"deliveredTo":0,"failures":[{"peer":"a","status":"error"},{"peer":"b","status":"error"},{"peer":"c","status":"error"},{"peer":"d","status":"error"}]}`, "",
			"delivered to 0, a: error, b: error, c: error, and 1 more failed"},
		{activitylog.SendFinish, `{"deliveredTo":1,"failures":[{"peer":"a","status":"error"}],"omitted":2}`, "", "delivered to 1, a: error, and 2 more failed"},
		{activitylog.SendFinish, `{"deliveredTo":0}`, "", "delivered to 0"},
		{activitylog.SendStart, `{"content":[7]}`, "", "[7]"},
		{activitylog.SendStart, `{"content":{"text":"hello"}}`, "too late", "too late"},
		{activitylog.SendStart, `{"content":{"event":"spawn","status":"failed"}}`, "", "spawn"},
		{activitylog.ProcessStart, `{"x":1}`, "", ""},
		{activitylog.PeerDisconnected, `{"x":1}`, "", `{"x":1}`},
		{activitylog.PeerConnected, `{"remote":""}`, "", `{"remote":""}`},
		{activitylog.PeerConnected, `?`, "", "?"},
		{activitylog.SendStart, `{"content":{"text":"hello"}}`, "", "“hello”"},
		{activitylog.SendStart, `{"content":{"method":"work.list"}}`, "", "work.list"},
		{activitylog.SendStart, `{"content":{"x":1}}`, "", `{"x":1}`},
	} {
		e := activitylog.Entry{Event: test.event.String(), Payload: []byte(test.payload), Error: test.fault}
		if got := view.Brief.Row(&e); got != test.want {
			t.Errorf("%s %s: %q; want %q", test.event, test.payload, got, test.want)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"15m": now.Add(-15 * time.Minute), "2d": now.Add(-48 * time.Hour), "0.5d": now.Add(-12 * time.Hour), "2026-02-01T00:00:00Z": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := view.Moment("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "-1d", "1e9d", "yesterday"} {
		if at, err := view.Moment("since", text, now); err == nil {
			t.Errorf("%q was read as %s", text, at)
		}
	}
}
