package chorus_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hubbub/peers/chorus"
	"hubbub/protocol"
)

// TestCallbacks_FailedReportsDelayNothing checks that the next message of the channel does not
// wait until each of many reports has failed.
func TestCallbacks_FailedReportsDelayNothing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		respond func(w http.ResponseWriter, req *http.Request)
		want    map[string]int // attempts by kind of event
		after   string         // the result of the next message, at a callback that works
	}{
		{"it answers 503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			map[string]int{"lifecycle:processing": 1, "tool_call": 10, "message": 4}, strings.Repeat("tool_call ", 10) + "message"},
		{"it does not answer", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
			map[string]int{"lifecycle:processing": 1, "message": 1, "lifecycle:idle": 1}, "lifecycle:processing" + strings.Repeat(" tool_call", 10) + " message lifecycle:idle"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := startNew(t, func(o *chorus.Options) { o.PostTimeout = 8 * time.Second })
			spawner(t, r.bus, "agent:a")
			agent := r.bus.Join(t, "agent:a", "agent:a")
			callback := newReceiver(t)
			callback.responding(func(w http.ResponseWriter, req *http.Request, _ int) bool {
				if req.URL.Path != "/one" {
					return false
				}
				tt.respond(w, req)
				return true
			})
			inbox := r.inbox("ops")
			for _, id := range []string{"one", "two"} {
				post(t, inbox, posted("c", id, id, callback.url+"/"+id))
				d := agent.NextOf(t, protocol.TypeChatMessage)
				for n := range 10 {
					agent.Send(t, d.Message.From.Topic(), protocol.TypeAgentEvent,
						map[string]any{"event": "tool_call", "name": "search", "id": fmt.Sprint(n), "inReplyTo": d.Message.MessageID})
				}
				agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: id, InReplyTo: string(d.Message.MessageID)})
			}
			attempts := map[string]int{}
			c := callback.next()
			for ; c.uri == "/one"; c = callback.next() {
				attempts[c.kind()]++
			}
			if fmt.Sprint(attempts) != fmt.Sprint(tt.want) {
				t.Errorf("attempts at the callback that fails: %v; want %v", attempts, tt.want)
			}
			after := []string{c.kind()} // the other callback gets all of its own
			for range strings.Count(tt.after, " ") {
				c = callback.next()
				after = append(after, c.kind())
			}
			if got := strings.Join(after, " "); got != tt.after {
				t.Errorf("then came %s; want %s", got, tt.after)
			}
		})
	}
}
