package console

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"hubbub/protocol/text"
)

// Dimensions of the map.
const (
	boxWidth, boxHeight, boxGap = 250, 58, 14
	columnStep                  = 415
	mapMargin                   = 46
)

// column returns the column of an identity on the map: chats are on the left, agents on the
// right, and all others between them.
func column(id string) int {
	switch roleClass(id) {
	case "role-tg", "role-mx", "role-chorus":
		return 0
	case "role-agent":
		return 2
	}
	return 1
}

// showGoneFor returns how long an identity stays on the map after it has left.
func showGoneFor(role string) time.Duration {
	if role == "role-cli" {
		return 20 * time.Second
	}
	return 3 * time.Minute
}

// draw lays out the map.
func (t *chart) draw(lines []peerLine, edges []edgeLine, now time.Time) {
	var columns [3][]node
	for _, l := range lines {
		at := column(l.ID)
		if past := showGoneFor(l.Role); !l.Connected && !l.Bridged() && now.Sub(l.Last) > past {
			continue
		}
		if len(columns[at]) >= mapNodes {
			t.Hidden++
			continue
		}
		columns[at] = append(columns[at], box(l, at, now))
	}
	rows := max(len(columns[0]), len(columns[1]), len(columns[2]), 3)
	t.Height = rows*(boxHeight+boxGap) + 2*mapMargin
	t.Width = 2*columnStep + boxWidth + 2*mapMargin
	places := map[string]node{}
	for at := range columns {
		slices.SortFunc(columns[at], func(a, b node) int { return cmp.Compare(a.ID, b.ID) })
		free := t.Height - 2*mapMargin - len(columns[at])*(boxHeight+boxGap) + boxGap
		for i := range columns[at] {
			n := &columns[at][i]
			n.X, n.Y = mapMargin+at*columnStep, mapMargin+free/2+i*(boxHeight+boxGap)
			places[n.ID] = *n
		}
		t.Nodes = append(t.Nodes, columns[at]...)
	}
	way := newDetour(columns[1], t.Height)
	for _, e := range edges {
		from, ok := places[e.From]
		to, known := places[e.To]
		if !ok || !known || e.From == e.To || len(t.Edges) >= mapEdges {
			continue
		}
		t.Edges = append(t.Edges, drawEdge(e, from, to, way))
	}
}

func box(l peerLine, at int, now time.Time) node {
	n := node{peerLine: l, Width: boxWidth, Height: boxHeight, column: at}
	n.Failing = !l.LastFail.IsZero() && now.Sub(l.LastFail) < rateWindow
	n.Fill = max(l.WindowPct, l.QueuePct) * 2
	n.Label, n.Sub = text.Clip(l.ID, 25), fmt.Sprintf("in %s · out %s", perMinute(l.In), perMinute(l.Out))
	if name := agentName(l.ID); name != "" {
		n.Label = text.Clip(name, 25)
	} else if l.Title != "" {
		n.Label, n.Sub = text.Clip(l.Title, 25), text.Clip(l.ID, 18)+" · "+perMinute(l.In+l.Out)
	}
	if l.Queued > 0 || l.Unanswered > 0 {
		n.Sub = fmt.Sprintf("%d unanswered · %d queued", l.Unanswered, l.Queued)
	}
	return n
}

// drawEdge draws a curve from the side of one box to the side of another. The two directions of a
// pair are a little apart.
func drawEdge(e edgeLine, from, to node, way *detour) edgeLine {
	y1, y2 := from.Y+boxHeight/2-7, to.Y+boxHeight/2-7
	if from.column > to.column || from.column == to.column && from.Y > to.Y {
		y1, y2 = y1+14, y2+14
	}
	x1, x2, bend1, bend2 := from.X+boxWidth, to.X+boxWidth+4, 80, 80 // a loop to the right of its column
	c1, c2 := y1, y2
	switch {
	case from.column-to.column == 2 || to.column-from.column == 2:
		x2 = to.X - 4
		if from.column > to.column {
			x1, x2 = from.X, to.X+boxWidth+4
		}
		bend1, bend2 = (x2-x1)/4, -(x2-x1)/4
		c1 = way.control(y1, y2)
		c2 = c1
	case from.column < to.column:
		x2, bend1, bend2 = to.X-4, 90, -86
	case from.column > to.column:
		x1, bend1, bend2 = from.X, -90, 86
	case from.column == 2: // to the left
		x1, x2, bend1, bend2 = from.X, from.X-4, -80, -76
	default:
		x2, bend2 = x1+4, 76
	}
	e.Path = fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+bend1, c1, x2+bend2, c2, x2, y2)
	level := min(int(e.Rate/4)+1, 4)
	e.Width, e.Speed = fmt.Sprintf("w%d", level), "idle"
	if e.Rate >= 0.3 {
		e.Speed = "busy"
	}
	return e
}

// A detour routes the edges between chats and agents above or below the boxes between them, side
// by side.
type detour struct{ above, below int }

const detourStep = 7

func newDetour(middle []node, height int) *detour {
	if len(middle) == 0 {
		return &detour{height/2 - detourStep, height / 2}
	}
	return &detour{middle[0].Y - 24, middle[len(middle)-1].Y + boxHeight + 24}
}

// control returns the y coordinate of a curve's control points, so that its middle passes through
// free space.
func (d *detour) control(y1, y2 int) int {
	middle := d.below
	if (y1+y2)/2 <= (d.above+d.below)/2 {
		middle = d.above
		d.above = max(d.above-detourStep, 4)
	} else {
		d.below += detourStep
	}
	return (8*middle - y1 - y2) / 6
}
