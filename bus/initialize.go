package bus

import (
	"encoding/json"

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
	if s.ready.Load() {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeNotInitialized, "the session is initialized already, as %s", s.id))
		return
	}
	id, err := protocol.ScanInitialize(&s.batch.parser, m.Params)
	if err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if err := s.mayBe(id); err != nil {
		s.record(activitylog.Row{
			Event: activitylog.Rejected, RPCID: m.ID.String(), Actor: string(id), Status: string(protocol.OutcomeRejected), Error: err.Error(),
		})
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	older, ok := s.server.register(s, id)
	if !ok {
		return // the session was ended meanwhile, and its stream is being closed
	}
	if older != nil {
		older.evict(s.batch, protocol.CloseReplaced, "replaced")
	}
	s.record(activitylog.Row{Event: activitylog.PeerConnected, Actor: string(id), Payload: connected(s.remote)})
	if reason, ok := s.open(); !ok {
		s.record(activitylog.Row{Event: activitylog.PeerDisconnected, Actor: string(id), Error: reason})
		return
	}
	s.server.options.Log.Info().Str("peer", string(id)).Str("remote", s.remote).Msg("peer connected")
	if err := s.mayBe(id); err != nil { // the credential changed before recheck could see the session as ready
		s.evict(s.batch, wire.ClosePolicy, errRevoked.Error())
		return
	}
	s.answer(m, s.server.initialized)
}

// open marks a session as initialized. If the session has ended already, it returns
// the reason and false.
func (s *session) open() (reason string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.endReason, false
	}
	s.ready.Store(true)
	if c := s.server.options.Cluster; c != nil {
		c.Joined(s.id, s.stamp)
	}
	return "", true
}

func connected(remote string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"remote":`), remote), '}')
}

// record writes a row about the session itself to the activity log.
func (s *session) record(row activitylog.Row) {
	row.At = s.batch.now()
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
