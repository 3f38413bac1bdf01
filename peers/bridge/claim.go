package bridge

import (
	"cmp"
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

// claimHolder returns the name of the holder of a claim, for people.
func claimHolder(c *collab.Claim) string {
	if c.Owner != "" {
		return c.Owner
	}
	return bareName(string(c.Identity))
}

// ownsClaim reports whether an agent is the owner of a claim.
func ownsClaim(c *collab.Claim, agent protocol.PeerID) bool {
	if c.Identity != "" {
		return c.Identity == agent
	}
	return bareName(c.Owner) == bareName(string(agent))
}

// bareName returns the name of an agent without its role, as records hold it.
func bareName(agent string) string {
	if protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		return protocol.PeerID(agent).Name()
	}
	return agent
}

// A replyCheck is everything that decides whether a reply may be shown.
type replyCheck struct {
	agent     protocol.PeerID
	claim     *protocol.ReplyClaim // the claim that the reply presents
	receivers []protocol.PeerID    // the agents that received the event
	directed  bool                 // at this agent: by a mention, an answer to it, or a direct chat
	hasBroker bool
	newest    collab.Claim // the broker's claim on the event, empty if there is none
	seenToken int64        // the newest token seen before
}

// refusal returns why the reply must not be shown, or "". An event that one agent
// received, or that was directed at the author of the reply, needs no claim. Any other
// event needs the newest claim, if a broker grants claims at all. A claim that the reply
// presents must be valid in any case.
func (c *replyCheck) refusal() string {
	owned := c.newest.Owner != "" || c.newest.Identity != ""
	newest := max(c.newest.Token, c.seenToken)
	switch {
	case c.claim != nil && c.claim.Token < newest:
		return fmt.Sprintf("the claim is stale: token %d was followed by %d", c.claim.Token, newest)
	case c.claim != nil && c.hasBroker && owned && !ownsClaim(&c.newest, c.agent):
		return "the claim on this message is held by " + claimHolder(&c.newest)
	case c.claim != nil && c.hasBroker && c.newest.Token != c.claim.Token:
		return "this claim was never granted, or it has expired; claim the message again"
	case c.claim != nil, c.needsNoClaim(), !c.hasBroker:
		return ""
	case c.newest.State == collab.ClaimAnswered:
		return "this message was answered by " + claimHolder(&c.newest)
	case owned && c.newest.State != collab.ClaimOffered:
		return "the claim on this message is held by " + claimHolder(&c.newest) +
			"; present the claim's token to answer"
	default:
		return "several agents could answer this message, so it needs a claim; claim it first"
	}
}

// needsNoClaim reports whether the agent may answer without a claim.
func (c *replyCheck) needsNoClaim() bool {
	return c.claim == nil && (len(c.receivers) < 2 || c.directed)
}

// answeredByOther reports whether another agent answers or has answered the event.
func (c *replyCheck) answeredByOther() bool {
	held := c.newest.State == "" || c.newest.State == collab.ClaimHeld
	return c.newest.State == collab.ClaimAnswered ||
		held && claimHolder(&c.newest) != "" && !ownsClaim(&c.newest, c.agent)
}

// AuthorizeReply returns nil if a reply may be shown. If its claim does not hold, the
// error settles the reply in an outbox: as dropped if another agent answers, else as
// dead. It asks the broker only if the claim matters; any other error means that the
// broker or the database could not be read.
func (r *Router) AuthorizeReply(ctx context.Context, agent protocol.PeerID, reply *protocol.ChatReply) error {
	event := reply.InReplyTo
	if reply.Claim != nil && reply.Claim.EventID != "" {
		event = reply.Claim.EventID
	}
	if event == "" || protocol.RoleOf(agent) != protocol.RoleAgent {
		return nil
	}
	if reply.InReplyTo != "" && event != reply.InReplyTo && protocol.SourceOfEvent(event) != reply.InReplyTo {
		return outbox.Permanent(fmt.Errorf("the claim is for %s, the answer is to %s", event, reply.InReplyTo))
	}
	c := replyCheck{agent: agent, claim: reply.Claim}
	err := store.Autocommit(ctx, r.db, func(tx *store.Tx) {
		r.loadReceivers(tx, cmp.Or(reply.InReplyTo, event), &c)
		c.seenToken = store.Value[int64](tx, `SELECT token FROM bridge_claims WHERE event = ?`, event)
	})
	if err != nil || c.needsNoClaim() {
		return err
	}
	c.newest, err = r.broker.ClaimOf(ctx, event)
	c.hasBroker = !errors.Is(err, collab.ErrNoBroker)
	if err != nil && c.hasBroker {
		return fmt.Errorf("asking the broker for the claim on %s: %w", event, err)
	}
	reason := c.refusal()
	newest := max(c.newest.Token, c.seenToken)
	if reason == "" && c.claim != nil {
		newest = max(newest, c.claim.Token)
	}
	err = store.Autocommit(ctx, r.db, func(tx *store.Tx) {
		if newest > 0 {
			tx.Exec(`INSERT OR REPLACE INTO bridge_claims (event, token, at) VALUES (?, ?, ?)`, event, newest, r.now())
		}
	})
	switch {
	case err != nil, reason == "":
		return err
	case c.answeredByOther():
		return outbox.Drop(errors.New(reason))
	default:
		return outbox.Permanent(errors.New(reason))
	}
}

// loadReceivers fills in which agents received an event, and whether it was directed at
// the agent.
func (r *Router) loadReceivers(tx *store.Tx, source string, c *replyCheck) {
	for _, e := range store.All(tx, eventColumns, `SELECT event, chat, source, agents FROM bridge_events
		WHERE bridge = ? AND source = ? AND agents <> '' ORDER BY event`, r.opts.Name, source) {
		e.Agent = c.agent
		for _, a := range e.Agents {
			if !slices.Contains(c.receivers, a) {
				c.receivers = append(c.receivers, a)
			}
		}
		m, err := r.adapter.Message(tx, &e)
		if err != nil {
			tx.Fail(err)
			return
		}
		var content protocol.ChatMessage
		if err := json.Unmarshal(m.Content, &content); err != nil {
			tx.Fail(outbox.Permanent(err))
			return
		}
		c.directed = c.directed || content.Chat.Kind == "dm" || slices.Contains(content.Mentions, string(c.agent)) ||
			content.ReplyTo != nil && content.ReplyTo.Author == string(c.agent)
	}
}

// saveBrokerSeen stores when the broker was last seen, for restoreBrokerSeen.
func (r *Router) saveBrokerSeen(ctx context.Context, at time.Time) error {
	return store.Exec(ctx, r.db,
		`INSERT OR REPLACE INTO bridge_broker (bridge, seen_at) VALUES (?, ?)`, r.opts.Name, at.UnixMicro())
}

// restoreBrokerSeen makes claims wait for a broker that was seen before the restart, since
// it may be starting as well. Without a broker, the first answer would be shown.
func (r *Router) restoreBrokerSeen(tx *store.Tx) {
	at, found := store.One(tx, store.Scalar[int64], `SELECT seen_at FROM bridge_broker WHERE bridge = ?`, r.opts.Name)
	if found {
		r.broker.Recall(time.UnixMicro(at))
	}
}
