package collab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"
)

const (
	// Patience is how long a request waits for its answer.
	Patience = 10 * time.Second
	// Grace is how long clients wait for a broker that went away. Without it, each of them would
	// answer an event without a claim while the broker restarts.
	Grace = 15 * time.Second
	// ClaimTTL is the default duration of a claim.
	ClaimTTL = 5 * time.Minute
)

var errPatience = fmt.Errorf("the collaboration broker did not answer within %s", Patience)

// A SendFunc publishes one message in the name of its sender, like peer.Peer.Send.
type SendFunc func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error)

// Options are the optional settings of a Client. Nil is valid.
type Options struct {
	// Remember stores the time at which the broker was seen, for Recall at the next start. It is
	// called at most once an hour, while a request is made.
	Remember func(ctx context.Context, at time.Time) error
	Log      *zerolog.Logger // default: no log
}

// A Client asks the broker as one identity.
type Client struct {
	self     protocol.PeerID
	endpoint string // used by Attend
	look     notify.Signal
	*connection
}

// A connection is shared by the clients of one program.
type connection struct {
	send     SendFunc
	remember func(ctx context.Context, at time.Time) error
	log      *zerolog.Logger
	presence presence

	waiting sync.Map // by request id, a chan *protocol.CollabResult
}

// New makes a client that asks as self. Take must receive the collab_results sent to self.
func New(self protocol.PeerID, send SendFunc, opts *Options) *Client {
	s := &connection{send: send}
	if opts != nil {
		s.remember, s.log = opts.Remember, opts.Log
	}
	defaults.Log(&s.log)
	return (&Client{connection: s}).As(self)
}

// As returns a client with another identity, for programs that have several. It shares Take and
// the knowledge about the broker.
func (c *Client) As(id protocol.PeerID) *Client {
	return &Client{self: id, endpoint: "endpoint-" + ulid.Make().String(), look: notify.New(), connection: c.connection}
}

// Endpoint returns the id under which Attend announces the client.
func (c *Client) Endpoint() string { return c.endpoint }

// Call sends one request and waits for its result. The error is a *collab.Error if the broker
// refused, and collab.ErrNoBroker if there is none.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	limit, cancel := context.WithTimeoutCause(ctx, Patience, errPatience)
	defer cancel()
	request := collab.NewRequest(c.self, method, params)
	answer := make(chan *protocol.CollabResult, 1)
	c.waiting.Store(request.ID, answer)
	defer c.waiting.Delete(request.ID)
	result, err := c.send(limit, protocol.TopicBroker, request.Message)
	err = peer.Classify(protocol.TopicBroker, 1, result, err)
	reception := peer.OutcomeOf(err)
	if reception == peer.Absent || reception == peer.Left {
		c.presence.note(false)
	}
	switch {
	case limit.Err() != nil:
		return nil, context.Cause(limit)
	case reception == peer.Absent:
		return nil, collab.ErrNoBroker
	case err != nil && len(answer) == 0:
		return nil, fmt.Errorf("asking the collaboration broker: %w", err)
	}
	select {
	case r := <-answer:
		c.noteAnswer(ctx)
		return collab.ReadResult(r)
	case <-limit.Done():
		return nil, context.Cause(limit)
	}
}

// noteAnswer records that the broker is online, for this run and the next one.
func (c *Client) noteAnswer(ctx context.Context) {
	c.presence.note(true)
	if c.remember == nil || !c.presence.toRemember() {
		return
	}
	if err := c.remember(ctx, time.Now()); err != nil && ctx.Err() == nil {
		c.log.Warn().Err(err).Msg("storing that there is a collaboration broker failed")
	}
}

// Take is the handler of collab_result. It passes an answer to the waiting Call.
func (s *connection) Take(_ context.Context, d *peer.Delivery) error {
	if d.Message.From != protocol.PeerBroker {
		return peer.Reject("only the collaboration broker answers requests")
	}
	var r protocol.CollabResult
	if err := d.Decode(&r); err != nil {
		return peer.Reject("the content is not a collab_result: " + err.Error())
	}
	s.Answer(&r)
	return nil
}

// Answer is Take for a program without a peer.Peer. It does not block.
func (s *connection) Answer(r *protocol.CollabResult) {
	answer, waits := s.waiting.LoadAndDelete(r.RequestID)
	switch {
	case waits:
		answer.(chan *protocol.CollabResult) <- r
	case !r.OK && r.Error != nil:
		s.log.Warn().Str("request", r.RequestID).Str("code", r.Error.Code).Str("reason", r.Error.Message).
			Msg("the collaboration broker refused a request")
	}
}

// Claim acquires or prolongs the claim on an event. It waits for a broker that has just gone
// away. ErrNoBroker means that no broker arbitrates claims.
func (c *Client) Claim(ctx context.Context, eventID string, ttl time.Duration) (collab.Grant, error) {
	return retryWhileAway(ctx, c, collab.ClaimAcquire, collab.ClaimParams{EventID: eventID, TTLMs: ttl.Milliseconds()})
}

// ClaimOf returns the claim on an event, or the zero Claim if it was never claimed. It waits like
// Claim.
func (c *Client) ClaimOf(ctx context.Context, eventID string) (collab.Claim, error) {
	r, err := retryWhileAway(ctx, c, collab.ClaimGet, collab.ClaimParams{EventID: eventID})
	if collab.Refusal(err) == collab.CodeNotFound {
		return collab.Claim{}, nil
	}
	return r.Claim, err
}

// retryWhileAway repeats a request while the broker is away and may return soon. The request must be
// repeatable.
func retryWhileAway[P, R any](ctx context.Context, c *Client, m collab.Method[P, R], params P) (R, error) {
	for {
		result, err := m.Ask(ctx, c, params)
		gone := errors.Is(err, collab.ErrNoBroker) || peer.OutcomeOf(err) == peer.Left
		if !gone || !c.Known() {
			return result, err
		}
		if !retry.Sleep(ctx, time.Second) {
			return result, context.Cause(ctx)
		}
	}
}
