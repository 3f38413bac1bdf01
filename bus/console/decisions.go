package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const (
	listedDecisions = 200 // of each kind
	askTimeout      = 10 * time.Second
	maxPages        = 50 // of a list of the broker
)

// A decision is a person's decision about a tool, as the broker's events describe it.
type decision struct {
	collab.Approval
	UpdatedAt time.Time `json:"-"`
}

// applyDecision stores a newer version of a decision.
func (b *brokerProjection) applyDecision(a collab.Approval, at time.Time) {
	if a.ID == "" {
		return
	}
	a.Arguments, a.Reason = text.Clip(a.Arguments, 10*maxText), text.Clip(a.Reason, maxText)
	*b.decisions.touch(a.ID) = decision{a, at}
}

type decisionsView struct {
	Pending     []*decision
	Questions   []collab.Question // for people
	Reusable    []*decision
	Decided     []*decision
	MayAct      bool
	FromBroker  bool   // the open decisions come from the broker's list
	BrokerError string // why they do not
	Done        string
}

// actor returns the client of the bus that acts for the visitor, or nil if the visitor may not
// act.
func (r *request) actor() ActingAs {
	if !r.MayAct() {
		return nil
	}
	return cmp.Or(r.Visitor.ActingAs, r.openActor)
}

// decisions shows pending, reusable and past decisions. A visitor who may act sees the broker's
// list of open decisions. Other visitors see those in the console's model.
func (r *request) decisions() error {
	view := &decisionsView{Done: r.FormValue("done")}
	actor := r.actor()
	view.MayAct = actor != nil
	open, questions, err := openDecisions(r.Context(), actor)
	if view.FromBroker = actor != nil && err == nil; err != nil {
		view.BrokerError = err.Error()
	}
	f := r.lockModel()
	list := sortedByTime(f.broker.decisions, func(d *decision) (time.Time, string) { return d.UpdatedAt, d.ID })
	if view.FromBroker {
		list = slices.DeleteFunc(list, func(d *decision) bool { return d.Open() })
		list = append(open, list...)
	} else {
		questions = f.broker.listQuestions()
	}
	for _, q := range questions {
		if q.AwaitsPerson() && len(view.Questions) < listedDecisions &&
			r.matches(q.ID, q.Title, q.AskedByID, q.AskedOfID) {
			view.Questions = append(view.Questions, q)
		}
	}
	for _, kept := range list {
		d := &decision{kept.Expire(r.Now), kept.UpdatedAt}
		group := &view.Decided
		switch {
		case !r.matches(d.ID, d.Tool, d.AskedByID, d.Chat, d.Arguments):
			continue
		case d.State == collab.ApprovalPending:
			group = &view.Pending
		case d.Reusable():
			group = &view.Reusable
		}
		if len(*group) < listedDecisions {
			*group = append(*group, d)
		}
	}
	r.Title, r.Page = "Decisions", view
	return nil
}

// openDecisions returns the broker's decisions that may still change, and the unanswered
// questions.
func openDecisions(ctx context.Context, actor ActingAs) (list []*decision, questions []collab.Question, err error) {
	if actor == nil {
		return nil, nil, nil
	}
	for _, state := range []collab.ApprovalState{collab.ApprovalPending, collab.ApprovalAllowed} {
		approvals, err := listAll(ctx, actor, collab.DecisionList, collab.ApprovalListParams{State: state})
		if err != nil {
			return nil, nil, err
		}
		for _, a := range approvals {
			if a.Open() {
				list = append(list, &decision{a, collab.ParseTime(a.CreatedAt)})
			}
		}
	}
	questions, err = listAll(ctx, actor, collab.QuestionList, collab.QuestionListParams{State: collab.QuestionOpen})
	return list, questions, err
}

// listAll returns all pages of a list of the broker.
func listAll[P, T any, PP interface {
	*P
	SetAfter(next string)
}](ctx context.Context, actor ActingAs, m collab.Method[P, collab.Page[T]], params P) (list []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for range maxPages {
		page, err := m.Ask(ctx, actor, params)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			one, err := item.Read()
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		if page.Next == nil {
			break
		}
		PP(&params).SetAfter(*page.Next)
	}
	return list, nil
}

// decide passes a visitor's decision to the broker, or revokes a reusable one.
func (r *request) decide() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	actor := r.actor()
	p := collab.ApprovalDecideParams{ID: r.PostFormValue("id")}
	method, known := collab.DecisionDecide, true
	switch do := r.PostFormValue("do"); do {
	case "once", "session", "always":
		p.Verdict, p.Scope = collab.Allow, collab.ApprovalScope(do)
	case "deny":
		p.Verdict = collab.Deny
	case "revoke":
		method = collab.DecisionRevoke
	default:
		known = false
	}
	if !known || actor == nil || p.ID == "" || len(p.ID) > protocol.MaxTopic {
		return &refusal{http.StatusBadRequest, "the decision does not exist"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	got, err := method.Ask(ctx, actor, p)
	r.logger.Info().Str("by", r.Visitor.Name).Str("decision", p.ID).
		Str("state", string(got.Decision.State)).Err(err).Msg("decision")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	done := fmt.Sprintf("Decision %s: %s", p.ID, got.Decision.Describe())
	return &refusal{http.StatusSeeOther, link("decisions", "done", done)}
}
