package system

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

const (
	announceBackoff = 10 * time.Second // maximum delay between attempts
	announceTimeout = 40 * time.Second // of one attempt; the bus answers within 30 s
	stopTimeout     = 2 * time.Second  // for running attempts when Run ends
	maxAnnouncement = 64 << 10         // bytes
)

// An announcement is a queued message, with the request that it answers.
type announcement struct {
	Topic     protocol.Topic   `json:"topic"`
	Message   protocol.Message `json:"message"`
	Requester protocol.PeerID  `json:"requester,omitempty"`
	ID        string           `json:"id,omitempty"`
	For       protocol.Topic   `json:"for,omitempty"` // the topic of the request
}

// A LifecycleEvent is the content of the agent_events to system:agents about the lifecycle of an
// agent.
type LifecycleEvent struct {
	Event  string          `json:"event"` // "wanted", "spawned", "exited", "failed" or "stopped"
	Agent  protocol.PeerID `json:"agent"`
	Reason string          `json:"reason,omitempty"`
}

// answer queues the answers to a request: its agent is online, or why it is not. Peers that watch
// system:route are notified of an assignment, too.
func (s *Spawner) answer(tx *store.Tx, r request, agent AgentName, failure error) {
	result := protocol.SpawnResult{RequestID: r.requestID, Topic: r.topic, Status: protocol.SpawnSpawned}
	if agent != "" {
		result.Agent = agent.PeerID()
	}
	if failure != nil {
		result.Status, result.Error = protocol.SpawnFailed, publicMessage(failure)
	}
	answers := []announcement{s.announcement(r, r.requester.Topic(), protocol.TypeSpawnResult, result)}
	if failure == nil {
		route := protocol.RouteAssigned{Topic: r.topic, Agent: agent.PeerID(), RequestID: r.requestID}
		assigned := s.announcement(r, r.topic, protocol.TypeRouteAssigned, route)
		watched := protocol.RouteCopy(assigned.Message)
		answers = append(answers, assigned)
		s.announce(tx, announcement{Topic: watched.Topic, Message: watched.Payload})
	}
	storeRequest(tx, r, agent, len(answers))
	s.announce(tx, answers...)
}

func (s *Spawner) announcement(r request, topic protocol.Topic, t protocol.MessageType, content any) announcement {
	m := s.peer.NewMessage(t, content)
	m.InReplyTo, m.TraceParent = r.message, r.trace
	return announcement{Topic: topic, Message: m, Requester: r.requester, ID: r.id, For: r.topic}
}

// announceEvent queues an agent_event to system:agents.
func (s *Spawner) announceEvent(tx *store.Tx, event string, agent AgentName, reason string) {
	content := LifecycleEvent{Event: event, Agent: agent.PeerID(), Reason: reason}
	s.announce(tx, announcement{
		Topic: protocol.TopicAgents, Message: s.peer.NewMessage(protocol.TypeAgentEvent, content),
	})
}

func (s *Spawner) announce(tx *store.Tx, all ...announcement) {
	for _, a := range all {
		body, err := json.Marshal(a)
		if err != nil {
			tx.Fail(fmt.Errorf("writing an announcement: %w", err))
		}
		_, err = s.outbox.EnqueueTx(tx, string(a.Topic), string(a.Message.MessageID), body)
		tx.Fail(err)
	}
}

// sendAnnouncement makes one attempt to send an announcement from the outbox.
func (s *Spawner) sendAnnouncement(ctx context.Context, item outbox.Item) error {
	var a announcement
	if err := json.Unmarshal(item.Body, &a); err != nil {
		return outbox.Permanent(fmt.Errorf("reading an announcement: %w", err))
	}
	err := s.peer.Deliver(ctx, a.Topic, item.Attempt, a.Message)
	s.opts.failpoint("announced " + string(a.Message.Type))
	return err
}

// onSettled deletes a request once its last answer was delivered or has failed.
func (s *Spawner) onSettled(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	var a announcement
	if outcome != outbox.StateSent && outcome != outbox.StateDropped {
		s.opts.Log.Warn().Str("topic", item.Destination).Str("message_id", item.Key).Str("outcome", string(outcome)).
			Err(cause).Msg("announcement not delivered")
	}
	if json.Unmarshal(item.Body, &a) == nil && a.Requester != "" {
		settleRequest(tx, a)
	}
}
