package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
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
	GoneClients        int // clients that came and went unanswered, which are not listed
}

// An agentLine is one agent in the list.
type agentLine struct {
	*agent
	Stats       activitylog.AgentStats
	Connected   bool
	Endpoint    *endpoint
	OpenCount   int      // among the remembered events
	ListedChats []string // its chats without clients that came and went
}

// isGoneClient reports whether a chat is that of a client that came and went unanswered.
func (f *readModel) isGoneClient(chat string, connected map[string]bool) bool {
	c := f.chats.get(chat)
	return roleClass(chat) == "role-cli" && !connected[chat] && (c == nil || c.Out == 0)
}

// AvoidedPercent returns how many percent of the events needed no turn.
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
	slices.SortFunc(page.Chats, func(a, b *chat) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Topic, b.Topic)) })
	page.AllChats, page.Chats = len(page.Chats), firstN(listedChats, page.Chats)
	lines := f.agentLines(connected, func(id string) bool { return r.matches(id, f.titles.Title(id)) })
	page.Total.Stats.Dispositions = map[string]int64{}
	for i := range lines {
		page.Total.Stats.Add(&lines[i].Stats)
		page.Total.OpenCount += lines[i].OpenCount
	}
	page.AllAgent, page.Agents = len(lines), firstN(listedAgents, lines)
	page.Claims = firstN(listedClaims, sortedByTime(f.broker.claims, func(x *claim) (time.Time, string) { return x.At, x.EventID }))
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
		// Others than agents may reply, too; they stand here if they had something to decide.
		if a.ID == "agent:system" || !matches(a.ID) || roleClass(a.ID) != "role-agent" && a.Stats(a.ID).Events == 0 {
			return
		}
		talks := slices.DeleteFunc(slices.Clone(a.Chats), func(chat string) bool { return f.isGoneClient(chat, connected) })
		list = append(list, agentLine{a, a.Stats(a.ID), connected[a.ID], places[protocol.PeerID(a.ID)], a.Open(), talks})
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

// An agentView is the page of one agent, and what a visitor said to it.
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
	r.Title, r.Page = text.Clip(id, 100), &agentView{agentLine: &lines[0], Done: r.FormValue("done"), MayChat: lines[0].Connected && r.actor() != nil}
	return nil
}

// Bounds of what a visitor says to an agent.
const (
	chatTimeout = 2 * time.Minute
	maxChatText = 4096 // bytes
)

// directChat says something to an agent for the visitor, waits, and shows the agent's page with what it answered.
func (r *request) directChat() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, said, voice := protocol.PeerID(r.PostFormValue("id")), strings.TrimSpace(r.PostFormValue("said")), r.actor()
	if voice == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil || said == "" || len(said) > maxChatText {
		return &refusal{http.StatusBadRequest, fmt.Sprintf("there is no such agent, or nothing was said, or more than %d bytes", maxChatText)}
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), chatTimeout, fmt.Errorf("no answer within %s; below stands what became of it", chatTimeout))
	defer cancel()
	answer, err := voice.DirectChat(ctx, id, said)
	r.logger.Info().Str("by", r.Visitor.Name).Str("agent", string(id)).Err(err).Msg("said to an agent")
	if r.Context().Err() != nil {
		return r.Context().Err() // nobody waits any more
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

// resetBudget has an agent whose budget is used up go on.
func (r *request) resetBudget() error {
	if err := r.checkAct(); err != nil {
		return err
	}
	id, voice := protocol.PeerID(r.PostFormValue("id")), r.actor()
	if voice == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil {
		return &refusal{http.StatusBadRequest, "there is no such agent"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	err := voice.ResetBudget(ctx, id)
	r.logger.Info().Str("by", r.Visitor.Name).Str("agent", string(id)).Err(err).Msg("budget")
	if err != nil {
		return &refusal{http.StatusConflict, err.Error()}
	}
	return &refusal{http.StatusSeeOther, link("agent", "id", string(id), "done", "Its budgets are counted anew, so that it goes on; what it left unanswered has to be asked again")}
}

// Recent returns the last events, the newest first.
func (a *agent) Recent() []*agentEvent { return lastOf(a.Events, listedEvents, nil) }

// A chatLine is one event of a chat and what each agent made of it.
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
		ch = &chat{Topic: text.Clip(id, 300), State: "not heard of lately"}
	}
	var recent []chatLine
	for _, e := range lastOf(ch.Events, listedEvents, nil) {
		line := chatLine{chatEvent: e}
		eventID := e.RelayedID
		if !e.Reply {
			_, of, edited := strings.Cut(e.ID, " ")
			if eventID = of; !edited {
				eventID = e.ID
			}
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
