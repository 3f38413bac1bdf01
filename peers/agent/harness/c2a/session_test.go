package c2a

import (
	"slices"
	"testing"

	"hubbub/peers/agent/harness"

	"pgregory.net/rapid"
)

func TestFramesOfAnyShape(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":"a","result":{}}`: true, `{"id":7,"error":{"code":1,"message":"m"}}`: true,
		`{"method":"x"}`: true, `{"id":null,"method":"x"}`: true,
		`{}`: false, `[]`: false, `null`: false, `"x"`: false, `{"id":1,"method":3}`: false, `{"error":"text","id":1}`: false, "": false,
	} {
		f, err := parseFrame([]byte(line))
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, f, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parseFrame(rapid.SliceOf(rapid.Byte()).Draw(t, "line")) //nolint:errcheck // it must only not panic
	})
}

func TestAProgramIsShownTheToolsWhoseCapabilityItStates(t *testing.T) {
	n, err := negotiate(Version0602, []byte(`{"capabilities":{"chatTools":{"react":true,"claim":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, name := range []string{"chat.list_events", "chat.send_message", "chat.react", "chat.claim", "work.create"} {
		for _, tool := range n.callable([]harness.Tool{{Name: name}}) {
			shown = append(shown, tool.Name)
		}
	}
	if want := []string{"chat.list_events", "chat.react", "chat.claim", "work.create"}; !slices.Equal(shown, want) {
		t.Errorf("shown %v, want %v", shown, want)
	}
	if n.callable(nil) == nil {
		t.Error("a host without tools lists null")
	}
}

func TestAnInterruptNeedsCancellation(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"capabilities":{"injection":{"interrupt":true},"utilities":{"cancellation":true}}}`: true,
		`{"capabilities":{"injection":{"interrupt":true},"utilities":{}}}`:                    false,
		`{"capabilities":{"injection":{},"utilities":{"cancellation":true}}}`:                 false,
	} {
		n, err := negotiate(Version0602, []byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.capabilities().Injection.Interrupt; got != want {
			t.Errorf("%s: interrupts are %t, want %t", answer, got, want)
		}
	}
}
