package tg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A claimState is what the broker says about the claim on an event.
type claimState struct {
	Owner    string `json:"owner"`         // the name of the holder, or of the last one
	Identity string `json:"ownerIdentity"` // whose replies may carry the token
	Token    int64  `json:"token"`
	State    string `json:"state"` // held, offered or answered; empty where a broker does not tell
}

// holder is who may answer, as people name it.
func (c *claimState) holder() string {
	if c.Owner != "" {
		return c.Owner
	}
	return bare(c.Identity)
}

// isOf reports whether an agent is the claim's owner.
func (c *claimState) isOf(agent string) bool {
	if c.Identity != "" {
		return c.Identity == agent
	}
	return bare(c.Owner) == bare(agent)
}

// A claimView is all that the decision about a claim depends on.
type claimView struct {
	agent     string
	shown     *protocol.ReplyClaim // what the reply brings along
	receivers []string             // the agents that got the event
	direct    bool                 // the event was directed at this agent: a mention, an answer to it, a direct chat
	broker    bool                 // there is a broker
	newest    claimState           // the broker's, empty when nobody holds the event
	seen      int64                // the newest token seen earlier
}

// judgeClaim decides whether a reply may be shown. It returns the reason why
// not, or "". An event that one agent got, or that was directed at the one who
// answers, needs no claim. Any other needs the newest claim, if there is a broker
// that gives claims at all. A claim that is shown must be good in every case.
func judgeClaim(v *claimView) string {
	owned := v.newest.Owner != "" || v.newest.Identity != ""
	switch {
	case v.shown != nil && v.shown.Token < max(v.newest.Token, v.seen):
		return fmt.Sprintf("the claim is stale: token %d was followed by %d", v.shown.Token, max(v.newest.Token, v.seen))
	case v.shown != nil && v.broker && owned && !v.newest.isOf(v.agent):
		return "the claim on this message is held by " + v.newest.holder()
	case v.shown != nil && v.broker && v.newest.Token != v.shown.Token:
		return "nobody was given this claim, or it has expired"
	case v.shown != nil:
		return ""
	case len(v.receivers) < 2 || v.direct || !v.broker:
		return ""
	case v.newest.State == "answered":
		return "this message was answered by " + v.newest.holder()
	case owned && v.newest.State != "offered":
		return "the claim on this message is held by " + v.newest.holder() + "; show the claim's token to answer"
	default:
		return "several agents could answer this message, so it needs a claim"
	}
}

// taken reports whether another agent answers or has answered, so that nobody
// misses the reply that is refused.
func (v *claimView) taken() bool {
	held := v.newest.State == "" || v.newest.State == "held"
	return v.newest.State == "answered" || held && v.newest.holder() != "" && !v.newest.isOf(v.agent)
}

// bare is an identity as records hold it: without its family.
func bare(agent string) string {
	if protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		return protocol.PeerID(agent).Name()
	}
	return agent
}

// checkClaim refuses a reply whose claim does not hold. It asks the broker, if
// the answer matters.
func (b *Bridge) checkClaim(ctx context.Context, o *outgoing) error {
	event := o.content.InReplyTo
	if o.content.Claim != nil && o.content.Claim.EventID != "" {
		event = o.content.Claim.EventID
	}
	if event == "" || protocol.RoleOf(protocol.PeerID(o.agent)) != protocol.RoleAgent {
		return nil
	}
	v := claimView{agent: o.agent, shown: o.content.Claim}
	if v.shown != nil && event != o.content.InReplyTo && o.content.InReplyTo != "" {
		return permanent(fmt.Errorf("the claim is for %s, the answer is to %s", event, o.content.InReplyTo))
	}
	if err := b.eventView(ctx, event, &v); err != nil {
		return err
	}
	if v.shown == nil && (len(v.receivers) < 2 || v.direct) {
		return nil
	}
	if err := b.db.QueryRowContext(ctx, `SELECT coalesce((SELECT token FROM claims WHERE event = ?), 0)`, event).Scan(&v.seen); err != nil {
		return err
	}
	var err error
	if v.newest, v.broker, err = b.broker.claimOf(ctx, event); err != nil {
		return fmt.Errorf("asking the broker for the claim on %s: %w", event, err)
	}
	if newest := max(v.newest.Token, v.seen); newest > 0 {
		if err := exec(ctx, b.db, `INSERT OR REPLACE INTO claims (event, token, seen) VALUES (?, ?, ?)`, event, newest, now()); err != nil {
			return err
		}
	}
	reason := judgeClaim(&v)
	if reason == "" {
		if v.shown != nil && v.shown.Token > v.seen {
			return exec(ctx, b.db, `INSERT OR REPLACE INTO claims (event, token, seen) VALUES (?, ?, ?)`, event, v.shown.Token, now())
		}
		return nil
	}
	if v.taken() {
		return needless(errors.New(reason))
	}
	return permanent(errors.New(reason))
}

// eventView fills in who got an event, and whether it was directed at the agent.
func (b *Bridge) eventView(ctx context.Context, source string, v *claimView) error {
	rows, err := b.db.QueryContext(ctx, `SELECT id, chat, agents FROM events WHERE source_id = ? AND queued = 1 ORDER BY id`, source)
	if err != nil {
		return err
	}
	type found struct {
		event, chat int64
		agents      string
	}
	var all []found
	for rows.Next() {
		var f found
		if err := rows.Scan(&f.event, &f.chat, &f.agents); err != nil {
			return errors.Join(err, rows.Close())
		}
		all = append(all, f)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, f := range all {
		var agents []string
		if err := json.Unmarshal([]byte(f.agents), &agents); err != nil {
			return permanent(err)
		}
		for _, a := range agents {
			if !slices.Contains(v.receivers, a) {
				v.receivers = append(v.receivers, a)
			}
		}
		m, err := b.eventMessage(ctx, f.chat, f.event, v.agent)
		if err != nil {
			return err
		}
		var content protocol.ChatMessage
		if err := json.Unmarshal(m.Content, &content); err != nil {
			return permanent(err)
		}
		v.direct = v.direct || content.Chat.Kind == "dm" || slices.Contains(content.Mentions, v.agent) ||
			content.ReplyTo != nil && content.ReplyTo.Author == v.agent
	}
	return nil
}

// A broker asks the collaboration broker, if one is on the bus.
type broker struct {
	b *Bridge

	mu      sync.Mutex
	waiting map[string]chan protocol.CollabResult // by requestId
}

func newBroker(b *Bridge) *broker {
	return &broker{b: b, waiting: map[string]chan protocol.CollabResult{}}
}

const brokerTimeout = 10 * time.Second

// claimOf returns the claim on an event; false when there is no broker.
func (k *broker) claimOf(ctx context.Context, event string) (claimState, bool, error) {
	params, err := json.Marshal(map[string]string{"eventId": event})
	if err != nil {
		return claimState{}, false, err
	}
	request := "req_" + ulid.Make().String()
	answer := make(chan protocol.CollabResult, 1)
	k.mu.Lock()
	k.waiting[request] = answer
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.waiting, request)
		k.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, brokerTimeout, errors.New("the broker did not answer"))
	defer cancel()
	m := k.b.peer.NewMessage(protocol.TypeCollabRequest, protocol.CollabRequest{Method: "claim.get", Params: params, RequestID: request})
	result, err := k.b.peer.Send(ctx, protocol.TopicBroker, m)
	if err != nil {
		return claimState{}, false, err
	}
	if err := heard(string(protocol.PeerBroker), &result); errors.Is(err, errAbsent) {
		return claimState{}, false, nil
	} else if err != nil {
		return claimState{}, true, err
	}
	select {
	case r := <-answer:
		return readClaim(&r)
	case <-ctx.Done():
		return claimState{}, true, context.Cause(ctx)
	}
}

// readClaim reads claim.get's answer. An event that nobody claimed is not found,
// or has an empty claim.
func readClaim(r *protocol.CollabResult) (claimState, bool, error) {
	if !r.OK {
		if r.Error != nil && r.Error.Code == "not_found" {
			return claimState{}, true, nil
		}
		why := "no reason was given"
		if r.Error != nil {
			why = r.Error.Message
		}
		return claimState{}, true, errors.New(why)
	}
	var body struct {
		Claim *claimState `json:"claim"`
		claimState
	}
	if len(r.Result) > 0 {
		if err := json.Unmarshal(r.Result, &body); err != nil {
			return claimState{}, true, fmt.Errorf("the broker's answer cannot be read: %w", err)
		}
	}
	state := body.claimState
	if body.Claim != nil {
		state = *body.Claim
	}
	return state, true, nil
}

// takeResult is a collab_result.
func (k *broker) takeResult(_ context.Context, d *peer.Delivery) error {
	var r protocol.CollabResult
	if err := d.Decode(&r); err != nil {
		return peer.Reject("the content of this collab_result cannot be read: " + err.Error())
	}
	if d.Message.From != protocol.PeerBroker {
		return peer.Reject("only the broker answers collab_requests")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if answer, ok := k.waiting[r.RequestID]; ok {
		delete(k.waiting, r.RequestID)
		answer <- r
	}
	return nil
}
