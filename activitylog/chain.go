package activitylog

import (
	"context"
	"errors"
	"time"
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
	within, limit := 15*time.Minute, 200
	if opts != nil {
		within, limit = positive(opts.Within, within), positive(opts.Limit, limit)
	}
	m, err := r.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	all, cut, err := r.cluesAround(ctx, m, within)
	if err != nil {
		return nil, err
	}
	c := &Chain{Cut: cut}
	plan := planChain(all, id, limit)
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

// cluesAround reads the messages around one, each once, by time.
func (r *Reader) cluesAround(ctx context.Context, m *Message, within time.Duration) (all []clues, cut bool, err error) {
	seen := map[string]bool{}
	f := Filter{Events: []Event{SendStart}, Since: m.Begin().Add(-within), Until: m.End().Add(within)}
	err = r.Each(ctx, f, func(e *Entry) error {
		switch {
		case seen[e.MessageID]:
			return nil
		case len(all) >= maxChainMessages && seen[m.ID]:
			cut = true
			return errEnough
		case len(all) >= 2*maxChainMessages: // keep those near the message
			cut = true
			all = append([]clues(nil), all[maxChainMessages:]...)
		}
		seen[e.MessageID] = true
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

// planChain decides which messages belong to the chain of one.
func planChain(all []clues, id string, limit int) (plan chainPlan) {
	l := newLinker(all)
	self := -1
	parents, reasons, children := make([]int, len(all)), make([]string, len(all)), map[int][]int{}
	for i := range all {
		parents[i], reasons[i] = l.parent(i)
		if parents[i] >= 0 {
			children[parents[i]] = append(children[parents[i]], i)
		}
		if all[i].id == id {
			self = i
		}
	}
	if self < 0 {
		return plan
	}
	step := func(i, depth int) plannedStep {
		p := plannedStep{id: all[i].id, depth: depth, reason: reasons[i]}
		if parents[i] >= 0 {
			p.cause = all[parents[i]].id
		}
		return p
	}
	visited := map[int]bool{self: true}
	for i := parents[self]; i >= 0 && !visited[i]; i = parents[i] {
		visited[i] = true
		plan.causes = append([]plannedStep{step(i, 0)}, plan.causes...)
	}
	for i := range plan.causes {
		plan.causes[i].depth = i
	}
	var visit func(i, depth int)
	visit = func(i, depth int) {
		if len(plan.steps) >= limit {
			plan.cut = true
			return
		}
		plan.steps = append(plan.steps, step(i, depth))
		for _, child := range children[i] {
			if !visited[child] {
				visited[child] = true
				visit(child, depth+1)
			}
		}
	}
	visit(self, len(plan.causes))
	return plan
}
