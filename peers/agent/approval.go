package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/turns"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/notify"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

const (
	decisionPoll = 30 * time.Second // between queries for a decision, in case its notification was lost
	maxShown     = 2000             // bytes of a call's arguments that are shown
)

// approvals lets people decide for the turns of one agent.
type approvals struct {
	agent   *Agent
	secret  *redact.Redactor
	reading decisions.Reading
	changed notify.Broadcast // makes all waiting turns check their decisions
}

func newApprovals(a *Agent) *approvals {
	return &approvals{agent: a, secret: redact.New(), reading: decisions.Reading{
		Answers: attention.NewAnswerReader(a.opts.Words), Pause: a.opts.ComposeWindow,
	}}
}

// An approver lets people decide for one turn.
type approver struct {
	*approvals
	turn *mailbox.Turn
}

func (p *approvals) forTurn(t *mailbox.Turn) harness.Approver { return &approver{p, t} }

// Sensitive reports whether a pattern of Options.Approve matches a tool.
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
	_, err := p.decision(ctx, tool, arguments)
	return err
}

// Ask waits for an answer in words. See harness.Approver.
func (p *approver) Ask(ctx context.Context, name string, question json.RawMessage) (string, error) {
	id, err := p.decision(ctx, name, question)
	if err != nil {
		return "", err
	}
	v := p.agent.mailbox.View(context.WithoutCancel(ctx))
	if d := decisions.Find(v, id); d != nil && d.ChatVerdict.Answer != "" {
		return d.ChatVerdict.Answer, nil
	}
	return "", errors.Join(errors.New("it was allowed, but nobody answered it in the chat"), v.Err())
}

// Read reads a yes or a no. See harness.Approver.
func (p *approver) Read(words string) attention.Answer { return p.reading.Answers.Read(words) }

// ReadTime reads a time. See harness.Approver.
func (p *approver) ReadTime(words string) (time.Time, error) {
	var chat *protocol.Chat
	if e := p.agent.mailbox.View(context.Background()).Entry(p.turn.EventID); e != nil {
		chat = e.Content.Chat
	}
	return p.agent.tools.ReadTime(words, chat)
}

// decision waits until a decision allows one call, and returns its id.
func (p *approver) decision(ctx context.Context, tool string, arguments json.RawMessage) (id string, err error) {
	sum := sha256.Sum256(arguments)
	digest := hex.EncodeToString(sum[:])
	stored := context.WithoutCancel(ctx)
	err = p.agent.mailbox.InTx(stored, func(tx *mailbox.Tx) {
		e := tx.Entry(p.turn.EventID)
		id = decisions.Request(tx, p.turn, e, collab.ApprovalParams{
			Tool: tool, Arguments: p.shown(arguments), Digest: digest, EventID: p.turn.EventID,
			Chat: string(p.turn.Scope()), MayDecide: p.deciders(e), ExpiresAt: protocol.FormatTime(p.until(ctx)),
			Default: collab.Deny,
		}).ID
	})
	if err != nil {
		return id, fmt.Errorf("the question could not be stored, so it was not asked: %w", err)
	}
	p.agent.opts.failpoint("decision asked")
	for {
		again := p.changed.C()
		decided, recheck, err := p.current(stored, id)
		if err != nil {
			p.agent.opts.Log.Warn().Err(err).Str("decision", id).Msg("decision not read; trying again")
		} else if decided.State != collab.ApprovalPending {
			return id, p.use(stored, &decided, digest)
		}
		select {
		case <-again:
		case <-ctx.Done():
			return id, p.withdraw(stored, id, context.Cause(ctx))
		case <-time.After(max(min(recheck, time.Until(collab.ParseTime(decided.ExpiresAt))), 100*time.Millisecond)):
		}
	}
}

// shown returns the arguments of a call as a person sees them: without secrets and insignificant
// blanks, with every character visible, and with a note about what was cut.
func (p *approver) shown(arguments json.RawMessage) string {
	redacted := p.secret.Arguments(arguments)
	var compact bytes.Buffer
	if json.Compact(&compact, redacted) != nil {
		compact.Reset()
		compact.Write(redacted)
	}
	said := text.EscapeInvisible(compact.String())
	shown := text.Prefix(said, maxShown)
	if shown == said {
		return said
	}
	return shown + "… and " + text.Counted(len(said)-len(shown), "more byte") + " not shown here"
}

// until returns when the default takes effect, early enough for the turn to end normally.
func (*approver) until(ctx context.Context) time.Time {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = now.Add(attention.DefaultDeadline)
	}
	return now.Add(deadline.Sub(now) * 9 / 10)
}

// deciders returns who may decide for an event: the person who wrote it or, for other events such
// as work of the broker, the people of the settings.
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

// current returns the current decision, from the broker or, without one, from the mailbox, and
// after how long to check it again.
func (p *approver) current(ctx context.Context, id string) (newest collab.Approval, recheck time.Duration, err error) {
	v := p.agent.mailbox.View(ctx)
	d := decisions.Find(v, id)
	if d == nil {
		return newest, decisionPoll, errors.Join(errors.New("the decision is no longer stored"), v.Err())
	}
	if d.State != collab.ApprovalPending && !d.Reusable() {
		return d.Approval, decisionPoll, nil
	}
	recheck = decisionPoll
	if said := &d.ChatVerdict; said.Verdict != "" && !said.Counts(time.Now()) {
		recheck = min(recheck, time.Until(said.NotBefore))
		said.Verdict = ""
	}
	if newest, err = p.ask(ctx, d); err != nil {
		return d.Approval, recheck, err
	}
	err = p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		// decided without the broker, which still has the decision as pending
		if d.ChatVerdict.Verdict != "" && !p.agent.broker.Known() && tx.Counter(brokerSeenCounter) > 0 {
			tx.Enqueue(protocol.TopicBroker, "verdict:"+id,
				collab.DecisionDecide.Message(p.agent.id, collab.ApprovalDecideParams{
					ID: id, Verdict: d.ChatVerdict.Verdict, Scope: d.ChatVerdict.Scope, By: d.ChatVerdict.By,
				}))
		}
		decisions.Apply(tx, newest)
		if now := decisions.Find(&tx.View, id); now != nil {
			newest = now.Approval
		}
	})
	p.agent.opts.failpoint("decided")
	return newest, recheck, err
}

// ask reports a verdict from the chat to the broker and returns the result.
func (p *approver) ask(ctx context.Context, d *decisions.Decision) (collab.Approval, error) {
	b := p.agent.broker
	var got collab.ApprovalResult
	var err error
	if got, err = collab.DecisionAsk.Ask(ctx, b, collab.ApprovalAskParams{ID: d.ID,
		ApprovalParams: d.ApprovalParams}); err == nil &&
		d.ChatVerdict.Verdict != "" && got.Decision.State == collab.ApprovalPending {
		got, err = collab.DecisionDecide.Ask(ctx, b,
			collab.ApprovalDecideParams{ID: d.ID, Verdict: d.ChatVerdict.Verdict, Scope: d.ChatVerdict.Scope,
				By: d.ChatVerdict.By})
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

// use records that a decision allows the call to run, or returns why it does not.
func (p *approver) use(ctx context.Context, a *collab.Approval, digest string) error {
	may := false
	err := p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { may = decisions.Use(tx, a.ID, p.turn.EventID, digest) })
	switch {
	case err != nil:
		return fmt.Errorf("the decision could not be recorded: %w", err)
	case !may:
		return fmt.Errorf("not run: the decision is %s", a.Describe())
	}
	p.agent.opts.failpoint("decision used")
	return nil
}

// withdraw cancels a decision that nobody waits for any more. A turn that runs again, because the
// agent was stopped or the message changed, waits for the same decision if it makes the same call.
func (p *approver) withdraw(ctx context.Context, id string, cause error) error {
	if !errors.Is(cause, turns.ErrStopping) && !errors.Is(cause, turns.ErrWithdrawn) {
		if err := p.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
			decisions.Cancel(tx, p.turn.ID,
				turns.ReasonTurnEnded)
		}); err != nil {
			p.agent.opts.Log.Error().Err(err).Str("decision", id).Msg("decision not cancelled; it expires")
		}
	}
	return fmt.Errorf("not decided: %w", cause)
}
