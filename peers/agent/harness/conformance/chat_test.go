package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"hubbub/peers/attention"
)

func TestChatHost_ReturnsTheNewestEvents(t *testing.T) {
	for limit, want := range map[int]string{0: "e1 e2 e3", 2: "e2 e3", 3: "e1 e2 e3"} {
		c := newChat()
		for i := range 3 {
			c.add(&eventRecord{event: attention.Event{EventID: fmt.Sprint("e", i+1)}})
		}
		r := string(c.Call(context.Background(), "chat.list_events", []byte(fmt.Sprintf(`{"limit":%d}`, limit))).StructuredContent)
		var got []string
		for i := range 3 {
			if id := fmt.Sprint("e", i+1); strings.Contains(r, `"eventId":"`+id+`"`) {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("limit %d: read %v, want %s", limit, got, want)
		}
	}
}
