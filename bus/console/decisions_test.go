package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/console"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A fakeBroker is a broker that keeps decisions and remembers what it was asked.
type fakeBroker struct {
	mu          sync.Mutex // guards the fields below
	list        []collab.Approval
	asked       []string
	obligations []collab.Obligation
	err         error
}

func (d *fakeBroker) Call(_ context.Context, method string, params any) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	switch p := params.(type) {
	case collab.ApprovalListParams: // a page of one
		list := slices.DeleteFunc(slices.Clone(d.list), func(a collab.Approval) bool { return a.State != p.State || a.ID <= p.After })
		answer := map[string]any{"decisions": list, "next": nil}
		if len(list) > 1 {
			answer = map[string]any{"decisions": list[:1], "next": list[0].ID}
		}
		return json.Marshal(answer)
	case collab.QuestionListParams:
		return json.Marshal(map[string]any{"questions": []any{
			collab.Question{ID: "q_1", Title: "which <b>region?", State: p.State, AskedByIdentity: "agent:lead", AskedOfID: "will", AskedOfIdentity: "cli:will"},
			collab.Question{ID: "q_2", Title: "of an agent", State: p.State, AskedByIdentity: "agent:lead", AskedOfID: "ops", AskedOfIdentity: "agent:ops"},
		}})
	case collab.ObligationListParams:
		return json.Marshal(map[string]any{"obligations": d.obligations})
	case collab.DischargeParams:
		d.asked = append(d.asked, method+" "+p.EventID+" "+string(p.Recipient))
		return json.Marshal(collab.ObligationResult{})
	case collab.AnswerParams:
		d.asked = append(d.asked, method+" "+p.ID+" "+p.Answer)
		return json.Marshal(collab.Result{Question: collab.Question{ID: p.ID, State: collab.QuestionAnswered}})
	case collab.IDParams:
		d.asked = append(d.asked, method+" "+p.ID)
		return json.Marshal(collab.Result{Question: collab.Question{ID: p.ID, State: collab.QuestionClosed}})
	case collab.WorkParams:
		d.asked = append(d.asked, method+" "+*p.ID+" "+string(p.State))
		return json.Marshal(collab.Result{WorkItem: collab.WorkItem{ID: *p.ID, State: p.State}})
	case collab.ApprovalDecideParams:
		d.asked = append(d.asked, strings.TrimSpace(method+" "+p.ID+" "+string(p.Verdict)+" "+string(p.Scope)+p.By))
		return json.Marshal(collab.ApprovalResult{Decision: collab.Approval{ID: p.ID, ApprovalOutcome: collab.ApprovalOutcome{State: "allowed", By: "cli:will"}}})
	}
	return nil, collab.ErrNoBroker
}

func (d *fakeBroker) did() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func approval(id, tool string, state collab.ApprovalState, scope collab.ApprovalScope) collab.Approval {
	return collab.Approval{
		ID: id, AskedByID: "lead", AskedByIdentity: "agent:lead", CreatedAt: protocol.FormatTime(time.Now()),
		ApprovalParams:  collab.ApprovalParams{Tool: tool, Arguments: `{"command":"<script>alert(1)</script>"}`, Digest: "abc", Chat: "tg:42", MayDecide: []string{"tg:77"}, Default: collab.Deny, ExpiresAt: protocol.FormatTime(time.Now().Add(time.Hour))},
		ApprovalOutcome: collab.ApprovalOutcome{State: state, Scope: scope, By: "tg:77"},
	}
}

// sections cuts a page of decisions into its three parts.
func sections(body string) (pending, standing, decided string) {
	_, body, _ = strings.Cut(body, `id="pending"`)
	pending, body, _ = strings.Cut(body, `id="standing"`)
	standing, decided, _ = strings.Cut(body, `id="decided"`)
	return pending, standing, decided
}

// newDecisionFixture is a fixture with two visitors, only one of whom, the operator, may ask the
// broker.
func newDecisionFixture(t *testing.T) (*fixture, *fakeBroker) {
	s, d := newFixture(t, newFakeCredentials()), &fakeBroker{}
	s.credentials.mu.Lock()
	defer s.credentials.mu.Unlock()
	a := s.credentials.tokens["token-of-operator"]
	a.ActingAs = d
	s.credentials.tokens["token-of-operator"] = a
	return s, d
}

func TestDecisions_AreListedAndMade(t *testing.T) {
	s, d := newDecisionFixture(t)
	expired := approval("dec_6", "late", "pending", "")
	expired.ExpiresAt = protocol.FormatTime(time.Now().Add(-time.Hour))
	d.list = []collab.Approval{
		approval("dec_1", "shell", "pending", ""), approval("dec_2", "edit", "pending", ""), approval("dec_3", "once", "allowed", "once"),
		approval("dec_4", "always", "allowed", "always"), approval("dec_5", "fetch", "allowed", "session"), expired,
	}
	home, cookie := s.enter(t, "operator")
	body := s.page(t, home+"decisions", cookie)
	pending, standing, decided := sections(body)
	for _, c := range []struct {
		where, what string
		want        bool
	}{
		{pending, "dec_1", true}, {pending, "dec_2", true}, {pending, "dec_4", false}, {pending, "dec_6", false}, {pending, "tg:77", true}, {pending, `value="session"`, true},
		{standing, "dec_4", true}, {standing, "dec_5", true}, {standing, "dec_3", false}, {standing, "dec_1", false}, {standing, `value="revoke"`, true},
		{standing, "for this tool always", true}, {decided, "dec_6", true}, {decided, "dec_1", false}, {body, "<script>alert", false}, {body, "come from the broker", true},
		{body, "which &lt;b&gt;region?", true}, {body, "of an agent", false}, // asked of a person, and of an agent
	} {
		if strings.Contains(c.where, c.what) != c.want {
			t.Errorf("%q there: %v", c.what, !c.want)
		}
	}
	if p, _, _ := sections(s.page(t, home+"decisions?q=SHELL", cookie)); !strings.Contains(p, "dec_1") || strings.Contains(p, "dec_2") {
		t.Error("the filter does not filter")
	}
	if body := s.page(t, home+"decisions?q=nothing", cookie); strings.Contains(body, "No decision is pending") || !strings.Contains(body, "No decision matches.") {
		t.Errorf("a filter without a match shows %s", body)
	}
	token := formToken(t, body)
	act := func(id, do string) answer {
		return s.ask(t, http.MethodPost, home+"decision", url.Values{"id": {id}, "do": {do}, "form": {token}}.Encode(), cookie)
	}
	for _, c := range [][2]string{{"dec_1", "once"}, {"dec_1", "session"}, {"dec_1", "always"}, {"dec_2", "deny"}, {"dec_4", "revoke"}} {
		if a := act(c[0], c[1]); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), home+"decisions?done=Decision+"+c[0]+"%3A+allowed+by+cli%3Awill") {
			t.Errorf("%v: %d to %q", c, a.status, a.header.Get("Location"))
		}
	}
	want := []string{"decision.decide dec_1 allow once", "decision.decide dec_1 allow session", "decision.decide dec_1 allow always", "decision.decide dec_2 deny", "decision.revoke dec_4"}
	if got := d.did(); !slices.Equal(got, want) {
		t.Errorf("asked the broker %q", got)
	}
	for _, c := range [][2]string{{"dec_1", "explode"}, {"", "once"}, {strings.Repeat("x", 2000), "deny"}} {
		if a := act(c[0], c[1]); a.status != http.StatusBadRequest {
			t.Errorf("%v: %d", c, a.status)
		}
	}
	d.err = collab.Refuse(collab.CodeBadTransition, "decision dec_1 is no longer open: denied by tg:77")
	if a := act("dec_1", "once"); a.status != http.StatusConflict || !strings.Contains(a.body, "denied by tg:77") {
		t.Errorf("what the broker refuses: %d %s", a.status, a.body)
	}
	if body := s.page(t, home+"decisions", cookie); !strings.Contains(body, "The broker could not be asked: decision dec_1") {
		t.Error("the page does not say that the broker was not asked")
	}
	if got := len(d.did()); got != len(want) {
		t.Errorf("%d requests reached the broker", got)
	}
}

// TestDecisions_ReadOnlyVisitorDecidesNothing shows decisions from the log.
func TestDecisions_ReadOnlyVisitorDecidesNothing(t *testing.T) {
	s, d := newDecisionFixture(t)
	broker := s.Join(t, "collab:broker", "collab:*")
	tell := func(kind string, a collab.Approval) {
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		broker.SendAs(t, "collab:broker", protocol.TopicCollabEvents, protocol.TypeCollabEvent, protocol.CollabEvent{ID: "e-" + kind + a.ID, Type: kind, Source: "agent:lead", Payload: raw})
	}
	tell(collab.EventDecisionAsked.Name, approval("dec_1", "shell", "pending", ""))
	tell(collab.EventDecisionAsked.Name, approval("dec_2", "edit", "pending", ""))
	tell(collab.EventDecisionChanged.Name, approval("dec_2", "edit", "denied", ""))
	raw, err := json.Marshal(collab.Question{ID: "q_1", Title: "which region?", State: collab.QuestionOpen, AskedOfIdentity: "tg:77", CreatedAt: protocol.FormatTime(time.Now()), UpdatedAt: protocol.FormatTime(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	broker.SendAs(t, "collab:broker", protocol.TopicCollabEvents, protocol.TypeCollabEvent, protocol.CollabEvent{ID: "e-q", Type: "collab.question.asked", Source: "agent:lead", Payload: raw})
	home, reader := s.enter(t, "watcher")
	body := s.awaitPage(t, home+"decisions", "both decisions, and the question", func(body string) bool {
		return strings.Contains(body, "dec_1") && strings.Contains(body, "dec_2") && strings.Contains(body, "which region?")
	}, reader)
	pending, _, decided := sections(body)
	if !strings.Contains(pending, "dec_1") || strings.Contains(pending, "dec_2") || !strings.Contains(decided, "denied by tg:77") || strings.Contains(body, `value="once"`) || !strings.Contains(body, "This credential is read-only") {
		t.Error("a reader sees something else")
	}
	form := "id=dec_1&do=once&form=" + formToken(t, body)
	if a := s.ask(t, http.MethodPost, home+"decision", form, reader); a.status != http.StatusForbidden {
		t.Errorf("a reader decided: %d", a.status)
	}
	own, cookie := s.enter(t, "operator")
	for what, a := range map[string]answer{
		"without a form": s.ask(t, http.MethodPost, own+"decision", "id=dec_1&do=once", cookie),
		"by another's":   s.ask(t, http.MethodPost, own+"decision", form, cookie),
	} {
		if a.status != http.StatusForbidden {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	s.now.Store(int64(31 * time.Minute)) // the visit only looks
	if a := s.ask(t, http.MethodPost, own+"decision", "id=dec_1&do=once&form="+formToken(t, s.page(t, own+"decisions", cookie)), cookie); a.status != http.StatusForbidden {
		t.Errorf("an old visit decided: %d", a.status)
	}
	if got := d.did(); len(got) != 0 {
		t.Errorf("the broker was asked %q", got)
	}
}

// Talk notes what was said, and answers with it.
func (d *fakeBroker) DirectChat(ctx context.Context, agent protocol.PeerID, text string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, string(agent)+": "+text)
	return "you said <b>" + text, d.err
}

// As sets the identity that acts next.
func (d *fakeBroker) As(person protocol.PeerID) console.ActingAs {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, "as "+string(person))
	return d
}

// ResetBudget notes the agent whose budget was reset.
func (d *fakeBroker) ResetBudget(ctx context.Context, agent protocol.PeerID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, string(agent)+" anew")
	return d.err
}

var _ console.ActingAs = (*fakeBroker)(nil)

// TestDirectChat_ShowsAnswer checks that a visitor who may act has a box on the page of a
// connected agent, and sees its answer, or why there is none. Other visitors have no box.
func TestDirectChat_ShowsAnswer(t *testing.T) {
	s, d := newDecisionFixture(t)
	s.Join(t, "agent:lead", "agent:lead")
	home, cookie := s.enter(t, "operator")
	body := s.page(t, home+"agent?id=agent:lead", cookie)
	if !strings.Contains(body, `name="said"`) {
		t.Fatal("the page has no box")
	}
	if strings.Contains(s.page(t, home+"agent?id=agent:gone", cookie), `name="said"`) {
		t.Error("an agent that is away has a box")
	}
	token := formToken(t, body)
	say := func(id, said, form string, cookie string) answer {
		return s.ask(t, http.MethodPost, home+"agent", url.Values{"id": {id}, "said": {said}, "form": {form}}.Encode(), cookie)
	}
	if a := say("agent:lead", " hello ", token, cookie); a.status != http.StatusOK || !strings.Contains(a.body, "</b> hello<") || !strings.Contains(a.body, "you said &lt;b&gt;hello<") {
		t.Errorf("said: %d %s", a.status, a.body)
	}
	d.err = errors.New("agent:lead did not take it: overflow")
	if a := say("agent:lead", "again", token, cookie); a.status != http.StatusOK || !strings.Contains(a.body, "Agent:lead did not take it: overflow.") || !strings.Contains(a.body, "</b> again<") {
		t.Errorf("not taken: %d %s", a.status, a.body)
	}
	for what, a := range map[string]answer{
		"nothing": say("agent:lead", " ", token, cookie), "too much": say("agent:lead", strings.Repeat("x", 4097), token, cookie),
		"to a chat": say("tg:42", "hello", token, cookie),
	} {
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	if a := say("agent:lead", "hello", "forged", cookie); a.status != http.StatusForbidden {
		t.Errorf("a forged form: %d", a.status)
	}
	theirs, reader := s.enter(t, "watcher")
	body = s.page(t, theirs+"agent?id=agent:lead", reader)
	if strings.Contains(body, `name="said"`) {
		t.Error("who may only look has a box")
	}
	if a := s.ask(t, http.MethodPost, theirs+"agent", "id=agent:lead&said=hello&form="+formToken(t, body), reader); a.status != http.StatusForbidden {
		t.Errorf("who may only look spoke: %d", a.status)
	}
	if got, want := d.did(), []string{"agent:lead: hello", "agent:lead: again"}; !slices.Equal(got, want) {
		t.Errorf("said %q; want %q", got, want)
	}
}

// TestBudget_IsResetFromItsPage checks that the page of an agent that has used up a budget says so,
// with a button for visitors who may act, and with the command for others.
func TestBudget_IsResetFromItsPage(t *testing.T) {
	s, d := newDecisionFixture(t)
	lead := s.Join(t, "agent:lead", "agent:lead")
	record := func(content map[string]any) { lead.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, content) }
	record(map[string]any{"event": "budget", "eventId": "e1", "state": "withheld", "reason": "budget_turns", "bound": 5, "until": protocol.FormatTime(time.Now().Add(time.Hour))})
	home, cookie := s.enter(t, "operator")
	page := home + "agent?id=agent:lead"
	body := s.awaitText(t, page, ">reset the budget<", cookie)
	theirs, reader := s.enter(t, "watcher")
	if body := s.page(t, theirs+"agent?id=agent:lead", reader); !strings.Contains(body, "hubbub resume agent:lead --budget") || strings.Contains(body, ">reset the budget<") {
		t.Errorf("who may only look sees %s", body)
	}
	act := func(home, cookie, id, form string) answer {
		return s.ask(t, http.MethodPost, home+"budget", url.Values{"id": {id}, "form": {form}}.Encode(), cookie)
	}
	for what, c := range map[string]struct {
		answer
		status int
	}{
		"no agent":          {act(home, cookie, "tg:42", formToken(t, body)), http.StatusBadRequest},
		"a forged form":     {act(home, cookie, "agent:lead", "forged"), http.StatusForbidden},
		"who may only look": {act(theirs, reader, "agent:lead", formToken(t, s.page(t, theirs, reader))), http.StatusForbidden},
		"counted anew":      {act(home, cookie, "agent:lead", formToken(t, body)), http.StatusSeeOther},
	} {
		if c.answer.status != c.status {
			t.Errorf("%s: %d %s", what, c.answer.status, c.body)
		}
	}
	if got, want := d.did(), []string{"agent:lead anew"}; !slices.Equal(got, want) {
		t.Errorf("did %q; want %q", got, want)
	}
	record(map[string]any{"event": "halt", "state": "counted_anew", "scope": "agent:lead", "by": "will"})
	s.awaitPage(t, page, "no used up budget", func(body string) bool { return !strings.Contains(body, "used up") }, cookie)
}
