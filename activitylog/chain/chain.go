package chain

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"
	"hubbub/protocol/defaults"
)

// A Step is one message of a chain.
type Step struct {
	*read.Message
	Depth  int    // number of causes between it and the first step
	Cause  string // id of the message that caused it; empty for the first
	Reason string // how the cause was found: LinkAnswers and so on
}

// A Chain is a message with its causes and effects.
type Chain struct {
	Causes []Step // from the first cause to the direct one
	Steps  []Step // the message itself, then its effects, each followed by its own effects
	Cut    bool   // it is not complete
}

// Options are the optional settings of Find. Nil is valid.
type Options struct {
	Within time.Duration // how long before and after the message to look; default 15 minutes
	Limit  int           // steps; default 200
}

// maxChainMessages bounds the messages that a search reads.
const maxChainMessages = 200_000

// Find returns a message with its causes and effects, derived from inReplyTo, traceparent, and
// the ids in contents. If no row has the id, the error wraps [activitylog.ErrUnknownMessage].
func Find(ctx context.Context, r *read.Reader, id string, opts *Options) (*Chain, error) {
	o := defaults.Of(opts)
	defaults.Positive(&o.Within, 15*time.Minute)
	defaults.Positive(&o.Limit, 200)
	m, err := r.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	all, cut, err := cluesAround(ctx, r, m, o.Within)
	if err != nil {
		return nil, err
	}
	c := planChain(all, id, o.Limit)
	c.Cut = c.Cut || cut
	for _, steps := range []*[]Step{&c.Causes, &c.Steps} {
		kept := (*steps)[:0]
		for _, s := range *steps {
			if s.ID == id {
				s.Message = m
			} else if s.Message, err = r.Message(ctx, s.ID); errors.Is(err, read.ErrUnknownMessage) {
				continue // pruned meanwhile
			} else if err != nil {
				return nil, err
			}
			kept = append(kept, s)
		}
		*steps = kept
	}
	if len(c.Steps) == 0 { // the log has only a rejected row
		c.Steps = []Step{{Message: m}}
	}
	return c, nil
}

// errStop ends a query early.
var errStop = errors.New("enough")

// besideRows is how many rows before and after a message are read whatever their times are. If
// the clock was set back, an earlier row may have a later time.
const besideRows = 2000

// cluesAround reads the messages around m in order, each once for every topic that it was sent
// to.
func cluesAround(
	ctx context.Context, r *read.Reader, m *read.Message, within time.Duration,
) (all []clues, cut bool, err error) {
	type sending struct{ id, topic string }
	seen, found := map[sending]bool{}, false
	f := read.Filter{
		Events: []activitylog.Event{activitylog.SendStart},
		Beside: make([]read.IDRange, len(r.Paths())),
	}
	for i := range f.Beside {
		f.Beside[i] = read.IDRange{First: 1}
	}
	for i := range m.Rows { // the clock may have changed before, between or after them
		e := &m.Rows[i]
		if since := e.Time().Add(-within); f.Since.IsZero() || since.Before(f.Since) {
			f.Since = since
		}
		if until := e.Time().Add(within); until.After(f.Until) {
			f.Until = until
		}
		near := &f.Beside[e.Log]
		if near.First > near.Last {
			*near = read.IDRange{First: e.ID - besideRows, Last: e.ID + besideRows}
		}
		near.First, near.Last = min(near.First, e.ID-besideRows), max(near.Last, e.ID+besideRows)
	}
	err = r.Each(ctx, f, func(e *activitylog.Entry) error {
		key := sending{e.MessageID, e.Topic}
		before := e.ID < f.Beside[e.Log].First+besideRows
		switch {
		case seen[key], before && e.Time().Before(f.Since), !before && !e.Time().Before(f.Until):
			return nil
		case len(all) >= maxChainMessages && found:
			cut = true
			return errStop
		case len(all) >= 2*maxChainMessages: // keep the ones near the message
			cut = true
			all = append([]clues(nil), all[maxChainMessages:]...)
		}
		seen[key] = true
		found = found || e.MessageID == m.ID
		all = append(all, cluesOf(e))
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return all, cut, err
}

// A cause is why a message was sent.
type cause struct{ id, reason string }

// planChain finds the messages in the chain of a message. The steps that it returns have only
// ids.
func planChain(all []clues, id string, limit int) *Chain {
	c := &Chain{}
	if !slices.ContainsFunc(all, func(other clues) bool { return other.id == id }) {
		return c
	}
	causes, caused := causesOf(all)
	step := func(id string, depth int) Step {
		why := causes[id]
		return Step{Message: &read.Message{ID: id}, Depth: depth, Cause: why.id, Reason: why.reason}
	}
	visited := map[string]bool{id: true}
	for at := causes[id].id; at != "" && !visited[at]; at = causes[at].id {
		visited[at] = true
		c.Causes = append(c.Causes, step(at, 0))
	}
	slices.Reverse(c.Causes)
	for i := range c.Causes {
		c.Causes[i].Depth = i
	}
	var visit func(id string, depth int)
	visit = func(id string, depth int) {
		if len(c.Steps) >= limit {
			c.Cut = true
			return
		}
		c.Steps = append(c.Steps, step(id, depth))
		for _, child := range caused[id] {
			if !visited[child] {
				visited[child] = true
				visit(child, depth+1)
			}
		}
	}
	visit(id, len(c.Causes))
	return c
}

// causesOf returns the cause of each message that has one, and the effects of each message, by
// time. It treats a message that was sent to several topics as one.
func causesOf(all []clues) (causes map[string]cause, caused map[string][]string) {
	l := newLinker(all)
	causes, caused = map[string]cause{}, map[string][]string{}
	for i := range all {
		id := all[i].id
		at, reason := l.parent(i)
		if at < 0 || all[at].id == id || causes[id].id != "" {
			continue
		}
		causes[id] = cause{all[at].id, reason}
		caused[all[at].id] = append(caused[all[at].id], id)
	}
	return causes, caused
}

// The kinds of a Span.
const (
	SpanWait = "wait" // an event waits for its turn, from the decision
	SpanTurn = "turn" // a turn runs
)

// A Span is an activity of an agent, between the messages that report its start and its end.
type Span struct {
	Kind  string
	Until time.Time
}

// Turns holds a value for the start of each turn under way, by agent and turn id.
type Turns[T any] map[string]T

// Follow processes a record of an agent's turn. If the record ends a turn, Follow returns the
// value from the turn's start and true.
func (t Turns[T]) Follow(agent string, r *protocol.TurnRecord, start T) (begun T, ended bool) {
	key := agent + " " + r.TurnID
	switch r.State {
	case "accepted", "waiting": // the turn goes on
		return begun, false
	case "started":
	default:
		begun, ended = t[key]
		delete(t, key)
		return begun, ended
	}
	if _, again := t[key]; !again {
		t[key] = start
	}
	return begun, false
}

// Spans returns the spans between the messages of a chain, by the id of the message that reports
// the start.
func (c *Chain) Spans() map[string]Span {
	spans, turns := map[string]Span{}, Turns[string]{}
	waits := map[string]string{} // the message of the decision, by agent and event
	for _, s := range slices.Concat(c.Causes, c.Steps) {
		var p struct{ Content json.RawMessage }
		if s.Type != string(protocol.TypeAgentEvent) || json.Unmarshal(s.Payload, &p) != nil {
			continue
		}
		record, err := protocol.ParseRecord(p.Content)
		if err != nil {
			continue
		}
		if record.Event == protocol.RecordDecision {
			waits[s.From+" "+record.EventID] = s.ID
		}
		r, ok := record.Content.(*protocol.TurnRecord)
		if !ok {
			continue
		}
		if id, ended := turns.Follow(s.From, r, s.ID); ended {
			spans[id] = Span{SpanTurn, s.Begin()}
		}
		if r.State != "started" {
			continue
		}
		for _, id := range append([]string{r.EventID}, r.MergedEventIDs...) {
			if decision := waits[s.From+" "+id]; decision != "" {
				spans[decision] = Span{SpanWait, s.Begin()}
				delete(waits, s.From+" "+id)
			}
		}
	}
	return spans
}
