package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
	"hubbub/protocol/text"
)

const (
	mapNodes  = 14  // of one column
	mapEdges  = 120 // on the map
	pagePeers = 100 // in the list
	pageEdges = 40
	recently  = 30 * time.Minute // after that silence an identity is not on the map
)

// A peerLine is one identity: connected, or spoken for by a bridge.
type peerLine struct {
	StatePeer
	Role      string // class
	Total     int64
	WindowPct int
	QueuePct  int
	QueueMax  int
	WindowMax int
	Last      time.Time
	Since     time.Time
}

// Spoken reports whether the identity is a chat that a bridge speaks for.
func (l peerLine) Spoken() bool { return !l.Connected && isChat(l.ID) }

// An edgeLine is one pair that talks.
type edgeLine struct {
	StateTalk
	Last    time.Time
	Failing bool
	Types   string
	Path    string
	Width   string
	Speed   string
	key     edgeKey
}

// A node is one box of the map.
type node struct {
	peerLine
	X, Y, Width, Height int
	Label, Sub          string
	Failing             bool
	Fill                int // of its window or queue, of 200
	column              int
}

// A chart is the map of who talks to whom.
type chart struct {
	Nodes         []node
	Edges         []edgeLine
	Hidden        int // identities for which the map has no room
	Width, Height int
}

type topology struct {
	chart
	Now      time.Time
	Pulse    pulse
	Talk     []edgeLine
	Odd      []oddity
	DeadSeen bool // dead letters could be counted
	MoreOdd  int  // oddities for which the page has no room
	Peers    []peerLine
	Query    string
	Matched  int
	Pages    paging
	Skipped  int64
	Since    time.Time
}

// A paging is a place in a long list.
type paging struct {
	From, To, Of int
	Prev, Next   string
}

// A pulse is the state of the bus in one line.
type pulse struct {
	report.Counters
	Rates    StateRates
	P50, P99 string
	Uptime   string
	LogLag   string
}

func (c *Console) pulse() pulse {
	p := pulse{Counters: c.bus.Counters(), Rates: c.series.now().rates}
	p.P50, p.P99 = millis(p.Rates.P50), millis(p.Rates.P99)
	if !p.Started.IsZero() {
		p.Uptime = view.Long(c.now().Sub(p.Started))
	}
	if p.Log != nil {
		p.LogLag = view.Long(p.Log.Lag)
	}
	return p
}

func millis(v float64) string {
	if v < 0 {
		return "–"
	}
	return view.Long(time.Duration(v * float64(time.Millisecond)))
}

func (c *Console) topologyPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	c.show(w, v, "topology", "Topology", c.topology(r))
}

func (c *Console) topologyPart(w http.ResponseWriter, r *http.Request, _ *visitor) {
	c.part(w, "topology", "topology-live", c.topology(r))
}

// topology gathers what the page shows.
func (c *Console) topology(r *http.Request) *topology {
	now := c.now()
	t := &topology{Now: now, Pulse: c.pulse(), Query: strings.TrimSpace(r.FormValue("q"))}
	connected := c.bus.Peers()
	in := &oddInput{Now: now, Pulse: &t.Pulse, Limited: c.series.limited(now.Add(-oddSpan))}
	in.Dead, t.DeadSeen = c.deadLetters(r.Context())
	c.facts.mu.RLock()
	defer c.facts.mu.RUnlock()
	t.Skipped, t.Since = c.facts.skipped, c.facts.since
	lines := c.facts.peerLines(connected, t.Pulse.Bounds, now)
	edges := c.facts.edgeLines(now)
	t.draw(lines, edges)
	in.Peers = lines
	t.Odd = c.facts.odd(in)
	t.MoreOdd = max(len(t.Odd)-oddLines, 0)
	t.Odd = first(oddLines, t.Odd)
	t.Talk = first(pageEdges, edges)
	t.listPeers(lines, r)
	return t
}

// peerLines joins who is connected with what they did, the busiest first.
func (f *facts) peerLines(connected []report.Peer, bounds map[string]float64, now time.Time) []peerLine {
	lines := make([]peerLine, 0, len(connected)+16)
	seen := make(map[string]bool, len(connected))
	for _, p := range connected {
		seen[p.ID] = true
		lines = append(lines, f.peerLine(p, true, bounds, now))
	}
	f.peers.each(func(id string, t *peerTally) {
		if !seen[id] && now.Sub(latest(t.sent.last, t.received.last)) < recently {
			lines = append(lines, f.peerLine(report.Peer{ID: id}, false, bounds, now))
			seen[id] = true
		}
	})
	f.chats.each(func(id string, ch *chat) {
		if !seen[id] && now.Sub(ch.Last) < recently {
			lines = append(lines, f.peerLine(report.Peer{ID: id}, false, bounds, now))
		}
	})
	slices.SortFunc(lines, func(a, b peerLine) int {
		return cmp.Or(cmp.Compare(b.In+b.Out, a.In+a.Out), cmp.Compare(a.ID, b.ID))
	})
	return lines
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f *facts) peerLine(p report.Peer, connected bool, bounds map[string]float64, now time.Time) peerLine {
	l := peerLine{StatePeer: StatePeer{Peer: p, Connected: connected}, Role: roleClass(p.ID)}
	l.Since, _ = time.Parse(time.RFC3339, p.ConnectedAt) // zero if it is missing
	if t, ok := f.peers.get(p.ID); ok {
		l.In, l.Out, l.Total = t.received.at(now), t.sent.at(now), t.sent.total+t.received.total
		l.Failures, l.LastFail, l.Error, l.Status = t.failures, t.lastFailure, t.lastError, t.lastStatus
		l.Last = latest(t.sent.last, t.received.last)
	}
	if ch, ok := f.chats.get(p.ID); ok {
		l.Title = ch.Title
		l.Last = latest(l.Last, ch.Last)
	}
	l.WindowMax, l.QueueMax = int(bounds["peer_window"]), int(bounds["peer_queue"])
	l.WindowPct, l.QueuePct = percent(p.Unanswered, l.WindowMax), percent(p.Queued, l.QueueMax)
	return l
}

func percent(n, of int) int {
	if of <= 0 {
		return 0
	}
	return min(100*n/of, 100)
}

// edgeLines lists who talks to whom, the busiest first.
func (f *facts) edgeLines(now time.Time) []edgeLine {
	var lines []edgeLine
	f.edges.each(func(k edgeKey, e *edge) {
		if now.Sub(e.last) > recently {
			return
		}
		from, to := k.ends()
		lines = append(lines, edgeLine{
			StateTalk: StateTalk{from, to, e.at(now), e.total, e.failed}, Last: e.last, key: k,
			Failing: !e.lastFailed.IsZero() && now.Sub(e.lastFailed) < rateSpan,
		})
	})
	slices.SortFunc(lines, func(a, b edgeLine) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total), cmp.Compare(a.key, b.key))
	})
	for i := range first(pageEdges, lines) {
		e, _ := f.edges.get(lines[i].key)
		types := slices.SortedFunc(maps.Keys(e.types), func(a, b string) int { return cmp.Or(cmp.Compare(e.types[b], e.types[a]), cmp.Compare(a, b)) })
		for j, t := range types {
			types[j] = fmt.Sprintf("%s × %d", t, e.types[t])
		}
		lines[i].Types = strings.Join(first(4, types), ", ")
	}
	return lines
}

// listPeers fills the page of the list that the request asks for.
func (t *topology) listPeers(lines []peerLine, r *http.Request) {
	if t.Query != "" {
		want := strings.ToLower(t.Query)
		lines = slices.DeleteFunc(slices.Clone(lines), func(l peerLine) bool {
			return !strings.Contains(strings.ToLower(l.ID+" "+l.Title), want)
		})
	}
	t.Matched = len(lines)
	from := min(max(intParam(r, "from"), 0), len(lines))
	to := min(from+pagePeers, len(lines))
	t.Peers = lines[from:to]
	t.Pages = paging{From: from + 1, To: to, Of: len(lines)}
	if from > 0 {
		t.Pages.Prev = link("", "q", t.Query, "from", fmt.Sprint(max(from-pagePeers, 0)))
	}
	if to < len(lines) {
		t.Pages.Next = link("", "q", t.Query, "from", fmt.Sprint(to))
	}
}

// Part returns the link to the page's live part.
func (t *topology) Part() string {
	return link("topology", "q", t.Query, "from", fmt.Sprint(t.Pages.From-1))
}

func intParam(r *http.Request, name string) int {
	n := 0
	if _, err := fmt.Sscanf(r.FormValue(name), "%d", &n); err != nil {
		return 0
	}
	return n
}

// A peerView is the page of one identity.
type peerView struct {
	peerLine
	Now    time.Time
	Talk   []edgeLine
	Failed []failure // the latest of them; Failures counts all
}

func (c *Console) peerPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	id := text.Clip(r.FormValue("id"), 300)
	now := c.now()
	peer, connected := report.Peer{ID: id}, false
	for _, p := range c.bus.Peers() {
		if p.ID == id {
			peer, connected = p, true
		}
	}
	bounds := c.bus.Counters().Bounds
	c.facts.mu.RLock()
	page := &peerView{peerLine: c.facts.peerLine(peer, connected, bounds, now), Now: now}
	for _, e := range c.facts.edgeLines(now) {
		if (e.From == id || e.To == id) && len(page.Talk) < pageEdges {
			page.Talk = append(page.Talk, e)
		}
	}
	page.Failed = lastOf(c.facts.failures, 30, func(x *failure) bool { return x.Peer == id || x.From == id })
	c.facts.mu.RUnlock()
	c.show(w, v, "peer", id, page)
}

// lastOf returns the last n items of a list that fit, the newest first. If fits is nil,
// all fit.
func lastOf[T any](list []T, n int, fits func(*T) bool) (last []T) {
	for i := len(list) - 1; i >= 0 && len(last) < n; i-- {
		if fits == nil || fits(&list[i]) {
			last = append(last, list[i])
		}
	}
	return last
}
