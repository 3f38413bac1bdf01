package chorus

import (
	"encoding/json"
	"testing"

	"hubbub/protocol/chorus"
)

// TestJSONText_ReturnsAString checks that a callback gets the type that the protocol requires,
// whatever an agent reports.
func TestJSONText_ReturnsAString(t *testing.T) {
	for content, want := range map[string]string{
		`"3°C"`: `"3°C"`, `{"temperature":3}`: `"{\"temperature\":3}"`, `[1,2]`: `"[1,2]"`, `7`: `"7"`, ``: `""`, `null`: `""`,
	} {
		e, done, ok := reportEvent(agentReport{Kind: chorus.EventToolResult, Event: chorus.Event{ID: "tc_1", Content: json.RawMessage(content)}})
		if string(e.Content) != want || e.Type != chorus.EventToolResult || e.ID != "tc_1" || done || !ok {
			t.Errorf("%s: %+v, %s; want %s", content, e, e.Content, want)
		}
	}
}
