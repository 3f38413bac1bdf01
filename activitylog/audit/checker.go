package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// A gapPlace is the position of a log_gap row.
type gapPlace struct {
	log int
	id  int64
	at  time.Time
}

// gapReach is how many rows may lie between the last row of a message and the gap that lost its
// other rows: the size of the writer's queue.
const gapReach = 200_000

// A checker checks that the rows of each publication are complete.
type checker struct {
	verdict      *Verdict
	paths        []string
	longest      time.Duration
	partial      bool
	publications activitylog.Assembler
	done         []*activitylog.Publication // finished publications that may still have rows in other logs
	gaps         []gapPlace
	tails        []tail // by log
	silent       []silence
	partly       partlyLogged
	damaged      []string // given checkpoints

	// times of the first and the last row; rows between them may have any time, because a clock
	// may be wrong
	begin, end time.Time
}

func (c *checker) problem(p Problem) {
	if len(c.verdict.Problems) >= maxProblems {
		c.verdict.More++
		return
	}
	c.verdict.Problems = append(c.verdict.Problems, p)
}

func (c *checker) add(e *activitylog.Entry) {
	v := c.verdict
	v.Rows++
	at := e.Time()
	if at.IsZero() {
		c.problem(Problem{Log: c.paths[e.Log], ID: e.ID, What: fmt.Sprintf("the time %q is not RFC 3339", e.TS)})
	}
	if v.First.IsZero() || at.Before(v.First) {
		v.First = at
	}
	if at.After(v.Last) {
		v.Last = at
	}
	if c.begin.IsZero() {
		c.begin = at
	}
	c.end = at
	switch {
	case e.Is(activitylog.LogGap):
		c.gap(e, at)
	case e.Is(activitylog.SendFinish):
		p, _ := c.publications.Add(e)
		c.done = append(c.done, p)
	default:
		e.Payload = nil // it need not be kept
		c.publications.Add(e)
	}
	c.follow(e, at)
	c.evaluateDone(at)
}

func (c *checker) gap(e *activitylog.Entry, at time.Time) {
	g := Gap{At: at, Bus: e.Bus}
	if json.Unmarshal(e.Payload, &g) != nil || g.Lost <= 0 {
		c.problem(Problem{Log: c.paths[e.Log], ID: e.ID, What: "a log_gap row does not say how many rows were lost"})
	}
	g.At = at
	c.verdict.Gaps = append(c.verdict.Gaps, g)
	c.gaps = append(c.gaps, gapPlace{e.Log, e.ID, at})
}

// evaluateDone evaluates the finished publications whose last row is far from the current row in
// time: it is older, or the clock has been set back since. No log can have more rows of them.
func (c *checker) evaluateDone(now time.Time) {
	n := 0
	for ; n < len(c.done) && now.Sub(c.done[n].Seen).Abs() > c.longest; n++ {
		c.evaluateUnlessDoubtful(c.done[n])
	}
	c.done = slices.Delete(c.done, 0, n)
}

// finish evaluates the remaining publications.
func (c *checker) finish() {
	rest := c.done
	for _, t := range c.tails {
		rest = append(rest, t.doubtful...)
	}
	for _, p := range rest {
		c.evaluate(countPublication(p))
	}
	for _, p := range c.publications.All() {
		c.evaluate(countPublication(p)) // without send_finish
	}
	c.endPartlyLogged()
}

// A partlyLogged counts the messages whose missing rows another bus of a cluster may have
// written.
type partlyLogged struct {
	foreign  int // messages that another bus must have accepted
	problems []Problem
}

func (l *partlyLogged) add(p *activitylog.Publication, path, fault string) {
	if !p.Started {
		l.foreign++
	}
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, Problem{Log: path, ID: p.First, MessageID: p.MessageID, What: fault})
	}
}

// endPartlyLogged reports the messages with rows in other logs. If only one log of a cluster was read,
// a single problem that names the flags to use replaces them all.
func (c *checker) endPartlyLogged() {
	switch v := c.verdict; {
	case c.partial:
	case len(c.paths) == 1 && c.partly.foreign > 0:
		c.problem(Problem{Log: c.paths[0],
			What: fmt.Sprintf("%d messages have rows in the logs of other buses: name the log of each bus of the "+
				"cluster (--log A --log B), or leave these messages out (--partial)", v.Elsewhere)})
	default:
		for _, p := range c.partly.problems {
			c.problem(p)
		}
		v.More += v.Elsewhere - int64(len(c.partly.problems))
		v.Elsewhere = 0
	}
}

// evaluate counts a publication as complete, cut, under way, elsewhere or a problem.
func (c *checker) evaluate(t *publicationCounts) {
	v, p := c.verdict, t.Publication
	v.Messages++
	c.publications.Forget(p)
	switch {
	case t.fault == "":
		v.Complete++
	case c.explained(p), t.lacks() && c.lostElsewhere(p):
		v.Cut++
	case !p.Finished && !p.Seen.Before(c.end.Add(-c.longest)):
		v.UnderWay++
	case !p.Started && !p.Began.After(c.begin.Add(c.longest)):
		v.Cut++ // the rows before were pruned
	case !p.Finished && p.Started:
		v.Cut++
	case t.unpaired == "" && (p.Finished && p.Started && t.peers < t.expected || !p.Started && !p.Finished):
		v.Elsewhere++
		if !c.partial {
			c.partly.add(p, c.paths[p.Log], t.fault)
		}
	default:
		c.problem(Problem{Log: c.paths[p.Log], ID: p.First, MessageID: p.MessageID, What: t.fault})
	}
}

// explained reports whether rows of the publication may have been lost in a gap: it ended before
// the gap, or began soon after it.
func (c *checker) explained(p *activitylog.Publication) bool {
	return slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		behind := p.Last < g.id && g.id-p.Last < gapReach
		within := p.Started && p.First < g.id && p.Last > g.id
		ahead := p.First > g.id && p.Began.Before(g.at.Add(c.longest))
		return g.log == p.Log && (behind || within || !p.Started && ahead)
	})
}

// A publicationCounts counts the rows of a publication.
type publicationCounts struct {
	*activitylog.Publication
	rows  map[delivered]pair
	order []delivered // of rows
	// peers of a bus that did not answer; the message's own bus wrote their process_finish rows
	givenUp  map[string]bool
	peers    int    // peers with rows, each counted once
	expected int    // number of peers in the result; -1 if it has none
	unpaired string // the delivery that lacks a start or an end, or has several
	fault    string // what is wrong with the publication; empty if it is complete
}

type delivered struct{ peer, rpcID string }

// A pair counts the process rows of a delivery or of a peer.
type pair struct{ begun, ended int }

func countPublication(p *activitylog.Publication) *publicationCounts {
	t := &publicationCounts{Publication: p, rows: map[delivered]pair{}, expected: peersOf(p.Result)}
	for _, d := range withoutMoved(p.Deliveries) {
		if !d.Begun && d.RPCID == "" && d.Status == string(protocol.OutcomeOffline) {
			if t.givenUp == nil {
				t.givenUp = map[string]bool{}
			}
			t.givenUp[d.Peer] = true
			continue
		}
		key := delivered{d.Peer, d.RPCID}
		n, known := t.rows[key]
		if !known {
			t.order = append(t.order, key)
		}
		if d.Begun {
			n.begun++
		}
		if d.Ended {
			n.ended++
		}
		t.rows[key] = n
	}
	gone := maps.Clone(t.givenUp)
	for key, n := range t.rows {
		if n.begun > 0 {
			t.peers++
			delete(gone, key.peer)
		}
	}
	t.peers += len(gone)
	t.unpaired = t.findUnpaired()
	switch {
	case !p.Started:
		t.fault = "it has no send_start row"
	case !p.Finished:
		t.fault = "it has no send_finish row"
	case t.unpaired != "":
		t.fault = t.unpaired
	case t.expected >= 0 && t.peers != t.expected:
		t.fault = fmt.Sprintf("its result counts %d peers, and %d have process rows", t.expected, t.peers)
	}
	return t
}

// withoutMoved returns the deliveries without those that ended because their peer had moved to
// another bus. The message followed the peer, so the peer has a delivery at that bus, too.
func withoutMoved(list []*activitylog.Delivery) []*activitylog.Delivery {
	ended := func(d *activitylog.Delivery) bool {
		return d.Begun && d.Ended && d.Status == string(protocol.OutcomeOffline)
	}
	if !slices.ContainsFunc(list, ended) {
		return list
	}
	left := map[string]int{}              // deliveries by peer
	buses := map[string]map[string]bool{} // by peer
	for _, d := range list {
		if left[d.Peer]++; buses[d.Peer] == nil {
			buses[d.Peer] = map[string]bool{}
		}
		buses[d.Peer][d.Bus] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(d *activitylog.Delivery) bool {
		moved := ended(d) && left[d.Peer] > 1 && len(buses[d.Peer]) > 1
		if moved {
			left[d.Peer]--
		}
		return moved
	})
}

// findUnpaired describes the first delivery without exactly one start and one end. A delivery
// that was given up may have no end, because the other bus may have continued it.
func (t *publicationCounts) findUnpaired() string {
	for _, key := range t.order {
		n := t.rows[key]
		if n != (pair{1, 1}) && (n != pair{1, 0} || !t.givenUp[key.peer]) {
			return fmt.Sprintf("%s has %d process_start and %d process_finish rows", key.peer, n.begun, n.ended)
		}
	}
	return ""
}

// lacks reports whether missing rows are the only fault of a publication: process rows if it is
// finished, and otherwise both rows of the bus that accepted it.
func (t *publicationCounts) lacks() bool {
	if !t.Started || !t.Finished {
		return !t.Started && !t.Finished && t.unpaired == ""
	}
	peers := map[string]pair{}
	for key, n := range t.rows {
		sum := pair{peers[key.peer].begun + n.begun, peers[key.peer].ended + n.ended}
		if peers[key.peer] = sum; sum.begun > 1 || sum.ended > 1 {
			return false
		}
	}
	return len(peers) <= t.expected
}

// peersOf returns the number of peers in a send result, or -1 if it has none.
func peersOf(result []byte) int {
	var r struct {
		DeliveredTo *int              `json:"deliveredTo"`
		Failures    []json.RawMessage `json:"failures"`
		Omitted     int               `json:"omitted"` // further failures, which had no room
	}
	if json.Unmarshal(result, &r) != nil || r.DeliveredTo == nil {
		return -1
	}
	return *r.DeliveredTo + len(r.Failures) + r.Omitted
}

// A tail is the state of one log after its last row read so far.
type tail struct {
	last     time.Time                  // time of its last row
	open     int                        // sessions connected and not disconnected
	pruned   bool                       // its first rows were pruned, so more sessions may be open
	doubtful []*activitylog.Publication // publications that a kill of this bus may have cut; its next row decides
}

// inUse reports whether sessions may be open. A bus that shuts down cleanly ends all
// sessions.
func (t *tail) inUse() bool { return t.open > 0 || t.pruned }

// A silence is a period without rows in a log, which ended when a peer connected. The bus may
// have been killed and restarted during the silence, because sessions were open before it, or no
// row came before it.
type silence struct {
	log      int
	from, to time.Time
}

// killReach is the tolerance in time between the last row that a killed bus wrote and the first
// one that it did not write. Rows of the same moment are written in any order, and clocks differ.
const killReach = time.Second

// leastSilence is the shortest silence that counts as a restart. A killed bus takes longer to
// start and to accept its peers again.
const leastSilence = 20 * time.Millisecond

// maxDoubtful bounds the publications that wait for the next row of one log. Further ones count
// as cut.
const maxDoubtful = 10_000

// follow records silences of the row's log, and evaluates the publications that waited for its
// next row.
func (c *checker) follow(e *activitylog.Entry, at time.Time) {
	t := &c.tails[e.Log]
	t.pruned = t.pruned || t.last.IsZero() && e.ID > 1
	switch {
	case e.Is(activitylog.PeerConnected):
		if t.last.IsZero() || t.inUse() && at.Sub(t.last) >= leastSilence {
			c.silent = append(c.silent, silence{e.Log, t.last, at})
		}
		t.open++
	case e.Is(activitylog.PeerDisconnected):
		t.open--
	}
	t.last = at
	for len(c.silent) > 0 && c.silent[0].to.Before(at.Add(-2*c.longest)) {
		c.silent = c.silent[1:]
	}
	doubtful := t.doubtful
	t.doubtful = nil
	for _, p := range doubtful {
		c.evaluateUnlessDoubtful(p)
	}
}

// evaluateUnlessDoubtful evaluates a publication, unless the next row of another log may explain
// its missing rows.
func (c *checker) evaluateUnlessDoubtful(p *activitylog.Publication) {
	t := countPublication(p)
	if t.fault != "" && !c.explained(p) && t.lacks() && !c.restartedElsewhere(p) {
		for log := range c.tails {
			if c.isSilent(log, p) && len(c.tails[log].doubtful) < maxDoubtful {
				c.tails[log].doubtful = append(c.tails[log].doubtful, p)
				return
			}
		}
	}
	c.evaluate(t)
}

// isSilent reports whether another log has no rows since the publication, as if its bus had been
// killed.
func (c *checker) isSilent(log int, p *activitylog.Publication) bool {
	t := &c.tails[log]
	return log != p.Log && (t.inUse() || t.last.IsZero()) && !t.last.After(p.Seen.Add(killReach))
}

// restartedElsewhere reports whether another bus, during the publication, may have been killed
// and restarted, or recorded a gap.
func (c *checker) restartedElsewhere(p *activitylog.Publication) bool {
	return slices.ContainsFunc(c.silent, func(s silence) bool {
		return s.log != p.Log && !s.from.After(p.Seen.Add(killReach)) && !s.to.Before(p.Began)
	}) || slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		return g.log != p.Log && !g.at.Before(p.Began) && g.at.Before(p.Seen.Add(c.longest))
	})
}

// lostElsewhere reports whether another bus of the cluster may have lost the rows that a
// publication lacks: it was killed before it wrote them, or recorded a gap.
func (c *checker) lostElsewhere(p *activitylog.Publication) bool {
	for log := range c.tails {
		if c.isSilent(log, p) {
			return true
		}
	}
	return c.restartedElsewhere(p)
}
