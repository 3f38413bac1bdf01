package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// claimTTL is how long a claim holds when the agent does not say.
const claimTTL = 10 * time.Minute

// brokerTimeout bounds the wait for the collaboration broker.
const brokerTimeout = 5 * time.Second

// A grant is the broker's answer to a claim.
type grant struct {
	Granted   bool   `json:"granted"`
	Owner     string `json:"owner"`
	Token     int64  `json:"token,omitempty"`
	ExpiresAt string `json:"expiresAt,omitempty"`
}

// errNoBroker says that no collaboration broker is on the bus.
var errNoBroker = errors.New("there is no collaboration broker on the bus")

// asked are the requests to the broker whose answers are awaited.
type asked struct {
	mu      sync.Mutex
	waiting map[string]chan protocol.CollabResult
	seen    bool // the last request found a broker
}

func newAsked() *asked { return &asked{waiting: map[string]chan protocol.CollabResult{}} }

func (a *asked) expect(id string) <-chan protocol.CollabResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan protocol.CollabResult, 1)
	a.waiting[id] = ch
	return ch
}

func (a *asked) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

func (a *asked) answer(r protocol.CollabResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ch, ok := a.waiting[r.RequestID]; ok {
		ch <- r // one answer is expected, and there is room for one
		delete(a.waiting, r.RequestID)
	}
}

func (a *asked) setSeen(seen bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = seen
}

// brokerSeen reports whether the last request found a broker.
func (g *Gateway) brokerSeen() bool {
	g.asked.mu.Lock()
	defer g.asked.mu.Unlock()
	return g.asked.seen
}

// takeResult hears an answer of the broker.
func (g *Gateway) takeResult(_ context.Context, d *peer.Delivery) error {
	var r protocol.CollabResult
	if err := d.Decode(&r); err != nil {
		return peer.Reject("the content of collab_result cannot be read")
	}
	if d.Message.From == protocol.PeerBroker {
		g.asked.answer(r)
	}
	return nil
}

// askBroker sends one request on behalf of an agent and waits for its result.
func (g *Gateway) askBroker(ctx context.Context, agent AgentName, method string, params, result any) error {
	speaker := g.speaker(agent.ID())
	if speaker == nil {
		return errNoBroker
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("writing a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	id := "req_" + ulid.Make().String()
	answer := g.asked.expect(id)
	defer g.asked.forget(id)
	m := protocol.NewMessage(protocol.TypeCollabRequest, agent.ID(), protocol.CollabRequest{Method: method, Params: raw, RequestID: id})
	res, err := speaker.Send(ctx, protocol.TopicBroker, m)
	if err != nil {
		return fmt.Errorf("asking the broker: %w", err)
	}
	got := peer.ReceptionOf(peer.Judge(protocol.TopicBroker, 1, res, nil))
	g.asked.setSeen(got != peer.Absent)
	if got == peer.Absent {
		return errNoBroker
	}
	select {
	case r := <-answer:
		if !r.OK && r.Error != nil {
			return fmt.Errorf("the broker refused: %s", r.Error.Message)
		}
		return json.Unmarshal(r.Result, result)
	case <-ctx.Done():
		return errors.New("the broker did not answer in time; try again")
	}
}

// claim asks for an event and stores the grant. Without a broker every claim is
// granted: nobody else can hold one.
func (g *Gateway) claim(ctx context.Context, e *eventRow, ttl time.Duration) (grant, error) {
	if ttl <= 0 {
		ttl = claimTTL
	}
	var answer struct {
		grant
		Claim *grant `json:"claim"`
	}
	err := g.askBroker(ctx, e.agent, "claim.acquire", map[string]any{"eventId": e.id, "ttlMs": ttl.Milliseconds()}, &answer)
	got := answer.grant
	if answer.Claim != nil {
		got = *answer.Claim
	}
	if errors.Is(err, errNoBroker) {
		got = grant{Granted: true, Owner: string(e.agent.ID()), ExpiresAt: protocol.FormatTime(g.store.now().Add(ttl))}
		err = nil
	}
	if err != nil || !got.Granted {
		return got, err
	}
	err = g.store.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE event SET claim_token = ? WHERE seq = ?`, got.Token, e.seq); err != nil {
			return err
		}
		return g.dispose(ctx, tx, e.agent, e.seq, attention.DispositionClaimed, "claim")
	})
	g.toBus.Wake()
	return got, err
}

// holdClaim sees to it that an agent that answers an event which others may
// answer too holds the claim, where there is a broker to hand it out.
func (g *Gateway) holdClaim(ctx context.Context, e *eventRow) error {
	if !e.needsClaim || e.claimToken != 0 {
		return nil
	}
	got, err := g.claim(ctx, e, 0)
	if err == nil && got.Granted {
		e.claimToken = got.Token
	}
	return err
}

// settleClaim tells the broker how a claimed event ended: answered, so that it
// is closed for all, or not, so that it is offered to others.
func (g *Gateway) settleClaim(ctx context.Context, tx *sql.Tx, agent AgentName, event string, token int64, d attention.Disposition) error {
	method, params := "claim.decline", map[string]any{"eventId": event}
	if d == attention.DispositionResponded || d == attention.DispositionAcknowledged {
		method, params = "claim.release", map[string]any{"eventId": event, "token": token, "answered": true}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("writing a request: %w", err)
	}
	m := protocol.NewMessage(protocol.TypeCollabRequest, agent.ID(), protocol.CollabRequest{
		Method: method, Params: raw, RequestID: "req_" + ulid.Make().String(),
	})
	return g.enqueueBus(ctx, tx, protocol.TopicBroker, fmt.Sprintf("%s %s %d", method, hashSecret(event), token), m)
}
