package console

import (
	"cmp"
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
)

type agentsView struct {
	Now                time.Time
	Query              string
	Chats              []*chat
	Agents             []agentLine
	Claims             []*claim
	Total              agentLine
	AllChats, AllAgent int
	Since              time.Time
	Skipped            int64
}

// An agentLine is one agent in the list.
type agentLine struct {
	*agent
	Stats     activitylog.AgentStats
	Connected bool
	Endpoint  *endpoint
	OpenCount int // among the remembered events
	Saved     int // percent of the events that needed no turn
}

func (l *agentLine) save() { l.Saved = percent(int(l.Stats.TurnsAvoided), int(l.Stats.Events)) }

func (c *Console) agentsPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	page := &agentsView{Now: c.now(), Query: strings.ToLower(strings.TrimSpace(r.FormValue("q")))}
	connected := c.connected()
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	page.Since, page.Skipped = f.since, f.skipped
	matches := func(words ...string) bool {
		return page.Query == "" || strings.Contains(strings.ToLower(strings.Join(words, " ")), page.Query)
	}
	f.chats.each(func(_ string, ch *chat) {
		if matches(ch.Topic, ch.Title) && (ch.In > 0 || ch.Out > 0 || ch.State != "unknown") {
			page.Chats = append(page.Chats, ch)
		}
	})
	slices.SortFunc(page.Chats, func(a, b *chat) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Topic, b.Topic)) })
	page.AllChats = len(page.Chats)
	page.Chats = first(listedChats, page.Chats)
	page.Agents = f.agentLines(connected, matches)
	page.Total.Stats.Dispositions = map[string]int64{}
	for i := range page.Agents {
		page.Total.Stats.Add(&page.Agents[i].Stats)
		page.Total.OpenCount += page.Agents[i].OpenCount
	}
	page.Total.save()
	page.AllAgent = len(page.Agents)
	page.Agents = first(listedAgents, page.Agents)
	page.Claims = f.lastClaims(40)
	c.show(w, v, "agents", "Chats and agents", page)
}

func (c *Console) connected() map[string]bool {
	m := map[string]bool{}
	for _, p := range c.bus.Peers() {
		m[p.ID] = true
	}
	return m
}

func (f *facts) agentLines(connected map[string]bool, matches func(...string) bool) []agentLine {
	places := map[protocol.PeerID]*endpoint{}
	f.places.each(func(_ string, p *endpoint) {
		if old := places[p.Identity]; old == nil || p.LastHeartbeatAt.After(old.LastHeartbeatAt) {
			places[p.Identity] = p
		}
	})
	var list []agentLine
	add := func(a *agent) {
		if a.ID == "agent:system" || !matches(a.ID) {
			return
		}
		l := agentLine{agent: a, Stats: a.Stats(a.ID), Connected: connected[a.ID], Endpoint: places[protocol.PeerID(a.ID)], OpenCount: a.Open()}
		l.save()
		list = append(list, l)
	}
	f.agents.each(func(_ string, a *agent) { add(a) })
	for id := range connected {
		if _, known := f.agents.get(id); !known && roleClass(id) == "role-agent" {
			add(&agent{ID: id})
		}
	}
	slices.SortFunc(list, func(a, b agentLine) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func (f *facts) lastClaims(n int) []*claim {
	return first(n, newest(f.claims, func(x *claim) (time.Time, string) { return x.At, x.EventID }))
}

type agentView struct {
	agentLine
	Now    time.Time
	Recent []*agentEvent
}

func (c *Console) agentPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	id := r.FormValue("id")
	connected := c.connected()
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	lines := f.agentLines(connected, func(words ...string) bool { return words[0] == id })
	if len(lines) == 0 {
		lines = []agentLine{{agent: &agent{ID: text.Clip(id, 300)}}}
	}
	page := &agentView{agentLine: lines[0], Now: c.now(), Recent: lastOf(lines[0].Events, listedEvents, nil)}
	c.show(w, v, "agent", text.Clip(id, 100), page)
}

type chatView struct {
	*chat
	Now    time.Time
	Recent []chatLine
}

// A chatLine is one event of a chat and what each agent made of it.
type chatLine struct {
	*chatEvent
	Judged []eventAt
	Claim  *claim
}

func (c *Console) chatPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	id := r.FormValue("id")
	f := c.facts
	f.mu.RLock()
	defer f.mu.RUnlock()
	ch, ok := f.chats.get(id)
	if !ok {
		ch = &chat{Topic: text.Clip(id, 300), State: "not heard of lately"}
	}
	page := &chatView{chat: ch, Now: c.now()}
	for _, e := range lastOf(ch.Events, listedEvents, nil) {
		line := chatLine{chatEvent: e}
		if !e.Reply {
			_, eventID, edited := strings.Cut(e.ID, " ")
			if !edited {
				eventID = e.ID
			}
			for _, name := range e.Agents {
				if a, ok := f.agents.get(name); ok && a.byID[eventID] != nil {
					line.Judged = append(line.Judged, eventAt{name, *a.byID[eventID]})
				}
			}
			if x, ok := f.claims.get(eventID); ok {
				line.Claim = x
			}
		}
		page.Recent = append(page.Recent, line)
	}
	c.show(w, v, "chat", text.Clip(id, 100), page)
}
