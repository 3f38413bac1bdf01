package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/turns"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

const (
	decisionPoll = 30 * time.Second // between questions to the broker how a decision stands, whose word may have been lost
	maxShown     = 2000             // bytes of arguments that a decision shows, and of their end
)

// approvals has people decide for the turns of one agent. It is woken when a decision may
// stand otherwise than before.
type approvals struct {
	agent  *Agent
	secret *redact.Redactor

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func newApprovals(a *Agent) *approvals {
	return &approvals{agent: a, secret: redact.New(), changed: make(chan struct{})}
}

// notifyAll has all who wait look again.
func (p *approvals) notifyAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *approvals) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// approver is the approvals as one turn has them.
type approver struct {
	*approvals
	turn *mailbox.Turn
}

func (p *approvals) forTurn(t *mailbox.Turn) harness.Approver { return &approver{p, t} }

// Sensitive reports whether one of the patterns of Options.Approve fits a tool.
func (p *approver) Sensitive(tool string) bool {
	for _, pattern := range p.agent.opts.Approve {
		if protocol.Pattern(pattern).Matches(protocol.Topic(tool)) {
			return true
		}
	}
	return false
}

// Approve waits for a decision about one call. See harness.Approver.
func (p *approver) Approve(ctx context.Context, tool string, arguments json.RawMessage) error {
	sum := sha256.Sum256(arguments)
	digest := hex.EncodeToString(sum[:])
	stored := context.WithoutCancel(ctx)
	var id string
	err := p.agent.mailbox.InTx(stored, func(tx *mailbox.Tx) {
		e := tx.Entry(p.turn.EventID)
		id = tx.RequestDecision(p.turn, e, collab.ApprovalParams{
			Tool: tool, Arguments: p.shown(arguments), Digest: digest, EventID: p.turn.EventID,
			Chat: string(p.turn.Scope()), MayDecide: p.deciders(e), ExpiresAt: protocol.FormatTime(p.until(ctx)), Default: collab.Deny,
		}).ID
	})
	if err != nil {
		return fmt.Errorf("the question could not be stored, so it was not asked: %w", err)
	}
	p.agent.opts.failpoint("decision asked")
	for {
		again := p.next()
		decided, err := p.look(stored, id)
		if err != nil {
			p.agent.opts.Log.Warn().Err(err).Str("decision", id).Msg("decision not looked at; trying again")
		} else if decided.State != collab.ApprovalPending {
			return p.use(stored, &decided, digest)
		}
		select {
		case <-again:
		case <-ctx.Done():
			return p.withdraw(stored, id, context.Cause(ctx))
		case <-time.After(max(min(decisionPoll, time.Until(collab.ParseTime(decided.ExpiresAt))), 100*time.Millisecond)):
		}
	}
}

// shown returns what a person sees of a call's arguments: without secrets and blanks that
// say nothing, each character visible, and how much there was no room for.
func (p *approver) shown(arguments json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, arguments) != nil {
		compact.Reset()
		compact.Write(arguments)
	}
	said := text.EscapeInvisible(p.secret.String(compact.String()))
	shown := text.Prefix(said, maxShown)
	if shown == said {
		return said
	}
	return shown + "… and " + text.Counted(len(said)-len(shown), "more byte") + " that you do not see here"
}

// until is when the default takes effect, so that the turn can still end by itself.
func (*approver) until(ctx context.Context) time.Time {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = now.Add(attention.DefaultDeadline)
	}
	return now.Add(deadline.Sub(now) * 9 / 10)
}

// deciders returns who may decide for an event: the person who wrote it, or, of any other, such as
// work of the broker, whom the settings name.
func (p *approver) deciders(e *mailbox.Entry) []string {
	person := p.agent.opts.Escalation.Target(attention.LevelPerson)
	switch {
	case e != nil && !e.FromBroker() && e.Content.Author.Kind == string(attention.AuthorHuman):
		return []string{e.PersonIdentity()}
	case protocol.IsPerson(protocol.PeerID(person)):
		return []string{person}
	}
	return []string{}
}

// look returns a decision as it stands now: at the broker, or here if there is none.
func (p *approver) look(ctx context.Context, id string) (collab.Approval, error) {
	v := p.agent.mailbox.View(ctx)
	d := v.Decision(id)
	if d == nil {
		return collab.Approval{}, errors.Join(errors.New("the decision is not kept any more"), v.Err())
	}
	if d.State != collab.ApprovalPending && !d.Reusable() {
		return d.Approval, nil
	}
	newest, err := p.ask(ctx, d)
	if err != nil {
		return d.Approval, err
	}
	err = p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		if d.ChatVerdict.Verdict != "" && !p.agent.broker.Known() && tx.Counter(brokerSeenCounter) > 0 { // decided here: a broker that comes back has it pending
			tx.Enqueue(protocol.TopicBroker, "verdict:"+id, collab.DecisionDecide.Message(p.agent.id, collab.ApprovalDecideParams{
				ID: id, Verdict: d.ChatVerdict.Verdict, Scope: d.ChatVerdict.Scope, By: d.ChatVerdict.By,
			}))
		}
		tx.ApplyDecision(newest)
		if now := tx.Decision(id); now != nil {
			newest = now.Approval
		}
	})
	p.agent.opts.failpoint("decided")
	return newest, err
}

// ask gives the broker what was heard in the chat, and returns what it says.
func (p *approver) ask(ctx context.Context, d *mailbox.Decision) (collab.Approval, error) {
	b := p.agent.broker
	var got collab.ApprovalResult
	var err error
	if got, err = collab.DecisionAsk.Ask(ctx, b, collab.ApprovalAskParams{ID: d.ID, ApprovalParams: d.ApprovalParams}); err == nil &&
		d.ChatVerdict.Verdict != "" && got.Decision.State == collab.ApprovalPending {
		got, err = collab.DecisionDecide.Ask(ctx, b, collab.ApprovalDecideParams{ID: d.ID, Verdict: d.ChatVerdict.Verdict, Scope: d.ChatVerdict.Scope, By: d.ChatVerdict.By})
	}
	switch {
	case err == nil:
		return got.Decision, nil
	case !errors.Is(err, collab.ErrNoBroker) || b.Known():
		return d.Approval, err
	case d.ChatVerdict.Verdict == "":
		return d.Expire(time.Now()), nil
	}
	return d.Decide(d.ChatVerdict.Verdict, d.ChatVerdict.Scope, d.ChatVerdict.By, time.Now())
}

// use returns nil if a decision lets the call run, which then is on record.
func (p *approver) use(ctx context.Context, a *collab.Approval, digest string) error {
	may := false
	err := p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { may = tx.UseDecision(a.ID, p.turn.EventID, digest) })
	switch {
	case err != nil:
		return fmt.Errorf("the decision could not be put on record: %w", err)
	case !may:
		return fmt.Errorf("not run: the decision is %s", a.Describe())
	}
	p.agent.opts.failpoint("decision used")
	return nil
}

// withdraw ends what nobody waits for any more. An agent that stops asks again when it is
// back.
func (p *approver) withdraw(ctx context.Context, id string, cause error) error {
	if !errors.Is(cause, turns.ErrStopping) {
		if err := p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.CancelDecisions(p.turn.ID, turns.ReasonTurnEnded) }); err != nil {
			p.agent.opts.Log.Error().Err(err).Str("decision", id).Msg("decision not cancelled; it expires")
		}
	}
	return fmt.Errorf("not decided: %w", cause)
}
