package read

import (
	"fmt"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol"
)

// TestMessage_StatusFollowsFromRows derives the status from the first and the last
// row of the message.
func TestMessage_StatusFollowsFromRows(t *testing.T) {
	none := &Message{}
	if !none.Begin().IsZero() || !none.End().IsZero() || none.Status() != "" {
		t.Errorf("a message without rows: %s, %s, %q", none.Begin(), none.End(), none.Status())
	}
	m := &Message{Rows: []activitylog.Entry{{TS: protocol.FormatTime(logtest.Epoch)}, {TS: protocol.FormatTime(logtest.Epoch.Add(time.Second))}}}
	if !m.Begin().Equal(logtest.Epoch) || !m.End().Equal(logtest.Epoch.Add(time.Second)) {
		t.Errorf("from %s to %s", m.Begin(), m.End())
	}
	m.Refusals = []activitylog.Entry{{}}
	if m.Status() != "rejected" {
		t.Errorf("refused, it is %q", m.Status())
	}
	m.Publications = []*activitylog.Publication{{Leg: activitylog.Leg{Status: "failed"}}, {Leg: activitylog.Leg{Status: "ok"}}}
	if m.Status() != "ok" {
		t.Errorf("sent again, it is %q", m.Status())
	}
	for _, l := range []activitylog.Leg{{}, {Start: logtest.Epoch}, {Finish: logtest.Epoch}} {
		if l.Duration() != 0 {
			t.Errorf("%+v took %s", l, l.Duration())
		}
	}
	if l := (activitylog.Leg{Start: logtest.Epoch, Finish: logtest.Epoch.Add(time.Second)}); l.Duration() != time.Second {
		t.Errorf("it took %s", l.Duration())
	}
}

// TestAssembler_FindsPublicationOfRow finds the publication by the row's Sending, its
// request or its topic, or else takes the latest.
func TestAssembler_FindsPublicationOfRow(t *testing.T) {
	row := func(event activitylog.Event, rpc, actor, topic string) activitylog.Entry {
		return activitylog.Entry{Event: event.String(), MessageID: "m", RPCID: rpc, Actor: actor, Topic: topic, Bus: "east", TS: protocol.FormatTime(logtest.Epoch)}
	}
	start := func(rpc, topic string) activitylog.Entry { return row(activitylog.SendStart, rpc, "tg:1", topic) }
	with := func(e activitylog.Entry, change func(*activitylog.Entry)) activitylog.Entry { change(&e); return e }
	sending := func(id int64) func(*activitylog.Entry) { return func(e *activitylog.Entry) { e.Sent = id } }
	for name, c := range map[string]struct {
		rows []activitylog.Entry
		want string // for each row the number of its publication, and those of the deliveries
	}{
		"one":                              {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "p", "a"), row(activitylog.SendFinish, "1", "tg:1", "a")}, "0000 1"},
		"sent again when it was finished":  {[]activitylog.Entry{start("1", "a"), row(activitylog.SendFinish, "1", "tg:1", "a"), start("2", "a"), row(activitylog.ProcessStart, "7", "p", "a")}, "0011 0 1"},
		"sent again while it goes on":      {[]activitylog.Entry{start("1", "a"), start("2", "a"), row(activitylog.SendFinish, "1", "tg:1", "a"), row(activitylog.SendFinish, "2", "tg:1", "a")}, "0101 0 0"},
		"finished by another bus":          {[]activitylog.Entry{start("1", "a"), with(row(activitylog.SendFinish, "1", "tg:1", "a"), func(e *activitylog.Entry) { e.Bus = "west" })}, "01 0 0"},
		"finished by another request":      {[]activitylog.Entry{start("1", "a"), row(activitylog.SendFinish, "2", "tg:1", "a")}, "01 0 0"},
		"finished, and then begun":         {[]activitylog.Entry{row(activitylog.SendFinish, "1", "tg:1", "a"), start("1", "a")}, "01 0 0"},
		"a delivery before its start":      {[]activitylog.Entry{row(activitylog.ProcessStart, "7", "p", "a"), start("1", "a"), row(activitylog.SendFinish, "1", "tg:1", "a")}, "000 1"},
		"a delivery before its finish":     {[]activitylog.Entry{row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.SendFinish, "1", "tg:1", "a")}, "00 1"},
		"by the topic":                     {[]activitylog.Entry{start("1", "a"), start("2", "b"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessStart, "8", "p", "b")}, "0101 1 1"},
		"of no topic, the latest":          {[]activitylog.Entry{start("1", "a"), start("2", "b"), row(activitylog.ProcessStart, "7", "p", "c")}, "011 0 1"},
		"an end by its request":            {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), start("2", "a"), row(activitylog.ProcessFinish, "7", "p", "a")}, "0010 1 0"},
		"an end of another peer":           {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "q", "a")}, "000 2"},
		"an end of another request":        {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "8", "p", "a")}, "000 2"},
		"ended twice":                      {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "p", "a")}, "0000 2"},
		"an end without a begin":           {[]activitylog.Entry{row(activitylog.ProcessFinish, "7", "p", "a"), start("1", "a")}, "00 1"},
		"an end of no topic":               {[]activitylog.Entry{start("1", "a"), start("2", "b"), row(activitylog.ProcessFinish, "7", "p", "c")}, "011 0 1"},
		"by the sending":                   {[]activitylog.Entry{with(start("1", "a"), func(e *activitylog.Entry) { e.ID = 1 }), with(start("2", "a"), func(e *activitylog.Entry) { e.ID = 2 }), with(row(activitylog.ProcessStart, "7", "p", "a"), sending(1)), with(row(activitylog.SendFinish, "2", "tg:1", "a"), sending(1))}, "0100 1 0"},
		"by the sending of another log":    {[]activitylog.Entry{with(start("1", "a"), func(e *activitylog.Entry) { e.ID = 1 }), with(start("2", "a"), func(e *activitylog.Entry) { e.ID = 2 }), with(row(activitylog.ProcessStart, "7", "p", "a"), func(e *activitylog.Entry) { e.Sent, e.Log = 1, 1 })}, "011 0 1"},
		"what is none of it":               {[]activitylog.Entry{start("1", "a"), row(activitylog.Rejected, "1", "tg:1", "a"), row(activitylog.Subscribe, "1", "tg:1", "a")}, "0-- 0"},
		"deliveries that ended are passed": {[]activitylog.Entry{start("1", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "p", "a"), row(activitylog.ProcessStart, "7", "p", "a"), row(activitylog.ProcessFinish, "7", "p", "a")}, "00000 2"},
	} {
		var a activitylog.Assembler
		var passes []*activitylog.Publication
		got := ""
		for i := range c.rows {
			p, _ := a.Add(&c.rows[i])
			if p == nil {
				got += "-"
				continue
			}
			at := 0
			for at < len(passes) && passes[at] != p {
				at++
			}
			if at == len(passes) {
				passes = append(passes, p)
			}
			got += fmt.Sprint(at)
		}
		for _, p := range passes {
			got += fmt.Sprint(" ", len(p.Deliveries))
		}
		if got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
