package bridge

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"hubbub/protocol"
)

// TestCheckReply_RefusesIDsThatAreNotText uses one reply for each id. The second of two replies whose
// keys became equal would be lost as a repeat of the first.
func TestCheckReply_RefusesIDsThatAreNotText(t *testing.T) {
	for _, id := range []string{"idempotencyKey", "edits", "inReplyTo", "replyTo", "threadId"} {
		for bad, refused := range map[string]bool{`k\ud800`: true, `k\udc00`: true, `\u0000`: true, `k\ufffd`: true, `k\ud83d\ude00`: false, `a b`: false} {
			var content protocol.ChatReply
			if err := json.Unmarshal([]byte(`{"text":"hello","`+id+`":"`+bad+`"}`), &content); err != nil {
				t.Fatal(err)
			}
			if err := CheckReply(&content, utf8.RuneCountInString); (err != nil) != refused {
				t.Errorf("%s %s: %v", id, bad, err)
			}
		}
	}
}
