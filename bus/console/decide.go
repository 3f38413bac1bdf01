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
	askLimit        = 10 * time.Second
	maxPages        = 50 // of a list of the broker
)

// A decision is one of a person, as the broker's events told of it.
type decision struct {
	collab.Approval
	UpdatedAt time.Time `json:"-"`
}

// changeDecision takes a newer version of a decision.
func (f *facts) changeDecision(a collab.Approval, at time.Time) {
	if a.ID == "" {
		return
	}
	a.Arguments, a.Reason = text.Clip(a.Arguments, 10*maxText), text.Clip(a.Reason, maxText)
	*f.decisions.touch(a.ID) = decision{a, at}
}

type decisionsView struct {
	Pending  []*decision
	Asked    []collab.Question // of people
	Standing []*decision
	Decided  []*decision
	MayAct   bool
	Whole    bool   // the broker itself was asked
	Note     string // why it was not
	Done     string
}

// voice returns who speaks on the bus for the visitor, nil if nobody may.
func (l *look) voice() ActingAs {
	if !l.MayAct() {
		return nil
	}
	return cmp.Or(l.Visitor.ActingAs, l.open)
}

// decisions shows what waits for a person, what is allowed for longer, and what was decided.
// Who may act sees what the broker says, others what its events told.
func (l *look) decisions() error {
	view := &decisionsView{Done: l.FormValue("done")}
	asker := l.voice()
	view.MayAct = asker != nil
	open, asked, err := openDecisions(l.Context(), asker)
	if view.Whole = asker != nil && err == nil; err != nil {
		view.Note = err.Error()
	}
	f := l.read()
	told := newest(&f.ledger.decisions, func(d *decision) (time.Time, string) { return d.UpdatedAt, d.ID })
	if view.Whole {
		told = slices.DeleteFunc(told, func(d *decision) bool { return d.Open() })
		told = append(open, told...)
	}
	if !view.Whole {
		asked = f.questions()
	}
	for _, q := range asked {
		if q.AwaitsPerson() && len(view.Asked) < listedDecisions && l.matches(q.ID, q.Title, q.AskedByID, q.AskedOfID) {
			view.Asked = append(view.Asked, q)
		}
	}
	for _, kept := range told {
		d := &decision{kept.Expire(l.Now), kept.UpdatedAt}
		list := &view.Decided
		switch {
		case !l.matches(d.ID, d.Tool, d.AskedByID, d.Chat, d.Arguments):
			continue
		case d.State == collab.ApprovalPending:
			list = &view.Pending
		case d.Reusable():
			list = &view.Standing
		}
		if len(*list) < listedDecisions {
			*list = append(*list, d)
		}
	}
	l.Title, l.Page = "Decisions", view
	return nil
}

// openDecisions asks the broker for the decisions of which something may still become, and
// for the questions that nobody answered.
func openDecisions(ctx context.Context, asker ActingAs) (list []*decision, asked []collab.Question, err error) {
	if asker == nil {
		return nil, nil, nil
	}
	for _, state := range []collab.ApprovalState{collab.ApprovalPending, collab.ApprovalAllowed} {
		some, err := everyPage(ctx, asker, collab.DecisionList, collab.ApprovalListParams{State: state})
		if err != nil {
			return nil, nil, err
		}
		for _, a := range some {
			if a.Open() {
				list = append(list, &decision{a, collab.ParseTime(a.CreatedAt)})
			}
		}
	}
	asked, err = everyPage(ctx, asker, collab.QuestionList, collab.QuestionListParams{State: collab.QuestionOpen})
	return list, asked, err
}

// everyPage asks the broker for a list.
func everyPage[P, T any, PP interface {
	*P
	SetAfter(next string)
}](ctx context.Context, asker ActingAs, m collab.Method[P, collab.Page[T]], params P) (list []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for range maxPages {
		page, err := m.Ask(ctx, asker, params)
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

// decide passes the verdict of a visitor on, or revokes what was allowed for longer.
func (l *look) decide() error {
	if err := l.checkAct(); err != nil {
		return err
	}
	asker := l.voice()
	p := collab.ApprovalDecideParams{ID: l.PostFormValue("id")}
	method, known := collab.DecisionDecide, true
	switch do := l.PostFormValue("do"); do {
	case "once", "session", "always":
		p.Verdict, p.Scope = collab.Allow, collab.ApprovalScope(do)
	case "deny":
		p.Verdict = collab.Deny
	case "revoke":
		method = collab.DecisionRevoke
	default:
		known = false
	}
	if !known || asker == nil || p.ID == "" || len(p.ID) > protocol.MaxTopic {
		return &refusal{http.StatusBadRequest, "no such decision"}
	}
	ctx, cancel := context.WithTimeout(l.Context(), askLimit)
	defer cancel()
	got, err := method.Ask(ctx, asker, p)
	l.logger.Info().Str("by", l.Visitor.Name).Str("decision", p.ID).Str("state", string(got.Decision.State)).Err(err).Msg("decision")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	return &refusal{http.StatusSeeOther, link("decisions", "done", fmt.Sprintf("Decision %s: %s", p.ID, got.Decision.Describe()))}
}
