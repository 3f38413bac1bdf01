package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/write"
)

// checking returns a checker of n logs whose rows lie between epoch and an hour
// later.
func checking(logs int) *checker {
	c := &checker{verdict: &Verdict{First: logtest.Epoch, Last: logtest.Epoch.Add(time.Hour)}, longest: time.Minute, tails: make([]tail, logs)}
	c.begin, c.end = c.verdict.First, c.verdict.Last
	c.publications.Add(&activitylog.Entry{})
	for i := range logs {
		c.paths = append(c.paths, fmt.Sprint("log", i))
		c.tails[i] = tail{last: logtest.Epoch.Add(2 * time.Hour), open: 1} // it continues, so no row of it is missing
	}
	return c
}

// within returns a publication whose rows are in the middle of that hour.
func within(change func(*activitylog.Publication)) *activitylog.Publication {
	p := &activitylog.Publication{First: 1000, Last: 1010, MessageID: "m", Started: true, Finished: true, Result: []byte(`{"deliveredTo":1}`),
		Began: logtest.Epoch.Add(30 * time.Minute), Seen: logtest.Epoch.Add(31 * time.Minute), Deliveries: []*activitylog.Delivery{both("agent:a", "7")}}
	if change != nil {
		change(p)
	}
	return p
}

func both(peer, rpc string) *activitylog.Delivery {
	return &activitylog.Delivery{Peer: peer, Leg: activitylog.Leg{RPCID: rpc, Status: "ok"}, Begun: true, Ended: true}
}

func begun(peer, rpc string) *activitylog.Delivery {
	return &activitylog.Delivery{Peer: peer, Leg: activitylog.Leg{RPCID: rpc}, Begun: true}
}

func finished(peer, rpc, status string) *activitylog.Delivery {
	return &activitylog.Delivery{Peer: peer, Leg: activitylog.Leg{RPCID: rpc, Status: status}, Ended: true}
}

// moved returns a whole delivery at a bus that the peer then left.
func moved(bus, peer, rpc string) *activitylog.Delivery {
	d := both(peer, rpc)
	d.Bus, d.Status = bus, "offline"
	return d
}

// TestCountPublication_FindsFaults checks the fault of a publication, and whether missing
// rows are the only fault.
func TestCountPublication_FindsFaults(t *testing.T) {
	given := finished("agent:a", "", "offline")
	for name, c := range map[string]struct {
		change func(*activitylog.Publication)
		fault  string
		lacks  bool
	}{
		"nothing":   {nil, "", true},
		"no start":  {func(p *activitylog.Publication) { p.Started = false }, "it has no send_start row", false},
		"no finish": {func(p *activitylog.Publication) { p.Finished = false }, "it has no send_finish row", false},
		"neither":   {func(p *activitylog.Publication) { p.Started, p.Finished = false, false }, "it has no send_start row", true},
		"neither, and half a pair": {func(p *activitylog.Publication) {
			p.Started, p.Finished, p.Deliveries = false, false, []*activitylog.Delivery{begun("agent:a", "7")}
		}, "it has no send_start row", false},
		"no end of a delivery": {func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{begun("agent:a", "7")} }, "agent:a has 1 process_start and 0 process_finish rows", true},
		"no begin of a delivery": {func(p *activitylog.Publication) {
			p.Deliveries = []*activitylog.Delivery{finished("agent:a", "7", "ok")}
		}, "agent:a has 0 process_start and 1 process_finish rows", true},
		"offline by its own bus":    {func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{given} }, "", true},
		"offline, and it went on":   {func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{given, both("agent:a", "7")} }, "", true},
		"offline, and it had begun": {func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{given, begun("agent:a", "7")} }, "", true},
		"offline is another":        {func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{given, begun("agent:b", "7")} }, "agent:b has 1 process_start and 0 process_finish rows", true},
		"offline, of a request": {func(p *activitylog.Publication) {
			p.Deliveries = []*activitylog.Delivery{finished("agent:a", "7", "offline")}
		}, "agent:a has 0 process_start and 1 process_finish rows", true},
		"timed out, of no request": {func(p *activitylog.Publication) {
			p.Deliveries = []*activitylog.Delivery{finished("agent:a", "", "timeout")}
		}, "agent:a has 0 process_start and 1 process_finish rows", true},
		"one peer too few":  {func(p *activitylog.Publication) { p.Deliveries = nil }, "its result counts 1 peers, and 0 have process rows", true},
		"one peer too many": {func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, both("agent:b", "8")) }, "its result counts 1 peers, and 2 have process rows", false},
		"two of one peer":   {func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, both("agent:a", "8")) }, "its result counts 1 peers, and 2 have process rows", false},
		"two begun of one peer": {func(p *activitylog.Publication) {
			p.Deliveries = []*activitylog.Delivery{begun("agent:a", "7"), begun("agent:a", "8")}
		}, "agent:a has 1 process_start and 0 process_finish rows", false},
		"one request begun twice": {func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, begun("agent:a", "7")) }, "agent:a has 2 process_start and 1 process_finish rows", false},
		"one request ended twice": {func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, finished("agent:a", "7", "ok")) }, "agent:a has 1 process_start and 2 process_finish rows", false},
		"moved to another bus": {func(p *activitylog.Publication) {
			p.Deliveries = append(p.Deliveries, moved("west", "agent:a", "7"))
		}, "", true},
		"moved there, and then offline": {func(p *activitylog.Publication) {
			p.Result = []byte(`{"deliveredTo":0,"failures":[{}]}`)
			p.Deliveries = []*activitylog.Delivery{moved("west", "agent:a", "1"), moved("east", "agent:a", "1")}
		}, "", true},
		"moved there and back": {func(p *activitylog.Publication) {
			p.Deliveries = append(p.Deliveries, moved("", "agent:a", "3"), moved("west", "agent:a", "1"))
		}, "", true},
		"moved, and another peer is too many": {func(p *activitylog.Publication) {
			p.Deliveries = append(p.Deliveries, moved("west", "agent:a", "7"), moved("west", "agent:b", "7"))
		}, "its result counts 1 peers, and 2 have process rows", false},
		"offline before another at the same bus": {func(p *activitylog.Publication) {
			p.Deliveries = append(p.Deliveries, moved("", "agent:a", "8"))
		}, "its result counts 1 peers, and 2 have process rows", false},
		"two at two buses, none offline": {func(p *activitylog.Publication) {
			p.Deliveries = append(p.Deliveries, both("agent:a", "8"))
			p.Deliveries[1].Bus = "west"
		}, "its result counts 1 peers, and 2 have process rows", false},
		"failures are peers":         {func(p *activitylog.Publication) { p.Result = []byte(`{"deliveredTo":0,"failures":[{}]}`) }, "", true},
		"failures beside deliveries": {func(p *activitylog.Publication) { p.Result = []byte(`{"deliveredTo":1,"failures":[{},{}]}`) }, "its result counts 3 peers, and 1 have process rows", true},
		"failures without room": {func(p *activitylog.Publication) {
			p.Result = []byte(`{"deliveredTo":0,"failures":[{}],"omitted":1}`)
			p.Deliveries = append(p.Deliveries, both("agent:b", "8"))
		}, "", true},
		"a result that says nothing": {func(p *activitylog.Publication) { p.Result, p.Deliveries = []byte(`{"failures":[{}]}`), nil }, "", false},
		"no result":                  {func(p *activitylog.Publication) { p.Result = nil }, "", false},
	} {
		tally := countPublication(within(c.change))
		if tally.fault != c.fault || tally.lacks() != c.lacks {
			t.Errorf("%s: %q, only rows are missing: %t", name, tally.fault, tally.lacks())
		}
	}
}

// TestExplained_ByGap uses a gap at row 1005 of log 0, and publications around it.
func TestExplained_ByGap(t *testing.T) {
	at := logtest.Epoch.Add(30 * time.Minute)
	for name, c := range map[string]struct {
		gap    gapPlace
		change func(*activitylog.Publication)
		want   bool
	}{
		"in it":                       {gapPlace{0, 1005, at}, nil, true},
		"in it, in another log":       {gapPlace{1, 1005, at}, nil, false},
		"in it, without a start":      {gapPlace{0, 1005, at}, func(p *activitylog.Publication) { p.Started = false }, false},
		"at its first row":            {gapPlace{0, 1000, at}, nil, false},
		"at its last row":             {gapPlace{0, 1010, at}, nil, false},
		"behind it":                   {gapPlace{0, 1011, at}, nil, true},
		"behind it, in another log":   {gapPlace{1, 1011, at}, nil, false},
		"far behind it":               {gapPlace{0, 1010 + gapReach - 1, at}, nil, true},
		"too far behind it":           {gapPlace{0, 1010 + gapReach, at}, nil, false},
		"before it":                   {gapPlace{0, 999, at}, nil, false},
		"before it, without a start":  {gapPlace{0, 999, at}, func(p *activitylog.Publication) { p.Started = false }, true},
		"in another log":              {gapPlace{1, 999, at}, func(p *activitylog.Publication) { p.Started = false }, false},
		"nearly too early":            {gapPlace{0, 999, at.Add(-time.Minute + 1)}, func(p *activitylog.Publication) { p.Started = false }, true},
		"too early":                   {gapPlace{0, 999, at.Add(-time.Minute)}, func(p *activitylog.Publication) { p.Started = false }, false},
		"at its first, without start": {gapPlace{0, 1000, at}, func(p *activitylog.Publication) { p.Started = false }, false},
	} {
		ch := checking(2)
		ch.gaps = []gapPlace{{1, 1, logtest.Epoch}, c.gap}
		if got := ch.explained(within(c.change)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestGapReach_CoversQueue checks that a gap explains rows as far away as rows can wait
// in the queue.
func TestGapReach_CoversQueue(t *testing.T) {
	if gapReach < 3*write.NewWriter("", nil).Stats().MaxRows {
		t.Errorf("a gap reaches %d rows", gapReach)
	}
}

// TestLostElsewhere_NeedsKillOrGap uses a publication from 12:30 to 12:31, during which
// another bus was killed or lost rows.
func TestLostElsewhere_NeedsKillOrGap(t *testing.T) {
	seen, began := logtest.Epoch.Add(31*time.Minute), logtest.Epoch.Add(30*time.Minute)
	silent := func(log int, from, to time.Time) func(*checker) {
		return func(c *checker) { c.silent = []silence{{log, from, to}} }
	}
	gap := func(log int, at time.Time) func(*checker) {
		return func(c *checker) { c.gaps = []gapPlace{{log, 1, at}} }
	}
	ends := func(log int, t tail) func(*checker) { return func(c *checker) { c.tails[log] = t } }
	for name, c := range map[string]struct {
		change             func(*checker)
		restarted, silence bool
	}{
		"nothing":                                 {func(*checker) {}, false, false},
		"a restart meanwhile":                     {silent(1, began, seen), true, false},
		"a restart of its own bus":                {silent(0, began, seen), false, false},
		"a kill a second after its end":           {silent(1, seen.Add(time.Second), seen.Add(time.Hour)), true, false},
		"a kill later":                            {silent(1, seen.Add(time.Second+1), seen.Add(time.Hour)), false, false},
		"back as it began":                        {silent(1, logtest.Epoch, began), true, false},
		"back before":                             {silent(1, logtest.Epoch, began.Add(-1)), false, false},
		"a gap as it began":                       {gap(1, began), true, false},
		"a gap of its own log":                    {gap(0, began), false, false},
		"a gap before":                            {gap(1, began.Add(-1)), false, false},
		"a gap in the time that it may last":      {gap(1, seen.Add(time.Minute-1)), true, false},
		"a gap later":                             {gap(1, seen.Add(time.Minute)), false, false},
		"a log that ends with it, in use":         {ends(1, tail{last: seen.Add(time.Second), open: 1}), false, true},
		"one that goes on a little":               {ends(1, tail{last: seen.Add(time.Second + 1), open: 1}), false, false},
		"one that ends, and was stopped":          {ends(1, tail{last: seen, open: 0}), false, false},
		"one that ends, and was pruned":           {ends(1, tail{last: seen, pruned: true}), false, true},
		"one without a row":                       {ends(1, tail{}), false, true},
		"its own log ends":                        {ends(0, tail{last: seen, open: 1}), false, false},
		"one that ends, with more ended sessions": {ends(1, tail{last: seen, open: -1}), false, false},
	} {
		ch := checking(2)
		c.change(ch)
		p := within(nil)
		if got := ch.restartedElsewhere(p); got != c.restarted {
			t.Errorf("%s: restarted elsewhere: %t", name, got)
		}
		if got := ch.isSilent(0, p) || ch.isSilent(1, p); got != c.silence {
			t.Errorf("%s: silent: %t", name, got)
		}
		if got := ch.lostElsewhere(p); got != (c.restarted || c.silence) {
			t.Errorf("%s: lost elsewhere: %t", name, got)
		}
	}
}

// TestEvaluate_CountsByMissingRows checks how a publication counts, by its
// missing rows and its time.
func TestEvaluate_CountsByMissingRows(t *testing.T) {
	noStart, noFinish := func(p *activitylog.Publication) { p.Started = false }, func(p *activitylog.Publication) { p.Finished = false }
	at := func(change func(*activitylog.Publication), began, seen time.Duration) func(*activitylog.Publication) {
		return func(p *activitylog.Publication) {
			if p.Began, p.Seen = logtest.Epoch.Add(began), logtest.Epoch.Add(seen); change != nil {
				change(p)
			}
		}
	}
	extra := func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, both("agent:b", "8")) }
	few := func(p *activitylog.Publication) { p.Deliveries = nil }
	neither := func(p *activitylog.Publication) { p.Started, p.Finished = false, false }
	unpaired := func(p *activitylog.Publication) { p.Deliveries = []*activitylog.Delivery{begun("agent:a", "7")} }
	for name, c := range map[string]struct {
		change func(*activitylog.Publication)
		want   string
	}{
		"whole":                              {nil, "complete"},
		"no finish, long ago":                {noFinish, "cut"},
		"no finish, a minute before the end": {at(noFinish, 58*time.Minute, 59*time.Minute), "underWay"},
		"no finish, a little earlier":        {at(noFinish, 58*time.Minute, 59*time.Minute-1), "cut"},
		"no start, a minute after the begin": {at(noStart, time.Minute, 2*time.Minute), "cut"},
		"no start, a little later":           {at(noStart, time.Minute+1, 2*time.Minute), "problem"},
		"neither, at the end":                {at(neither, 59*time.Minute, time.Hour), "underWay"},
		"neither":                            {neither, "elsewhere"},
		"neither, and half a pair":           {func(p *activitylog.Publication) { neither(p); unpaired(p) }, "problem"},
		"too few peers":                      {few, "elsewhere"},
		"too many peers":                     {extra, "problem"},
		"half a pair":                        {unpaired, "problem"},
		"no start, half a pair":              {func(p *activitylog.Publication) { noStart(p); unpaired(p) }, "problem"},
	} {
		ch := checking(1)
		ch.verdict.Problems = []Problem{}
		ch.evaluate(countPublication(within(c.change)))
		v := ch.verdict
		got := ""
		for word, n := range map[string]int64{"complete": v.Complete, "underWay": v.UnderWay, "cut": v.Cut, "elsewhere": v.Elsewhere, "problem": int64(len(v.Problems))} {
			if n > 0 {
				got += word
			}
		}
		if got != c.want || v.Messages != 1 || v.Complete+v.UnderWay+v.Cut+v.Elsewhere+int64(len(v.Problems)) != 1 {
			t.Errorf("%s counts as %s; want %s: %+v", name, got, c.want, v)
		}
		if len(v.Problems) == 1 && (v.Problems[0].Log != "log0" || v.Problems[0].ID != 1000 || v.Problems[0].MessageID != "m" || v.Problems[0].What == "") {
			t.Errorf("%s: %+v", name, v.Problems[0])
		}
	}
	ch := checking(2) // of two logs, one of which ends with it
	ch.tails[1] = tail{last: logtest.Epoch.Add(31 * time.Minute), open: 1}
	if ch.evaluate(countPublication(within(few))); ch.verdict.Cut != 1 {
		t.Errorf("what a killed bus has not written: %+v", ch.verdict)
	}
	if ch.evaluate(countPublication(within(extra))); ch.verdict.Cut != 1 || len(ch.verdict.Problems) != 1 {
		t.Errorf("what no kill explains: %+v", ch.verdict)
	}
	ch.gaps = []gapPlace{{0, 1005, logtest.Epoch}}
	if ch.evaluate(countPublication(within(extra))); ch.verdict.Cut != 2 {
		t.Errorf("what a gap explains: %+v", ch.verdict)
	}
}

// TestPartlyLogged_NamesFlagsForSingleLog checks that one problem names the flags if another
// bus must have accepted a message, and that otherwise each message is a problem.
func TestPartlyLogged_NamesFlagsForSingleLog(t *testing.T) {
	neither := func(p *activitylog.Publication) { p.Started, p.Finished = false, false }
	few := func(p *activitylog.Publication) { p.Deliveries = nil }
	for name, c := range map[string]struct {
		logs, messages  int
		partial         bool
		change          func(*activitylog.Publication)
		problems        int
		more, elsewhere int64
		what            string
	}{
		"taken in by another":           {1, 3, false, neither, 1, 0, 3, "3 messages have rows in the logs of other buses"},
		"of two logs":                   {2, 3, false, neither, 3, 0, 0, "it has no send_start row"},
		"too few peers":                 {1, 3, false, few, 3, 0, 0, "its result counts 1 peers"},
		"of some logs":                  {1, 3, true, neither, 0, 0, 3, ""},
		"nothing":                       {1, 0, false, few, 0, 0, 0, ""},
		"as many as are listed":         {1, maxProblems, false, few, maxProblems, 0, 0, "its result"},
		"more than as many":             {1, maxProblems + 7, false, few, maxProblems, 7, 0, "its result"},
		"more than as many, of another": {2, maxProblems + 7, false, neither, maxProblems, 7, 0, "it has no"},
	} {
		ch := checking(c.logs)
		ch.partial = c.partial
		for range c.messages {
			ch.evaluate(countPublication(within(c.change)))
		}
		ch.endPartlyLogged()
		v := ch.verdict
		if len(v.Problems) != c.problems || v.More != c.more || v.Elsewhere != c.elsewhere || c.problems > 0 && !strings.Contains(v.Problems[0].What, c.what) {
			t.Errorf("%s: %d problems and %d more, %d elsewhere", name, len(v.Problems), v.More, v.Elsewhere)
		}
	}
}

func TestProblems_AreCountedBeyondList(t *testing.T) {
	ch := checking(1)
	for i := range 103 {
		ch.problem(Problem{ID: int64(i)})
	}
	if v := ch.verdict; len(v.Problems) != 100 || v.More != 3 || v.Problems[99].ID != 99 {
		t.Errorf("%d are listed, %d more", len(v.Problems), v.More)
	}
}

// TestFollow_FindsSilence lets a peer connect after a pause, although sessions
// were open.
func TestFollow_FindsSilence(t *testing.T) {
	type row struct {
		event activitylog.Event
		after time.Duration
	}
	connected, disconnected, other := activitylog.PeerConnected, activitylog.PeerDisconnected, activitylog.Subscribe
	for name, c := range map[string]struct {
		first  int64
		rows   []row
		silent string
		open   int
	}{
		"a first row":                 {1, []row{{connected, 0}}, "- 0", 1},
		"another first row":           {1, []row{{other, 0}}, "", 0},
		"two quickly":                 {1, []row{{other, 0}, {connected, 1}, {connected, leastSilence - 1}}, "", 2},
		"two after a pause":           {1, []row{{other, 0}, {connected, 1}, {connected, leastSilence}}, "1ns 20.000001ms", 2},
		"after a pause, and no peer":  {1, []row{{other, 0}, {connected, 1}, {other, time.Hour}}, "", 1},
		"all were gone":               {1, []row{{other, 0}, {connected, 1}, {disconnected, 1}, {connected, time.Hour}}, "", 1},
		"one was not":                 {1, []row{{other, 0}, {connected, 1}, {connected, 1}, {disconnected, 1}, {connected, time.Second}}, "3ns 1.000000003s", 2},
		"of a log that was pruned":    {2, []row{{other, 0}, {connected, time.Second}}, "0s 1s", 1},
		"silences are forgotten":      {2, []row{{other, 0}, {connected, time.Second}, {connected, time.Minute}, {other, 2*time.Minute + 1}}, "", 2},
		"but not before their time":   {2, []row{{other, 0}, {connected, time.Second}, {other, 2 * time.Minute}}, "0s 1s", 1},
		"nor one that came after one": {2, []row{{other, 0}, {connected, time.Second}, {connected, time.Minute}, {other, time.Minute + 1}}, "1s 1m1s", 2},
	} {
		ch := checking(1)
		ch.tails[0] = tail{}
		at := logtest.Epoch
		for i, r := range c.rows {
			at = at.Add(r.after)
			ch.follow(&activitylog.Entry{ID: c.first + int64(i), Event: r.event.String()}, at)
		}
		var got []string
		for _, s := range ch.silent {
			from := "-"
			if !s.from.IsZero() {
				from = s.from.Sub(logtest.Epoch).String()
			}
			to := s.to.Sub(logtest.Epoch).String()
			if s.to.Equal(logtest.Epoch) {
				to = "0"
			}
			got = append(got, from+" "+to)
		}
		if s := strings.Join(got, ", "); s != c.silent || ch.tails[0].open != c.open || !ch.tails[0].last.Equal(at) {
			t.Errorf("%s: silent %q, %d open; want %q, %d", name, s, ch.tails[0].open, c.silent, c.open)
		}
	}
}

// TestEvaluate_WaitsForNextRowOfOtherLog checks that a publication that a kill of another
// bus may have cut is evaluated when the next row of that bus has been read, and not
// before.
func TestEvaluate_WaitsForNextRowOfOtherLog(t *testing.T) {
	few := func(p *activitylog.Publication) { p.Deliveries = nil }
	ch := checking(2)
	ch.tails[1] = tail{last: logtest.Epoch.Add(31 * time.Minute), open: 1}
	for range 2 {
		ch.evaluateUnlessDoubtful(within(few))
	}
	ch.evaluateUnlessDoubtful(within(nil))
	ch.evaluateUnlessDoubtful(within(func(p *activitylog.Publication) { p.Deliveries = append(p.Deliveries, both("agent:b", "8")) }))
	if n := len(ch.tails[1].doubtful); n != 2 || ch.verdict.Messages != 2 || ch.verdict.Complete != 1 || len(ch.verdict.Problems) != 1 {
		t.Errorf("%d wait: %+v", n, ch.verdict)
	}
	ch.follow(&activitylog.Entry{ID: 9, Log: 0, Event: activitylog.Subscribe.String()}, logtest.Epoch.Add(32*time.Minute))
	if ch.verdict.Messages != 2 {
		t.Errorf("a row of the other log decided: %+v", ch.verdict)
	}
	ch.follow(&activitylog.Entry{ID: 9, Log: 1, Event: activitylog.Subscribe.String()}, logtest.Epoch.Add(33*time.Minute))
	if v := ch.verdict; len(ch.tails[1].doubtful) != 0 || v.Messages != 4 || v.Elsewhere != 2 {
		t.Errorf("the log went on: %+v", v)
	}
	ch.gaps = []gapPlace{{1, 5, logtest.Epoch.Add(30 * time.Minute)}} // a certain result does not wait
	ch.tails[1].last = logtest.Epoch.Add(31 * time.Minute)
	if ch.evaluateUnlessDoubtful(within(few)); ch.verdict.Cut != 1 || len(ch.tails[1].doubtful) != 0 {
		t.Errorf("what a gap of the other explains: %+v", ch.verdict)
	}
	ch.gaps = []gapPlace{{0, 1005, logtest.Epoch}}
	if ch.evaluateUnlessDoubtful(within(few)); ch.verdict.Cut != 2 || len(ch.tails[1].doubtful) != 0 {
		t.Errorf("what a gap explains: %+v", ch.verdict)
	}
	ch.gaps = nil
	ch.tails[1].doubtful = slices.Repeat([]*activitylog.Publication{within(few)}, maxDoubtful-1)
	for range 2 {
		ch.evaluateUnlessDoubtful(within(few))
	}
	if n := len(ch.tails[1].doubtful); n != 10_000 || ch.verdict.Cut != 3 {
		t.Errorf("%d wait: %+v", n, ch.verdict)
	}
	ch.tails[1].doubtful = ch.tails[1].doubtful[:2]
	if ch.finish(); ch.verdict.Cut != 5 {
		t.Errorf("at the end: %+v", ch.verdict)
	}
}

// TestEvaluate_WaitsForLongestTime checks that a publication is evaluated only
// when no other log can have more rows of it.
func TestEvaluate_WaitsForLongestTime(t *testing.T) {
	ch := checking(1)
	for i := range 3 {
		ch.done = append(ch.done, within(func(p *activitylog.Publication) { p.Seen = logtest.Epoch.Add(time.Duration(i) * time.Second) }))
	}
	for _, c := range []struct {
		before time.Duration
		left   int
	}{{0, 3}, {1, 2}, {time.Second, 2}, {time.Minute, 0}} {
		if ch.evaluateDone(logtest.Epoch.Add(c.before + time.Minute)); len(ch.done) != c.left || ch.verdict.Complete != int64(3-c.left) {
			t.Errorf("before %s: %d are left, %+v", c.before, len(ch.done), ch.verdict)
		}
	}
	ch.done = []*activitylog.Publication{within(nil)}
	if ch.evaluateDone(logtest.Epoch); len(ch.done) != 0 || ch.verdict.Complete != 4 {
		t.Errorf("the clock was set back: %d are left, %+v", len(ch.done), ch.verdict)
	}
}

// TestVerify_ExpectsNoOrderOfTimes verifies a log that retention has cut within a message. It
// begins and ends with rows of the present, even if rows between them are from 1970 or next year.
func TestVerify_ExpectsNoOrderOfTimes(t *testing.T) {
	for name, jump := range map[string]time.Duration{"behind": -56 * 365 * 24 * time.Hour, "ahead": 400 * 24 * time.Hour} {
		ch := checking(1)
		ch.begin, ch.end, ch.verdict = time.Time{}, time.Time{}, &Verdict{}
		id := int64(100)
		add := func(at time.Duration, event activitylog.Event, message string) {
			id++
			ch.add(&activitylog.Entry{ID: id, TS: logtest.Epoch.Add(at).Format(time.RFC3339), Event: event.String(), MessageID: message, RPCID: "1",
				Actor: "agent:a", Topic: "agent:a", Payload: []byte(`{"deliveredTo":0}`)})
		}
		add(0, activitylog.SendFinish, "cut")
		for i := range 3 {
			add(jump, activitylog.SendStart, fmt.Sprint("wrong", i))
			add(jump, activitylog.SendFinish, fmt.Sprint("wrong", i))
		}
		add(time.Hour, activitylog.SendStart, "whole")
		add(time.Hour, activitylog.SendFinish, "whole")
		add(time.Hour, activitylog.SendStart, "open")
		if len(ch.done) != 1 {
			t.Errorf("%s: %d messages wait for more rows", name, len(ch.done))
		}
		ch.finish()
		if v := ch.verdict; !v.OK() || v.Cut != 1 || v.UnderWay != 1 || v.Complete != 4 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestAdd_ChecksGapsAndTimes(t *testing.T) {
	for payload, right := range map[string]bool{
		`{"lost":1,"reason":"r"}`: true, `{"lost":0}`: false, `{"lost":-1}`: false, `{}`: false, `?`: false,
	} {
		ch := checking(1)
		ch.verdict.First, ch.verdict.Last = time.Time{}, time.Time{}
		ch.add(&activitylog.Entry{ID: 4, TS: "2026-02-17T12:00:05.000000Z", Event: activitylog.LogGap.String(), Payload: []byte(payload), Bus: "east"})
		ch.add(&activitylog.Entry{ID: 5, TS: "2026-02-17T12:00:03.000000Z", Event: activitylog.Subscribe.String()})
		v := ch.verdict
		if (len(v.Problems) == 0) != right || len(v.Gaps) != 1 || !v.Gaps[0].At.Equal(logtest.Epoch.Add(5*time.Second)) || v.Gaps[0].Bus != "east" || v.Rows != 2 {
			t.Errorf("%s: %+v", payload, v)
		}
		if !v.First.Equal(logtest.Epoch.Add(3*time.Second)) || !v.Last.Equal(logtest.Epoch.Add(5*time.Second)) || len(ch.gaps) != 1 || ch.gaps[0].id != 4 {
			t.Errorf("from %s to %s, gaps %+v", v.First, v.Last, ch.gaps)
		}
	}
	ch := checking(1)
	if ch.add(&activitylog.Entry{ID: 4, TS: "noon", Event: activitylog.Subscribe.String()}); len(ch.verdict.Problems) != 1 || !strings.Contains(ch.verdict.Problems[0].What, "is not RFC 3339") {
		t.Errorf("%+v", ch.verdict.Problems)
	}
}
