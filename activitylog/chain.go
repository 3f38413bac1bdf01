package activitylog

import (
	"context"
	"errors"
	"slices"
	"time"

	"hubbub/protocol/defaults"
)

// A Step is one message of a chain.
type Step struct {
	*Message
	Depth  int    // causes that lie between it and the first step
	Cause  string // id of the message that caused it; empty for the first
	Reason string // why that counts as its cause: LinkAnswers and so on
}

// A Chain is a message, what led to it, and what it caused.
type Chain struct {
	Causes []Step // from the first cause to the direct one
	Steps  []Step // the message itself, then what it caused; each message is followed by what it caused itself
	Cut    bool   // there was more than is shown
}

// ChainOptions are the optional settings of Chain. Nil is valid.
type ChainOptions struct {
	Within time.Duration // how long before and after the message to look; default 15 minutes
	Limit  int           // steps; default 200
}

// maxChainMessages bounds how many messages are looked at.
const maxChainMessages = 200_000

// Chain returns a message with its causes and consequences, as far as they can
// be told from inReplyTo, traceparent, and the ids in contents. The error wraps
// ErrUnknownMessage when no row has its id.
func (r *Reader) Chain(ctx context.Context, id string, opts *ChainOptions) (*Chain, error) {
	o := defaults.Of(opts)
	defaults.Positive(&o.Within, 15*time.Minute)
	defaults.Positive(&o.Limit, 200)
	m, err := r.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	all, cut, err := r.cluesAround(ctx, m, o.Within)
	if err != nil {
		return nil, err
	}
	c := &Chain{Cut: cut}
	plan := planChain(all, id, o.Limit)
	c.Cut = c.Cut || plan.cut
	for i, p := range append(plan.causes, plan.steps...) {
		step := Step{Message: m, Depth: p.depth, Cause: p.cause, Reason: p.reason}
		if p.id != id {
			if step.Message, err = r.Message(ctx, p.id); err != nil {
				if errors.Is(err, ErrUnknownMessage) {
					continue // pruned meanwhile
				}
				return nil, err
			}
		}
		if i < len(plan.causes) {
			c.Causes = append(c.Causes, step)
		} else {
			c.Steps = append(c.Steps, step)
		}
	}
	if len(plan.steps) == 0 { // only a rejected row
		c.Steps = append(c.Steps, Step{Message: m})
	}
	return c, nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// cluesAround reads the messages around one, by time: each once for every topic
// that it was sent to.
func (r *Reader) cluesAround(ctx context.Context, m *Message, within time.Duration) (all []clues, cut bool, err error) {
	type sending struct{ id, topic string }
	seen, found := map[sending]bool{}, false
	f := Filter{Events: []Event{SendStart}, Since: m.Begin().Add(-within), Until: m.End().Add(within)}
	err = r.Each(ctx, f, func(e *Entry) error {
		key := sending{e.MessageID, e.Topic}
		switch {
		case seen[key]:
			return nil
		case len(all) >= maxChainMessages && found:
			cut = true
			return errEnough
		case len(all) >= 2*maxChainMessages: // keep those near the message
			cut = true
			all = append([]clues(nil), all[maxChainMessages:]...)
		}
		seen[key] = true
		found = found || e.MessageID == m.ID
		all = append(all, cluesOf(e))
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return all, cut, err
}

// A plannedStep is a step before its message is read.
type plannedStep struct {
	id     string
	depth  int
	cause  string
	reason string
}

type chainPlan struct {
	causes, steps []plannedStep
	cut           bool
}

// A cause is why a message was sent.
type cause struct{ id, reason string }

// planChain decides which messages belong to the chain of one.
func planChain(all []clues, id string, limit int) (plan chainPlan) {
	causes, caused := causesOf(all)
	known := false
	for i := range all {
		known = known || all[i].id == id
	}
	if !known {
		return plan
	}
	visited := map[string]bool{id: true}
	for at := causes[id].id; at != "" && !visited[at]; at = causes[at].id {
		visited[at] = true
		plan.causes = append(plan.causes, plannedStep{id: at, cause: causes[at].id, reason: causes[at].reason})
	}
	slices.Reverse(plan.causes)
	for i := range plan.causes {
		plan.causes[i].depth = i
	}
	var visit func(id string, depth int)
	visit = func(id string, depth int) {
		if len(plan.steps) >= limit {
			plan.cut = true
			return
		}
		plan.steps = append(plan.steps, plannedStep{id: id, depth: depth, cause: causes[id].id, reason: causes[id].reason})
		for _, child := range caused[id] {
			if !visited[child] {
				visited[child] = true
				visit(child, depth+1)
			}
		}
	}
	visit(id, len(plan.causes))
	return plan
}

// causesOf returns the cause of each message that has one, and what each
// message caused, by time. A message that was sent to several topics is one.
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
