package activitylog

import (
	"encoding/json"
	"testing"
)

func TestSummary(t *testing.T) {
	for content, want := range map[string]string{
		`{"method":"identity.heartbeat","requestId":"r"}`:                               "identity.heartbeat",
		`{"requestId":"r","ok":true}`:                                                   "ok",
		`{"requestId":"r","ok":false,"error":{"code":"conflict","message":"is taken"}}`: "conflict: is taken",
		`{"id":"evt","type":"collab.agent.heartbeat","source":"x"}`:                     "collab.agent.heartbeat",
		`{"event":"exited","agent":"agent:a","reason":"killed"}`:                        "exited: killed",
		`{"messageId":"m","status":"delivered"}`:                                        "delivered",
		`{"typing":true}`:                                                               "is typing",
		`{"signal":"done"}`:                                                             "signal done",
		`{"topic":"tg:1","agent":"agent:a"}`:                                            "tg:1 · agent:a",
		`{"method":{"a":1},"status":7,"topic":"tg:1"}`:                                  "tg:1",
		`[1,2]`:   "",
		`{"x":1}`: "",
		``:        "",
	} {
		if got := Summary(json.RawMessage(content)); got != want {
			t.Errorf("%s is %q; want %q", content, got, want)
		}
	}
}
