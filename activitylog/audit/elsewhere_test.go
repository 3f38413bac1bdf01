package audit

import (
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/writetest"
)

// A clusterCase is one message that bus east accepts for a peer of bus west.
type clusterCase struct {
	givenUp bool // by east, 3 s later
	pruned  bool // west's first row has left
	later   bool // east continues for minutes; west need not
	west    []timedRow
	problem string
	cut     int64
}

// A timedRow is a row of west's log.
type timedRow struct {
	after time.Duration // the epoch; the message is at 10 s
	activitylog.Row
}

// verify writes the logs of both buses and checks their verdict.
func (c *clusterCase) verify(t *testing.T) {
	east, west := logtest.NewScript(t), logtest.NewScript(t)
	east.Now = logtest.Epoch.Add(10 * time.Second)
	east.Add(activitylog.Row{Event: activitylog.SendStart, MessageID: "m", RPCID: "1", Actor: "tg:1", Status: activitylog.StatusStart, Payload: []byte(`{}`)})
	result, status := `{"accepted":true,"messageId":"m","deliveredTo":1}`, activitylog.StatusOK
	if c.givenUp {
		east.Now = logtest.Epoch.Add(13 * time.Second)
		east.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: "m", Actor: "agent:a", Status: "offline", Error: "the bus west of this peer is silent"})
		result, status = `{"accepted":true,"messageId":"m","deliveredTo":0,"failures":[{"peer":"agent:a","status":"offline","error":""}]}`, activitylog.StatusFailed
	}
	east.Add(activitylog.Row{Event: activitylog.SendFinish, MessageID: "m", RPCID: "1", Actor: "tg:1", Status: status, Payload: []byte(result)})
	if c.later {
		east.Now = logtest.Epoch.Add(600 * time.Second)
		east.Add(activitylog.Row{Event: activitylog.Subscribe, Actor: "agent:a", Topic: "x"})
	}
	for _, r := range c.west {
		west.Now = logtest.Epoch.Add(r.after)
		west.Add(r.Row)
	}
	westLog := writetest.Log(west, "west")
	if c.pruned {
		change(t, westLog, "DELETE FROM activity_log WHERE id = 1")
	}
	v := verdict(t, writetest.Log(east, "east"), westLog)
	switch {
	case c.problem != "" && (len(v.Problems) != 1 || v.Problems[0].What != c.problem):
		t.Errorf("%+v; want %q", v.Problems, c.problem)
	case c.problem == "" && (!v.OK() || v.Cut != c.cut || v.Complete != 1-c.cut):
		t.Errorf("%+v; want %d cut", v, c.cut)
	}
}

// TestVerify_ExplainsRowsLostInCluster uses one message that bus east accepts, and
// the rows of its peer in the log of bus west, when west or the network between
// them fails.
func TestVerify_ExplainsRowsLostInCluster(t *testing.T) {
	const second = time.Second
	connected, gone := activitylog.Row{Event: activitylog.PeerConnected, Actor: "agent:a"}, activitylog.Row{Event: activitylog.PeerDisconnected, Actor: "agent:a"}
	start := activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: activitylog.StatusStart}
	finish := activitylog.Row{Event: activitylog.ProcessFinish, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: activitylog.StatusOK}
	second3 := activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "4", Actor: "agent:a", Status: activitylog.StatusStart}
	other := activitylog.Row{Event: activitylog.Subscribe, Actor: "agent:a", Topic: "x"}
	lost := activitylog.Row{Event: activitylog.LogGap, Payload: []byte(`{"lost":2,"reason":"full"}`)}
	for name, c := range map[string]clusterCase{
		"all is well":                 {west: []timedRow{{second, connected}, {10 * second, start}, {10 * second, finish}, {20 * second, other}}},
		"given up, never begun":       {givenUp: true, west: []timedRow{{second, connected}}},
		"given up, begun":             {givenUp: true, west: []timedRow{{second, connected}, {10 * second, start}}},
		"given up, and went on":       {givenUp: true, west: []timedRow{{second, connected}, {10 * second, start}, {14 * second, finish}}},
		"killed":                      {west: []timedRow{{second, connected}}, cut: 1},
		"killed before any commit":    {cut: 1},
		"killed in the middle":        {west: []timedRow{{second, connected}, {10 * second, start}}, cut: 1},
		"killed and started again":    {west: []timedRow{{second, connected}, {12 * second, connected}, {13 * second, other}}, cut: 1},
		"killed after a prune":        {pruned: true, west: []timedRow{{second, connected}, {9 * second, other}, {12 * second, connected}, {13 * second, other}}, cut: 1},
		"killed, and again long idle": {west: []timedRow{{second, connected}, {10 * second, start}, {3600 * second, connected}, {3601 * second, other}}, cut: 1},
		"a gap":                       {west: []timedRow{{second, connected}, {10 * second, other}, {12 * second, lost}, {13 * second, other}}, cut: 1},
		"lost": {west: []timedRow{{second, connected}, {9 * second, other}, {12 * second, other}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost, and long idle": {west: []timedRow{{second, connected}, {9 * second, other}, {3600 * second, other}}, later: true,
			problem: "its result counts 1 peers, and 0 have process rows"},
		"killed, and long idle beside others": {west: []timedRow{{second, connected}, {9 * second, other}, {3600 * second, connected}}, later: true, cut: 1},
		"killed for good beside others":       {west: []timedRow{{second, connected}, {9 * second, other}}, later: true, cut: 1},
		"lost at a new peer of a busy bus": {west: []timedRow{{second, connected}, {10 * second, other}, {10*second + time.Millisecond, connected}, {13 * second, other}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost before a clean stop": {west: []timedRow{{second, connected}, {2 * second, gone}},
			problem: "its result counts 1 peers, and 0 have process rows"},
		"lost beside a new peer": {west: []timedRow{{second, connected}, {10 * second, other}, {12 * second, connected}, {13 * second, other}},
			problem: "", cut: 1}, // it cannot be distinguished from a kill
		"delivered twice": {west: []timedRow{{second, connected}, {10 * second, start}, {10 * second, finish}, {10 * second, second3}},
			problem: "agent:a has 1 process_start and 0 process_finish rows"},
		"given up, and begun twice": {givenUp: true, west: []timedRow{{second, connected}, {10 * second, start}, {10 * second, start}},
			problem: "agent:a has 2 process_start and 0 process_finish rows"},
	} {
		t.Run(name, c.verify)
	}
}

// TestVerify_ExplainsKillOfAcceptingBus uses a message that bus east accepted
// within its last 250 ms, so that only the bus of the peer has rows of it.
func TestVerify_ExplainsKillOfAcceptingBus(t *testing.T) {
	for name, c := range map[string]struct {
		until activitylog.Event // the rows of east's log after the message
		cut   int64
	}{
		"and started again":    {activitylog.PeerConnected, 1},
		"was stopped before":   {activitylog.PeerDisconnected, 0},
		"had written all else": {activitylog.Subscribe, 0},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := logtest.NewScript(t), logtest.NewScript(t)
			east.Now, west.Now = logtest.Epoch, logtest.Epoch
			east.Add(activitylog.Row{Event: activitylog.PeerConnected, Actor: "tg:1"})
			west.Add(activitylog.Row{Event: activitylog.PeerConnected, Actor: "agent:a"})
			if c.until == activitylog.PeerDisconnected {
				east.Add(activitylog.Row{Event: activitylog.PeerDisconnected, Actor: "tg:1"})
			}
			east.Now, west.Now = logtest.Epoch.Add(time.Hour), logtest.Epoch.Add(time.Hour)
			west.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: activitylog.StatusStart})
			west.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: "m", RPCID: "3", Actor: "agent:a", Status: activitylog.StatusOK})
			east.Now, west.Now = logtest.Epoch.Add(2*time.Hour), logtest.Epoch.Add(2*time.Hour)
			if c.until != activitylog.PeerDisconnected {
				east.Add(activitylog.Row{Event: c.until, Actor: "tg:1", Topic: "x"})
			}
			west.Add(activitylog.Row{Event: activitylog.Subscribe, Actor: "agent:a", Topic: "x"})
			if v := verdict(t, writetest.Log(east, "east"), writetest.Log(west, "west")); v.Cut != c.cut || v.OK() != (c.cut == 1) {
				t.Errorf("%+v; want %d cut", v, c.cut)
			}
		})
	}
}
