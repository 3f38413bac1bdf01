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
	"hubbub/protocol"
	"hubbub/protocol/text"
)

const (
	mapNodes  = 14  // in one column
	mapEdges  = 120 // on the map
	pagePeers = 100 // in the list
	pageEdges = 40
	mapMaxAge = 30 * time.Minute // silence after which an identity leaves the map
)

// A peerLine is one identity, connected or represented by a bridge.
type peerLine struct {
	StatePeer
	Role      string // CSS class
	Total     int64
	WindowPct int
	QueuePct  int
	QueueMax  int
	WindowMax int
	Last      time.Time
	Since     time.Time
}

// Bridged reports whether the identity is a chat that a bridge represents.
func (l peerLine) Bridged() bool { return !l.Connected && isChat(l.ID) }

// GoneClient reports whether the identity is a disconnected client, such as a command.
func (l peerLine) GoneClient() bool { return !l.Connected && l.Role == "role-cli" }

// An edgeLine is one sender and recipient.
type edgeLine struct {
	StateEdge
	*edge
	Failing bool
	Path    string
	Width   string
	Speed   string
}

// Types returns descriptions of the most frequent message types of the pair.
func (e edgeLine) Types() string { return e.listTypes(wordsFor) }

// TypeCodes returns the most frequent message types of the pair.
func (e edgeLine) TypeCodes() string { return e.listTypes(func(code string) string { return code }) }

func (e edgeLine) listTypes(name func(code string) string) string {
	types := slices.SortedFunc(maps.Keys(e.types), func(a, b string) int {
		return cmp.Or(cmp.Compare(e.types[b], e.types[a]), cmp.Compare(a, b))
	})
	for i, t := range types {
		types[i] = fmt.Sprintf("%s × %d", name(t), e.types[t])
	}
	return strings.Join(firstN(4, types), ", ")
}

// A node is one box of the map.
type node struct {
	peerLine
	X, Y, Width, Height int
	Label, Sub          string
	Failing             bool
	Fill                int // of its window or queue; 200 is full
	column              int
}

// A chart is the map of peers and their messages.
type chart struct {
	Nodes         []node
	Edges         []edgeLine
	Hidden        int // number of identities that do not fit
	Width, Height int
}

type topology struct {
	chart
	Status           busStatus
	Pairs            []edgeLine
	Alerts           []alert
	DeadLettersKnown bool // dead letters could be counted
	MoreAlerts       int  // number of alerts that do not fit
	Peers            []peerLine
	GoneClients      int // disconnected clients, which are not listed
	Pages            paging
}

// A paging is a position in a long list.
type paging struct {
	From, To, Of     int
	Prev, Next, This string
}

// A busStatus is the state of the bus in one line.
type busStatus struct {
	report.Counters
	Rates  StateRates
	Uptime time.Duration // 0 before Run
}

func (r *request) busStatus() busStatus {
	p := busStatus{Counters: r.Counters, Rates: r.series.now()}
	if !p.Started.IsZero() {
		p.Uptime = r.Now.Sub(p.Started)
	}
	return p
}

func millis(v float64) string {
	if v < 0 {
		return "–"
	}
	return view.Long(time.Duration(v * float64(time.Millisecond)))
}

func (r *request) topologyPart() error {
	r.part = "topology-live"
	return r.topology()
}

// topology fills in the overview.
func (r *request) topology() error {
	t := &topology{Status: r.busStatus()}
	in := &alertFinder{Now: r.Now, Status: &t.Status, Limited: r.series.limited(r.Now.Add(-failureMaxAge))}
	in.DeadLetters, t.DeadLettersKnown = r.deadLetters(r.Context())
	connected := r.bus.Peers()
	f := r.lockModel()
	in.Peers = f.peerLines(connected, r.Counters.Bounds, r.Now)
	edges := f.edgeLines(r.Now)
	alerts := in.find(f)
	t.Alerts, t.MoreAlerts = firstN(shownAlerts, alerts), max(len(alerts)-shownAlerts, 0)
	peers := in.Peers
	if r.Query == "" && r.FormValue("passed") == "" {
		passed := map[string]bool{}
		for _, p := range peers {
			if p.GoneClient() {
				passed[p.ID] = true
			}
		}
		t.GoneClients = len(passed)
		peers = slices.DeleteFunc(slices.Clone(peers), peerLine.GoneClient)
		edges = slices.DeleteFunc(edges, func(e edgeLine) bool { return passed[e.From] || passed[e.To] })
	}
	t.draw(peers, edges, r.Now)
	t.Pairs = firstN(pageEdges, edges)
	t.Peers, t.Pages = r.listPeers(peers)
	r.Title, r.Page = "Topology", t
	return nil
}

// peerLines joins the connected peers with their statistics, the busiest first.
func (f *readModel) peerLines(connected []report.Peer, bounds map[string]float64, now time.Time) []peerLine {
	lines := make([]peerLine, 0, len(connected)+16)
	seen := make(map[string]bool, len(connected))
	for _, p := range connected {
		seen[p.ID] = true
		lines = append(lines, f.peerLine(p, true, bounds, now))
	}
	add := func(id string, last time.Time) {
		if !seen[id] && now.Sub(last) < mapMaxAge {
			lines = append(lines, f.peerLine(report.Peer{ID: id}, false, bounds, now))
			seen[id] = true
		}
	}
	for id, t := range f.peers.all() {
		add(id, latest(t.sent.last, t.received.last))
	}
	for id, ch := range f.chats.all() {
		add(id, ch.Last)
	}
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

func (f *readModel) peerLine(p report.Peer, connected bool, bounds map[string]float64, now time.Time) peerLine {
	l := peerLine{StatePeer: StatePeer{Peer: p, Connected: connected}, Role: roleClass(p.ID)}
	l.Since, _ = time.Parse(time.RFC3339, p.ConnectedAt) // zero if missing
	if t := f.peers.get(p.ID); t != nil {
		l.In, l.Out, l.Total = t.received.at(now), t.sent.at(now), t.sent.total+t.received.total
		l.StateFailureStats = t.StateFailureStats
		l.Last = latest(t.sent.last, t.received.last)
	}
	l.Title = f.titles.Title(p.ID)
	if ch := f.chats.get(p.ID); ch != nil {
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

// edgeLines returns the pairs that exchange messages, the busiest first.
func (f *readModel) edgeLines(now time.Time) []edgeLine {
	var lines []edgeLine
	for k, e := range f.edges.all() {
		if now.Sub(e.last) <= mapMaxAge {
			failing := !e.lastFailed.IsZero() && now.Sub(e.lastFailed) < rateWindow
			state := StateEdge{k.from, k.to, e.at(now), e.total, e.failed}
			lines = append(lines, edgeLine{StateEdge: state, edge: e, Failing: failing})
		}
	}
	slices.SortFunc(lines, func(a, b edgeLine) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Total, a.Total),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return lines
}

// listPeers returns the requested page of the list.
func (r *request) listPeers(lines []peerLine) ([]peerLine, paging) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(p peerLine) bool { return !r.matches(p.ID + " " + p.Title) })
	from := min(max(intParam(r.Request, "from"), 0), len(lines))
	to := min(from+pagePeers, len(lines))
	at := func(page string, from int) string {
		return link(page, "q", r.Query, "from", fmt.Sprint(from), "passed", r.FormValue("passed"))
	}
	p := paging{From: from + 1, To: to, Of: len(lines), This: at("topology", from)}
	if from > 0 {
		p.Prev = at("", max(from-pagePeers, 0))
	}
	if to < len(lines) {
		p.Next = at("", to)
	}
	return lines[from:to], p
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
	Pairs  []edgeLine
	Failed []StateFailure // the latest; Failures counts all
}

func (r *request) peer() error {
	id := text.Clip(r.FormValue("id"), 300)
	peer, connected := report.Peer{ID: id}, false
	for _, p := range r.bus.Peers() {
		if p.ID == id {
			peer, connected = p, true
		}
	}
	f := r.lockModel()
	its := func(other string) bool { // a bridge includes its chats
		this := protocol.PeerID(id)
		return other == id || protocol.MaySendForFamily(this) && protocol.PeerID(other).Family() == this.Family()
	}
	talk := slices.DeleteFunc(f.edgeLines(r.Now), func(e edgeLine) bool { return !its(e.From) && !its(e.To) })
	r.Title, r.Page = id, &peerView{
		peerLine: f.peerLine(peer, connected, r.Counters.Bounds, r.Now), Pairs: firstN(pageEdges, talk),
		Failed: lastOf(f.failures, 30, func(x *StateFailure) bool { return x.Peer == id || x.From == id }),
	}
	return nil
}

// lastOf returns the last n items of a list for which fits returns true, newest first. A nil fits
// accepts all.
func lastOf[T any](list []T, n int, fits func(*T) bool) (last []T) {
	for i := len(list) - 1; i >= 0 && len(last) < n; i-- {
		if fits == nil || fits(&list[i]) {
			last = append(last, list[i])
		}
	}
	return last
}
