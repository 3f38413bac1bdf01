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

// claimHolder returns who may answer, as people name it.
func claimHolder(c *collab.Claim) string {
	if c.Owner != "" {
		return c.Owner
	}
	return bareName(string(c.Identity))
}

// ownsClaim reports whether an agent is a claim's owner.
func ownsClaim(c *collab.Claim, agent protocol.PeerID) bool {
	if c.Identity != "" {
		return c.Identity == agent
	}
	return bareName(c.Owner) == bareName(string(agent))
}

// bareName returns an identity as records hold it: without its family.
func bareName(agent string) string {
	if protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		return protocol.PeerID(agent).Name()
	}
	return agent
}

// A replyCheck is all that the decision about a claim depends on.
type replyCheck struct {
	agent     protocol.PeerID
	claim     *protocol.ReplyClaim // what the reply brings along
	receivers []protocol.PeerID    // the agents that got the event
	directed  bool                 // the event was directed at this agent: a mention, an answer to it, a direct chat
	hasBroker bool                 // there is a broker
	newest    collab.Claim         // the broker's, empty if nobody holds the event
	seenToken int64                // the newest token seen earlier
}

// refusal decides whether a reply may be shown. It returns the reason why not, or "".
// An event that one agent got, or that was directed at the one who answers, needs no
// claim. Any other needs the newest claim, if there is a broker that gives claims at
// all. A claim that is shown must be good in every case.
func (v *replyCheck) refusal() string {
	owned := v.newest.Owner != "" || v.newest.Identity != ""
	switch {
	case v.claim != nil && v.claim.Token < max(v.newest.Token, v.seenToken):
		return fmt.Sprintf("the claim is stale: token %d was followed by %d", v.claim.Token, max(v.newest.Token, v.seenToken))
	case v.claim != nil && v.hasBroker && owned && !ownsClaim(&v.newest, v.agent):
		return "the claim on this message is held by " + claimHolder(&v.newest)
	case v.claim != nil && v.hasBroker && v.newest.Token != v.claim.Token:
		return "nobody was given this claim, or it has expired"
	case v.claim != nil, v.needsNoClaim(), !v.hasBroker:
		return ""
	case v.newest.State == collab.ClaimAnswered:
		return "this message was answered by " + claimHolder(&v.newest)
	case owned && v.newest.State != collab.ClaimOffered:
		return "the claim on this message is held by " + claimHolder(&v.newest) + "; show the claim's token to answer"
	default:
		return "several agents could answer this message, so it needs a claim"
	}
}

// needsNoClaim reports whether the agent may answer without a claim.
func (v *replyCheck) needsNoClaim() bool {
	return v.claim == nil && (len(v.receivers) < 2 || v.directed)
}

// answeredByOther reports whether another agent answers or has answered, so that nobody
// misses the reply that is refused.
func (v *replyCheck) answeredByOther() bool {
	held := v.newest.State == "" || v.newest.State == collab.ClaimHeld
	return v.newest.State == collab.ClaimAnswered || held && claimHolder(&v.newest) != "" && !ownsClaim(&v.newest, v.agent)
}

// AuthorizeReply refuses a reply whose claim does not hold, with an error that settles it
// in an outbox: dropped where another agent answers, dead otherwise. It asks the
// broker if the answer matters; any other error says that it could not.
func (r *Router) AuthorizeReply(ctx context.Context, agent protocol.PeerID, reply *protocol.ChatReply) error {
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
	tx := store.On(ctx, r.db)
	v := replyCheck{agent: agent, claim: reply.Claim}
	r.loadReceivers(tx, event, &v)
	if tx.Err() == nil && v.needsNoClaim() {
		return nil
	}
	v.seenToken = store.Value[int64](tx, `SELECT token FROM bridge_claims WHERE event = ?`, event)
	if tx.Err() != nil {
		return tx.Err()
	}
	var err error
	v.newest, err = r.broker.ClaimOf(ctx, event)
	v.hasBroker = !errors.Is(err, collab.ErrNoBroker)
	if err != nil && v.hasBroker {
		return fmt.Errorf("asking the broker for the claim on %s: %w", event, err)
	}
	reason := v.refusal()
	newest := max(v.newest.Token, v.seenToken)
	if reason == "" && v.claim != nil {
		newest = max(newest, v.claim.Token)
	}
	if newest > 0 {
		tx.Exec(`INSERT OR REPLACE INTO bridge_claims (event, token, at) VALUES (?, ?, ?)`, event, newest, r.now())
	}
	switch {
	case tx.Err() != nil, reason == "":
		return tx.Err()
	case v.answeredByOther():
		return outbox.Drop(errors.New(reason))
	default:
		return outbox.Permanent(errors.New(reason))
	}
}

// saveBrokerSeen stores when the broker was there, for restoreBrokerSeen.
func (r *Router) saveBrokerSeen(ctx context.Context, at time.Time) error {
	tx := store.On(ctx, r.db)
	tx.Exec(`INSERT OR REPLACE INTO bridge_broker (bridge, seen_at) VALUES (?, ?)`, r.opts.Name, at.UnixMicro())
	return tx.Err()
}

// restoreBrokerSeen has a broker that the last run saw waited for, as it may be starting
// together with this program: without it, whoever answers first would be shown.
func (r *Router) restoreBrokerSeen(tx *store.Tx) {
	at, found := store.One(tx, store.Scalar[int64], `SELECT seen_at FROM bridge_broker WHERE bridge = ?`, r.opts.Name)
	if found {
		r.broker.Recall(time.UnixMicro(at))
	}
}

// loadReceivers fills in who got an event, and whether it was directed at the agent.
func (r *Router) loadReceivers(tx *store.Tx, source string, v *replyCheck) {
	for _, e := range store.All(tx, eventColumns, `SELECT event, chat, source, agents FROM bridge_events
		WHERE bridge = ? AND source = ? AND agents <> '' ORDER BY event`, r.opts.Name, source) {
		e.Agent = v.agent
		for _, a := range e.Agents {
			if !slices.Contains(v.receivers, a) {
				v.receivers = append(v.receivers, a)
			}
		}
		m, err := r.adapter.Message(tx.Context(), &e)
		if err != nil {
			tx.Fail(err)
			return
		}
		var content protocol.ChatMessage
		if err := json.Unmarshal(m.Content, &content); err != nil {
			tx.Fail(outbox.Permanent(err))
			return
		}
		v.directed = v.directed || content.Chat.Kind == "dm" || slices.Contains(content.Mentions, string(v.agent)) ||
			content.ReplyTo != nil && content.ReplyTo.Author == string(v.agent)
	}
}
