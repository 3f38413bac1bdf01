package cluster

import (
	"errors"
	"sync"
	"time"

	"hubbub/bus"
)

// A duplicateCheck asks the other buses whether this bus may deliver a message that was sent
// with once.
type duplicateCheck struct {
	waitingFor map[string]bool // buses that have not replied
	replies    []bus.DedupReply
	expires    time.Time
	done       func([]bus.DedupReply, error)
}

// duplicateChecks are the checks that wait for replies.
type duplicateChecks struct {
	mu   sync.Mutex // guards open, and the checks in it
	open map[uint64]*duplicateCheck
}

// CheckDuplicate implements bus.Cluster. It does not ask buses that are out of reach, and stops
// waiting for buses that become silent.
func (c *Cluster) CheckDuplicate(key bus.DedupKey, done func([]bus.DedupReply, error)) {
	check := &duplicateCheck{
		waitingFor: map[string]bool{},
		expires:    time.Now().Add(2 * c.options.SilentAfter),
		done:       done,
	}
	s := &c.state
	s.mu.Lock()
	s.nextID++
	id, stopping := s.nextID, s.failReason != ""
	unmet := s.view.hasUnmet(age(time.Now(), s.since) < c.options.SilentAfter)
	if !s.view.isolated && !unmet && !stopping {
		for _, name := range s.view.reachable {
			check.waitingFor[name] = true
		}
	}
	alone := len(check.waitingFor) == 0
	if !alone {
		c.checks.add(id, check) // while mu is held, so that a later failAll finds the check
	}
	s.mu.Unlock()
	switch {
	case stopping:
		done(nil, errStopping)
	case unmet:
		done(nil, errNotChecked)
	case alone:
		done(nil, nil)
	case !c.queue.broadcast(header{Kind: kindAsk, ID: id}, encode(key)):
		c.checks.fail(id, errNotChecked)
	}
}

var (
	errStopping   = errors.New("the bus is stopping; send again once it is back")
	errNotChecked = errors.New("this bus could not ask the other buses whether they have this message; " +
		"send it again with the same messageId")
)

// ShareOutcome implements bus.Cluster. A bus that misses the outcome asks for it when needed.
func (c *Cluster) ShareOutcome(key bus.DedupKey, answer []byte) {
	c.state.mu.Lock()
	c.state.nextID++
	id := c.state.nextID
	c.state.mu.Unlock()
	c.queue.broadcast(header{Kind: kindShared, ID: id}, join(key, answer))
}

// handleAsk replies to a bus that has received a message with once.
func (c *Cluster) handleAsk(h header, body []byte) {
	var key bus.DedupKey
	if !c.decode(h.From, "a question", body, &key) {
		return
	}
	reply := c.local.AnswerDuplicateCheck(bus.BusInstance{Bus: h.From, Instance: h.Instance}, key)
	if !c.queue.sendTo(h.From, header{Kind: kindReply, ID: h.ID}, join(reply, reply.Answer)) {
		c.requestEpoch("the queue to NATS is full")
	}
}

// handleReply adds a reply to its check.
func (c *Cluster) handleReply(h header, body []byte) {
	var reply bus.DedupReply
	answer, err := parse(body, &reply)
	if !c.readable(h.From, "a reply", err) {
		return
	}
	reply.From = bus.BusInstance{Bus: h.From, Instance: h.Instance}
	if len(answer) > 0 {
		reply.Answer = answer
	}
	if reply.Owner == (bus.BusInstance{Bus: c.name, Instance: c.instance}) {
		reply.Owner = bus.BusInstance{} // this bus knows better
	}
	c.checks.addReply(h.ID, reply)
}

// handleSharedOutcome stores the outcome of a message with once at another bus.
func (c *Cluster) handleSharedOutcome(h header, body []byte) {
	var key bus.DedupKey
	answer, err := parse(body, &key)
	if c.readable(h.From, "an outcome", err) && len(answer) > 0 {
		c.local.StoreOutcome(key, answer)
	}
}

func (l *duplicateChecks) add(id uint64, check *duplicateCheck) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = check
}

// addReply adds a reply to a check. The last reply ends the check, as does a reply from a bus
// that has the message.
func (l *duplicateChecks) addReply(id uint64, reply bus.DedupReply) {
	l.mu.Lock()
	check := l.open[id]
	if check == nil || !check.waitingFor[reply.From.Bus] {
		l.mu.Unlock()
		return
	}
	delete(check.waitingFor, reply.From.Bus)
	check.replies = append(check.replies, reply)
	ended := len(check.waitingFor) == 0 || reply.Claimed || reply.Answer != nil
	if ended {
		delete(l.open, id)
	}
	l.mu.Unlock()
	if ended {
		check.done(check.replies, nil)
	}
}

// skipBus stops waiting for the replies of a bus.
func (l *duplicateChecks) skipBus(name string) {
	ended := l.take(func(check *duplicateCheck) bool {
		delete(check.waitingFor, name)
		return len(check.waitingFor) == 0
	})
	for _, check := range ended {
		check.done(check.replies, nil)
	}
}

// fail fails one check.
func (l *duplicateChecks) fail(id uint64, err error) {
	l.mu.Lock()
	check := l.open[id]
	delete(l.open, id)
	l.mu.Unlock()
	if check != nil {
		check.done(nil, err)
	}
}

// failAll fails the checks for which match returns true.
func (l *duplicateChecks) failAll(err error, match func(*duplicateCheck) bool) {
	for _, check := range l.take(match) {
		check.done(nil, err)
	}
}

// take removes and returns the checks for which match returns true.
func (l *duplicateChecks) take(match func(*duplicateCheck) bool) (taken []*duplicateCheck) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, check := range l.open {
		if match(check) {
			taken = append(taken, check)
			delete(l.open, id)
		}
	}
	return taken
}

func always(*duplicateCheck) bool { return true }
