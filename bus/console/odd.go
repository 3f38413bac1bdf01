package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

const (
	oddSpan    = 10 * time.Minute // older failures are not shown
	oddPatient = 30 * time.Second // how long a chat may wait for an agent
	oddStuck   = 10 * time.Minute // how long an event may stay open
	oddFill    = 50               // percent of a bound
	oddLines   = 8
	deadEvery  = 5 * time.Second
)

// An oddity is something that somebody should look at.
type oddity struct {
	Tone string // bad or warn
	What string
	More string
	Link string
	At   time.Time
}

// An oddInput is what oddities are found in.
type oddInput struct {
	Now     time.Time
	Pulse   *pulse
	Peers   []peerLine
	Limited float64 // bounds reached within oddSpan
	Dead    int     // letters
}

// odd finds what somebody should look at, the worst first. The caller holds f.mu.
func (f *facts) odd(in *oddInput) []oddity {
	list := oddBus(in)
	list = append(list, f.oddFailures(in.Now)...)
	list = append(list, oddQueues(in.Peers)...)
	list = append(list, f.oddChats(in.Now)...)
	list = append(list, f.oddAgents(in)...)
	slices.SortStableFunc(list, func(a, b oddity) int {
		return cmp.Or(cmp.Compare(a.Tone, b.Tone), b.At.Compare(a.At)) // bad, then warn
	})
	return list
}

// oddBus finds what is odd about the bus itself.
func oddBus(in *oddInput) (list []oddity) {
	if s := in.Pulse.Log; s != nil {
		if s.Failing || s.Stalled {
			list = append(list, oddity{Tone: "bad", What: "The activity log is not being written", More: s.LastError, Link: link("health"), At: in.Now})
		}
		if s.Lost > 0 {
			list = append(list, oddity{Tone: "bad", What: view.Count(s.Lost) + " rows of the activity log were lost since the start", More: fmt.Sprintf("in %d gaps", s.Gaps), Link: link("health")})
		}
	}
	if in.Dead > 0 {
		list = append(list, oddity{Tone: "bad", What: view.Plural(in.Dead, "dead letter waits", "dead letters wait") + " for a person", More: "retry or drop", Link: link("work") + "#dead"})
	}
	if in.Limited >= 1 {
		list = append(list, oddity{Tone: "warn", What: "Bounds were reached " + view.Plural(int(in.Limited), "time", "times"), More: "in the last 10 minutes", Link: link("health")})
	}
	return list
}

// oddFailures groups the recent failures by peer and status.
func (f *facts) oddFailures(now time.Time) []oddity {
	type group struct{ who, status string }
	counts := map[group]int{}
	var order []group
	last := map[group]*StateFailure{}
	for i := len(f.failures) - 1; i >= 0 && now.Sub(f.failures[i].At) < oddSpan; i-- {
		x := &f.failures[i]
		g := group{cmp.Or(x.Peer, x.From, x.Topic), x.Status}
		if counts[g]++; counts[g] == 1 {
			order = append(order, g)
			last[g] = x
		}
	}
	list := make([]oddity, 0, len(order))
	for _, g := range order {
		x := last[g]
		what := view.Plural(counts[g], "delivery", "deliveries") + " failed at "
		if x.Peer == "" {
			what = view.Plural(counts[g], "message", "messages") + " refused from "
		}
		list = append(list, oddity{Tone: "bad", What: g.status + ": " + what + text.Clip(g.who, 60), More: x.Error, Link: link("peer", "id", g.who), At: x.At})
	}
	return list
}

// oddQueues finds the peers that do not keep up.
func oddQueues(peers []peerLine) (list []oddity) {
	for _, l := range peers {
		if l.WindowPct >= oddFill || l.QueuePct >= oddFill || l.Queued > 0 {
			list = append(list, oddity{
				Tone: "warn", What: text.Clip(l.ID, 60) + " does not keep up", Link: link("peer", "id", l.ID), At: l.Last,
				More: fmt.Sprintf("%d of %d unanswered, %d of %d queued", l.Unanswered, l.WindowMax, l.Queued, l.QueueMax),
			})
		}
	}
	return list
}

// oddChats finds the chats that nobody answers.
func (f *facts) oddChats(now time.Time) (list []oddity) {
	for id, c := range f.chats.all() {
		name := text.Clip(cmp.Or(c.Title, id), 60)
		switch {
		case c.Problem != "":
			list = append(list, oddity{Tone: "bad", What: name + " has no agent", More: c.Problem, Link: link("chat", "id", id), At: c.Last})
		case c.State == "asked for an agent" && now.Sub(c.Last) > oddPatient:
			list = append(list, oddity{Tone: "warn", What: name + " waits for an agent", More: "asked " + ago(now, c.Last), Link: link("chat", "id", id), At: c.Last})
		}
	}
	return list
}

// oddAgents finds agents with open events that are away or stuck.
func (f *facts) oddAgents(in *oddInput) (list []oddity) {
	connected := make(map[string]bool, len(in.Peers))
	for _, l := range in.Peers {
		connected[l.ID] = l.Connected
	}
	for id, a := range f.agents.all() {
		open, oldest := 0, in.Now
		for _, e := range a.Events {
			if e.Open() && e.End.Disposition != "deferred" {
				open++
				if e.Decision.At.Before(oldest) {
					oldest = e.Decision.At
				}
			}
		}
		more := view.Plural(open, "open event", "open events") + ", the oldest " + ago(in.Now, oldest)
		switch {
		case open == 0:
		case !connected[id]:
			list = append(list, oddity{Tone: "bad", What: text.Clip(id, 60) + " is away", More: more, Link: link("agent", "id", id), At: a.Last})
		case in.Now.Sub(oldest) > oddStuck:
			list = append(list, oddity{Tone: "warn", What: text.Clip(id, 60) + " gets nothing done", More: more, Link: link("agent", "id", id), At: a.Last})
		}
	}
	return list
}

// A deadCount is the number of dead letters, counted now and then.
type deadCount struct {
	mu sync.Mutex // guards the fields below
	at time.Time
	n  int
	ok bool // they could be counted
}

// deadLetters returns the number of dead letters, at most some seconds old; not ok if
// the bridge's queues cannot be read from here.
func (c *Console) deadLetters(ctx context.Context) (n int, ok bool) {
	if c.dead == nil {
		return 0, false
	}
	d := &c.deadCount
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := c.now(); now.Sub(d.at) >= deadEvery {
		d.at = now
		list, err := c.dead.List(ctx, listedDead)
		d.n, d.ok = len(list), err == nil // the page of dead letters says why not
	}
	return d.n, d.ok
}

// limited counts how often bounds were reached since a time.
func (s *series) limited(since time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return 0
	}
	last, first := s.list[len(s.list)-1], s.list[0]
	for i := len(s.list) - 1; i >= 0 && !s.list[i].at.Before(since); i-- {
		first = s.list[i]
	}
	n := 0.0
	for name, v := range last.Limits {
		if before := first.Limits[name]; v > before {
			n += float64(v - before)
		}
	}
	return n
}
