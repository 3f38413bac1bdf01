package activitylog

import (
	"testing"
	"time"
)

// TestVerifyKnowsWhatAClusterLoses has one message that bus east accepts, and what
// its peer at bus west has in west's log, when west or the way to it fails.
func TestVerifyKnowsWhatAClusterLoses(t *testing.T) {
	const second = time.Second
	connected, gone := Row{Event: PeerConnected, Actor: "agent:a"}, Row{Event: PeerDisconnected, Actor: "agent:a"}
	start := Row{Event: ProcessStart, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: StatusStart}
	finish := Row{Event: ProcessFinish, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: StatusOK}
	second3 := Row{Event: ProcessStart, MessageID: "m", RPCID: "4", Actor: "agent:a", Status: StatusStart}
	other := Row{Event: Subscribe, Actor: "agent:a", Topic: "x"}
	lost := Row{Event: LogGap, Payload: []byte(`{"lost":2,"reason":"full"}`)}
	type row struct {
		after time.Duration // the epoch; the message is at 10 s
		Row
	}
	for name, c := range map[string]struct {
		givenUp bool // by east, 3 s later
		pruned  bool // west's first row has left
		later   bool // east goes on for minutes, as west may not
		west    []row
		problem string
		cut     int64
	}{
		"all is well":                 {west: []row{{second, connected}, {10 * second, start}, {10 * second, finish}, {20 * second, other}}},
		"given up, never begun":       {givenUp: true, west: []row{{second, connected}}},
		"given up, begun":             {givenUp: true, west: []row{{second, connected}, {10 * second, start}}},
		"given up, and went on":       {givenUp: true, west: []row{{second, connected}, {10 * second, start}, {14 * second, finish}}},
		"killed":                      {west: []row{{second, connected}}, cut: 1},
		"killed before any commit":    {cut: 1},
		"killed in the middle":        {west: []row{{second, connected}, {10 * second, start}}, cut: 1},
		"killed and started again":    {west: []row{{second, connected}, {12 * second, connected}, {13 * second, other}}, cut: 1},
		"killed after a prune":        {pruned: true, west: []row{{second, connected}, {9 * second, other}, {12 * second, connected}, {13 * second, other}}, cut: 1},
		"killed, and again long idle": {west: []row{{second, connected}, {10 * second, start}, {3600 * second, connected}, {3601 * second, other}}, cut: 1},
		"a gap":                       {west: []row{{second, connected}, {10 * second, other}, {12 * second, lost}, {13 * second, other}}, cut: 1},
		"lost": {west: []row{{second, connected}, {9 * second, other}, {12 * second, other}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost, and long idle": {west: []row{{second, connected}, {9 * second, other}, {3600 * second, other}}, later: true,
			problem: "its result counts 1 peers, and 0 have process rows"},
		"killed, and long idle beside others": {west: []row{{second, connected}, {9 * second, other}, {3600 * second, connected}}, later: true, cut: 1},
		"killed for good beside others":       {west: []row{{second, connected}, {9 * second, other}}, later: true, cut: 1},
		"lost at a new peer of a busy bus": {west: []row{{second, connected}, {10 * second, other}, {10*second + time.Millisecond, connected}, {13 * second, other}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost before a clean stop": {west: []row{{second, connected}, {2 * second, gone}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost beside a new peer": {west: []row{{second, connected}, {10 * second, other}, {12 * second, connected}, {13 * second, other}},
			problem: "", cut: 1}, // it cannot be told from a kill
		"delivered twice": {west: []row{{second, connected}, {10 * second, start}, {10 * second, finish}, {10 * second, second3}},
			problem: "agent:a has 1 process_start and 0 process_finish rows"},
		"given up, and begun twice": {givenUp: true, west: []row{{second, connected}, {10 * second, start}, {10 * second, start}},
			problem: "agent:a has 2 process_start and 0 process_finish rows"},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := newScript(t), newScript(t)
			east.now = epoch.Add(10 * second)
			east.add(Row{Event: SendStart, MessageID: "m", RPCID: "1", Actor: "tg:1", Status: StatusStart, Payload: []byte(`{}`)})
			result, status := `{"accepted":true,"messageId":"m","deliveredTo":1}`, StatusOK
			if c.givenUp {
				east.now = epoch.Add(13 * second)
				east.add(Row{Event: ProcessFinish, MessageID: "m", Actor: "agent:a", Status: "offline", Error: "the bus west of this peer is silent"})
				result, status = `{"accepted":true,"messageId":"m","deliveredTo":0,"failures":[{"peer":"agent:a","status":"offline","error":""}]}`, StatusFailed
			}
			east.add(Row{Event: SendFinish, MessageID: "m", RPCID: "1", Actor: "tg:1", Status: status, Payload: []byte(result)})
			if c.later {
				east.now = epoch.Add(600 * second)
				east.add(other)
			}
			for _, r := range c.west {
				west.now = epoch.Add(r.after)
				west.add(r.Row)
			}
			westLog := west.written("west")
			if c.pruned {
				change(t, westLog, "DELETE FROM activity_log WHERE id = 1")
			}
			v := verdict(t, east.written("east"), westLog)
			switch {
			case c.problem != "" && (len(v.Problems) != 1 || v.Problems[0].What != c.problem):
				t.Errorf("%+v; want %q", v.Problems, c.problem)
			case c.problem == "" && (!v.OK() || v.Cut != c.cut || v.Complete != 1-c.cut):
				t.Errorf("%+v; want %d cut", v, c.cut)
			}
		})
	}
}

// TestVerifyKnowsThatTheAcceptingBusWasKilled has a message that bus east accepted
// within its last 250 ms: only the bus of the peer has rows of it.
func TestVerifyKnowsThatTheAcceptingBusWasKilled(t *testing.T) {
	for name, c := range map[string]struct {
		until Event // what east's log ends or goes on with, after the message
		cut   int64
	}{
		"and started again":    {PeerConnected, 1},
		"was stopped before":   {PeerDisconnected, 0},
		"had written all else": {Subscribe, 0},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := newScript(t), newScript(t)
			east.now, west.now = epoch, epoch
			east.add(Row{Event: PeerConnected, Actor: "tg:1"})
			west.add(Row{Event: PeerConnected, Actor: "agent:a"})
			if c.until == PeerDisconnected {
				east.add(Row{Event: PeerDisconnected, Actor: "tg:1"})
			}
			east.now, west.now = epoch.Add(time.Hour), epoch.Add(time.Hour)
			west.add(Row{Event: ProcessStart, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: StatusStart})
			west.add(Row{Event: ProcessFinish, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: StatusOK})
			east.now, west.now = epoch.Add(2*time.Hour), epoch.Add(2*time.Hour)
			if c.until != PeerDisconnected {
				east.add(Row{Event: c.until, Actor: "tg:1", Topic: "x"})
			}
			west.add(Row{Event: Subscribe, Actor: "agent:a", Topic: "x"})
			if v := verdict(t, east.written("east"), west.written("west")); v.Cut != c.cut || v.OK() != (c.cut == 1) {
				t.Errorf("%+v; want %d cut", v, c.cut)
			}
		})
	}
}
