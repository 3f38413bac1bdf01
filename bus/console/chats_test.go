package console

import (
	"testing"

	"hubbub/protocol"
)

func TestChat_LastLineIsVisible(t *testing.T) {
	c := newReadModel().chat("tg:1")
	line := func() string {
		if e := c.LastLine(); e != nil {
			return e.Text
		}
		return ""
	}
	reply := func(text, status string) *chatEvent {
		return &chatEvent{ID: text, Kind: "reply", Reply: true, Text: text, Status: status}
	}
	for _, step := range []struct {
		event *chatEvent
		want  string
	}{
		{&chatEvent{ID: "1", Kind: protocol.EventMessage, Text: "hello"}, "hello"},
		{&chatEvent{ID: "s", Kind: "signal", Text: "working"}, "hello"},
		{reply("hi", protocol.StatusDelivered), "hi"},
		{reply("too late", protocol.StatusFailed), "hi"},
		{reply("on its way", protocol.StatusAccepted), "hi"},
		{reply("perhaps", protocol.StatusUnknown), "perhaps"},
		{&chatEvent{ID: "edit 1", Kind: protocol.EventEdit, Text: "hello!"}, "hello!"},
		{&chatEvent{ID: "delete 1", Kind: protocol.EventDelete}, "perhaps"},
	} {
		if c.add(step.event); line() != step.want {
			t.Errorf("after %+v people saw %q last, not %q", step.event, step.want, line())
		}
	}
}
