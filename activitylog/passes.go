package activitylog

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hubbub/protocol"
)

// A passKey tells apart the passes that are under way.
type passKey struct{ messageID, bus, rpcID string }

// A passTally counts the rows of one pass of a message.
type passTally struct {
	key      passKey
	log      int
	id       int64 // of its first row
	lastID   int64 // of its last row
	start    bool
	began    time.Time
	seen     time.Time // of its last row
	begun    map[delivered]int
	ended    map[delivered]int
	givenUp  map[string]bool // peers of a bus that did not answer: the message's own bus wrote their end
	finished bool
	expected int // peers that the result counts
}

type delivered struct{ peer, rpcID string }

// A gapPlace is where a log_gap row stands.
type gapPlace struct {
	log int
	id  int64
	at  time.Time
}

// gapReach is how many rows may lie between the last row of a message and the
// gap that took its others: what the writer's queue may have held.
const gapReach = 200_000

// A checker follows the rows of all messages.
type checker struct {
	verdict *Verdict
	paths   []string
	longest time.Duration
	partial bool
	open    map[passKey]*passTally
	recent  map[string][]*passTally // by messageId: those not yet judged
	done    []*passTally            // finished, and not yet judged: other logs may have rows of them
	gaps    []gapPlace
	tails   []tail // of each log
	silent  []silence
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
	case e.Is(SendStart), e.Is(ProcessStart), e.Is(ProcessFinish), e.Is(SendFinish):
		c.count(e, at)
	}
	c.follow(e, at)
	c.judge(at.Add(-c.longest))
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

func (c *checker) count(e *Entry, at time.Time) {
	key := passKey{e.MessageID, e.Bus, e.RPCID}
	var p *passTally
	switch {
	case e.Is(SendStart):
		p = c.started(key, e, at)
	case e.Is(SendFinish):
		if p = c.open[key]; p == nil {
			p = c.startless(key, e, at)
		}
		p.finished, p.expected = true, peersOf(e.Payload)
		c.close(p)
	case e.Is(ProcessStart):
		p = c.passOf(key, e, at, func(*passTally) bool { return true })
		p.begun[delivered{e.Actor, e.RPCID}]++
	default:
		d := delivered{e.Actor, e.RPCID}
		p = c.passOf(key, e, at, func(p *passTally) bool { return p.begun[d] > p.ended[d] })
		if e.RPCID == "" && e.Status == string(protocol.OutcomeOffline) && p.begun[d] <= p.ended[d] {
			if p.givenUp == nil {
				p.givenUp = map[string]bool{}
			}
			p.givenUp[e.Actor] = true
			break
		}
		p.ended[d]++
	}
	p.seen, p.lastID = at, max(p.lastID, e.ID)
}

// started takes a send_start row: of a new pass, or of one whose process rows
// another bus has dated earlier.
func (c *checker) started(key passKey, e *Entry, at time.Time) *passTally {
	if p := c.open[key]; p != nil {
		c.close(p) // sent again before it was finished: the bus was killed between
	}
	p := c.startless(key, e, at)
	p.key, p.start, p.id, p.log = key, true, e.ID, e.Log
	c.open[key] = p
	return p
}

// startless returns the pass of the row's message that has only process rows so
// far, else a new one.
func (c *checker) startless(key passKey, e *Entry, at time.Time) *passTally {
	for _, p := range c.recent[key.messageID] {
		if !p.start && !p.finished {
			delete(c.open, p.key)
			return p
		}
	}
	return c.begin(key, e, at)
}

// passOf returns the latest pass of the row's message that fits, else a new one.
func (c *checker) passOf(key passKey, e *Entry, at time.Time, fits func(*passTally) bool) *passTally {
	recent := c.recent[key.messageID]
	for i := len(recent) - 1; i >= 0; i-- {
		if fits(recent[i]) {
			return recent[i]
		}
	}
	if len(recent) > 0 {
		return recent[len(recent)-1]
	}
	return c.begin(key, e, at)
}

func (c *checker) begin(key passKey, e *Entry, at time.Time) *passTally {
	p := &passTally{key: key, log: e.Log, id: e.ID, began: at, begun: map[delivered]int{}, ended: map[delivered]int{}}
	c.open[key] = p
	c.recent[key.messageID] = append(c.recent[key.messageID], p)
	return p
}

// close takes a pass to which no more rows of its own bus will come.
func (c *checker) close(p *passTally) {
	delete(c.open, p.key)
	c.done = append(c.done, p)
}

// peersOf counts the peers that a send result speaks of; -1 when it says nothing.
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

// judge judges the finished passes of which no row can be missing any more.
func (c *checker) judge(before time.Time) {
	n := 0
	for ; n < len(c.done) && c.done[n].seen.Before(before); n++ {
		c.weighUnlessDoubtful(c.done[n])
	}
	c.done = slices.Delete(c.done, 0, n)
}

// end judges what is left.
func (c *checker) end() {
	for _, p := range c.done {
		c.weigh(p)
	}
	for _, p := range c.open {
		c.weigh(p)
	}
	for _, t := range c.tails {
		for _, p := range t.doubtful {
			c.weigh(p)
		}
	}
}

// weigh says whether a pass is complete, cut, or broken.
func (c *checker) weigh(p *passTally) {
	v := c.verdict
	v.Messages++
	c.forget(p)
	what := p.fault()
	switch {
	case what == "":
		v.Complete++
	case c.explained(p), c.lostElsewhere(p):
		v.Cut++
	case !p.finished && !p.seen.Before(v.Last.Add(-c.longest)):
		v.UnderWay++
	case !p.start && !p.began.After(v.First.Add(c.longest)):
		v.Cut++ // what came before was pruned
	case !p.finished && p.start:
		v.Cut++
	case c.partial && (p.finished && p.start && p.fewer() || !p.start && !p.finished && p.unpaired() == ""):
		v.Elsewhere++
	default:
		c.problem(Problem{Log: c.paths[p.log], ID: p.id, MessageID: p.key.messageID, What: what})
	}
}

func (c *checker) forget(p *passTally) {
	id := p.key.messageID
	rest := slices.DeleteFunc(c.recent[id], func(other *passTally) bool { return other == p })
	if c.recent[id] = rest; len(rest) == 0 {
		delete(c.recent, id)
	}
}

// explained reports whether rows of the pass may have been lost in a gap: it
// ended before the gap, or began soon after it.
func (c *checker) explained(p *passTally) bool {
	return slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		behind := p.lastID < g.id && g.id-p.lastID < gapReach
		within := p.start && p.id < g.id && p.lastID > g.id
		ahead := p.id > g.id && p.began.Before(g.at.Add(c.longest))
		return g.log == p.log && (behind || within || !p.start && ahead)
	})
}

func (p *passTally) fewer() bool { return p.peers() < p.expected && p.unpaired() == "" }

// peers counts those that have rows, once each.
func (p *passTally) peers() int {
	n := len(p.begun)
	for peer := range p.givenUp {
		if !p.hasBegun(peer) {
			n++
		}
	}
	return n
}

func (p *passTally) hasBegun(peer string) bool {
	for d := range p.begun {
		if d.peer == peer {
			return true
		}
	}
	return false
}

// fault says what is wrong with a pass; empty when it is complete.
func (p *passTally) fault() string {
	switch {
	case !p.start:
		return "it has no send_start row"
	case !p.finished:
		return "it has no send_finish row"
	}
	if what := p.unpaired(); what != "" {
		return what
	}
	if n := p.peers(); p.expected >= 0 && n != p.expected {
		return fmt.Sprintf("its result counts %d peers, and %d have process rows", p.expected, n)
	}
	return ""
}

// unpaired says which delivery does not have one start and one end. One that was
// given up may have gone on at the other bus, or not, or have ended with it.
func (p *passTally) unpaired() string {
	for d, n := range p.begun {
		if ends := p.ended[d]; n != 1 || ends != 1 && !(ends == 0 && p.givenUp[d.peer]) {
			return fmt.Sprintf("%s has %d process_start and %d process_finish rows", d.peer, n, ends)
		}
	}
	for d, n := range p.ended {
		if p.begun[d] == 0 {
			return fmt.Sprintf("%s has 0 process_start and %d process_finish rows", d.peer, n)
		}
	}
	return ""
}
