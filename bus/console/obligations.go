package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const listedObligations = 500

// An obligationLine is one obligation in the list.
type obligationLine struct {
	collab.Obligation
	Closer protocol.PeerID // the person of the command line who may close it; empty if none may
	Page   string          // of the page with details; empty if there is none
}

// detailPage returns the page with the subject of an obligation. The caller must hold mu.
func (f *readModel) detailPage(o *collab.Obligation) string {
	fromAgent := strings.HasPrefix(string(o.OwedToIdentity), "agent:")
	switch {
	case o.Kind == collab.KindDecision:
		return "decisions"
	case o.Kind != collab.KindObligation, f.broker.questions.get(o.ID) != nil:
		return "item"
	case o.OwedByIdentity.Family() != "agent", fromAgent && collab.IsEscalationQuestion(o.ID):
		return "" // the title is complete
	}
	return "message"
}

// closingPerson returns the person of the command line who may close an obligation, or "".
func closingPerson(o *collab.Obligation) protocol.PeerID {
	for _, id := range []protocol.PeerID{o.OwedToIdentity, o.DelegateIdentity, o.OwedByIdentity} {
		if o.Kind == collab.KindObligation && protocol.RoleOf(id) == protocol.RoleCLI {
			return id
		}
	}
	return ""
}

type obligationsView struct {
	List        []obligationLine
	MayAct      bool
	FromBroker  bool   // the list comes from the broker
	BrokerError string // why it does not
	Done        string
}

// obligations shows the open obligations and their parties. A visitor who may act sees the
// broker's list. Other visitors see that of the console's model.
func (r *request) obligations() error {
	actor := r.actor()
	view := &obligationsView{Done: r.FormValue("done"), MayAct: actor != nil}
	var list []collab.Obligation
	var err error
	if actor != nil {
		list, err = listAll(r.Context(), actor, collab.ObligationList, collab.ObligationListParams{})
	}
	if view.FromBroker = actor != nil && err == nil; err != nil {
		view.BrokerError = err.Error()
	}
	f := r.lockModel()
	if !view.FromBroker {
		list = f.broker.listObligations(r.Now)
	}
	for _, o := range list {
		if len(view.List) < listedObligations &&
			r.matches(o.ID, o.Title, o.OwedByID, o.OwedToID, string(o.OwedByIdentity), string(o.OwedToIdentity)) {
			view.List = append(view.List, obligationLine{o, closingPerson(&o), f.detailPage(&o)})
		}
	}
	r.Title, r.Page = "Owed", view
	return nil
}

// An obligationAction is an action of a visitor on an obligation. input is the text that the
// visitor entered.
type obligationAction func(ctx context.Context, actor ActingAs, id, input string) (collab.Result, error)

var obligationActions = map[string]obligationAction{
	"answer": func(ctx context.Context, actor ActingAs, id, input string) (collab.Result, error) {
		return collab.QuestionAnswer.Ask(ctx, actor, collab.AnswerParams{ID: id, Answer: input})
	},
	"close": func(ctx context.Context, actor ActingAs, id, _ string) (collab.Result, error) {
		return collab.QuestionClose.Ask(ctx, actor, collab.IDParams{ID: id})
	},
	"wake": func(ctx context.Context, actor ActingAs, id, _ string) (collab.Result, error) {
		return collab.WorkWake.Ask(ctx, actor, collab.IDParams{ID: id})
	},
	"discharge": func(ctx context.Context, actor ActingAs, id, recipient string) (collab.Result, error) {
		params := collab.DischargeParams{EventID: id, Recipient: protocol.PeerID(recipient)}
		_, err := collab.ObligationDischarge.Ask(ctx, actor, params)
		return collab.Result{}, err
	},
	"done":   setState(collab.WorkDone),
	"cancel": setState(collab.WorkCancelled),
}

func setState(s collab.WorkState) obligationAction {
	return func(ctx context.Context, actor ActingAs, id, _ string) (collab.Result, error) {
		return collab.WorkUpdate.Ask(ctx, actor, collab.WorkParams{ID: &id, State: s})
	}
}

// actOnObligation answers or closes a question, wakes the owner of a work item, or ends the
// item.
func (r *request) actOnObligation() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, do, input := r.PostFormValue("id"), r.PostFormValue("do"), strings.TrimSpace(r.PostFormValue("said"))
	actor, act := r.actor(), obligationActions[do]
	if act == nil || actor == nil || id == "" || len(id) > protocol.MaxTopic ||
		utf8.RuneCountInString(input) > maxChatText || do == "answer" && input == "" {
		return &refusal{http.StatusBadRequest, "the question or item does not exist, or the answer is empty or too long"}
	}
	as := protocol.PeerID(r.PostFormValue("as"))
	if protocol.RoleOf(as) == protocol.RoleCLI && protocol.CheckTopic(string(as)) == nil {
		actor = actor.As(as)
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	got, err := act(ctx, actor, id, input)
	r.logger.Info().Str("by", r.Visitor.Name).Str("do", do).Str("item", id).Err(err).Msg("obligation")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	done := fmt.Sprintf("%s is now %s", id, cmp.Or(string(got.Question.State), string(got.WorkItem.State), "closed"))
	if do == "wake" {
		done = "The owner of the next move of " + id + " was woken"
		if got.Wake.Made == nil {
			done = "Nobody could be woken for " + id
		}
	}
	return &refusal{http.StatusSeeOther, link("owed", "done", done)}
}

// applyObligation stores a newer version of an obligation, without its acts.
func (b *brokerProjection) applyObligation(o collab.EventObligation) {
	if o.EventID == "" {
		return
	}
	o.Title, o.DefaultAction = text.Clip(o.Title, maxText), text.Clip(o.DefaultAction, maxText)
	o.Acts, o.Members = nil, nil
	*b.obligations.touch(collab.ObligationKey(o.EventID, o.Recipient)) = o
}

// listObligations derives the open obligations. The caller must hold mu.
func (b *brokerProjection) listObligations(now time.Time) []collab.Obligation {
	var work []collab.WorkItem
	for _, w := range b.work.all() {
		item := w.WorkItem
		item.UpdatedAt = protocol.FormatTime(w.UpdatedAt)
		work = append(work, item)
	}
	var decisions []collab.Approval
	for _, d := range b.decisions.all() {
		decisions = append(decisions, d.Expire(now))
	}
	var obligations []collab.EventObligation
	for _, o := range b.obligations.all() {
		obligations = append(obligations, *o)
	}
	return collab.Obligations(work, b.listQuestions(), decisions, obligations)
}

// listQuestions returns the questions, the latest first. The caller must hold mu.
func (b *brokerProjection) listQuestions() (list []collab.Question) {
	for _, q := range sortedByTime(b.questions, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID }) {
		asked := q.Question
		asked.CreatedAt = protocol.FormatTime(q.CreatedAt)
		list = append(list, asked)
	}
	return list
}
