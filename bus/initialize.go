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

// topics are the topics in use that initialize reports, for information only.
var topics = []string{"tg:*", "agent:*", "system:*", "chorus:*", "collab:*", "cli:*"}

// initialize opens the session (section 4.1). An older session of the same
// clientId is replaced.
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
			Event: activitylog.Rejected, RPCID: m.ID.String(), Actor: string(id), Topic: string(pattern), Status: string(protocol.OutcomeRejected), Error: err.Error(),
		})
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if most := s.server.options.MaxSubscriptions; len(patterns) > most {
		s.server.metrics.limit(limitSubscriptions)
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", tooManyPatterns(most)))
		return
	}
	answer := func() { s.answerInitialize(m, len(patterns)) }
	if hungUp(s.stream) || s.conn.initializeExpired(s.batch.at, s.server.options.InitializeTimeout) || !reserveQuota(s, m, id, len(patterns)) {
		return // the sweeper will end the session, or it may try again
	}
	if !s.takeIdentity(s.batch, id, patterns, answer) {
		s.client.usage.removeSubscriptions(len(patterns))
		return // the session was ended meanwhile, or will be by the sweeper
	}
	s.recordConnect(m.ID, patterns)
	if err := s.client.mayBe(id); err != nil { // the credential changed before recheck could see the session as ready
		s.evict(s.batch, wire.ClosePolicy, errRevoked.Error())
	}
}

// reserveQuota takes the places of a session's first patterns, for which those of a session that
// it takes over count too. It reports whether the credential has places for all of it.
func reserveQuota(s *session, m jsonrpc.Message, id protocol.PeerID, patterns int) bool {
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

// answerInitialize is called before anything can be delivered to the session.
func (s *session) answerInitialize(m jsonrpc.Message, subscribed int) {
	result := s.server.initialized
	if subscribed > 0 {
		result = fmt.Appendf(nil, `%s,"subscribed":%d}`, result[:len(result)-1], subscribed)
	}
	s.answer(m, result)
}

// checkInitialize returns nil if the session may have an identity and patterns, or the reason why
// not, and the pattern if it is one.
func (s *session) checkInitialize(id protocol.PeerID, patterns map[protocol.Pattern]bool) (protocol.Pattern, error) {
	if err := s.client.mayBe(id); err != nil {
		return "", err
	}
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		err := s.client.maySubscribe(p)
		if err == nil {
			err = s.server.presence.maySubscribe(p, patterns[p])
		}
		if err != nil {
			return p, err
		}
	}
	return "", nil
}

// hungUp reports whether the peer has given up a connection, for example because this
// program stood still. It must not lose its identity to what it sent before.
func hungUp(stream jsonrpc.Stream) bool {
	p, ok := stream.(interface{ HungUp() bool })
	return ok && p.HungUp()
}

// initializeExpired reports whether the time to initialize is over. It may be long over if this
// program, or its machine, stood still: the peer is elsewhere by now.
func (c *connection) initializeExpired(at time.Time, timeout time.Duration) bool {
	return at.Sub(c.opened) > timeout
}

// recordConnect records that a peer is connected, and what it subscribes to. If its session
// has ended meanwhile, it records that too.
func (s *session) recordConnect(rpcID jsonrpc.ID, patterns map[protocol.Pattern]bool) {
	s.record(activitylog.Row{Event: activitylog.PeerConnected, Actor: string(s.id), Payload: connectedPayload(s.conn.remote)})
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		s.record(activitylog.Row{
			Event: activitylog.Subscribe, RPCID: rpcID.String(), Actor: string(s.id), Topic: string(p), Status: activitylog.StatusOK,
		})
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

func connectedPayload(remote string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"remote":`), remote), '}')
}

// record writes a row about the session itself to the activity log.
func (s *session) record(row activitylog.Row) {
	row.At = s.batch.now()
	s.client.usage.chargeRow(row)
	s.batch.record(row)
}

// initializeResult is the answer to every initialize.
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
