package activitylog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"hubbub/protocol"
)

// A gapPlace is where a log_gap row stands.
type gapPlace struct {
	log int
	id  int64
	at  time.Time
}

// gapReach is how many rows may lie between the last row of a message and the
// gap that lost its other rows: the size of the writer's queue.
const gapReach = 200_000

// A checker follows the rows of all messages.
type checker struct {
	verdict *Verdict
	paths   []string
	longest time.Duration
	partial bool
	passes  Assembler
	done    []*Publication // finished, and not yet judged: other logs may have rows of them
	gaps    []gapPlace
	tails   []tail // of each log
	silent  []silence
	lone    lone
}

func (c *checker) problem(p Problem) {
	if len(c.verdict.Problems) >= maxProblems {
		c.verdict.More++
		return
	}
	c.verdict.Problems = append(c.verdict.Problems, p)
}

func (c *checker) add(e *Entry) {
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
	switch {
	case e.Is(LogGap):
		c.gap(e, at)
	case e.Is(SendFinish):
		p, _ := c.passes.Add(e)
		c.done = append(c.done, p)
	default:
		e.Payload = nil // it need not be kept
		c.passes.Add(e)
	}
	c.follow(e, at)
	c.evaluateBefore(at.Add(-c.longest))
}

func (c *checker) gap(e *Entry, at time.Time) {
	g := Gap{At: at, Bus: e.Bus}
	if json.Unmarshal(e.Payload, &g) != nil || g.Lost <= 0 {
		c.problem(Problem{Log: c.paths[e.Log], ID: e.ID, What: "a log_gap row does not say how many rows were lost"})
	}
	g.At = at
	c.verdict.Gaps = append(c.verdict.Gaps, g)
	c.gaps = append(c.gaps, gapPlace{e.Log, e.ID, at})
}

// evaluateBefore judges the finished passes of which no row can be missing any more.
func (c *checker) evaluateBefore(before time.Time) {
	n := 0
	for ; n < len(c.done) && c.done[n].seen.Before(before); n++ {
		c.evaluateUnlessDoubtful(c.done[n])
	}
	c.done = slices.Delete(c.done, 0, n)
}

// end judges what is left.
func (c *checker) end() {
	rest := c.done
	for _, t := range c.tails {
		rest = append(rest, t.doubtful...)
	}
	for _, p := range rest {
		c.evaluate(countPublication(p))
	}
	for _, p := range slices.Concat(slices.Collect(maps.Values(c.passes.publications))...) {
		c.evaluate(countPublication(p)) // never finished
	}
	c.endLone()
}

// lone are the messages that lack rows as if another bus of a cluster had written them.
type lone struct {
	foreign  int // of those, the ones that another bus must have accepted
	problems []Problem
}

func (l *lone) add(p *Publication, path, fault string) {
	if !p.started {
		l.foreign++
	}
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, Problem{Log: path, ID: p.First, MessageID: p.messageID, What: fault})
	}
}

// endLone says of a log of a cluster that is read alone what it needs, instead of each
// message.
func (c *checker) endLone() {
	switch v := c.verdict; {
	case c.partial:
	case len(c.paths) == 1 && c.lone.foreign > 0:
		c.problem(Problem{Log: c.paths[0],
			What: fmt.Sprintf("%d messages have rows in the logs of other buses: name the log of each bus of the "+
				"cluster (--log A --log B), or leave these messages out (--partial)", v.Elsewhere)})
	default:
		for _, p := range c.lone.problems {
			c.problem(p)
		}
		v.More += v.Elsewhere - int64(len(c.lone.problems))
		v.Elsewhere = 0
	}
}

// evaluate counts a pass as complete, cut or broken.
func (c *checker) evaluate(t *publicationCounts) {
	v, p := c.verdict, t.Publication
	v.Messages++
	c.passes.Forget(p)
	switch {
	case t.fault == "":
		v.Complete++
	case c.explained(p), t.lacks() && c.lostElsewhere(p):
		v.Cut++
	case !p.finished && !p.seen.Before(v.Last.Add(-c.longest)):
		v.UnderWay++
	case !p.started && !p.began.After(v.First.Add(c.longest)):
		v.Cut++ // what came before was pruned
	case !p.finished && p.started:
		v.Cut++
	case t.unpaired == "" && (p.finished && p.started && t.peers < t.expected || !p.started && !p.finished):
		v.Elsewhere++
		if !c.partial {
			c.lone.add(p, c.paths[p.log], t.fault)
		}
	default:
		c.problem(Problem{Log: c.paths[p.log], ID: p.First, MessageID: p.messageID, What: t.fault})
	}
}

// explained reports whether rows of the pass may have been lost in a gap: it
// ended before the gap, or began soon after it.
func (c *checker) explained(p *Publication) bool {
	return slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		behind := p.Last < g.id && g.id-p.Last < gapReach
		within := p.started && p.First < g.id && p.Last > g.id
		ahead := p.First > g.id && p.began.Before(g.at.Add(c.longest))
		return g.log == p.log && (behind || within || !p.started && ahead)
	})
}

// A publicationCounts counts the rows of a pass.
type publicationCounts struct {
	*Publication
	rows     map[delivered]pair
	order    []delivered     // of rows
	givenUp  map[string]bool // peers of a bus that did not answer; the message's own bus wrote their process_finish row
	peers    int             // that have rows, once each
	expected int             // peers that the result counts; -1 if it does not say
	unpaired string          // which delivery does not have one start and one end
	fault    string          // what is wrong with the pass; empty if it is complete
}

type delivered struct{ peer, rpcID string }

// A pair counts the process rows of a delivery or of a peer.
type pair struct{ begun, ended int }

func countPublication(p *Publication) *publicationCounts {
	t := &publicationCounts{Publication: p, rows: map[delivered]pair{}, expected: peersOf(p.Result)}
	for _, d := range p.Deliveries {
		if !d.begun && d.RPCID == "" && d.Status == string(protocol.OutcomeOffline) {
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
		if d.begun {
			n.begun++
		}
		if d.ended {
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
	case !p.started:
		t.fault = "it has no send_start row"
	case !p.finished:
		t.fault = "it has no send_finish row"
	case t.unpaired != "":
		t.fault = t.unpaired
	case t.expected >= 0 && t.peers != t.expected:
		t.fault = fmt.Sprintf("its result counts %d peers, and %d have process rows", t.expected, t.peers)
	}
	return t
}

// findUnpaired names a delivery without one start and one end. A delivery
// that was given up may or may not have gone on at the other bus.
func (t *publicationCounts) findUnpaired() string {
	for _, key := range t.order {
		n := t.rows[key]
		if n != (pair{1, 1}) && (n != pair{1, 0} || !t.givenUp[key.peer]) {
			return fmt.Sprintf("%s has %d process_start and %d process_finish rows", key.peer, n.begun, n.ended)
		}
	}
	return ""
}

// lacks reports whether missing rows are all that is wrong with a pass: process
// rows, if it is finished, or else the two rows of the bus that accepted it.
func (t *publicationCounts) lacks() bool {
	if !t.started || !t.finished {
		return !t.started && !t.finished && t.unpaired == ""
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

// peersOf counts the peers that a send result speaks of; -1 if it says nothing.
func peersOf(result []byte) int {
	var r struct {
		DeliveredTo *int              `json:"deliveredTo"`
		Failures    []json.RawMessage `json:"failures"`
	}
	if json.Unmarshal(result, &r) != nil || r.DeliveredTo == nil {
		return -1
	}
	return *r.DeliveredTo + len(r.Failures)
}

// A tail is the end of one log, as far as it was read.
type tail struct {
	last     time.Time      // of its last row
	open     int            // sessions that were connected and not disconnected
	pruned   bool           // its first rows are gone: more sessions may be open
	doubtful []*Publication // its next row tells whether they were cut by a kill of this bus
}

// inUse reports whether sessions may be open: a bus that was stopped has ended them.
func (t *tail) inUse() bool { return t.open > 0 || t.pruned }

// A silence is a time in which a log has no rows, and after which a peer connects
// though sessions were open before, or there was no row before: the bus may have
// been killed then, and started again.
type silence struct {
	log      int
	from, to time.Time
}

// killReach is how far the last row that a killed bus has written may lie behind
// the first that it has not, or before it: rows of one moment are written in no
// particular order, and clocks differ.
const killReach = time.Second

// leastSilence is the shortest gap that counts as a restart: no bus is back, with its
// peers, sooner after a kill.
const leastSilence = 20 * time.Millisecond

// maxDoubtful bounds the passes that wait for the next row of one log. Further
// passes count as cut.
const maxDoubtful = 10_000

// follow records where a log falls silent, and judges the passes that waited for its
// next row.
func (c *checker) follow(e *Entry, at time.Time) {
	t := &c.tails[e.Log]
	t.pruned = t.pruned || t.last.IsZero() && e.ID > 1
	switch {
	case e.Is(PeerConnected):
		if t.last.IsZero() || t.inUse() && at.Sub(t.last) >= leastSilence {
			c.silent = append(c.silent, silence{e.Log, t.last, at})
		}
		t.open++
	case e.Is(PeerDisconnected):
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

// evaluateUnlessDoubtful weighs a pass, unless the next row of another log can decide
// the case.
func (c *checker) evaluateUnlessDoubtful(p *Publication) {
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

// isSilent reports whether another log has no rows since the pass, as if
// its bus had been killed.
func (c *checker) isSilent(log int, p *Publication) bool {
	t := &c.tails[log]
	return log != p.log && (t.inUse() || t.last.IsZero()) && !t.last.After(p.seen.Add(killReach))
}

// restartedElsewhere reports whether another bus may have been killed, and was
// started again, while the pass was under way, or has counted lost rows in a gap.
func (c *checker) restartedElsewhere(p *Publication) bool {
	return slices.ContainsFunc(c.silent, func(s silence) bool {
		return s.log != p.log && !s.from.After(p.seen.Add(killReach)) && !s.to.Before(p.began)
	}) || slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		return g.log != p.log && !g.at.Before(p.began) && g.at.Before(p.seen.Add(c.longest))
	})
}

// lostElsewhere reports whether the rows that a pass lacks may have been lost by
// another bus of the cluster: it was killed before it wrote them, or has
// counted them in a gap.
func (c *checker) lostElsewhere(p *Publication) bool {
	for log := range c.tails {
		if c.isSilent(log, p) {
			return true
		}
	}
	return c.restartedElsewhere(p)
}
