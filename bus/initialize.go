package bus

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// topics are the common topics, which initialize reports for information only.
var topics = []string{"tg:*", "mx:*", "agent:*", "system:*", "chorus:*", "collab:*", "cli:*"}

// initialize opens the session (section 4.1). It replaces an older session of the same clientId.
func (s *session) initialize(m jsonrpc.Message) {
	if s.lifecycle.ready.Load() {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeNotInitialized, "the session is initialized already, as %s", s.id))
		return
	}
	if err := s.client.usage.chargeChange(s.batch.at, len(m.Params)); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
		return
	}
	id, patterns, err := protocol.ScanInitialize(&s.batch.parser, m.Params)
	if err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if pattern, err := s.checkInitialize(id, patterns); err != nil {
		s.record(activitylog.Row{
			Event:  activitylog.Rejected,
			RPCID:  m.ID.String(),
			Actor:  string(id),
			Topic:  string(pattern),
			Status: string(protocol.OutcomeRejected),
			Error:  err.Error(),
		})
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	for p, observe := range patterns { // no row, as for subscribe: the credential is not the reason
		if err := s.server.presence.maySubscribe(p, observe); err != nil {
			s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
			return
		}
	}
	if most := s.server.options.MaxSubscriptions; len(patterns) > most {
		s.server.metrics.limit(limitSubscriptions)
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", tooManyPatterns(most)))
		return
	}
	answer := func() { // called before any delivery to the session
		result := s.server.initialized
		if len(patterns) > 0 {
			result = fmt.Appendf(nil, `%s,"subscribed":%d}`, result[:len(result)-1], len(patterns))
		}
		s.answer(m, result)
	}
	if hungUp(s.stream) || s.conn.initializeExpired(s.batch.at, s.server.options.InitializeTimeout) ||
		!s.reserveQuota(m, id, len(patterns)) {
		return // the sweeper will end the session, or the peer may try again
	}
	if !s.takeIdentity(s.batch, id, patterns, answer) {
		s.client.usage.removeSubscriptions(len(patterns))
		return // the session has ended, or the sweeper will end it
	}
	s.recordConnect(m.ID, patterns)
	if err := s.client.mayBe(id); err != nil { // the credential changed before recheck could see the session as ready
		s.evict(s.batch, wire.ClosePolicy, errRevoked.Error())
	}
}

// reserveQuota counts the first patterns of a session against its credential, and reports whether
// the limits allow all of them. The patterns of a session that it takes over do not count.
func (s *session) reserveQuota(m jsonrpc.Message, id protocol.PeerID, patterns int) bool {
	freed, older := 0, s.server.sessions.session(id)
	if older != nil && older.client.usage == s.client.usage {
		older.mu.Lock()
		freed = len(older.patterns)
		older.mu.Unlock()
	} else if err := s.client.usage.checkSessions(s.batch.at); err != nil {
		s.evict(s.batch, wire.CloseTryLater, err.Error())
		return false
	}
	if err := s.client.usage.addSubscriptions(s.batch.at, patterns, freed); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return false
	}
	return true
}

// checkInitialize returns an error if the credential does not grant an identity or a pattern. If
// a pattern is the reason, it also returns the pattern.
func (s *session) checkInitialize(id protocol.PeerID, patterns map[protocol.Pattern]bool) (protocol.Pattern, error) {
	if err := s.client.mayBe(id); err != nil {
		return "", err
	}
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		if err := s.client.maySubscribe(p); err != nil {
			return p, err
		}
	}
	return "", nil
}

// hungUp reports whether the peer has closed the connection, for example because this program was
// suspended. An old request of such a connection must not take the peer's identity.
func hungUp(stream jsonrpc.Stream) bool {
	p, ok := stream.(hangUpReporter)
	return ok && p.HungUp()
}

// initializeExpired reports whether the time to initialize is over. If this program or its
// machine was suspended, the peer may have given up long ago.
func (c *connection) initializeExpired(at time.Time, timeout time.Duration) bool {
	return at.Sub(c.opened) > timeout
}

// recordConnect records that a peer is connected, and its subscriptions. If the session has ended
// meanwhile, it also records that.
func (s *session) recordConnect(rpcID jsonrpc.ID, patterns map[protocol.Pattern]bool) {
	payload := append(jsonrpc.AppendString([]byte(`{"remote":`), s.conn.remote), '}')
	s.record(activitylog.Row{Event: activitylog.PeerConnected, Actor: string(s.id), Payload: payload})
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		s.recordSubscription(activitylog.Subscribe, rpcID, p)
	}
	s.server.options.Log.Info().Str("peer", string(s.id)).Str("remote", s.conn.remote).Msg("peer connected")
	s.mu.Lock()
	gone, reason := s.lifecycle.inactive(), s.lifecycle.endReason
	s.lifecycle.recorded = !gone
	s.mu.Unlock()
	if gone {
		s.recordDisconnect(s.batch, reason)
	}
}

// record writes a row about the session itself to the activity log.
func (s *session) record(row activitylog.Row) {
	row.At = s.batch.now()
	s.client.usage.chargeRow(row)
	s.batch.record(row)
}

// initializeResult returns the result of every initialize.
func initializeResult(name, version string) []byte {
	b, err := json.Marshal(protocol.InitializeResult{
		ServerID:   name,
		ServerInfo: protocol.Info{Name: "hubbub-bus", Version: version},
		Capabilities: protocol.Capabilities{
			Subscribe: true, Publish: true, ProcessMessage: true, Topics: topics,
		},
	})
	if err != nil {
		panic("the result of initialize cannot be marshalled: " + err.Error())
	}
	return b
}
