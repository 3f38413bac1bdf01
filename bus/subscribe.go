package bus

import (
	"fmt"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

var success = []byte(`{"success":true}`)

// subscribe adds a pattern to the session's set (section 5.1). If the set contains the pattern,
// only its observe flag changes.
func (s *session) subscribe(m jsonrpc.Message) {
	if err := s.client.usage.chargeChange(s.batch.at, len(m.Params)); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
		return
	}
	pattern, observe, err := protocol.ScanSubscribe(&s.batch.parser, m.Params)
	if err == nil {
		var granted bool
		if granted, err = s.addPattern(pattern, observe); !granted {
			s.record(activitylog.Row{
				Event: activitylog.Rejected, RPCID: m.ID.String(), Actor: string(s.id), Topic: string(pattern),
				Status: string(protocol.OutcomeRejected), Error: err.Error(),
			})
		}
	}
	if err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	s.recordSubscription(activitylog.Subscribe, m.ID, pattern)
	s.answer(m, success)
}

// recordSubscription records a change of the session's patterns.
func (s *session) recordSubscription(event activitylog.Event, rpcID jsonrpc.ID, p protocol.Pattern) {
	s.record(activitylog.Row{
		Event:  event,
		RPCID:  rpcID.String(),
		Actor:  string(s.id),
		Topic:  string(p),
		Status: activitylog.StatusOK,
	})
}

// addPattern adds a pattern if the credential grants it. It checks the credential under the lock
// that recheck also takes, so that no subscription outlives its grant.
func (s *session) addPattern(p protocol.Pattern, observe bool) (granted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.client.maySubscribe(p); err != nil {
		return false, err
	}
	if s.lifecycle.inactive() {
		return true, nil
	}
	if err := s.server.presence.maySubscribe(p, observe); err != nil {
		return true, err
	}
	if _, ok := s.patterns[p]; !ok {
		if len(s.patterns) >= s.server.options.MaxSubscriptions {
			s.server.metrics.limit(limitSubscriptions)
			return true, tooManyPatterns(s.server.options.MaxSubscriptions)
		}
		if err := s.client.usage.addSubscriptions(s.batch.at, 1, 0); err != nil {
			return true, err
		}
	}
	if s.patterns == nil {
		s.patterns = map[protocol.Pattern]bool{}
	}
	s.patterns[p] = observe
	s.server.index.add(&s.self, p, observe)
	if c := s.server.options.Cluster; c != nil {
		c.Subscribed(s.id, p, observe)
	}
	return true, nil
}

func tooManyPatterns(most int) error {
	return fmt.Errorf("a session may have at most %d subscriptions; unsubscribe from some or use a wider pattern", most)
}

// unsubscribe removes the pattern with exactly that text (section 5.2).
func (s *session) unsubscribe(m jsonrpc.Message) {
	if err := s.client.usage.chargeChange(s.batch.at, len(m.Params)); err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
		return
	}
	pattern, _, err := protocol.ScanSubscribe(&s.batch.parser, m.Params)
	if err != nil {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "%v", err))
		return
	}
	if !s.removePattern(pattern) {
		s.refuse(m, jsonrpc.Errorf(protocol.CodeSubscriptionNotFound, "there is no subscription to %q", pattern))
		return
	}
	s.recordSubscription(activitylog.Unsubscribe, m.ID, pattern)
	s.answer(m, success)
}

func (s *session) removePattern(p protocol.Pattern) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.patterns[p]; !ok {
		return false
	}
	s.dropPatternLocked(p)
	return true
}

func (s *session) dropPatternLocked(p protocol.Pattern) {
	delete(s.patterns, p)
	s.client.usage.removeSubscriptions(1)
	s.server.index.remove(&s.self, p)
	if c := s.server.options.Cluster; c != nil {
		c.Unsubscribed(s.id, p)
	}
}
