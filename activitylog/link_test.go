package activitylog

import (
	"fmt"
	"testing"
	"time"

	"hubbub/protocol"
)

// TestTheStateOfAMessage, of its first and last row.
func TestTheStateOfAMessage(t *testing.T) {
	none := &Message{}
	if !none.Begin().IsZero() || !none.End().IsZero() || none.Status() != "" {
		t.Errorf("a message without rows: %s, %s, %q", none.Begin(), none.End(), none.Status())
	}
	m := &Message{Rows: []Entry{{TS: protocol.FormatTime(epoch)}, {TS: protocol.FormatTime(epoch.Add(time.Second))}}}
	if !m.Begin().Equal(epoch) || !m.End().Equal(epoch.Add(time.Second)) {
		t.Errorf("from %s to %s", m.Begin(), m.End())
	}
	m.Refusals = []Entry{{}}
	if m.Status() != "rejected" {
		t.Errorf("refused, it is %q", m.Status())
	}
	m.Publications = []*Publication{{Leg: Leg{Status: "failed"}}, {Leg: Leg{Status: "ok"}}}
	if m.Status() != "ok" {
		t.Errorf("sent again, it is %q", m.Status())
	}
	for _, l := range []Leg{{}, {Start: epoch}, {Finish: epoch}} {
		if l.Duration() != 0 {
			t.Errorf("%+v took %s", l, l.Duration())
		}
	}
	if l := (Leg{Start: epoch, Finish: epoch.Add(time.Second)}); l.Duration() != time.Second {
		t.Errorf("it took %s", l.Duration())
	}
}

// TestRowsFindTheirPass: by the sending that they tell of, by their request, by their topic,
// or else the latest.
func TestRowsFindTheirPass(t *testing.T) {
	row := func(event Event, rpc, actor, topic string) Entry {
		return Entry{Event: event.String(), MessageID: "m", RPCID: rpc, Actor: actor, Topic: topic, Bus: "east", TS: protocol.FormatTime(epoch)}
	}
	start := func(rpc, topic string) Entry { return row(SendStart, rpc, "tg:1", topic) }
	with := func(e Entry, change func(*Entry)) Entry { change(&e); return e }
	sending := func(id int64) func(*Entry) { return func(e *Entry) { e.Sent = id } }
	for name, c := range map[string]struct {
		rows []Entry
		want string // for each row the number of its pass; and of the deliveries of each
	}{
		"one":                              {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(SendFinish, "1", "tg:1", "a")}, "0000 1"},
		"sent again when it was finished":  {[]Entry{start("1", "a"), row(SendFinish, "1", "tg:1", "a"), start("2", "a"), row(ProcessStart, "7", "p", "a")}, "0011 0 1"},
		"sent again while it goes on":      {[]Entry{start("1", "a"), start("2", "a"), row(SendFinish, "1", "tg:1", "a"), row(SendFinish, "2", "tg:1", "a")}, "0101 0 0"},
		"finished by another bus":          {[]Entry{start("1", "a"), with(row(SendFinish, "1", "tg:1", "a"), func(e *Entry) { e.Bus = "west" })}, "01 0 0"},
		"finished by another request":      {[]Entry{start("1", "a"), row(SendFinish, "2", "tg:1", "a")}, "01 0 0"},
		"finished, and then begun":         {[]Entry{row(SendFinish, "1", "tg:1", "a"), start("1", "a")}, "01 0 0"},
		"a delivery before its start":      {[]Entry{row(ProcessStart, "7", "p", "a"), start("1", "a"), row(SendFinish, "1", "tg:1", "a")}, "000 1"},
		"a delivery before its finish":     {[]Entry{row(ProcessStart, "7", "p", "a"), row(SendFinish, "1", "tg:1", "a")}, "00 1"},
		"by the topic":                     {[]Entry{start("1", "a"), start("2", "b"), row(ProcessStart, "7", "p", "a"), row(ProcessStart, "8", "p", "b")}, "0101 1 1"},
		"of no topic, the latest":          {[]Entry{start("1", "a"), start("2", "b"), row(ProcessStart, "7", "p", "c")}, "011 0 1"},
		"an end by its request":            {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), start("2", "a"), row(ProcessFinish, "7", "p", "a")}, "0010 1 0"},
		"an end of another peer":           {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "q", "a")}, "000 2"},
		"an end of another request":        {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "8", "p", "a")}, "000 2"},
		"ended twice":                      {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(ProcessFinish, "7", "p", "a")}, "0000 2"},
		"an end without a begin":           {[]Entry{row(ProcessFinish, "7", "p", "a"), start("1", "a")}, "00 1"},
		"an end of no topic":               {[]Entry{start("1", "a"), start("2", "b"), row(ProcessFinish, "7", "p", "c")}, "011 0 1"},
		"by the sending":                   {[]Entry{with(start("1", "a"), func(e *Entry) { e.ID = 1 }), with(start("2", "a"), func(e *Entry) { e.ID = 2 }), with(row(ProcessStart, "7", "p", "a"), sending(1)), with(row(SendFinish, "2", "tg:1", "a"), sending(1))}, "0100 1 0"},
		"by the sending of another log":    {[]Entry{with(start("1", "a"), func(e *Entry) { e.ID = 1 }), with(start("2", "a"), func(e *Entry) { e.ID = 2 }), with(row(ProcessStart, "7", "p", "a"), func(e *Entry) { e.Sent, e.Log = 1, 1 })}, "011 0 1"},
		"what is none of it":               {[]Entry{start("1", "a"), row(Rejected, "1", "tg:1", "a"), row(Subscribe, "1", "tg:1", "a")}, "0-- 0"},
		"deliveries that ended are passed": {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a")}, "00000 2"},
	} {
		var a Assembler
		var passes []*Publication
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
