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
	watchedEvery     = 15 * time.Minute // where the broker learns from the bus who is there: it may be another one by then
	lookEvery        = 30 * time.Second // for a broker, where there is none
	presencePatience = 3 * time.Second
	presenceFresh    = 2 * time.Second // how long an answer proves that the broker is there
	recallAfter      = 24 * time.Hour  // a broker seen longer ago is not waited for at a start
	rememberEvery    = time.Hour
)

// A presence is what is known of whether the broker is there.
type presence struct {
	mu         sync.Mutex // guards the fields below
	present    bool
	seenAt     time.Time // when present was last found out
	lostAt     time.Time // when it went away; zero: it is there, or never was
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

// toRemember reports whether it is time to remember the broker once more.
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

// Recall tells when a former run saw the broker last. If that was within a day, the
// broker counts as one that went away just now: it may restart together with this
// program.
func (s *connection) Recall(at time.Time) {
	now := time.Now()
	if now.Sub(at) >= recallAfter {
		return
	}
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	s.presence.lostAt = now
}

// Known reports whether the broker was there when it was last asked, or went away
// so lately that it may be back at once.
func (s *connection) Known() bool {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	p := &s.presence
	return p.present || !p.lostAt.IsZero() && time.Since(p.lostAt) < Grace
}

// Seen reports whether the broker was there when it was last asked.
func (s *connection) Seen() bool {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	return s.presence.present
}

// Present asks whether the broker is there, unless that was found out just now. One
// that does not answer is there if it is known.
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

// leaveWithin is how long a stopping client waits for the broker to hear that it stops.
const leaveWithin = time.Second

// Leave tells the broker, if there is one, that the endpoint of Attend stops, so that nobody
// is woken there. It is called once Attend has nothing more to do.
func (c *Client) Leave(ctx context.Context) {
	if !c.Known() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	if _, err := collab.IdentityLeave.Ask(ctx, c, collab.EndpointParams{EndpointID: c.endpoint}); err != nil {
		c.log.Debug().Err(err).Msg("the collaboration broker was not told of the stop; it will notice")
	}
}

// Attend announces the client as an endpoint until ctx ends, and sends heartbeats unless
// the broker learns from the bus who is there. It sets the EndpointID. After each announcement that the broker took it
// calls announced, if that is not nil.
func (c *Client) Attend(ctx context.Context, who collab.AnnounceParams, announced func(ctx context.Context)) {
	who.EndpointID = c.endpoint
	known := false
	for {
		watched, err := c.attend(ctx, known, who, announced)
		known = err == nil
		wait := heartbeatEvery
		switch {
		case watched:
			wait = watchedEvery
		case errors.Is(err, collab.ErrNoBroker):
			wait = lookEvery
		case err != nil && ctx.Err() == nil:
			c.log.Warn().Err(err).Msg("announcement to the collaboration broker failed; trying again")
		}
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// attend sends a heartbeat, or announces an endpoint that the broker does not know.
func (c *Client) attend(ctx context.Context, known bool, who collab.AnnounceParams, announced func(ctx context.Context)) (watched bool, err error) {
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
