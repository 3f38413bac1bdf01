package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/wire"
)

// sweepLoop ends deliveries, handshakes and sessions that have timed out, pings sessions, and
// applies changed credentials. Its ticker is the only timer of the bus.
func (srv *Server) sweepLoop(ctx context.Context) {
	b := srv.newBatch()
	var traffic idleDetector
	ticker := time.NewTicker(srv.options.SweepInterval)
	defer ticker.Stop()
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b.at = time.Now()
		if tick%2 == 0 {
			srv.reloadCredentials(b)
		}
		for _, s := range srv.sessions.all() {
			s.sweep(ctx, b)
		}
		srv.presence.notify(b)
		srv.dedup.sweep(b)
		b.flush()
		srv.options.OnSweep()
		if tick%idleCheckSweeps != 0 {
			continue
		}
		srv.index.dropStaleCache()
		if traffic.becameIdle(srv.metrics.frames.Load(), srv.backlog.Bytes()) {
			srv.shutdown.background.Go(srv.options.OnIdle)
		}
	}
}

// sweep ends everything that has timed out at one session.
func (s *session) sweep(ctx context.Context, b *batch) {
	o, at := &s.server.options, b.at
	if !s.lifecycle.ready.Load() {
		s.sweepUninitialized(b)
	}
	for _, d := range s.expired(b, at.Add(-o.DeliveryTimeout)) {
		d.finish(b, protocol.OutcomeTimeout, nil, fmt.Sprintf("no answer within %s", o.DeliveryTimeout))
	}
	if p, ok := s.stream.(pinger); ok && s.lifecycle.ready.Load() && s.pingDue(at) {
		s.server.shutdown.background.Go(func() { s.ping(ctx, p) })
	}
}

// sweepUninitialized ends a session that has not initialized in time, or that was replaced and
// must be closed.
func (s *session) sweepUninitialized(b *batch) {
	s.mu.Lock()
	never, over := s.lifecycle.graceEnds.IsZero(), s.lifecycle.graceOver(s.window.calls.Len(), b.at)
	s.mu.Unlock()
	switch {
	case over:
		s.evict(b, protocol.CloseReplaced, replaced)
	case never && s.conn.initializeExpired(b.at, s.server.options.InitializeTimeout) && !s.lifecycle.ready.Load():
		s.server.metrics.limit(limitInitialize)
		s.evict(b, wire.ClosePolicy, fmt.Sprintf("no initialize within %s", s.server.options.InitializeTimeout))
	}
}

// expired removes and returns the deliveries that were accepted by the deadline.
func (s *session) expired(b *batch, deadline time.Time) []*delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.window.takeExpired(deadline)
	if s.sendQueuedLocked(b) {
		b.touch(s)
	}
	return late
}

func (s *session) pingDue(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifecycle.inactive() || s.pings.waiting || at.Sub(s.pings.last) < s.server.options.PingInterval {
		return false
	}
	s.pings = pings{waiting: true, last: at}
	return true
}

// ping pings the peer, and ends the session after two unanswered pings. It does not count a ping
// while the session has unread input, which may contain the answer: a peer that sends faster than
// the activity log can record is alive.
func (s *session) ping(ctx context.Context, p pinger) {
	defer func() {
		s.mu.Lock()
		s.pings = pings{last: time.Now()}
		s.mu.Unlock()
	}()
	for missed := 0; missed < 2; {
		attempt, cancel := context.WithTimeout(ctx, s.server.options.PingInterval)
		err := p.Ping(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return // alive or stopping, or the reader will notice the end of the stream
		}
		if missed++; p.HasUnread() {
			missed = 0
		}
	}
	s.server.metrics.limit(limitPing)
	b := s.server.newBatch()
	s.evict(b, wire.ClosePolicy, "no answer to two pings")
	b.flush()
}

// reloadCredentials applies a changed credentials file to the live sessions. It ends a session
// whose token was revoked or no longer grants its identity.
func (srv *Server) reloadCredentials(b *batch) {
	file := srv.options.Credentials
	if file == nil {
		return
	}
	srv.readCredentials()
	version := file.Version()
	if version == srv.credentialsVersion {
		return
	}
	srv.credentialsVersion = version
	srv.options.Log.Info().Msg("credentials reloaded")
	srv.quotas.reload(file)
	for _, s := range srv.sessions.all() {
		ended, err := s.recheck(file)
		for _, p := range ended {
			b.record(activitylog.Row{
				At: b.now(), Event: activitylog.Unsubscribe, Actor: string(s.id), Topic: string(p),
				Error: "no longer granted",
			})
		}
		if err != nil {
			s.evict(b, wire.ClosePolicy, err.Error())
		}
	}
}

// readCredentials reads the credentials file if it has changed.
func (srv *Server) readCredentials() {
	if err := srv.options.Credentials.Reload(); err != nil {
		srv.options.Log.Error().Err(err).Msg("credentials not reloaded")
	}
}

var errRevoked = errors.New("the credential was revoked")

// recheck updates the session's credential. It ends and returns the subscriptions that the
// credential no longer grants. It returns an error if the session must end.
func (s *session) recheck(file *grant.File) (ended []protocol.Pattern, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifecycle.ended {
		return nil, nil
	}
	granted := s.client.granted()
	if granted == nil {
		return nil, errors.New("the bus has credentials now; connect again with a token")
	}
	c, ok := file.Current(granted)
	if !ok {
		return nil, errRevoked
	}
	s.client.credential.Store(c)
	if s.lifecycle.ready.Load() && !c.MayBe(s.id) {
		return nil, errRevoked
	}
	for p := range s.patterns {
		if !c.MaySubscribe(p) {
			s.dropPatternLocked(p)
			ended = append(ended, p)
		}
	}
	return ended, nil
}
