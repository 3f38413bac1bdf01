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
	Passed             int // clients that came and went unanswered, which are not listed
}

// An agentLine is one agent in the list.
type agentLine struct {
	*agent
	Stats     activitylog.AgentStats
	Connected bool
	Endpoint  *endpoint
	OpenCount int      // among the remembered events
	Talks     []string // its chats without clients that came and went
}

// passed reports whether a chat is that of a client that came and went unanswered.
func (f *facts) passed(chat string, connected map[string]bool) bool {
	c := f.chats.get(chat)
	return roleClass(chat) == "role-cli" && !connected[chat] && (c == nil || c.Out == 0)
}

// Saved returns how many percent of the events needed no turn.
func (l *agentLine) Saved() int { return percent(int(l.Stats.TurnsAvoided), int(l.Stats.Events)) }

func (l *look) agents() error {
	page := &agentsView{}
	connected := l.connected()
	f := l.read()
	for _, ch := range f.chats.all() {
		switch {
		case !l.matches(ch.Topic, ch.Title) || ch.In == 0 && ch.Out == 0 && ch.State == "unknown":
		case l.Query == "" && f.passed(ch.Topic, connected):
			page.Passed++
		default:
			page.Chats = append(page.Chats, ch)
		}
	}
	slices.SortFunc(page.Chats, func(a, b *chat) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Topic, b.Topic)) })
	page.AllChats, page.Chats = len(page.Chats), first(listedChats, page.Chats)
	lines := f.agentLines(connected, func(id string) bool { return l.matches(id, f.titles.Title(id)) })
	page.Total.Stats.Dispositions = map[string]int64{}
	for i := range lines {
		page.Total.Stats.Add(&lines[i].Stats)
		page.Total.OpenCount += lines[i].OpenCount
	}
	page.AllAgent, page.Agents = len(lines), first(listedAgents, lines)
	page.Claims = first(listedClaims, newest(&f.claims, func(x *claim) (time.Time, string) { return x.At, x.EventID }))
	l.Title, l.Page = "Chats and agents", page
	return nil
}

func (c *Console) connected() map[string]bool {
	m := map[string]bool{}
	for _, p := range c.bus.Peers() {
		m[p.ID] = true
	}
	return m
}

func (f *facts) agentLines(connected map[string]bool, matches func(id string) bool) []agentLine {
	places := map[protocol.PeerID]*endpoint{}
	for _, p := range f.places.all() {
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
		talks := slices.DeleteFunc(slices.Clone(a.Chats), func(chat string) bool { return f.passed(chat, connected) })
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
	MayTalk      bool
	Done         string
	Said, Answer string
	Problem      string // why there is no answer
}

func (l *look) agent() error {
	id := l.FormValue("id")
	connected := l.connected()
	lines := l.read().agentLines(connected, func(other string) bool { return other == id })
	if len(lines) == 0 {
		lines = []agentLine{{agent: &agent{ID: text.Clip(id, 300)}}}
	}
	l.Title, l.Page = text.Clip(id, 100), &agentView{agentLine: &lines[0], Done: l.FormValue("done"), MayTalk: lines[0].Connected && l.voice() != nil}
	return nil
}

// Bounds of what a visitor says to an agent.
const (
	talkLimit = 2 * time.Minute
	maxTalk   = 4096 // bytes
)

// talk says something to an agent for the visitor, waits, and shows the agent's page with what it answered.
func (l *look) talk() error {
	if err := l.checkAct(); err != nil {
		return err
	}
	id, said, voice := protocol.PeerID(l.PostFormValue("id")), strings.TrimSpace(l.PostFormValue("said")), l.voice()
	if voice == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil || said == "" || len(said) > maxTalk {
		return &refusal{http.StatusBadRequest, fmt.Sprintf("there is no such agent, or nothing was said, or more than %d bytes", maxTalk)}
	}
	ctx, cancel := context.WithTimeoutCause(l.Context(), talkLimit, fmt.Errorf("no answer within %s; below stands what became of it", talkLimit))
	defer cancel()
	answer, err := voice.DirectChat(ctx, id, said)
	l.logger.Info().Str("by", l.Visitor.Name).Str("agent", string(id)).Err(err).Msg("said to an agent")
	if l.Context().Err() != nil {
		return l.Context().Err() // nobody waits any more
	}
	if err := l.agent(); err != nil {
		return err
	}
	page := l.Page.(*agentView)
	page.Said, page.Answer = said, answer
	if err != nil {
		page.Problem = err.Error()
	}
	return nil
}

// countAnew has an agent whose budget is used up go on.
func (l *look) countAnew() error {
	if err := l.checkAct(); err != nil {
		return err
	}
	id, voice := protocol.PeerID(l.PostFormValue("id")), l.voice()
	if voice == nil || id.Family() != "agent" || protocol.CheckTopic(string(id)) != nil {
		return &refusal{http.StatusBadRequest, "there is no such agent"}
	}
	ctx, cancel := context.WithTimeout(l.Context(), askLimit)
	defer cancel()
	err := voice.ResetBudget(ctx, id)
	l.logger.Info().Str("by", l.Visitor.Name).Str("agent", string(id)).Err(err).Msg("budget")
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
	Judged []eventAt
	Claim  *claim
}

func (l *look) chat() error {
	id := l.FormValue("id")
	f := l.read()
	ch := f.chats.get(id)
	if ch == nil {
		ch = &chat{Topic: text.Clip(id, 300), State: "not heard of lately"}
	}
	var recent []chatLine
	for _, e := range lastOf(ch.Events, listedEvents, nil) {
		line := chatLine{chatEvent: e}
		eventID := e.Told
		if !e.Reply {
			_, of, edited := strings.Cut(e.ID, " ")
			if eventID = of; !edited {
				eventID = e.ID
			}
		}
		if eventID != "" {
			for _, name := range e.Agents {
				if a := f.agents.get(name); a != nil && a.byID[eventID] != nil {
					line.Judged = append(line.Judged, eventAt{name, *a.byID[eventID]})
				}
			}
			line.Claim = f.claims.get(eventID)
		}
		recent = append(recent, line)
	}
	l.Title, l.Page = text.Clip(id, 100), map[string]any{"Chat": ch, "Recent": recent}
	return nil
}
