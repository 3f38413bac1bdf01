package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

const listedOwed = 500

// An owed is one obligation, the person at the console or the command line who may close it, and the page
// that tells more, each empty if there is none.
type owed struct {
	collab.Obligation
	Closer protocol.PeerID
	More   string
}

// more returns the page of what an obligation is about. The caller must hold mu.
func (f *facts) more(o *collab.Obligation) string {
	switch {
	case o.Kind == collab.KindDecision:
		return "decisions"
	case o.Kind != collab.KindObligation, f.asked.get(o.ID) != nil:
		return "item"
	case o.OwedByIdentity.Family() != "agent" || strings.HasPrefix(string(o.OwedToIdentity), "agent:") && collab.IsEscalationQuestion(o.ID): // an agent's own words about what is owed
		return ""
	}
	return "message"
}

// closer returns which of those who may close what an event obliges to speaks by the console or the
// command line.
func closer(o *collab.Obligation) protocol.PeerID {
	for _, who := range []protocol.PeerID{o.OwedToIdentity, o.DelegateIdentity, o.OwedByIdentity} {
		if o.Kind == collab.KindObligation && protocol.RoleOf(who) == protocol.RoleCLI {
			return who
		}
	}
	return ""
}

type owedView struct {
	List   []owed
	MayAct bool
	Whole  bool   // the broker itself was asked
	Note   string // why it was not
	Done   string
}

// owed shows who waits for whom. Who may act sees what the broker says, others what its
// events told.
func (l *look) owed() error {
	asker := l.voice()
	view := &owedView{Done: l.FormValue("done"), MayAct: asker != nil}
	var list []collab.Obligation
	var err error
	if asker != nil {
		list, err = everyPage(l.Context(), asker, collab.ObligationList, collab.ObligationListParams{})
	}
	if view.Whole = asker != nil && err == nil; err != nil {
		view.Note = err.Error()
	}
	f := l.read()
	if !view.Whole {
		list = f.obligations(l.Now)
	}
	for _, o := range list {
		if len(view.List) < listedOwed && l.matches(o.ID, o.Title, o.OwedByID, o.OwedToID, string(o.OwedByIdentity), string(o.OwedToIdentity)) {
			view.List = append(view.List, owed{o, closer(&o), f.more(&o)})
		}
	}
	l.Title, l.Page = "Owed", view
	return nil
}

// A settlement is what a visitor may do about what is owed; said is what they wrote.
type settlement func(ctx context.Context, asker ActingAs, id, said string) (collab.Result, error)

var settlements = map[string]settlement{
	"answer": func(ctx context.Context, asker ActingAs, id, said string) (collab.Result, error) {
		return collab.QuestionAnswer.Ask(ctx, asker, collab.AnswerParams{ID: id, Answer: said})
	},
	"close": func(ctx context.Context, asker ActingAs, id, _ string) (collab.Result, error) {
		return collab.QuestionClose.Ask(ctx, asker, collab.IDParams{ID: id})
	},
	"wake": func(ctx context.Context, asker ActingAs, id, _ string) (collab.Result, error) {
		return collab.WorkWake.Ask(ctx, asker, collab.IDParams{ID: id})
	},
	"discharge": func(ctx context.Context, asker ActingAs, id, who string) (collab.Result, error) {
		_, err := collab.ObligationDischarge.Ask(ctx, asker, collab.DischargeParams{EventID: id, Recipient: protocol.PeerID(who)})
		return collab.Result{}, err
	},
	"done":   moveTo(collab.WorkDone),
	"cancel": moveTo(collab.WorkCancelled),
}

func moveTo(s collab.WorkState) settlement {
	return func(ctx context.Context, asker ActingAs, id, _ string) (collab.Result, error) {
		return collab.WorkUpdate.Ask(ctx, asker, collab.WorkParams{ID: &id, State: s})
	}
}

// settle answers or closes a question that is owed, or wakes for or ends a work item.
func (l *look) settle() error {
	if err := l.checkAct(); err != nil {
		return err
	}
	id, do, said, asker := l.PostFormValue("id"), l.PostFormValue("do"), strings.TrimSpace(l.PostFormValue("said")), l.voice()
	act := settlements[do]
	if act == nil || asker == nil || id == "" || len(id) > protocol.MaxTopic || len(said) > maxTalk || do == "answer" && said == "" {
		return &refusal{http.StatusBadRequest, "there is no such question or item, or an answer that says nothing or too much"}
	}
	if as := protocol.PeerID(l.PostFormValue("as")); protocol.RoleOf(as) == protocol.RoleCLI && protocol.CheckTopic(string(as)) == nil {
		asker = asker.As(as)
	}
	ctx, cancel := context.WithTimeout(l.Context(), askLimit)
	defer cancel()
	got, err := act(ctx, asker, id, said)
	l.logger.Info().Str("by", l.Visitor.Name).Str("do", do).Str("item", id).Err(err).Msg("obligation")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	done := fmt.Sprintf("%s is %s now", id, cmp.Or(string(got.Question.State), string(got.WorkItem.State), "closed"))
	if do == "wake" {
		done = "The one whose move " + id + " is was woken"
		if got.Wake.Made == nil {
			done = "Nobody could be woken for " + id
		}
	}
	return &refusal{http.StatusSeeOther, link("owed", "done", done)}
}

// A duty is what an event obliges to, as the broker's events told of it.
type duty struct{ collab.EventObligation }

// changeDuty takes a newer version of what an event obliges to; its acts are in the log.
func (f *facts) changeDuty(d collab.EventObligation) {
	if d.EventID == "" {
		return
	}
	d.Title, d.DefaultAction, d.Acts, d.Members = text.Clip(d.Title, maxText), text.Clip(d.DefaultAction, maxText), nil, nil
	*f.duties.touch(collab.ObligationKey(d.EventID, d.Recipient)) = duty{d}
}

// obligations works out who waits for whom from what the broker's events told. The caller must
// hold mu.
func (f *facts) obligations(now time.Time) []collab.Obligation {
	var work []collab.WorkItem
	var decisions []collab.Approval
	for _, w := range f.work.all() {
		told := w.WorkItem
		told.UpdatedAt = protocol.FormatTime(w.UpdatedAt)
		work = append(work, told)
	}
	for _, d := range f.ledger.decisions.all() {
		decisions = append(decisions, d.Expire(now))
	}
	var duties []collab.EventObligation
	for _, d := range f.ledger.duties.all() {
		duties = append(duties, d.EventObligation)
	}
	return collab.Obligations(work, f.questions(), decisions, duties)
}

// questions returns the questions of which the broker's events told, the latest first. The
// caller must hold mu.
func (f *facts) questions() (list []collab.Question) {
	for _, q := range newest(&f.asked, func(q *question) (time.Time, string) { return q.UpdatedAt, q.ID }) {
		told := q.Question
		told.CreatedAt = protocol.FormatTime(q.CreatedAt)
		list = append(list, told)
	}
	return list
}
