package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// holderOf returns who may answer, as people name it.
func holderOf(c *collab.Claim) string {
	if c.Owner != "" {
		return c.Owner
	}
	return bare(string(c.Identity))
}

// isOf reports whether an agent is a claim's owner.
func isOf(c *collab.Claim, agent protocol.PeerID) bool {
	if c.Identity != "" {
		return c.Identity == agent
	}
	return bare(c.Owner) == bare(string(agent))
}

// bare returns an identity as records hold it: without its family.
func bare(agent string) string {
	if protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		return protocol.PeerID(agent).Name()
	}
	return agent
}

// A claimView is all that the decision about a claim depends on.
type claimView struct {
	agent     protocol.PeerID
	shown     *protocol.ReplyClaim // what the reply brings along
	receivers []protocol.PeerID    // the agents that got the event
	direct    bool                 // the event was directed at this agent: a mention, an answer to it, a direct chat
	broker    bool                 // there is a broker
	newest    collab.Claim         // the broker's, empty if nobody holds the event
	seen      int64                // the newest token seen earlier
}

// judge decides whether a reply may be shown. It returns the reason why not, or "".
// An event that one agent got, or that was directed at the one who answers, needs no
// claim. Any other needs the newest claim, if there is a broker that gives claims at
// all. A claim that is shown must be good in every case.
func (v *claimView) judge() string {
	owned := v.newest.Owner != "" || v.newest.Identity != ""
	switch {
	case v.shown != nil && v.shown.Token < max(v.newest.Token, v.seen):
		return fmt.Sprintf("the claim is stale: token %d was followed by %d", v.shown.Token, max(v.newest.Token, v.seen))
	case v.shown != nil && v.broker && owned && !isOf(&v.newest, v.agent):
		return "the claim on this message is held by " + holderOf(&v.newest)
	case v.shown != nil && v.broker && v.newest.Token != v.shown.Token:
		return "nobody was given this claim, or it has expired"
	case v.shown != nil, v.free(), !v.broker:
		return ""
	case v.newest.State == collab.ClaimAnswered:
		return "this message was answered by " + holderOf(&v.newest)
	case owned && v.newest.State != collab.ClaimOffered:
		return "the claim on this message is held by " + holderOf(&v.newest) + "; show the claim's token to answer"
	default:
		return "several agents could answer this message, so it needs a claim"
	}
}

// free reports whether the agent may answer without a claim.
func (v *claimView) free() bool { return v.shown == nil && (len(v.receivers) < 2 || v.direct) }

// taken reports whether another agent answers or has answered, so that nobody
// misses the reply that is refused.
func (v *claimView) taken() bool {
	held := v.newest.State == "" || v.newest.State == collab.ClaimHeld
	return v.newest.State == collab.ClaimAnswered || held && holderOf(&v.newest) != "" && !isOf(&v.newest, v.agent)
}

// AuthorizeReply refuses a reply whose claim does not hold, with an error that settles it
// in an outbox: dropped where another agent answers, dead otherwise. It asks the
// broker if the answer matters; any other error says that it could not.
func (s *Router) AuthorizeReply(ctx context.Context, agent protocol.PeerID, reply *protocol.ChatReply) error {
	event := reply.InReplyTo
	if reply.Claim != nil && reply.Claim.EventID != "" {
		event = reply.Claim.EventID
	}
	if event == "" || protocol.RoleOf(agent) != protocol.RoleAgent {
		return nil
	}
	if reply.Claim != nil && event != reply.InReplyTo && reply.InReplyTo != "" {
		return outbox.Permanent(fmt.Errorf("the claim is for %s, the answer is to %s", event, reply.InReplyTo))
	}
	tx := store.On(ctx, s.db)
	v := claimView{agent: agent, shown: reply.Claim}
	s.viewEvent(tx, event, &v)
	if tx.Err() == nil && v.free() {
		return nil
	}
	v.seen = store.Value[int64](tx, `SELECT token FROM surface_claims WHERE event = ?`, event)
	if tx.Err() != nil {
		return tx.Err()
	}
	var err error
	v.newest, err = s.broker.ClaimOf(ctx, event)
	v.broker = !errors.Is(err, collab.ErrNoBroker)
	if err != nil && v.broker {
		return fmt.Errorf("asking the broker for the claim on %s: %w", event, err)
	}
	reason := v.judge()
	newest := max(v.newest.Token, v.seen)
	if reason == "" && v.shown != nil {
		newest = max(newest, v.shown.Token)
	}
	if newest > 0 {
		tx.Exec(`INSERT OR REPLACE INTO surface_claims (event, token, at) VALUES (?, ?, ?)`, event, newest, s.now())
	}
	switch {
	case tx.Err() != nil, reason == "":
		return tx.Err()
	case v.taken():
		return outbox.Drop(errors.New(reason))
	default:
		return outbox.Permanent(errors.New(reason))
	}
}

// rememberBroker stores when the broker was there, for recallBroker.
func (s *Router) rememberBroker(ctx context.Context, at time.Time) error {
	tx := store.On(ctx, s.db)
	tx.Exec(`INSERT OR REPLACE INTO surface_broker (surface, seen_at) VALUES (?, ?)`, s.opts.Name, at.UnixMicro())
	return tx.Err()
}

// recallBroker has a broker that the last run saw waited for, as it may be starting
// together with this program: without it, whoever answers first would be shown.
func (s *Router) recallBroker(tx *store.Tx) {
	at, found := store.One(tx, store.Itself[int64], `SELECT seen_at FROM surface_broker WHERE surface = ?`, s.opts.Name)
	if found {
		s.broker.Recall(time.UnixMicro(at))
	}
}

// viewEvent fills in who got an event, and whether it was directed at the agent.
func (s *Router) viewEvent(tx *store.Tx, source string, v *claimView) {
	for _, e := range store.All(tx, eventColumns, `SELECT event, chat, source, agents FROM surface_events
		WHERE surface = ? AND source = ? AND agents <> '' ORDER BY event`, s.opts.Name, source) {
		e.Agent = v.agent
		for _, a := range e.Agents {
			if !slices.Contains(v.receivers, a) {
				v.receivers = append(v.receivers, a)
			}
		}
		m, err := s.adapter.Message(tx.Context(), &e)
		if err != nil {
			tx.Fail(err)
			return
		}
		var content protocol.ChatMessage
		if err := json.Unmarshal(m.Content, &content); err != nil {
			tx.Fail(outbox.Permanent(err))
			return
		}
		v.direct = v.direct || content.Chat.Kind == "dm" || slices.Contains(content.Mentions, string(v.agent)) ||
			content.ReplyTo != nil && content.ReplyTo.Author == string(v.agent)
	}
}
