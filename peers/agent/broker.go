package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// Timings of the talk with the collaboration broker.
const (
	heartbeatEvery = 10 * time.Second
	lookEvery      = 30 * time.Second // for a broker, where there is none
	brokerPatience = 10 * time.Second
	presenceFresh  = 2 * time.Second // how long an answer of the broker proves that it is there

	// brokerReturn is how long a broker that went away is waited for, before agents
	// do without one: while it restarts, each would take a claim for itself.
	brokerReturn  = 15 * time.Second
	brokerRecall  = 24 * time.Hour // how long ago it may have been there, for a program that starts
	rememberEvery = time.Hour

	contractPatience = 3 * time.Second // a turn begins without the newest contract then
)

// errNoBroker: there is no collaboration broker on the bus.
var errNoBroker = errors.New("there is no collaboration broker on the bus")

// brokerState is what the agent knows of the broker.
type brokerState struct {
	mu       sync.Mutex // guards the fields below
	present  bool
	seenAt   time.Time
	lostAt   time.Time // it went away then; zero: it is there, or never was
	endpoint string    // this process's endpoint id
	waiting  map[string]chan protocol.CollabResult
	contract string // the broker's prompt contract for this agent
}

// brokerKnown reports whether the broker was there when it was last asked, or went
// away so lately that it may be back at once.
func (a *Agent) brokerKnown() bool {
	a.broker.mu.Lock()
	defer a.broker.mu.Unlock()
	return a.broker.present || !a.broker.lostAt.IsZero() && time.Since(a.broker.lostAt) < brokerReturn
}

func (a *Agent) noteBroker(present bool) {
	a.broker.mu.Lock()
	defer a.broker.mu.Unlock()
	switch {
	case present:
		a.broker.lostAt = time.Time{}
	case a.broker.present:
		a.broker.lostAt = time.Now()
	}
	a.broker.present, a.broker.seenAt = present, time.Now()
}

// brokerPresent asks whether the broker is there, unless it answered just now.
func (a *Agent) brokerPresent(ctx context.Context) bool {
	a.broker.mu.Lock()
	fresh := time.Since(a.broker.seenAt) < presenceFresh
	present := a.broker.present
	a.broker.mu.Unlock()
	if fresh {
		return present
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := a.askBroker(ctx, "identity.heartbeat", map[string]any{"endpointId": a.endpointID()}, nil)
	if errors.Is(err, errNoBroker) {
		return false
	}
	var refused *brokerError
	if err == nil || errors.As(err, &refused) {
		return true
	}
	return a.brokerKnown()
}

// refreshBroker makes sure, before an answer to an event that may need a
// claim, that it is known whether there is a broker.
func (b *toolbox) refreshBroker(ctx context.Context, id string) {
	if id == "" && b.turnID != "" {
		if e, err := b.turnEvent(ctx); err == nil && e != nil {
			id = e.EventID
		}
	}
	e, err := currentEntry(ctx, b.a.db, id)
	if err == nil && e != nil && e.Decision.NeedsClaim() {
		b.a.brokerPresent(ctx)
	}
}

// A brokerError is the broker's refusal of a request.
type brokerError struct {
	Code    string
	Message string
	Details json.RawMessage
}

func (e *brokerError) Error() string { return e.Message + " (" + e.Code + ")" }

// askBroker sends one request to the broker and waits for its result, which is
// decoded into out unless that is nil.
func (a *Agent) askBroker(ctx context.Context, method string, params, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerPatience, errors.New("the collaboration broker did not answer in time"))
	defer cancel()
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	id := "req_" + ulid.Make().String()
	answer := make(chan protocol.CollabResult, 1)
	a.broker.mu.Lock()
	if a.broker.waiting == nil {
		a.broker.waiting = map[string]chan protocol.CollabResult{}
	}
	a.broker.waiting[id] = answer
	a.broker.mu.Unlock()
	defer func() {
		a.broker.mu.Lock()
		delete(a.broker.waiting, id)
		a.broker.mu.Unlock()
	}()
	m := a.peer.NewMessage(protocol.TypeCollabRequest, protocol.CollabRequest{Method: method, Params: raw, RequestID: id})
	result, err := a.peer.Send(ctx, protocol.TopicBroker, m)
	if err != nil {
		return fmt.Errorf("asking the collaboration broker: %w", err)
	}
	if result.DeliveredTo == 0 && len(result.Failures) == 0 || result.Addressee == protocol.AddresseeAbsent {
		a.noteBroker(false)
		return errNoBroker
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r := <-answer:
		a.noteBroker(true)
		return decodeResult(r, out)
	}
}

func decodeResult(r protocol.CollabResult, out any) error {
	if !r.OK {
		if r.Error == nil {
			return &brokerError{Code: "invalid", Message: "the broker refused without a reason"}
		}
		return &brokerError{Code: r.Error.Code, Message: r.Error.Message, Details: r.Error.Details}
	}
	if out == nil || len(r.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Result, out); err != nil {
		return fmt.Errorf("reading the broker's answer: %w", err)
	}
	return nil
}

// receiveResult gives the broker's answer to whoever waits for it.
func (a *Agent) receiveResult(_ context.Context, d *peer.Delivery) error {
	if !fromBroker(d) {
		return peer.Reject("only the collaboration broker answers requests")
	}
	var r protocol.CollabResult
	if err := d.Decode(&r); err != nil {
		return peer.Reject("the content is not a collab_result: " + err.Error())
	}
	a.broker.mu.Lock()
	answer := a.broker.waiting[r.RequestID]
	delete(a.broker.waiting, r.RequestID)
	a.broker.mu.Unlock()
	if answer != nil {
		answer <- r
	} else if !r.OK && r.Error != nil {
		a.opts.Log.Warn().Str("request", r.RequestID).Str("code", r.Error.Code).Str("reason", r.Error.Message).
			Msg("the collaboration broker refused a request")
	}
	return nil
}

func fromBroker(d *peer.Delivery) bool {
	return d.Message.From == protocol.PeerBroker || protocol.RoleOf(d.Message.From) == protocol.RoleCLI
}

// endpointID names this process to the broker.
func (a *Agent) endpointID() string {
	a.broker.mu.Lock()
	defer a.broker.mu.Unlock()
	if a.broker.endpoint == "" {
		a.broker.endpoint = "endpoint-" + ulid.Make().String()
	}
	return a.broker.endpoint
}

// brokerLoop announces this process to the broker and tells it that it lives,
// as long as the connection does. Where there is no broker, it looks again.
func (a *Agent) brokerLoop(ctx context.Context) {
	announced := false
	var remembered time.Time
	for {
		err := a.attend(ctx, announced)
		if err == nil && time.Since(remembered) >= rememberEvery {
			remembered = time.Now()
			a.rememberBroker(ctx)
		}
		announced = err == nil
		if err != nil && !errors.Is(err, errNoBroker) && ctx.Err() == nil {
			a.opts.Log.Warn().Err(err).Msg("the collaboration broker did not take the announcement; trying again")
		}
		wait := heartbeatEvery
		if errors.Is(err, errNoBroker) {
			wait = lookEvery
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// rememberBroker stores that there is a broker, for the next start.
func (a *Agent) rememberBroker(ctx context.Context) {
	_, err := a.db.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ('broker_at', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1`,
		time.Now().UnixMicro())
	if err != nil && ctx.Err() == nil {
		a.opts.Log.Warn().Err(err).Msg("that there is a collaboration broker cannot be stored")
	}
}

// recallBroker makes a broker of the last day (brokerRecall) one that went away just
// now: it may restart together with this program.
func (a *Agent) recallBroker(ctx context.Context) error {
	var at int64
	err := a.db.QueryRowContext(ctx, `SELECT coalesce((SELECT value FROM counters WHERE name = 'broker_at'), 0)`).Scan(&at)
	if err != nil {
		return fmt.Errorf("looking for the last broker: %w", err)
	}
	if now := time.Now(); now.Sub(fromMicros(at)) < brokerRecall {
		a.broker.mu.Lock()
		defer a.broker.mu.Unlock()
		a.broker.lostAt = now
	}
	return nil
}

// attend sends a heartbeat, or announces the endpoint where the broker does
// not know it.
func (a *Agent) attend(ctx context.Context, announced bool) error {
	if announced {
		err := a.askBroker(ctx, "identity.heartbeat", map[string]any{"endpointId": a.endpointID()}, nil)
		var refused *brokerError
		if err == nil || !errors.As(err, &refused) {
			return err
		}
	}
	roles := []string{}
	for _, r := range a.opts.Roles {
		roles = append(roles, strings.TrimPrefix(r, "role:"))
	}
	err := a.askBroker(ctx, "identity.announce", map[string]any{
		"logicalAgentId": a.id.Name(), "endpointId": a.endpointID(), "harnessType": a.opts.HarnessType, "workspaceId": a.opts.WorkspaceID,
		"projectPath": a.opts.Workspace, "roles": roles, "wakePolicy": a.opts.WakePolicy,
	}, nil)
	if err != nil {
		return err
	}
	if text := a.askContract(ctx, origin{}); text != "" {
		a.broker.mu.Lock()
		a.broker.contract = text
		a.broker.mu.Unlock()
	}
	return nil
}

// askContract asks the broker for the contract as it stands now, with the
// conversation and the work of a wake. It is empty where none came.
func (a *Agent) askContract(ctx context.Context, o origin) string {
	params := map[string]any{"agentId": a.id.Name(), "harnessType": a.opts.HarnessType}
	if o.ConversationID != "" {
		params["conversationId"] = o.ConversationID
	}
	if o.WorkItemID != "" {
		params["workItemId"] = o.WorkItemID
	}
	var prompt struct {
		Contract string `json:"contract"`
	}
	ctx, cancel := context.WithTimeout(ctx, contractPatience)
	defer cancel()
	if err := a.askBroker(ctx, "prompt.contract", params, &prompt); err != nil {
		a.opts.Log.Debug().Err(err).Msg("the broker gave no prompt contract")
	}
	return prompt.Contract
}

// refreshContract puts into a turn what the agent has to do as it stands now,
// for models that read it. Where the broker does not answer, what stood at the
// announcement remains.
func (a *Agent) refreshContract(ctx context.Context, ht *harness.Turn, v attention.Version) {
	if !a.traits.ReadsSystem || !a.brokerKnown() {
		return
	}
	e, err := entryByID(ctx, a.db, ht.Event.EventID)
	if err != nil || e == nil {
		return
	}
	if text := a.askContract(ctx, e.Origin); text != "" {
		ht.System, ht.Contract = a.system(v, strings.TrimSpace(text)+"\n"), strings.TrimSpace(text)
	}
}

// contract is the part of the system prompt that says who the agent is and how
// it works with others: the broker's where there is one.
func (a *Agent) contract() string {
	if text := a.brokerContract(); text != "" {
		return text + "\n"
	}
	text := "You are the agent " + a.id.Name() + " on a message bus. Others reach you as @" + a.id.Name() + ". You speak for nobody else.\n"
	if len(a.opts.Roles) > 0 {
		text += "Your roles: " + strings.Join(a.opts.Roles, ", ") + ".\n"
	}
	if a.opts.Workspace != "" {
		text += "Your workspace is the folder " + a.opts.Workspace + ".\n"
	}
	return text
}

// brokerContract is the contract that the broker gave last, empty where there is no
// broker.
func (a *Agent) brokerContract() string {
	a.broker.mu.Lock()
	defer a.broker.mu.Unlock()
	if !a.broker.present {
		return ""
	}
	return strings.TrimSpace(a.broker.contract)
}
