package main

import (
	"strings"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/screen"
	"hubbub/protocol/text"
)

// A rowLayout writes rows of the activity log as lines. On a terminal the
// columns are aligned; they grow with their contents.
type rowLayout struct {
	paint   screen.Painter
	columns int // of the terminal; 0 if there is none
	day     string
	widths  [5]int
}

func newRowLayout(paint screen.Painter, columns int) *rowLayout {
	return &rowLayout{paint: paint, columns: columns, widths: [5]int{15, 12, 10, 10, 6}}
}

// maxWidths are how wide the columns may grow: event, type, actor, topic, status.
var maxWidths = [5]int{17, 15, 28, 28, 13}

// fit widens the columns for a row.
func (l *rowLayout) fit(e *activitylog.Entry) {
	for i, c := range [5]string{e.Event, e.Type, e.Actor, e.Topic, e.Status} {
		l.widths[i] = min(max(l.widths[i], screen.Width(screen.Printable(c))), maxWidths[i])
	}
}

// line returns the line of a row: on a terminal for people, else its time,
// event, type, actor, topic, status, message and detail, with "-" for nothing.
func (l *rowLayout) line(e *activitylog.Entry) string {
	l.fit(e)
	cells := [5]string{e.Event, e.Type, e.Actor, e.Topic, e.Status}
	for i := range cells {
		cells[i] = screen.Printable(cells[i])
	}
	detail := screen.Printable(view.Full.Row(e))
	if l.columns == 0 {
		return l.plain(e, cells, detail)
	}
	line := ""
	at := e.Time().Local()
	if day := at.Format("Mon 2 Jan 2006 MST"); day != l.day {
		l.day = day
		line = l.paint.Paint(screen.Dim, day) + "\n"
	}
	clock := at.Format("15:04:05.000")
	line += l.paint.Paint(screen.Dim, clock)
	used := len(clock)
	shown := l.columned(e, cells)
	if l.columns < narrow {
		shown = l.merged(e, cells)
	}
	for _, c := range shown {
		line += " " + l.paint.Paint(c.colour, c.text)
		used += 1 + screen.Width(c.text)
	}
	id := shownID(e)
	if left := l.columns - used - 2; screen.Width(id)+1+min(screen.Width(detail), leastDetail) > left {
		used = len(clock) - 1
		line += "\n" + strings.Repeat(" ", used)
	}
	left := l.columns - used - 2
	gap := "  "
	if id != "" {
		left -= screen.Width(id) + 1
		line += gap + l.paint.Paint(screen.Dim, id)
		gap = " "
	}
	if detail != "" && left > 1 {
		line += gap + text.Clip(detail, left)
	}
	return strings.TrimRight(line, " ")
}

const (
	narrow      = 110 // a terminal with fewer columns gets merged cells
	leastDetail = 20  // columns; if fewer are left, a row takes a second line
)

// A cell is a piece of a line.
type cell struct {
	text   string
	colour screen.Colour
}

// columned returns the cells of a row, each as wide as its column.
func (l *rowLayout) columned(e *activitylog.Entry, cells [5]string) []cell {
	list := make([]cell, len(cells))
	for i, c := range cells {
		list[i].text = screen.Pad(text.Clip(c, l.widths[i]), l.widths[i])
		if c != "" {
			list[i].colour = cellColour(i, e)
		}
	}
	return list
}

// merged returns the cells of a row for a narrow terminal: the event in a column, and
// what earlier rows of the same message did not show.
func (l *rowLayout) merged(e *activitylog.Entry, cells [5]string) []cell {
	event, typ, actor, topic, status := cells[0], cells[1], cells[2], cells[3], cells[4]
	list := []cell{{screen.Pad(event, l.widths[0]), cellColour(0, e)}}
	add := func(text string, colour screen.Colour) {
		if text != "" {
			list = append(list, cell{text, colour})
		}
	}
	name := max((l.columns-len("15:04:05.000")-l.widths[0]-len(typ)-6)/2, 8) // of actor and topic
	switch {
	case e.Is(activitylog.ProcessStart), e.Is(activitylog.ProcessFinish):
		add(text.Clip(actor, maxWidths[2]), "")
	case e.Is(activitylog.SendFinish):
		add(text.Clip(topic, maxWidths[3]), "")
	case topic == "" || topic == actor:
		add(typ, screen.Cyan)
		add(text.Clip(actor, maxWidths[2]), "")
	default:
		add(typ, screen.Cyan)
		add(text.Clip(actor, name), "")
		add("→ "+text.Clip(topic, name-2), "")
	}
	if status != activitylog.StatusStart {
		add(status, cellColour(4, e))
	}
	return list
}

func (l *rowLayout) plain(e *activitylog.Entry, cells [5]string, detail string) string {
	fields := []string{orDash(strings.ReplaceAll(screen.Printable(e.TS), " ", "_"))}
	for _, c := range cells {
		fields = append(fields, orDash(strings.ReplaceAll(c, " ", "_")))
	}
	fields = append(fields, orDash(screen.Printable(e.MessageID)))
	if detail != "" {
		fields = append(fields, detail)
	}
	return strings.Join(fields, " ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shownID returns the id of the row's message: the whole id in its first row, so that
// it can be copied, and the end of the id in others.
func shownID(e *activitylog.Entry) string {
	id := screen.Printable(e.MessageID)
	if e.Is(activitylog.SendStart) || e.Is(activitylog.Rejected) || len(id) <= 8 {
		return id
	}
	end := len(id) - 6
	for !utf8.RuneStart(id[end]) {
		end++
	}
	return "…" + id[end:]
}

func cellColour(column int, e *activitylog.Entry) screen.Colour {
	switch column {
	case 0:
		return eventColour(e.Event)
	case 1:
		return screen.Cyan
	case 4:
		return statusColour(e.Status)
	default:
		return ""
	}
}

func eventColour(event string) screen.Colour {
	switch e, _ := activitylog.ParseEvent(event); e {
	case activitylog.SendStart:
		return screen.Bold
	case activitylog.Rejected, activitylog.LogGap:
		return screen.Red
	case activitylog.PeerConnected, activitylog.PeerDisconnected, activitylog.Subscribe, activitylog.Unsubscribe:
		return screen.Blue
	default:
		return screen.Dim
	}
}

func statusColour(status string) screen.Colour {
	switch status {
	case activitylog.StatusOK:
		return screen.Green
	case activitylog.StatusStart, "":
		return screen.Dim
	case activitylog.StatusNoSubscriber, activitylog.StatusPartial:
		return screen.Yellow
	default:
		return screen.Red
	}
}
