package bus

import (
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// takeoverGrace is how long a session that was replaced may still answer what it was
// given.
const takeoverGrace = 2 * time.Second

// A lifecycle is how far a session has come. A session has an identity from ready on (see
// identity) until it ends or another session takes the identity over.
type lifecycle struct {
	recorded  bool      // peer_connected is recorded, and peer_disconnected is not
	graceEnds time.Time // when a session that was replaced is closed at the latest; zero until it is replaced
	ended     bool
	endReason string
}

// inactive reports whether a session gets no deliveries any more.
func (l *lifecycle) inactive() bool { return l.ended || !l.graceEnds.IsZero() }

const (
	replaced    = "replaced"
	errReplaced = "a newer session has taken over this clientId; this one may only answer what it was given"
)

// takeIdentity gives a session its identity and its first patterns. It takes them from the older
// session of that identity, here or at another bus, in one step: a message goes to the
// older session or to the newer one, never to both or to neither. What the older session
// of this bus was not sent yet goes to the newer one, in its order, after the answer that
// is given. It returns false if the session has ended.
func (s *session) takeIdentity(b *batch, id protocol.PeerID, patterns map[protocol.Pattern]bool, answer func()) bool {
	for {
		older := s.server.sessionOf(id)
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

func (s *session) tryTakeIdentity(b *batch, older *session, id protocol.PeerID, patterns map[protocol.Pattern]bool, answer func()) (unsent []*delivery, outcome int) {
	srv := s.server
	if older != nil { // locks of sessions are taken from older to newer
		older.mu.Lock()
		defer older.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if s.ended {
		return nil, takeEnded
	}
	if !srv.register(s, id, older) {
		return nil, takenByAnother
	}
	losers := srv.remotes.drop(id)
	if older != nil {
		var held patternSet
		held, unsent = older.retireLocked()
		losers = append(losers, held)
	}
	for p := range patterns {
		if s.maySubscribe(p) != nil { // the credential changed since it was asked
			delete(patterns, p)
			s.usage.removeSubscriptions(1)
		}
	}
	s.patterns = patterns
	answer()
	srv.index.replace(losers, patternSet{&s.self, patterns})
	s.ready.Store(true)
	srv.presence.noteChange(id)
	if c := srv.options.Cluster; c != nil {
		c.Joined(s.memberLocked())
	}
	return slices.DeleteFunc(unsent, func(d *delivery) bool { return s.inheritLocked(b, d) }), taken
}

// retireLocked takes the identity from a session. It returns its patterns, which the
// caller must remove from the index, and the deliveries that it was not sent yet. The
// caller must hold s.mu.
func (s *session) retireLocked() (patternSet, []*delivery) {
	held := patternSet{&s.self, s.patterns}
	s.usage.removeSubscriptions(len(s.patterns))
	s.patterns = nil
	if s.ended {
		return held, nil
	}
	s.ready.Store(false)
	s.graceEnds, s.endReason = time.Now().Add(takeoverGrace), replaced
	var unsent []*delivery
	for _, d := range slices.Clone(s.queue) {
		if d.recorded { // otherwise write relocates it
			s.calls.Take(d.id)
			s.dropQueuedLocked(d)
			unsent = append(unsent, d)
		}
	}
	return held, unsent
}

// inheritLocked takes over a delivery that the older session of this identity was not
// sent, and reports whether it could. The caller must hold s.mu.
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

// subscribesTo reports whether a delivery for a topic would be waited for where these patterns
// (value: observe) are.
func subscribesTo(patterns map[protocol.Pattern]bool, topic string) bool {
	for p, observe := range patterns {
		if !observe && p.Matcher().Match(topic) {
			return true
		}
	}
	return false
}

// finishTakeover says goodbye to a session that was replaced: it hands on what the session was not
// sent, and closes it unless it still has something to answer.
func (s *session) finishTakeover(b *batch, unsent []*delivery) {
	for _, d := range unsent {
		d.redirect(b)
	}
	s.mu.Lock()
	tell := s.recorded
	s.recorded = false
	over := s.graceOver(s.calls.Len(), time.Now())
	s.mu.Unlock()
	if tell {
		s.recordDisconnect(b, replaced)
	}
	if over {
		s.evict(b, protocol.CloseReplaced, replaced)
	}
}

// graceOver reports whether a session that was replaced has answered everything, or has had its
// time.
func (l *lifecycle) graceOver(unanswered int, at time.Time) bool {
	return !l.ended && !l.graceEnds.IsZero() && (unanswered == 0 || at.After(l.graceEnds))
}

// recordDisconnect notes that a peer's session ended.
func (s *session) recordDisconnect(b *batch, reason string) {
	row := activitylog.Row{At: b.now(), Event: activitylog.PeerDisconnected, Actor: string(s.id), Error: reason}
	s.usage.chargeRow(row)
	b.record(row)
	s.server.options.Log.Info().Str("peer", string(s.id)).Str("reason", reason).Msg("peer disconnected")
}

// redirect hands a delivery that was never sent to the session that has its peer's
// identity now. If there is none that hears the topic, the peer is offline.
func (d *delivery) redirect(b *batch) {
	if next := b.server.sessionOf(d.target.id); next != nil {
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

// redirectTo is relocate if next has the identity.
func (d *delivery) redirectTo(b *batch, next *session) {
	next.mu.Lock()
	o, replacedToo := protocol.OutcomeOffline, !next.graceEnds.IsZero()
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

// reportAbsent tells the bus that forwarded a message that a peer is not here any more and was
// not sent it.
func (p *publication) reportAbsent(b *batch, d *delivery) {
	d.recordMoved(b)
	p.mu.Lock()
	p.outcome.Targets--
	p.outcome.Absent = append(p.outcome.Absent, d.target.id)
	p.releaseAndUnlock(b)
}

// recordMoved ends a delivery in the log whose peer is not at this bus any more.
func (d *delivery) recordMoved(b *batch) {
	row := d.row(activitylog.ProcessFinish, string(protocol.OutcomeOffline))
	row.At, row.Error = b.now(), "the peer has left this bus"
	b.record(row)
}
