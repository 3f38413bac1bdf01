package console

import (
	"testing"
	"time"

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

func TestClock_HasTheDateOfAnotherDay(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 30, 0, 0, time.FixedZone("", 3600)) // in UTC it is still February
	for at, want := range map[time.Time]string{
		now:                              "23:30:00.000",
		now.Add(time.Hour):               "2026-03-01 00:30:00",
		now.Add(-23 * time.Hour):         "00:30:00.000",
		now.Add(-24 * time.Hour):         "2026-02-27 23:30:00",
		now.AddDate(-1, 0, 0).Add(99e10): "2025-02-28 23:46:30",
	} {
		if got := clock(now, at); got != want {
			t.Errorf("%v is shown as %s, not as %s", at, got, want)
		}
	}
}

func TestColumn_ChatsAreOnTheLeft(t *testing.T) {
	for id, want := range map[string]int{
		"tg:1": 0, "mx:!room:example.org": 0, "chorus:1": 0,
		"agent:coder": 2,
		"cli:1":       1, "collab:hub": 1, "agent:system": 1,
	} {
		if got := column(id); got != want {
			t.Errorf("column(%q) = %d, want %d", id, got, want)
		}
	}
}
