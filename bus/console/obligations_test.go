package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestObligations_AreListed checks that visitors who may act see the broker's list, and that
// others see the obligations from its events, without those that are discharged.
func TestObligations_AreListed(t *testing.T) {
	s, d := newDecisionFixture(t)
	d.obligations = []collab.Obligation{{ID: "q_1", Kind: collab.KindQuestion, Title: "which <b>region?", State: "open", OwedByID: "will", OwedByIdentity: "cli:will", OwedToID: "lead", OwedToIdentity: "agent:lead"}}
	home, cookie := s.enter(t, "operator")
	if body := s.page(t, home+"owed", cookie); !strings.Contains(body, "which &lt;b&gt;region?") || !strings.Contains(body, "cli:will") || !strings.Contains(body, "This list comes from the broker") {
		t.Errorf("an operator sees %s", body)
	}
	if body := s.page(t, home+"owed?q=nothing", cookie); strings.Contains(body, "q_1") || !strings.Contains(body, "No obligation matches.") || strings.Contains(body, "Nobody waits for anybody") {
		t.Error("the filter does not filter")
	}
	broker := s.Join(t, "collab:broker", "collab:*")
	now := protocol.FormatTime(time.Now())
	for id, kind := range map[string]string{"wi_1": "open", "wi_2": "done", "wi_3": "open"} {
		w := collab.WorkItem{
			ID: id, Kind: collab.KindWorkItem, Title: "item " + id, State: collab.WorkState(kind), CreatedByID: "lead", CreatedByIdentity: "agent:lead",
			NextMoveOwnerID: "worker", NextMoveOwnerIdentity: "agent:worker", CreatedAt: now, UpdatedAt: now,
		}
		if id == "wi_3" { // lead's own
			w.NextMoveOwnerID, w.NextMoveOwnerIdentity = w.CreatedByID, w.CreatedByIdentity
		}
		raw, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		broker.SendAs(t, "collab:broker", protocol.TopicCollabEvents, protocol.TypeCollabEvent, protocol.CollabEvent{ID: "e-" + id, Type: "collab.work_item.created", Source: "agent:lead", Payload: raw})
	}
	theirs, reader := s.enter(t, "watcher")
	body := s.awaitPage(t, theirs+"owed", "the item", func(body string) bool { return strings.Contains(body, "wi_1") }, reader)
	if strings.Contains(body, "wi_2") || strings.Contains(body, "wi_3") || !strings.Contains(body, now) || !strings.Contains(body, "From the broker's events") {
		t.Errorf("a reader sees %s", body)
	}
	s.awaitText(t, home+"work", "item wi_3", cookie)
	if body := s.page(t, home+"item?id=wi_3", cookie); !strings.Contains(body, `name="id" value="wi_3"`) || !strings.Contains(body, `value="done"`) {
		t.Errorf("lead's own item cannot be ended from its page: %s", body)
	}
	if body := s.page(t, theirs+"item?id=wi_3", reader); strings.Contains(body, `name="do"`) || !strings.Contains(body, "This credential is read-only") {
		t.Errorf("the item's page for a reader: %s", body)
	}
	d.err = collab.ErrNoBroker
	if body := s.page(t, home+"owed", cookie); !strings.Contains(body, "The broker could not be asked") || !strings.Contains(body, "wi_1") {
		t.Errorf("without a broker %s", body)
	}
}

// TestObligations_AreActedOnByOperators checks that only visitors who may act can, and that
// refusals of the broker are shown.
func TestObligations_AreActedOnByOperators(t *testing.T) {
	s, d := newDecisionFixture(t)
	d.obligations = []collab.Obligation{
		{ID: "q_1", Kind: collab.KindQuestion, Title: "which region?", State: "open", OwedByID: "will"},
		{ID: "wi_1", Kind: collab.KindWorkItem, Title: "the notes", State: "open", OwedByID: "lead"},
		{ID: "dec_1", Kind: collab.KindDecision, Title: "shell", State: "pending", OwedByID: "will"},
		{ID: "ob_1", Kind: collab.KindObligation, Title: "safe?", State: "open", OwedByID: "lead", OwedByIdentity: "agent:lead", OwedToIdentity: "cli:will", Blocks: "halted"},
		{ID: "ob_2", Kind: collab.KindObligation, Title: "safe?", State: "open", OwedByID: "lead", OwedByIdentity: "agent:lead", OwedToIdentity: "tg:77", Blocks: "halted"},
		{ID: "rung_1", Kind: collab.KindObligation, Title: "lead has not answered 1 obligation", State: "open", OwedByIdentity: "tg:88", OwedToIdentity: "agent:lead", Blocks: "halted"},
	}
	home, cookie := s.enter(t, "operator")
	body := s.page(t, home+"owed", cookie)
	for id, want := range map[string]int{"q_1": 1, "wi_1": 1, "dec_1": 0, "ob_1": 1, "ob_2": 0} { // decisions have a page of their own, and a chat closes what it waits for
		if got := strings.Count(body, `name="id" value="`+id+`"`); got != want {
			t.Errorf("%s has %d forms, want %d", id, got, want)
		}
	}
	for id, page := range map[string]string{"q_1": "item", "wi_1": "item", "dec_1": "decisions", "ob_1": "message", "ob_2": "message", "rung_1": ""} { // which no page has
		if link := "./" + page + "?id=" + id; strings.Contains(body, link) != (page != "") {
			t.Errorf("%s and its link %s: %s", id, link, body)
		}
	}
	token := formToken(t, body)
	if !strings.Contains(body, `name="as" value="cli:will"`) {
		t.Errorf("what cli:will waits for is not closed as cli:will: %s", body)
	}
	act := func(id, do, said string) answer {
		as := map[bool]string{true: "cli:will", false: "tg:77"}[do == "discharge"] // nobody speaks as a chat
		return s.ask(t, http.MethodPost, home+"owed", url.Values{"id": {id}, "do": {do}, "said": {said}, "as": {as}, "form": {token}}.Encode(), cookie)
	}
	for _, c := range [][4]string{
		{"q_1", "answer", " eu-west ", "q_1 is now answered"}, {"q_1", "close", "", "q_1 is now closed"},
		{"wi_1", "done", "", "wi_1 is now done"}, {"wi_1", "cancel", "", "wi_1 is now cancelled"}, {"wi_1", "wake", "", "Nobody could be woken for wi_1"},
		{"ob_1", "discharge", "agent:lead", "ob_1 is now closed"},
	} {
		if a := act(c[0], c[1], c[2]); a.status != http.StatusSeeOther || a.header.Get("Location") != home+"owed?done="+url.QueryEscape(c[3]) {
			t.Errorf("%v: %d to %q", c, a.status, a.header.Get("Location"))
		}
	}
	want := []string{"question.answer q_1 eu-west", "question.close q_1", "work_item.update wi_1 done", "work_item.update wi_1 cancelled", "work_item.wake wi_1", "as cli:will", "obligation.discharge ob_1 agent:lead"}
	if got := d.did(); !slices.Equal(got, want) {
		t.Errorf("asked the broker %q", got)
	}
	for _, c := range [][3]string{{"q_1", "answer", " "}, {"q_1", "explode", "x"}, {"", "close", ""}, {"q_1", "answer", strings.Repeat("x", 5000)}} {
		if a := act(c[0], c[1], c[2]); a.status != http.StatusBadRequest {
			t.Errorf("%.40v: %d", c, a.status)
		}
	}
	d.err = collab.Refuse(collab.CodeBadTransition, "question q_1 is closed")
	if a := act("q_1", "answer", "x"); a.status != http.StatusConflict || !strings.Contains(a.body, "q_1 is closed (bad_transition)") {
		t.Errorf("what the broker refuses: %d %s", a.status, a.body)
	}
	theirs, reader := s.enter(t, "watcher")
	if a := s.ask(t, http.MethodPost, theirs+"owed", "id=q_1&do=close&form="+formToken(t, s.page(t, theirs+"owed", reader)), reader); a.status != http.StatusForbidden {
		t.Errorf("a reader closed a question: %d", a.status)
	}
	if got := d.did(); len(got) != len(want) {
		t.Errorf("%d requests reached the broker", len(got))
	}
}
