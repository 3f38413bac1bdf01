package console_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/agentstats"
	"hubbub/activitylog/read"
	"hubbub/bus/bustest"
	"hubbub/bus/console"
	"hubbub/protocol"
)

const hostile = `<script>alert(1)</script>"><img src=x onerror=alert(2)>'` + "\u202e\u2066"

// playHostileChat plays a chat with two agents, all of whose names are hostile, and work.
func (s *fixture) playHostileChat(t *testing.T) (message protocol.MessageID) {
	t.Helper()
	bridge := s.Join(t, "tg:1", "tg:*")
	lead := s.Join(t, "agent:lead", "agent:lead")
	other := s.Join(t, "agent:other", "agent:other")
	system := s.Join(t, "agent:system", "system:*")
	broker := s.Join(t, "collab:broker", "collab:*")
	as := func(p *bustest.Scripted, from protocol.PeerID, topic protocol.Topic, typ protocol.MessageType, content any) protocol.MessageID {
		return p.SendAs(t, from, topic, typ, content).MessageID
	}
	as(bridge, "tg:42", "system:spawn", protocol.TypeSpawnRequest, protocol.SpawnRequest{Topic: "tg:42", RequestID: "r1"})
	as(system, "agent:system", "tg:42", protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: "tg:42", Agent: "agent:lead", RequestID: "r1"})
	as(bridge, "tg:42", "agent:lead", protocol.TypeConfigure, protocol.Configure{TalkTo: "tg:42"})
	said := protocol.ChatMessage{
		Text: "please " + hostile, SourceID: "e1", Chat: &protocol.Chat{ID: "42", Kind: "channel", Title: hostile},
		Author: &protocol.Author{ID: "7", DisplayName: hostile},
	}
	message = as(bridge, "tg:42", "agent:lead", protocol.TypeTGMessage, said)
	as(bridge, "tg:42", "agent:other", protocol.TypeTGMessage, said)
	record := func(p *bustest.Scripted, content map[string]any) {
		content["agent"], content["eventId"] = "x", "e1"
		as(p, p.ID(), protocol.TopicAttention, protocol.TypeAgentEvent, content)
	}
	record(lead, map[string]any{"event": "attention_decision", "directedness": "to_me", "policy": "must_respond", "injection": "immediate", "reason": "mention " + hostile})
	record(other, map[string]any{"event": "attention_decision", "directedness": "to_other", "policy": "must_not_respond", "injection": "silent", "reason": "addressed_to_other"})
	record(other, map[string]any{"event": "disposition", "disposition": "ignored", "reason": hostile})
	record(lead, map[string]any{"event": "turn", "turnId": "t1", "state": "started", "attempt": 1})
	record(lead, map[string]any{"event": "turn", "turnId": "t1", "state": "finished", "attempt": 1})
	reply := as(lead, "agent:lead", "tg:42", protocol.TypeTGReply, protocol.ChatReply{Text: "done " + hostile, InReplyTo: "e1"})
	record(lead, map[string]any{"event": "refusal", "tool": "send_message", "reason": "already answered " + hostile})
	record(lead, map[string]any{"event": "disposition", "disposition": "responded"})
	as(bridge, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{MessageID: reply, Status: protocol.StatusFailed, Reason: "blocked " + hostile})
	fact := func(typ, payload string) {
		as(broker, "collab:broker", protocol.TopicCollabEvents, protocol.TypeCollabEvent,
			protocol.CollabEvent{ID: typ, Type: typ, Source: "agent:lead", Target: "x", Payload: json.RawMessage(payload)})
	}
	title, _ := json.Marshal("Fix " + hostile)
	fact("collab.work_item.created", `{"id":"w1","title":`+string(title)+`,"ownerId":"lead","nextMoveOwnerId":"other","state":"waiting","waitingOn":{"kind":"actor","label":`+string(title)+`},"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`)
	fact("collab.question.created", `{"id":"q1","title":`+string(title)+`,"state":"open","askedOfId":"lead"}`)
	fact("collab.flight.updated", `{"id":"f1","workItemId":"w1","targetAgentId":"lead","state":"failed","error":`+string(title)+`}`)
	fact("collab.claim.granted", `{"eventId":"e1","owner":"lead","ownerIdentity":"agent:lead","token":7,"state":"held"}`)
	other.Refuse(func(*bustest.Delivery) error { return errors.New(hostile) })
	as(bridge, "tg:42", "agent:other", protocol.TypeTGMessage, protocol.ChatMessage{Text: "again", SourceID: "e2"})
	s.Sync(t)
	return message
}

func TestPages_ShowHostileNamesAsText(t *testing.T) {
	s := newFixture(t, nil)
	s.dead.list = []console.DeadLetter{{ID: "1", State: "dead", Text: hostile, Error: hostile, Agent: hostile, Destination: hostile, Queue: hostile}}
	message := s.playHostileChat(t)
	s.awaitText(t, "/console/agents", "agent:other")
	escaped := "&lt;script&gt;alert(1)&lt;/script&gt;"
	q := url.QueryEscape(hostile)
	for path, shown := range map[string]bool{
		"/console/": true, "/console/topology": true, "/console/activity": true, "/console/agents": true, "/console/agent?id=agent:lead": true,
		"/console/agent?id=agent:other": true, "/console/chat?id=tg:42": true, "/console/peer?id=agent:other": true, "/console/work": true, "/console/item?id=w1": true,
		"/console/item?id=q1": true, "/console/health": true, "/console/message?id=" + string(message): true,
		"/console/?q=" + q: true, "/console/activity?text=" + q: true, "/console/work?q=" + q + "&done=" + q: true, "/console/chat?id=" + q: true,
		"/console/agent?id=" + q: true, "/console/peer?id=" + q: true, "/console/agents?q=" + q: true,
		"/console/activity?topic=" + url.QueryEscape("[") + q: true,
	} {
		body := s.page(t, path)
		for _, bad := range []string{"<script>alert", "<img", `onerror=alert(2)>`} {
			text := regexp.MustCompile(`<img src="[./]+/assets/icon.svg`).ReplaceAllString(body, "")
			if strings.Contains(text, bad) && (bad != `onerror=alert(2)>` || strings.Contains(text, `<img src=x`)) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
		if strings.ContainsAny(body, "\u202e\u2066") {
			t.Errorf("%s holds what turns its text round", path)
		}
		if shown && !strings.Contains(body, escaped) {
			t.Errorf("%s does not show the hostile text as text", path)
		}
	}
	for _, path := range []string{"/console/message?id=" + q, "/console/item?id=" + q, "/console/" + url.PathEscape(hostile)} {
		a := s.ask(t, http.MethodGet, path, "")
		if a.status != http.StatusNotFound || strings.Contains(a.body, "<script>alert") {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestPages_NameTheZoneOfEachClock checks that the zone of each time of day is named between the
// last heading before it and the time.
func TestPages_NameTheZoneOfEachClock(t *testing.T) {
	s := newFixture(t, nil)
	s.dead.list = []console.DeadLetter{{ID: "1", State: "dead", Text: "x", Error: "y", Agent: "agent:lead", Destination: "tg:42", Queue: "q"}}
	message := s.playHostileChat(t)
	s.awaitText(t, "/console/agents", "agent:other")
	attributes := regexp.MustCompile(` (title|datetime)="[^"]*"`)
	clock := regexp.MustCompile(`>\s*\d\d:\d\d(:\d\d(\.\d+)?)?\s*<`)
	clocks := 0
	for _, path := range []string{
		"/console/", "/console/topology", "/console/activity", "/console/agents", "/console/agent?id=agent:lead",
		"/console/agent?id=agent:other", "/console/chat?id=tg:42", "/console/peer?id=agent:other", "/console/work",
		"/console/item?id=w1", "/console/item?id=q1", "/console/health", "/console/message?id=" + string(message),
		"/console/decisions",
	} {
		body := attributes.ReplaceAllString(s.page(t, path), "")
		for _, at := range clock.FindAllStringIndex(body, -1) {
			clocks++
			before := body[:at[0]]
			if heading := max(strings.LastIndex(before, "<h2"), 0); !strings.Contains(before[heading:], "UTC") {
				t.Errorf("%s does not say in which zone %s is", path, body[at[0]+1:at[1]-1])
			}
		}
	}
	if clocks < 20 {
		t.Errorf("the pages have only %d clocks", clocks)
	}
}

func TestPages_ShowScenario(t *testing.T) {
	s := newFixture(t, nil)
	message := s.playHostileChat(t)
	for path, want := range map[string][]string{
		"/console/":                     {"collab:broker", "agent:lead", "role-agent", "speaks through a bridge", `class="edge`},
		"/console/agents":               {"talking", "responded", "ignored", "50%", "held"},
		"/console/agent?id=agent:lead":  {"must_respond", "immediate", "mention", "refused send_message", "finished", "1 refused by policy"},
		"/console/agent?id=agent:other": {"must_not_respond", "addressed_to_other", "it is addressed to somebody else", "silent", "ignored"},
		"/console/chat?id=tg:42":        {"claimed by", "no turn", "turn <span", "failed", "blocked"},
		"/console/work":                 {"waits for Fix", "next other", "failed", "open"},
		"/console/item?id=w1":           {"collab.work_item.created", "of lead is failed"},
		"/console/health":               {"error", "rows written", "Unanswered deliveries of a peer"},
		"/console/peer?id=agent:other":  {"agent:other", "error", "tg_message", "<dt>Failures</dt><dd>1, the last "},
		"/console/message?id=" + string(message): {
			"spawn_request", "route_assigned", "configure", "bootstrap", "tg_reply", "delivery_status", "answers", "attention", `class="run good`, "Decisions of agents",
		},
	} {
		body := s.awaitText(t, path, want[0])
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s does not show %q", path, w)
			}
		}
	}
}

// TestSearch_FindsMessageByText finds a message by the id of its event.
func TestSearch_FindsMessageByText(t *testing.T) {
	s := newFixture(t, nil)
	message := s.playHostileChat(t)
	s.awaitText(t, "/console/agent?id=agent:lead", string(message))
	if a := s.ask(t, http.MethodGet, "/console/message?id=e1", ""); a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/message?id="+string(message) {
		t.Errorf("e1: %d, to %s", a.status, a.header.Get("Location"))
	}
}

// TestSearch_FindsTextsAndTitles checks that ids lead to their message, a text that names one chat
// to that chat, and other words to the rows that contain them.
func TestSearch_FindsTextsAndTitles(t *testing.T) {
	s := newFixture(t, nil)
	message := s.playHostileChat(t)
	bridge := s.Join(t, "tg:titled", "tg:titled")
	bridge.Send(t, "agent:lead", protocol.TypeTGMessage, json.RawMessage(`{"text":"hello","sourceId":"e9","chat":{"id":"-7","title":"Ops Room","kind":"group"}}`))
	s.Sync(t)
	s.awaitText(t, "/console/chat?id=tg:titled", "Ops Room")
	s.awaitText(t, "/console/agent?id=agent:lead", string(message))
	for words, want := range map[string]string{
		"e1": "message?id=" + string(message), " ops room ": "chat?id=tg%3Atitled", "is the sky green": "activity?text=is+the+sky+green", "tg:": "activity?text=tg%3A",
	} {
		a := s.ask(t, http.MethodGet, "/console/message?find="+url.QueryEscape(words), "")
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/"+want {
			t.Errorf("%q: %d, to %s", words, a.status, a.header.Get("Location"))
		}
	}
}

// TestPages_AgreeWithLog compares what the page counts with what the log's
// reader counts, at each step of events that wait, end, and get a turn after all.
func TestPages_AgreeWithLog(t *testing.T) {
	s := newFixture(t, nil)
	s.playHostileChat(t)
	s.agreesWithTheLog(t, "agent:other", 1)
	late := s.Join(t, "agent:late")
	for _, step := range []struct {
		record  string
		avoided int64
	}{
		{`{"event":"attention_decision","eventId":"e1","injection":"buffered"}`, 0},
		{`{"event":"disposition","eventId":"e1","disposition":"responded"}`, 0}, // it counts as having had a turn
		{`{"event":"turn","eventId":"e1","turnId":"t1","state":"started"}`, 0},  // from here on turns are recorded
		{`{"event":"attention_decision","eventId":"e2","injection":"digest"}`, 0},
		{`{"event":"disposition","eventId":"e2","disposition":"ignored"}`, 1},
		{`{"event":"attention_decision","eventId":"e3","injection":"buffered"}`, 1}, // it waits for its turn
		{`{"event":"disposition","eventId":"e3","disposition":"deferred"}`, 1},
		{`{"event":"disposition","eventId":"e3","disposition":"superseded"}`, 2},
		{`{"event":"turn","eventId":"d","mergedEventIds":["e2"],"turnId":"t2","state":"started"}`, 1}, // the digest
	} {
		late.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, json.RawMessage(step.record))
		s.Sync(t)
		s.agreesWithTheLog(t, "agent:late", step.avoided)
	}
}

// agreesWithTheLog waits until the page has the numbers of the log for every
// agent; those of one are known.
func (s *fixture) agreesWithTheLog(t *testing.T, known string, avoided int64) {
	t.Helper()
	stats, err := agentstats.Read(t.Context(), s.reader, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(stats, func(a agentstats.Stats) bool { return a.Agent == known })
	if i < 0 || stats[i].TurnsAvoided != avoided {
		t.Errorf("the log has %+v; want %d turns of %s avoided", stats, avoided, known)
	}
	want, last := map[string][]string{}, map[string][]string{}
	for _, a := range stats {
		want[a.Agent] = []string{fmt.Sprint(a.Events), fmt.Sprint(a.Injected), fmt.Sprint(a.Knocks), fmt.Sprint(a.TurnsRun), fmt.Sprint(a.TurnsAvoided)}
	}
	defer func() {
		if t.Failed() {
			t.Logf("the page has %v, the log %v", last, want)
		}
	}()
	s.awaitPage(t, "/console/agents", "the numbers of the log", func(body string) bool {
		for agent := range want {
			row := regexp.MustCompile(`(?s)<tr><td><a class="id role-agent" href="[^"]*" title="` + agent + `">[^<]*</a>.*?</tr>`).FindString(body)
			last[agent] = nil
			for _, n := range regexp.MustCompile(`<td class="num[^"]*">(\d*)`).FindAllStringSubmatch(row, -1) {
				last[agent] = append(last[agent], n[1])
			}
			if len(last[agent]) < len(want[agent]) || !slices.Equal(last[agent][:len(want[agent])], want[agent]) {
				return false
			}
		}
		return true
	})
}

var (
	pollerLink = regexp.MustCompile(`id="poller" hidden hx-get="([^"]+)"`)
	olderLink  = regexp.MustCompile(`<tr class="more"><td colspan="8"><button hx-get="([^"]+)"`)
	rowID      = regexp.MustCompile(`href="\./message\?id=([^"]+)"`)
)

// find returns the address that a page holds.
func find(t *testing.T, what *regexp.Regexp, body string) string {
	t.Helper()
	m := what.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no %s in\n%s", what, body)
	}
	return rooted(m[1])
}

// rooted turns an address that stands in a page into a path.
func rooted(href string) string {
	return strings.Replace(strings.ReplaceAll(href, "&amp;", "&"), "./", "/console/", 1)
}

func TestActivity_UpdatesAndFilters(t *testing.T) {
	s := newFixture(t, nil)
	a := s.Join(t, "agent:a", "agent:a")
	s.Sync(t)
	body := s.page(t, "/console/activity?type=agent_event&event=send_start")
	next := find(t, pollerLink, body)
	if quiet := s.page(t, next); strings.Contains(quiet, "ev-send_start") {
		t.Error("rows came of nothing")
	}
	a.Send(t, "nobody", protocol.TypeAgentEvent, map[string]any{"event": "first"})
	a.Send(t, "nobody", protocol.TypeTGReply, map[string]any{"text": "not asked for"})
	s.Sync(t)
	moved := s.page(t, next)
	if strings.Count(moved, "ev-send_start") != 1 || !strings.Contains(moved, "first") || strings.Contains(moved, "not asked for") {
		t.Errorf("the tail shows\n%s", moved)
	}
	next = find(t, pollerLink, moved)
	if again := s.page(t, next); strings.Contains(again, "ev-send_start") {
		t.Error("a row came twice")
	}
	for path, want := range map[string]int{
		"/console/activity?text=not+asked":                   1,
		"/console/activity?topic=nob*&event=send_start":      2,
		"/console/activity?peer=agent:a&event=send_start":    2,
		"/console/activity?status=no_subscriber":             2,
		"/console/activity?type=tg_reply&event=send_start":   1,
		"/console/activity?since=2099-01-01T00:00:00Z":       0,
		"/console/activity?peer=agent:b":                     0,
		"/console/activity?topic=%5Babc%5D&event=send_start": 0,
	} {
		body := s.page(t, path)
		if got := len(rowID.FindAllString(body, -1)); got != want {
			t.Errorf("%s shows %d rows, not %d", path, got, want)
		}
	}
	for _, path := range []string{"/console/activity/rows", "/console/activity/rows?after=x", "/console/activity/rows?before=-1", "/console/activity/rows?after=1&topic=%5B"} {
		if got := s.ask(t, http.MethodGet, path, ""); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

func TestActivity_OlderPagesMeet(t *testing.T) {
	s := newFixture(t, nil)
	a := s.Join(t, "agent:a", "agent:a")
	var sent []string
	for i := range 230 {
		r := a.Send(t, "nobody", protocol.TypeAgentEvent, map[string]any{"event": fmt.Sprint(i)})
		sent = append(sent, string(r.MessageID))
	}
	s.Sync(t)
	var seen []string
	path := "/console/activity?event=send_start"
	for path != "" {
		body := s.page(t, path)
		for _, m := range rowID.FindAllStringSubmatch(body, -1) {
			seen = append(seen, m[1])
		}
		path = ""
		if m := olderLink.FindStringSubmatch(body); m != nil {
			path = rooted(m[1])
		}
	}
	slices.Reverse(sent)
	if !slices.Equal(seen, sent) {
		t.Errorf("%d rows were seen of %d, or in another order", len(seen), len(sent))
	}
}

func TestStateJSON_ServesState(t *testing.T) {
	s := newFixture(t, nil)
	s.playHostileChat(t)
	var state console.State
	if err := json.Unmarshal([]byte(s.awaitText(t, "/console/state.json", `"status":"error"`)), &state); err != nil {
		t.Fatal(err)
	}
	if state.Counters.Name != "bus-test" || state.Counters.Accepted == 0 || len(state.Peers) < 5 || len(state.Edges) == 0 || len(state.Failures) == 0 {
		t.Errorf("the state is %+v", state)
	}
	var columns map[string][]any
	if err := json.Unmarshal([]byte(s.page(t, "/console/series.json")), &columns); err != nil || columns["t"] == nil {
		t.Errorf("the series: %v %v", columns, err)
	}
}

func TestConsole_WorksWithoutLog(t *testing.T) {
	s := newFixture(t, nil)
	c := console.New(s, nil, nil)
	bare := &fixture{Bus: s.Bus, console: c}
	bare.http = newServer(t, c)
	for _, path := range []string{"/console/", "/console/activity", "/console/agents", "/console/work", "/console/health", "/console/state.json"} {
		bare.page(t, path)
	}
	empty := read.Open(t.TempDir() + "/none.db")
	t.Cleanup(empty.Close)
	later := &fixture{Bus: s.Bus, console: console.New(s, empty, nil)}
	later.http = newServer(t, later.console)
	if body := later.page(t, "/console/activity"); !strings.Contains(body, "nothing is recorded yet") {
		t.Error("a log that does not exist yet is not told")
	}
}

// TestChat_ShowsRelayedReplyOnce checks that relaying a reply to the other agents of the chat adds
// no message, and that their decisions are shown beside it.
func TestChat_ShowsRelayedReplyOnce(t *testing.T) {
	s := newFixture(t, nil)
	bridge := s.Join(t, "tg:room", "tg:room")
	lead := s.Join(t, "agent:lead", "agent:lead")
	other := s.Join(t, "agent:other", "agent:other")
	lead.Send(t, "tg:room", protocol.TypeTGReply, protocol.ChatReply{Text: "the tide is high"})
	bridge.Send(t, "agent:other", protocol.TypeTGMessage, json.RawMessage(`{"text":"the tide is high","sourceId":"told1",
		"chat":{"id":"-7","title":"Ops Room","kind":"channel"},"author":{"id":"agent:lead","kind":"agent","displayName":"lead"}}`))
	other.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, json.RawMessage(`{"agent":"x","event":"attention_decision","eventId":"told1","directedness":"ambient","policy":"must_not_respond","injection":"tool_mailbox","reason":"told_nobody"}`))
	s.Sync(t)
	s.awaitText(t, "/console/chat?id=tg:room", `title="told_nobody">an agent shared it for information`)
	body := s.ask(t, http.MethodGet, "/console/chat?id=tg:room", "").body
	if n := strings.Count(body, `class="words">the tide is high`); n != 1 {
		t.Errorf("the reply stands %d times in its chat:\n%s", n, body)
	}
	if !strings.Contains(body, "0 from people · 1 from agents") {
		t.Errorf("it counts as one message: %s", body)
	}
}

// TestChat_FindsDecisionsOnAnyID checks that the decision on a message whose id has a space is shown,
// also beside its edit.
func TestChat_FindsDecisionsOnAnyID(t *testing.T) {
	s := newFixture(t, nil)
	bridge := s.Join(t, "chorus:ops.c1", "chorus:*")
	lead := s.Join(t, "agent:lead", "agent:lead")
	for _, kind := range []string{protocol.EventMessage, protocol.EventEdit} {
		bridge.Send(t, "agent:lead", protocol.TypeChatMessage, protocol.ChatMessage{
			Event: kind, Text: "is it green?", SourceID: "chorus:ops.c1:msg 1",
		})
	}
	lead.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, protocol.AttentionDecision{
		Event: protocol.RecordDecision, EventID: "chorus:ops.c1:msg 1", Agent: "agent:lead", Policy: "must_respond",
		Injection: "immediate", Reason: "mentioned",
	})
	s.Sync(t)
	s.awaitPage(t, "/console/chat?id=chorus:ops.c1", "both decisions", func(body string) bool {
		return strings.Count(body, `<details class="judge"`) == 2 && !strings.Contains(body, "has not decided")
	})
}

// TestPages_CountGoneClients checks that a command that published something and left is counted,
// and listed on demand, and that neither it nor its message becomes a chat. A bridge talks with
// the peers that its chats talk with.
func TestPages_CountGoneClients(t *testing.T) {
	s := newFixture(t, nil)
	s.playHostileChat(t)
	for _, id := range []protocol.PeerID{"cli:pub-1", "cli:pub-2"} {
		p := s.Join(t, id)
		p.Send(t, "agent:lead", protocol.TypeChatMessage, protocol.ChatMessage{Text: "hi"})
		p.Send(t, "nobody.here", protocol.TypeChatMessage, protocol.ChatMessage{Text: "hi"})
		p.Leave()
	}
	s.Sync(t)
	for page, more := range map[string]string{"": "?passed=1", "agents": "agents?q=cli:"} {
		body := s.awaitText(t, "/console/"+page, "2 clients")
		_, list, _ := strings.Cut(body, "2 clients")
		if strings.Contains(list, "cli:pub-1") || strings.Contains(list, "nobody.here") || !strings.Contains(body, more) {
			t.Errorf("%q lists clients that went:\n%s", page, list)
		}
		s.awaitText(t, "/console/"+more, "cli:pub-1")
	}
	if body := s.page(t, "/console/peer?id=tg:1"); !strings.Contains(body, ">&lt;script&gt;") {
		t.Errorf("the bridge's page shows nothing of its chats:\n%s", body)
	}
}

// TestPages_ShowWordsBeforeCodes looks for codes and identities outside of tooltips and addresses.
func TestPages_ShowWordsBeforeCodes(t *testing.T) {
	s := newFixture(t, nil)
	message := s.playHostileChat(t)
	s.awaitText(t, "/console/agent?id=agent:lead", string(message))
	attribute := regexp.MustCompile(`(?s)<(?:form|datalist|select|pre|code)\b.*?</(?:form|datalist|select|pre|code)>|<[^>]*>`)
	code := regexp.MustCompile(`\b(?:must_(?:not_)?respond|may_respond|tool_mailbox|to_(?:me|my_role|other)|addressed_to_other|no_subscriber|told_nobody|tg_message|agent_event)\b|agent:“`)
	for _, page := range []string{"", "agents", "agent?id=agent:lead", "agent?id=agent:other", "chat?id=tg:42", "peer?id=agent:other", "health", "work"} {
		text := attribute.ReplaceAllString(s.page(t, "/console/"+page), " ")
		if found := code.FindString(text); found != "" {
			t.Errorf("%q shows the code %q", page, found)
		}
	}
	details := regexp.MustCompile(`<td class="text" title="[^"]*">[^<]*`).FindAllString(s.page(t, "/console/activity"), -1)
	decisions := 0
	for _, cell := range details {
		shown := cell[strings.LastIndex(cell, ">"):]
		if found := code.FindString(shown); found != "" {
			t.Errorf("the details of the activity show the code %q: %s", found, shown)
		}
		if code.MatchString(cell) {
			decisions++
		}
	}
	if decisions == 0 {
		t.Errorf("no tooltip of the activity has the codes of a decision: %q", details)
	}
}

// TestChat_HasTheNewestAtItsEnd also finds the decisions of agents in a summary that opens.
func TestChat_HasTheNewestAtItsEnd(t *testing.T) {
	s := newFixture(t, nil)
	bridge := s.Join(t, "tg:room", "tg:room")
	s.Join(t, "agent:lead", "agent:lead")
	for i := range 5 {
		bridge.Send(t, "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: fmt.Sprintf("line %d", i), SourceID: fmt.Sprintf("s%d", i)})
	}
	body := s.awaitText(t, "/console/chat?id=tg:room", "line 4")
	if day := `<li class="day">` + time.Now().UTC().Format("2006-01"); strings.Count(body, day) == 0 {
		t.Errorf("the chat does not say on which day it was: lacks %s", day)
	}
	at := -1
	for i := range 5 {
		next := strings.Index(body, fmt.Sprintf("line %d<", i))
		if next <= at {
			t.Errorf("line %d stands at %d, the one before at %d", i, next, at)
		}
		at = next
	}
	if !regexp.MustCompile(`(?s)<details class="judge" id="why-s4"><summary>why .*lead</span> has not decided`).MatchString(body) {
		t.Errorf("the decision of the agent is not behind a why:\n%s", body)
	}
}

// TestAgent_ShowsWhatTheBrokerWokeItFor looks for the title of the work, not only its id.
func TestAgent_ShowsWhatTheBrokerWokeItFor(t *testing.T) {
	s := newFixture(t, nil)
	lead := s.Join(t, "agent:lead", "agent:lead")
	broker := s.Join(t, "collab:broker", "collab:*")
	sent := func(topic protocol.Topic, id, typ, payload string) {
		broker.Send(t, topic, protocol.TypeCollabEvent, protocol.CollabEvent{
			ID: id, Type: typ, Source: "cli:ops", Target: "agent:lead", Payload: json.RawMessage(payload),
		})
	}
	sent(protocol.TopicCollabEvents, "evt_1", "collab.work_item.created", `{"id":"wi_7","title":"Paint the shed","state":"open","ownerId":"lead"}`)
	sent(protocol.TopicCollabEvents, "evt_2", "collab.question.created", `{"id":"q_1","title":"Which colour?","state":"open"}`)
	sent("agent:lead", "evt_7", "collab.wake.decided", `{"recordId":"wi_7","recordKind":"work_item"}`)
	sent("agent:lead", "evt_8", "collab.wake.decided", `{"recordId":"q_1","recordKind":"question"}`)
	sent("agent:lead", "evt_9", "collab.question.answered", `{"id":"q_2","title":"How many?","state":"answered"}`)
	lead.Send(t, protocol.TopicAttention, protocol.TypeAgentEvent, map[string]any{
		"event": "attention_decision", "eventId": "evt_7", "directedness": "to_me", "policy": "must_respond", "injection": "immediate", "reason": "mentioned",
	})
	body := s.awaitText(t, "/console/agent?id=agent:lead", "must answer")
	for _, want := range []string{"Paint the shed", "Which colour?", "How many?"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say what woke the agent; it lacks %s:\n%s", want, body)
		}
	}
}

// TestChat_CountsAFailureOnce repeats the report of a failure, as the bridge does until
// somebody receives it.
func TestChat_CountsAFailureOnce(t *testing.T) {
	s := newFixture(t, nil)
	bridge := s.Join(t, "tg:room", "tg:room")
	lead := s.Join(t, "agent:lead", "agent:lead")
	for _, text := range []string{"one", "two"} {
		lead.Send(t, "tg:room", protocol.TypeTGReply, protocol.ChatReply{Text: text})
	}
	var ids []string
	for _, id := range regexp.MustCompile(`msg_[0-9A-Z]+`).FindAllString(s.awaitText(t, "/console/chat?id=tg:room", ">two<"), -1) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for range 3 {
		for _, id := range ids {
			bridge.Send(t, "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{MessageID: protocol.MessageID(id), Status: protocol.StatusFailed, Reason: "no"})
		}
	}
	s.Sync(t)
	body := s.awaitText(t, "/console/chat?id=tg:room", "2 not delivered")
	if len(ids) != 2 || strings.Contains(body, "6 not delivered") {
		t.Errorf("%d messages: %s", len(ids), body)
	}
}
