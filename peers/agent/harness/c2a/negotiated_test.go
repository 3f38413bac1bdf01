package c2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"

	"github.com/rs/zerolog"
)

// TestDelivery_CarriesTheInstructions checks each draft, and that a reaction's signal is
// sent only to a program that takes signals.
func TestDelivery_CarriesTheInstructions(t *testing.T) {
	for _, version := range []string{Version0602, Version0624, Version0811} {
		for capabilities, signal := range map[string]string{
			`{}`: `"agree"`, `{"chatTools":{"react":true}}`: "", `{"chatTools":{"reactionSignals":false}}`: "",
			`{"chatTools":{"reactionSignals":true}}`: `"agree"`, `{"chatTools":{"reactionSignals":{"set":"all"}}}`: `"agree"`,
		} {
			agreed, err := negotiate(version, []byte(`{"capabilities":`+capabilities+`}`))
			if err != nil {
				t.Fatal(err)
			}
			turn := &harness.Turn{System: "the contract\n\nC2A RESPONSE RULES", Event: harness.Event{EventID: "e", ChatEvent: harness.ChatEvent{Signal: "agree"}}}
			raw, err := json.Marshal(deliverParams(turn, agreed, 1))
			var got struct {
				Instructions string
				Signal       json.RawMessage
			}
			if err != nil || json.Unmarshal(raw, &got) != nil || got.Instructions != turn.System || string(got.Signal) != signal {
				t.Errorf("%s, %s: %s, %v", version, capabilities, raw, err)
			}
		}
	}
}

// TestLog_HasOneLevel checks that the level is the program's, and that a program without
// logging writes no log.
func TestLog_HasOneLevel(t *testing.T) {
	for level, want := range map[string]string{
		"debug": "debug", "info": "info", "notice": "info", "warning": "warn", "ERROR": "error", "emergency": "error", "odd": "info",
	} {
		for _, logs := range []bool{true, false} {
			agreed, err := negotiate(Version0602, []byte(`{"capabilities":{"utilities":{"logging":`+map[bool]string{true: "true", false: "false"}[logs]+`}}}`))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			log := zerolog.New(&out)
			s := &session{h: New([]string{"program"}, &Options{Log: &log}), agreed: agreed}
			s.handleNotification("notifications/message", []byte(`{"level":"`+level+`","data":"hello"}`))
			got := out.String()
			if logs != (strings.Count(got, `"level"`) == 1 && strings.Contains(got, `"level":"`+want+`"`) && strings.Contains(got, "hello")) || !logs && got != "" {
				t.Errorf("%s, with logging %v: %s", level, logs, got)
			}
		}
	}
}

// TestRedelivery_IsNegotiated checks that a program that accepts no event twice gets it once.
func TestRedelivery_IsNegotiated(t *testing.T) {
	for capabilities, again := range map[string]bool{`{}`: true, `{"delivery":{"redelivery":true}}`: true, `{"delivery":{"redelivery":false}}`: false, `{"delivery":{"ack":true}}`: false, `{"delivery":{"redelivery":{}}}`: true} {
		agreed, err := negotiate(Version0602, []byte(`{"capabilities":`+capabilities+`}`))
		if err != nil {
			t.Fatal(err)
		}
		h := New([]string{"program"}, nil)
		s := &session{h: h, agreed: agreed, out: make(chan []byte, 4)}
		d := &delivery{turn: &harness.Turn{ID: "t", Event: harness.Event{EventID: "e", Decision: harness.Decision{Mode: "buffered"}}}, next: 1, done: make(chan struct{})}
		for range 2 {
			s.deliverOne(d)
		}
		if sent := len(s.out); (sent == 2) != again || !again && (sent != 1 || !errors.Is(d.err, errNoRedelivery)) {
			t.Errorf("%s: sent %d times, %v", capabilities, sent, d.err)
		}
	}
}
