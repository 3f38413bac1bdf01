package chorus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hubbub/peers/chorus"
)

// TestExternalAgent_PostsLines checks callbacks with one object in each line: stored in order, each
// line with its own outcome, and repeatable with a key.
func TestExternalAgent_PostsLines(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url, chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "hello?"))
	callback := outside.next().body["callback"].(string)
	const status, message, broken = `{"type":"status","status":"s"}`, `{"type":"message","content":"m"}`, `{"type":"party"}`
	for _, c := range []struct {
		kind, body string
		status     int
		lines      string
	}{
		{"application/x-ndjson", status + "\n" + message, 200, "1:200 2:200"},
		{"application/x-ndjson", status + "\n" + message, 200, "1:200 2:200"}, // repeated
		{"application/jsonl; charset=utf-8", "\r\n" + status + "\r\n\r\n", 200, "2:200"},
		{"application/ndjson", broken + "\n" + status + "\n{", 207, "1:400 2:200 3:400"},
		{"application/x-jsonlines", broken + "\n[]\n", 400, "1:400 2:400"},
		{"application/x-ndjson", " \n\n", 400, ""},
		{"application/x-ndjson", strings.Repeat(broken+"\n", 501), 413, ""},
		{"application/x-ndjson", strings.Repeat(message+"\n", 501), 413, ""}, // and none is said
		{"application/json", status + "\n" + message, 200, "1:200 2:200"},    // without its media type
		{"text/plain", "{\n\"type\":\"status\",\n\"status\":\"s\"\n}\n", 200, ""},
		{"application/json", `{"type":"message","content":"` + "\xff" + `"}`, 400, ""},
		{"application/json", `{"type":"message","content":"` + "\u200b\u00ad" + `"}`, 400, ""},
	} {
		got, answer := post(t, callback, c.body, "Content-Type", c.kind, "Idempotency-Key", c.kind)
		var results struct {
			Results []struct {
				Line, Status int
				Error        string
			}
		}
		if err := json.Unmarshal([]byte(answer), &results); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range results.Results {
			if lines = append(lines, fmt.Sprint(l.Line, ":", l.Status)); (l.Error == "") != (l.Status == 200) {
				t.Errorf("line %d: %d %s", l.Line, l.Status, l.Error)
			}
		}
		if got != c.status || strings.Join(lines, " ") != c.lines {
			t.Errorf("%q: %d %s; want %d %s", c.body, got, answer, c.status, c.lines)
		}
	}
	post(t, callback, `{"type":"message","content":"end"}`)
	for _, want := range []string{"m", "m", "end"} { // the repeated line is not said again
		if reply := nextReply(t, tg); reply.Text != want {
			t.Errorf("the agent says %q; want %q", reply.Text, want)
		}
	}
}
