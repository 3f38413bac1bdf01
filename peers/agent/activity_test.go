package agent

import (
	"encoding/json"
	"testing"

	"hubbub/peers/agent/harness"
)

// TestActivity_UsesTheToolNamesOfTheChannel checks that activity names a tool as its service
// does, and shows only the text of a result.
func TestActivity_UsesTheToolNamesOfTheChannel(t *testing.T) {
	for tool, want := range map[string]string{
		"channel__get_roster": "get_roster", "mcp__channel__get_roster": "get_roster", "channel__one__get_roster": "one__get_roster",
		"docs__search": "docs__search", "chat.send_message": "chat.send_message",
	} {
		if got := toolName(tool); got != want {
			t.Errorf("%s is told of as %s; want %s", tool, got, want)
		}
	}
	result, err := json.Marshal(harness.Result{Content: []harness.Content{{Type: "text", Text: "3°C"}, {Type: "text", Text: "windy"}}, IsError: true})
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		string(result): `"3°C\nwindy"`, `"said"`: `"said"`, `{"temperature":3}`: `{"temperature":3}`, `{"content":[]}`: `{"content":[]}`, ``: ``,
	} {
		if got := string(resultText(json.RawMessage(content))); got != want {
			t.Errorf("%s is told of as %s; want %s", content, got, want)
		}
	}
}
