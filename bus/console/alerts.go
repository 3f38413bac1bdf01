package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog/view"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const (
	failureMaxAge      = 10 * time.Minute // older failures are not shown
	maxAgentWait       = 30 * time.Second // how long a chat may wait for an agent
	maxEventAge        = 10 * time.Minute // how long an event may stay open
	fillWarning        = 50               // percent of a limit
	shownAlerts        = 8
	deadLetterInterval = 5 * time.Second
)

// An alert is something that an operator should look at.
type alert struct {
	Tone   string // bad or warn
	Title  string
	Detail string
	Link   string
	At     time.Time
}

// An alertFinder finds alerts in the state of the bus.
type alertFinder struct {
	Now         time.Time
	Status      *busStatus
	Peers       []peerLine
	Limited     float64 // how often limits were reached within failureMaxAge
	DeadLetters int     // number of dead letters
	alerts      []alert
}

// add adds an alert. Its tone is bad or warn.
func (o *alertFinder) add(tone, what, more, link string, at time.Time) {
	o.alerts = append(o.alerts, alert{tone, what, more, link, at})
}

// find returns the alerts, the most severe first. The caller must hold f.mu.
func (o *alertFinder) find(f *readModel) []alert {
	o.checkBus()
	o.checkFailures(f)
	for _, l := range o.Peers {
		if l.WindowPct >= fillWarning || l.QueuePct >= fillWarning || l.Queued > 0 {
			more := fmt.Sprintf("%d of %d unanswered, %d of %d queued", l.Unanswered, l.WindowMax, l.Queued, l.QueueMax)
			o.add("warn", text.Clip(nameOf(&f.titles, l.ID), 60)+" does not keep up", more, link("peer", "id", l.ID),
				l.Last)
		}
	}
	for id, c := range f.chats.all() {
		name := text.Clip(cmp.Or(c.Title, id), 60)
		switch {
		case c.Problem != "":
			o.add("bad", name+" has no agent", c.Problem, link("chat", "id", id), c.Last)
		case c.State == "asked for an agent" && o.Now.Sub(c.Last) > maxAgentWait:
			o.add("warn", name+" waits for an agent", "asked "+ago(o.Now, c.Last), link("chat", "id", id), c.Last)
		}
	}
	o.checkAgents(f)
	o.checkDecisions(f)
	slices.SortStableFunc(o.alerts, func(a, b alert) int {
		return cmp.Or(cmp.Compare(a.Tone, b.Tone), b.At.Compare(a.At)) // bad, then warn
	})
	return o.alerts
}

// checkBus adds alerts about the bus itself.
func (o *alertFinder) checkBus() {
	if s := o.Status.Log; s != nil {
		if s.Failing || s.Stalled {
			o.add("bad", "The activity log is not being written", s.LastError, link("health"), o.Now)
		}
		if s.Lost > 0 {
			title := view.Count(s.Lost) + " rows of the activity log were lost since the start"
			o.add("bad", title, fmt.Sprintf("in %d gaps", s.Gaps), link("health"), time.Time{})
		}
	}
	if o.Status.Partial {
		what := cmp.Or(strings.Join(o.Status.Missing, ", "), "the other buses, or NATS,")
		detail := "results of messages cover only a part of the cluster"
		o.add("bad", "Out of reach: "+text.Clip(what, 60), detail, link("health"), o.Now)
	}
	if o.DeadLetters > 0 {
		what := view.Plural(o.DeadLetters, "dead letter waits", "dead letters wait") + " for a person"
		o.add("bad", what, "retry or drop", link("work")+"#dead", time.Time{})
	}
	if o.Limited >= 1 {
		title := "Limits were reached " + view.Plural(int(o.Limited), "time", "times")
		o.add("warn", title, "in the last 10 minutes", link("health"), time.Time{})
	}
}

// checkFailures adds an alert for each peer and status of the recent failures.
func (o *alertFinder) checkFailures(f *readModel) {
	type group struct{ who, status string }
	counts := map[group]int{}
	var last []StateFailure // of each group
	for _, x := range slices.Backward(f.failures) {
		if o.Now.Sub(x.At) >= failureMaxAge {
			break
		}
		g := group{cmp.Or(x.Peer, x.From, x.Topic), x.Status}
		if counts[g]++; counts[g] == 1 {
			last = append(last, x)
		}
	}
	for _, x := range last {
		who := cmp.Or(x.Peer, x.From, x.Topic)
		n := counts[group{who, x.Status}]
		what := view.Plural(n, "delivery", "deliveries") + " failed at "
		if x.Peer == "" {
			what = view.Plural(n, "message", "messages") + " refused from "
		}
		title := wordsFor(x.Status) + ": " + what + text.Clip(nameOf(&f.titles, who), 60)
		o.add("bad", title, x.Error, link("peer", "id", who), x.At)
	}
}

// checkAgents adds alerts about agents with open events that are disconnected or stuck, and about
// agents out of budget.
func (o *alertFinder) checkAgents(f *readModel) {
	connected := make(map[string]bool, len(o.Peers))
	for _, l := range o.Peers {
		connected[l.ID] = l.Connected
	}
	for id, a := range f.agents.all() {
		name := text.Clip(nameOf(&f.titles, id), 60)
		if until := a.BudgetUntil(o.Now); !until.IsZero() {
			budget := &a.BudgetRecord
			detail := fmt.Sprintf("%s (%d); it resumes %s, or after a reset",
				view.DescribeReason(budget.Reason), budget.Bound, relativeTime(o.Now, budget.Until))
			o.add("warn", name+" has used up a budget", detail, link("agent", "id", id), a.BudgetAt)
		}
		open, oldest := 0, o.Now
		for _, e := range a.Events {
			if e.Open() && e.End.Disposition != "deferred" {
				open++
				if e.DecidedAt.Before(oldest) {
					oldest = e.DecidedAt
				}
			}
		}
		more := view.Plural(open, "open event", "open events") + ", the oldest " + ago(o.Now, oldest)
		switch {
		case open == 0:
		case !connected[id]:
			o.add("bad", name+" is not connected", more, link("agent", "id", id), a.Last)
		case o.Now.Sub(oldest) > maxEventAge:
			o.add("warn", name+" is stuck", more, link("agent", "id", id), a.Last)
		}
	}
}

// checkDecisions adds an alert if decisions are pending.
func (o *alertFinder) checkDecisions(f *readModel) {
	n, since := 0, o.Now
	for _, d := range f.broker.decisions.all() {
		if now := d.Expire(o.Now); now.State == collab.ApprovalPending {
			n++
			if at := collab.ParseTime(d.CreatedAt); at.Before(since) {
				since = at
			}
		}
	}
	if n > 0 {
		title := view.Plural(n, "decision waits", "decisions wait") + " for a person"
		o.add("warn", title, "allow or deny", link("decisions"), since)
	}
}

// A deadLetterCount is the number of dead letters. It is counted at intervals.
type deadLetterCount struct {
	mu sync.Mutex // guards the fields below
	at time.Time
	n  int
	ok bool // counting succeeded
}

// deadLetters returns the number of dead letters, at most a few seconds old. It returns false if
// this program cannot read the bridge's queues.
func (c *Console) deadLetters(ctx context.Context) (n int, ok bool) {
	if c.dead == nil {
		return 0, false
	}
	d := &c.deadCount
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := c.now(); now.Sub(d.at) >= deadLetterInterval {
		d.at = now
		list, err := c.dead.List(ctx, listedDeadLetters)
		d.n, d.ok = len(list), err == nil // the page of dead letters shows the error
	}
	return d.n, d.ok
}

// limited returns how often limits were reached since a given time.
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
