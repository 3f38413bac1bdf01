package collab

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/protocol/collab"
	"hubbub/protocol/retry"
)

const (
	heartbeatEvery   = 10 * time.Second
	watchedEvery     = 15 * time.Minute // if the broker watches the bus: another broker may have replaced it
	firstLook        = 30 * time.Second // until the next look for a broker, if there is none; doubles
	presencePatience = 3 * time.Second
	presenceFresh    = 2 * time.Second // how long an answer proves that the broker is there
	recallAfter      = 24 * time.Hour  // at a start, a broker last seen longer ago is not waited for
	rememberEvery    = time.Hour
)

// A presence tracks whether the broker is online.
type presence struct {
	mu         sync.Mutex // guards the fields below
	present    bool
	seenAt     time.Time // time of the last observation
	lostAt     time.Time // when it went away; zero: it is online, or never was
	remembered time.Time
}

func (p *presence) note(present bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case present:
		p.lostAt = time.Time{}
	case p.present:
		p.lostAt = now
	}
	p.present, p.seenAt = present, now
}

// toRemember reports whether it is time to call Remember again.
func (p *presence) toRemember() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.remembered) < rememberEvery {
		return false
	}
	p.remembered = now
	return true
}

// Recall reports when an earlier run last saw the broker. Within a day of that, the broker counts
// as having just gone away, because it may restart together with this program.
func (s *connection) Recall(at time.Time) {
	now := time.Now()
	if now.Sub(at) >= recallAfter {
		return
	}
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	s.presence.lostAt = now
}

// Known reports whether the broker was online at the last request, or went away so recently that
// it may return soon.
func (s *connection) Known() bool {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	p := &s.presence
	return p.present || !p.lostAt.IsZero() && time.Since(p.lostAt) < Grace
}

// Seen reports whether the broker was online at the last request.
func (s *connection) Seen() bool {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	return s.presence.present
}

// Present asks whether the broker is online, unless the last observation is recent. A broker
// that does not answer is online if it is known.
func (c *Client) Present(ctx context.Context) bool {
	c.presence.mu.Lock()
	present, fresh := c.presence.present, time.Since(c.presence.seenAt) < presenceFresh
	c.presence.mu.Unlock()
	if fresh {
		return present
	}
	ctx, cancel := context.WithTimeout(ctx, presencePatience)
	defer cancel()
	_, err := c.heartbeat(ctx)
	switch {
	case errors.Is(err, collab.ErrNoBroker):
		return false
	case err == nil || collab.Refusal(err) != "":
		return true
	}
	return c.Known()
}

func (c *Client) heartbeat(ctx context.Context) (watched bool, err error) {
	r, err := collab.IdentityHeartbeat.Ask(ctx, c, collab.EndpointParams{EndpointID: c.endpoint})
	return r.Watched, err
}

// leaveWithin is how long a stopping client waits for the broker to take its notice.
const leaveWithin = time.Second

// Leave tells the broker that the endpoint of Attend stops, so that it wakes nobody there. Call
// it after the last use of Attend.
func (c *Client) Leave(ctx context.Context) {
	if !c.Known() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	if _, err := collab.IdentityLeave.Ask(ctx, c, collab.EndpointParams{EndpointID: c.endpoint}); err != nil {
		c.log.Debug().Err(err).Msg("the stop was not announced to the collaboration broker; it will detect it")
	}
}

// Attend announces the client as an endpoint until ctx ends, and sends heartbeats unless the
// broker watches the bus. It looks for an absent broker less and less often, unless Look is called.
// It sets the EndpointID. After each successful announcement it calls announced, if that is not nil.
func (c *Client) Attend(ctx context.Context, who collab.AnnounceParams, announced func(ctx context.Context)) {
	who.EndpointID = c.endpoint
	known, look := false, firstLook
	for {
		watched, err := c.attend(ctx, known, who, announced)
		wait, idle := heartbeatEvery, time.Duration(0) // Look ends idle early
		if known = err == nil; known {
			look = firstLook
		}
		switch {
		case watched:
			wait = watchedEvery
		case errors.Is(err, collab.ErrNoBroker):
			wait, idle, look = firstLook, look-firstLook, min(2*look, watchedEvery)
		case err != nil && ctx.Err() == nil:
			c.log.Warn().Err(err).Msg("announcement to the collaboration broker failed; trying again")
		}
		if !retry.Sleep(ctx, wait) || idle > 0 && !c.look.Wait(ctx, idle) {
			return
		}
	}
}

// Look makes Attend look for an absent broker now, or 30 seconds after it last looked. Call it when
// the program has work for which it would ask a broker. It does not block.
func (c *Client) Look() { c.look.Notify() }

// Heard notes that the broker has sent a message, so it is online. Attend announces the client to
// it, unless it did already.
func (c *Client) Heard() {
	c.presence.note(true)
	c.Look()
}

// attend sends a heartbeat, or announces an endpoint that the broker does not know.
func (c *Client) attend(
	ctx context.Context,
	known bool,
	who collab.AnnounceParams,
	announced func(ctx context.Context),
) (watched bool, err error) {
	if known {
		if watched, err = c.heartbeat(ctx); err == nil || collab.Refusal(err) == "" {
			return watched, err
		}
	}
	r, err := collab.IdentityAnnounce.Ask(ctx, c, who)
	if err == nil && announced != nil {
		announced(ctx)
	}
	return r.Watched, err
}
