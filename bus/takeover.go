package bus

import (
	"slices"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// takeoverGrace is how long a replaced session may still answer its deliveries.
const takeoverGrace = 2 * time.Second

// A lifecycle is the state of a session between its start and its end. A session is ready from
// initialize until it ends or another session takes its identity. The session's mu guards the
// lifecycle.
type lifecycle struct {
	ready     atomic.Bool // the session has its identity; read without mu
	recorded  bool        // peer_connected is in the log, and peer_disconnected is not
	graceEnds time.Time   // deadline for closing a replaced session; zero unless replaced
	ended     bool
	endReason string
}

// inactive reports whether the session gets no more deliveries.
func (l *lifecycle) inactive() bool { return l.ended || !l.graceEnds.IsZero() }

// graceOver reports whether a replaced session must be closed: it has answered all its
// deliveries, or its grace has ended.
func (l *lifecycle) graceOver(unanswered int, at time.Time) bool {
	return !l.ended && !l.graceEnds.IsZero() && (unanswered == 0 || at.After(l.graceEnds))
}

const (
	replaced    = "replaced"
	errReplaced = "a newer session has taken over this clientId; this one may only answer what it was given"
)

// takeIdentity gives a session its identity and its first patterns. In one step, it takes the
// identity from the older session, here or at another bus: a message goes to one of the two
// sessions, never to both or to neither. It then calls answer. Unsent deliveries of an older
// session of this bus go to the newer one after that, in order. It returns false if the session
// has ended.
func (s *session) takeIdentity(
	b *batch, id protocol.PeerID, patterns map[protocol.Pattern]bool, answer func(),
) bool {
	for {
		older := s.server.sessions.session(id)
		unsent, outcome := s.tryTakeIdentity(b, older, id, patterns, answer)
		switch outcome {
		case takenByAnother:
			continue
		case takeEnded:
			return false
		}
		b.touch(s)
		if older != nil {
			older.finishTakeover(b, unsent)
		}
		return true
	}
}

// The outcomes of one attempt to take an identity.
const (
	taken = iota
	takenByAnother
	takeEnded
)

func (s *session) tryTakeIdentity(
	b *batch, older *session, id protocol.PeerID, patterns map[protocol.Pattern]bool, answer func(),
) (unsent []*delivery, outcome int) {
	srv := s.server
	if older != nil { // the lock of the older session is always taken first
		older.mu.Lock()
		defer older.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if s.lifecycle.ended {
		return nil, takeEnded
	}
	if !srv.sessions.register(s, id, older) {
		return nil, takenByAnother
	}
	losers := srv.remotes.removeLocked(id)
	if older != nil {
		var held patternSet
		held, unsent = older.retireLocked()
		losers = append(losers, held)
	}
	for p := range patterns {
		if s.client.maySubscribe(p) != nil { // the credential has changed since checkInitialize
			delete(patterns, p)
			s.client.usage.removeSubscriptions(1)
		}
	}
	s.patterns = patterns
	srv.index.replace(losers, patternSet{&s.self, patterns})
	s.lifecycle.ready.Store(true)
	answer() // before any delivery, which needs s.mu, and after the peer is subscribed and listed
	srv.presence.noteChange(id)
	if c := srv.options.Cluster; c != nil {
		c.Joined(s.memberLocked())
	}
	return slices.DeleteFunc(unsent, func(d *delivery) bool { return s.inheritLocked(b, d) }), taken
}

// retireLocked takes the identity from a session. It returns the session's patterns, which
// the caller must remove from the index, and its unsent deliveries. The caller must hold
// s.mu.
func (s *session) retireLocked() (patternSet, []*delivery) {
	held := patternSet{&s.self, s.patterns}
	s.client.usage.removeSubscriptions(len(s.patterns))
	s.patterns = nil
	if s.lifecycle.ended {
		return held, nil
	}
	s.lifecycle.ready.Store(false)
	s.lifecycle.graceEnds, s.lifecycle.endReason = time.Now().Add(takeoverGrace), replaced
	return held, s.window.takeUnsent() // write redirects deliveries whose start is not yet recorded
}

// inheritLocked moves an unsent delivery of the older session to s, and reports whether it could.
// The caller must hold s.mu.
func (s *session) inheritLocked(b *batch, d *delivery) bool {
	if !subscribesTo(s.patterns, d.publication.message.Topic) {
		return false
	}
	older := d.target
	d.target, d.queued = s, false
	if s.reserveLocked(d) != "" {
		d.target = older
		return false
	}
	if !d.queued {
		s.sendDeliveryLocked(b, d)
	}
	return true
}

// subscribesTo reports whether one of the patterns (value: observe) matches the topic and does
// not only observe.
func subscribesTo(patterns map[protocol.Pattern]bool, topic string) bool {
	for p, observe := range patterns {
		if !observe && p.Matcher().Match(topic) {
			return true
		}
	}
	return false
}

// finishTakeover redirects the unsent deliveries of a replaced session, and closes the
// session unless it still has deliveries to answer.
func (s *session) finishTakeover(b *batch, unsent []*delivery) {
	for _, d := range unsent {
		d.redirect(b)
	}
	s.mu.Lock()
	recorded := s.lifecycle.recorded
	s.lifecycle.recorded = false
	over := s.lifecycle.graceOver(s.window.calls.Len(), time.Now())
	s.mu.Unlock()
	if recorded {
		s.recordDisconnect(b, replaced)
	}
	if over {
		s.evict(b, protocol.CloseReplaced, replaced)
	}
}

// recordDisconnect records that a peer's session has ended.
func (s *session) recordDisconnect(b *batch, reason string) {
	row := activitylog.Row{At: b.now(), Event: activitylog.PeerDisconnected, Actor: string(s.id), Error: reason}
	s.client.usage.chargeRow(row)
	b.record(row)
	s.server.options.Log.Info().Str("peer", string(s.id)).Str("reason", reason).Msg("peer disconnected")
}

// redirect passes an unsent delivery to the session that now has the identity. If no such session
// is subscribed to the topic, the peer is offline.
func (d *delivery) redirect(b *batch) {
	if next := b.server.sessions.session(d.target.id); next != nil {
		d.redirectTo(b, next)
		return
	}
	p := d.publication
	switch {
	case p.sender == nil:
		p.reportAbsent(b, d)
	case p.follow(b, d.target.id, ""):
		d.recordMoved(b)
	default:
		d.finish(b, protocol.OutcomeOffline, nil, refusalText(protocol.OutcomeOffline))
	}
}

// redirectTo is redirect to the session next, which has the identity.
func (d *delivery) redirectTo(b *batch, next *session) {
	next.mu.Lock()
	o, replacedToo := protocol.OutcomeOffline, !next.lifecycle.graceEnds.IsZero()
	if !replacedToo && subscribesTo(next.patterns, d.publication.message.Topic) {
		d.target, d.queued = next, false
		o = next.reserveLocked(d)
	}
	next.mu.Unlock()
	switch {
	case o == "":
		next.write(b, d)
	case replacedToo:
		d.redirect(b)
	default:
		d.finish(b, o, nil, refusalText(o))
	}
}

// reportAbsent reports to the bus that forwarded a message that a peer has left this bus before
// it received the message.
func (p *publication) reportAbsent(b *batch, d *delivery) {
	d.recordMoved(b)
	p.mu.Lock()
	p.outcome.Targets--
	p.outcome.Absent = append(p.outcome.Absent, d.target.id)
	p.releaseAndUnlock(b)
}

// recordMoved records the end of a delivery whose peer has left this bus.
func (d *delivery) recordMoved(b *batch) {
	row := d.row(activitylog.ProcessFinish, string(protocol.OutcomeOffline))
	row.At, row.Error = b.now(), "the peer has left this bus"
	b.record(row)
}
