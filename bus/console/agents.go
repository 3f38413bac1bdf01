package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/activitylog/agentstats"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

const (
	listedChats  = 200
	listedAgents = 200
	listedEvents = 150
	listedClaims = 40
)

type agentsView struct {
	Chats              []*chat
	Agents             []agentLine
	Claims             []*claim
	Total              agentLine
	AllChats, AllAgent int
	GoneClients        int // disconnected clients without a reply, which are not listed
}

// An agentLine is one agent in the list.
type agentLine struct {
	*agent
	Stats       agentstats.Stats
	Connected   bool
	Endpoint    *endpoint
	OpenCount   int      // of the remembered events
	ListedChats []string // its chats, except those of disconnected clients
}

// isGoneClient reports whether a chat belongs to a disconnected client that never got a reply.
func (f *readModel) isGoneClient(chat string, connected map[string]bool) bool {
	c := f.chats.get(chat)
	return roleClass(chat) == "role-cli" && !connected[chat] && (c == nil || c.Out == 0)
}

// AvoidedPercent returns the percentage of events that needed no turn.
func (l *agentLine) AvoidedPercent() int {
	return percent(int(l.Stats.TurnsAvoided), int(l.Stats.Events))
}

func (r *request) agents() error {
	page := &agentsView{}
	connected := r.connectedPeers()
	f := r.lockModel()
	for _, ch := range f.chats.all() {
		switch {
		case !r.matches(ch.Topic, ch.Title) || ch.In == 0 && ch.Out == 0 && ch.State == "unknown":
		case r.Query == "" && f.isGoneClient(ch.Topic, connected):
			page.GoneClients++
		default:
			page.Chats = append(page.Chats, ch)
		}
	}
	slices.SortFunc(page.Chats, func(a, b *chat) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Topic, b.Topic))
	})
	page.AllChats, page.Chats = len(page.Chats), firstN(listedChats, page.Chats)
	lines := f.agentLines(connected, func(id string) bool { return r.matches(id, f.titles.Title(id)) })
	page.Total.Stats.Dispositions = map[string]int64{}
	for i := range lines {
		page.Total.Stats.Add(&lines[i].Stats)
		page.Total.OpenCount += lines[i].OpenCount
	}
	page.AllAgent, page.Agents = len(lines), firstN(listedAgents, lines)
	claims := sortedByTime(f.broker.claims, func(x *claim) (time.Time, string) { return x.At, x.EventID })
	page.Claims = firstN(listedClaims, claims)
	r.Title, r.Page = "Chats and agents", page
	return nil
}

func (c *Console) connectedPeers() map[string]bool {
	m := map[string]bool{}
	for _, p := range c.bus.Peers() {
		m[p.ID] = true
	}
	return m
}

func (f *readModel) agentLines(connected map[string]bool, matches func(id string) bool) []agentLine {
	places := map[protocol.PeerID]*endpoint{}
	for _, p := range f.broker.endpoints.all() {
		if old := places[p.Identity]; old == nil || p.LastHeartbeatAt.After(old.LastHeartbeatAt) {
			places[p.Identity] = p
		}
	}
	var list []agentLine
	add := func(a *agent) {
		// List other peers only if they had events to decide on.
		if a.ID == "agent:system" || !matches(a.ID) || roleClass(a.ID) != "role-agent" && a.Stats(a.ID).Events == 0 {
			return
		}
		talks := slices.DeleteFunc(slices.Clone(a.Chats),
			func(chat string) bool { return f.isGoneClient(chat, connected) })
		list = append(list, agentLine{a, a.Stats(a.ID), connected[a.ID], places[protocol.PeerID(a.ID)], a.Open(),
			talks})
	}
	for _, a := range f.agents.all() {
		add(a)
	}
	for id := range connected {
		if f.agents.get(id) == nil && roleClass(id) == "role-agent" {
			add(&agent{ID: id})
		}
	}
	slices.SortFunc(list, func(a, b agentLine) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// An agentView is the page of one agent, and of a visitor's chat with it.
type agentView struct {
	*agentLine
	MayChat      bool
	Done         string
	Sent, Answer string
	Problem      string // why there is no answer
}

func (r *request) agent() error {
	id := r.FormValue("id")
	connected := r.connectedPeers()
	lines := r.lockModel().agentLines(connected, func(other string) bool { return other == id })
	if len(lines) == 0 {
		lines = []agentLine{{agent: &agent{ID: text.Clip(id, 300)}}}
	}
	r.Title = text.Clip(id, 100)
	r.Page = &agentView{
		agentLine: &lines[0],
		Done:      r.FormValue("done"),
		MayChat:   lines[0].Connected && r.actor() != nil,
	}
	return nil
}

// Limits of a direct chat.
const (
	chatTimeout = 2 * time.Minute
	maxChatText = 4096 // characters
)

// directChat sends a message from the visitor to an agent, waits for the answer, and shows it on
// the page of the agent.
func (r *request) directChat() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, said, actor := protocol.PeerID(r.PostFormValue("id")), strings.TrimSpace(r.PostFormValue("said")), r.actor()
	if actor == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil ||
		said == "" || utf8.RuneCountInString(said) > maxChatText {
		return &refusal{http.StatusBadRequest,
			fmt.Sprintf("the agent does not exist, or the message is empty or longer than %d characters", maxChatText)}
	}
	timeout := fmt.Errorf("no answer within %s; the events below show what happened", chatTimeout)
	ctx, cancel := context.WithTimeoutCause(r.Context(), chatTimeout, timeout)
	defer cancel()
	// The server's time to write the answer began with the request, so it would end with the wait.
	// If it cannot be set, the connection has ended or has no deadline.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now().Add(chatTimeout + time.Minute))
	answer, err := actor.DirectChat(ctx, id, said)
	r.logger.Info().Str("by", r.Visitor.Name).Str("agent", string(id)).Err(err).Msg("message to an agent")
	if r.Context().Err() != nil {
		return r.Context().Err() // the browser has disconnected
	}
	if err := r.agent(); err != nil {
		return err
	}
	page := r.Page.(*agentView)
	page.Sent, page.Answer = said, answer
	if err != nil {
		page.Problem = err.Error()
	}
	return nil
}

// resetBudget resets the budgets of an agent, so that it continues.
func (r *request) resetBudget() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, actor := protocol.PeerID(r.PostFormValue("id")), r.actor()
	if actor == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil {
		return &refusal{http.StatusBadRequest, "the agent does not exist"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	err := actor.ResetBudget(ctx, id)
	r.logger.Info().Str("by", r.Visitor.Name).Str("agent", string(id)).Err(err).Msg("budget reset")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	done := "The budget was reset and the agent continues; ask again for anything that it left unanswered"
	return &refusal{http.StatusSeeOther, link("agent", "id", string(id), "done", done)}
}

// Recent returns the last events, newest first.
func (a *agent) Recent() []*agentEvent { return lastOf(a.Events, listedEvents, nil) }

// A chatLine is one event of a chat with the decisions of the agents on it.
type chatLine struct {
	*chatEvent
	Decisions []eventAt
	Claim     *claim
}

func (r *request) chat() error {
	id := r.FormValue("id")
	f := r.lockModel()
	ch := f.chats.get(id)
	if ch == nil {
		ch = &chat{Topic: text.Clip(id, 300), State: "not seen recently"}
	}
	var recent []chatLine
	for _, e := range ch.Events[max(len(ch.Events)-listedEvents, 0):] {
		line := chatLine{chatEvent: e}
		eventID := e.RelayedID
		if !e.Reply {
			eventID = e.eventID()
		}
		if eventID != "" {
			for _, name := range e.Agents {
				if a := f.agents.get(name); a != nil && a.byID[eventID] != nil {
					line.Decisions = append(line.Decisions, eventAt{name, *a.byID[eventID]})
				}
			}
			line.Claim = f.broker.claims.get(eventID)
		}
		recent = append(recent, line)
	}
	r.Title, r.Page = text.Clip(id, 100), map[string]any{"Chat": ch, "Recent": recent}
	return nil
}
