package cluster

import (
	"errors"
	"sync"
	"time"

	"hubbub/bus"
)

// A poll asks the other buses whether this one may deliver a message that was sent with
// once.
type poll struct {
	waits   map[string]bool // buses that have not voted
	votes   []bus.DedupReply
	expires time.Time
	done    func([]bus.DedupReply, error)
}

// polls are those that have not ended.
type polls struct {
	mu   sync.Mutex // guards open, and what the polls in it hold
	open map[uint64]*poll
}

// CheckDuplicate implements bus.Cluster. Buses that are out of reach are not asked, and those
// that fall silent are not waited for.
func (c *Cluster) CheckDuplicate(who bus.DedupKey, done func([]bus.DedupReply, error)) {
	p := &poll{waits: map[string]bool{}, expires: time.Now().Add(2 * c.options.SilentAfter), done: done}
	c.mu.Lock()
	c.nextID++
	id, stopping, unmet := c.nextID, c.gaveUp != "", c.view.unmet(age(time.Now(), c.since) < c.options.SilentAfter)
	if !c.view.apart && !unmet && !stopping {
		for _, name := range c.view.known {
			p.waits[name] = true
		}
	}
	alone := len(p.waits) == 0
	if !alone {
		c.polls.add(id, p) // before c.mu is given back: whoever gives up later finds it
	}
	c.mu.Unlock()
	switch {
	case stopping:
		done(nil, errStopping)
	case unmet:
		done(nil, errNotAsked)
	case alone:
		done(nil, nil)
	case !c.tellAll(header{Kind: kindAsk, ID: id}, encode(who)):
		c.polls.fail(id, errNotAsked)
	}
}

var (
	errStopping = errors.New("the bus is stopping; send again once it is back")
	errNotAsked = errors.New("the other buses could not be asked whether they have this message; send it again with the same messageId")
)

// ShareOutcome implements bus.Cluster. A bus that does not hear of it asks when it must know.
func (c *Cluster) ShareOutcome(who bus.DedupKey, answer []byte) {
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.mu.Unlock()
	c.tellAll(header{Kind: kindFirst, ID: id}, join(who, answer))
}

// takeAsk votes on a message that another bus was sent with once.
func (c *Cluster) takeAsk(h header, body []byte) {
	var who bus.DedupKey
	if !c.decode(h.From, "a question", body, &who) {
		return
	}
	vote := c.local.AnswerDuplicateCheck(bus.BusInstance{Bus: h.From, Instance: h.Instance}, who)
	if !c.tellBus(h.From, header{Kind: kindVote, ID: h.ID}, join(vote, vote.Answer)) {
		c.broke("the queue to NATS is full")
	}
}

// takeVote counts a vote.
func (c *Cluster) takeVote(h header, body []byte) {
	var vote bus.DedupReply
	answer, err := parse(body, &vote)
	if !c.understood(h.From, "a vote", err) {
		return
	}
	vote.From = bus.BusInstance{Bus: h.From, Instance: h.Instance}
	if len(answer) > 0 {
		vote.Answer = answer
	}
	if vote.Owner == (bus.BusInstance{Bus: c.name, Instance: c.instance}) {
		vote.Owner = bus.BusInstance{} // this bus knows better
	}
	c.polls.count(h.ID, vote)
}

// takeFirst notes the outcome of a message that another bus was sent with once.
func (c *Cluster) takeFirst(h header, body []byte) {
	var who bus.DedupKey
	answer, err := parse(body, &who)
	if c.understood(h.From, "an outcome", err) && len(answer) > 0 {
		c.local.StoreOutcome(who, answer)
	}
}

func (l *polls) add(id uint64, p *poll) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = p
}

// count adds a vote to a poll. The last one ends it, and so does one of a bus that has the
// message.
func (l *polls) count(id uint64, vote bus.DedupReply) {
	l.mu.Lock()
	p := l.open[id]
	if p == nil || !p.waits[vote.From.Bus] {
		l.mu.Unlock()
		return
	}
	delete(p.waits, vote.From.Bus)
	p.votes = append(p.votes, vote)
	over := len(p.waits) == 0 || vote.Claimed || vote.Answer != nil
	if over {
		delete(l.open, id)
	}
	l.mu.Unlock()
	if over {
		p.done(p.votes, nil)
	}
}

// skip ends the waiting for the vote of a bus that is gone.
func (l *polls) skip(name string) {
	for _, p := range l.take(func(p *poll) bool { delete(p.waits, name); return len(p.waits) == 0 }) {
		p.done(p.votes, nil)
	}
}

// fail ends one poll, failAll those for which which returns true.
func (l *polls) fail(id uint64, err error) {
	l.mu.Lock()
	p := l.open[id]
	delete(l.open, id)
	l.mu.Unlock()
	if p != nil {
		p.done(nil, err)
	}
}

func (l *polls) failAll(err error, which func(*poll) bool) {
	for _, p := range l.take(which) {
		p.done(nil, err)
	}
}

// take removes and returns the polls for which which returns true.
func (l *polls) take(which func(*poll) bool) (taken []*poll) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.open {
		if which(p) {
			taken = append(taken, p)
			delete(l.open, id)
		}
	}
	return taken
}

func every(*poll) bool { return true }
