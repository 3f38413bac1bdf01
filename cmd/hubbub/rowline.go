package main

import (
	"cmp"
	"slices"
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
	titles  *view.Titles
	columns int // of the terminal; 0 if there is none
	day     string
	widths  [5]int
}

func newRowLayout(paint screen.Painter, columns int, titles *view.Titles) *rowLayout {
	return &rowLayout{paint: paint, columns: columns, titles: titles, widths: [5]int{15, 12, 10, 10, 6}}
}

// maxWidths are how wide the columns may grow: event, type, actor, topic, status.
var maxWidths = [5]int{17, 15, 28, 28, 13}

// fit widens the columns for a row, and returns what belongs into them.
func (l *rowLayout) fit(e *activitylog.Entry) [5]cell {
	cells := [5]cell{{e.Event, eventColour(e.Event)}, {e.Type, screen.Cyan}, {e.Actor, ""}, {e.Topic, ""}, {e.Status, statusColour(e.Status)}}
	if l.columns > 0 {
		cells[2].text, cells[3].text = l.titles.Called(e.Actor), l.titles.Called(e.Topic)
	}
	for i := range cells {
		cells[i].text = screen.Printable(cells[i].text)
		l.widths[i] = min(max(l.widths[i], screen.Width(cells[i].text)), maxWidths[i])
		if cells[i].text == "" {
			cells[i].colour = ""
		}
	}
	return cells
}

// line returns the line of a row: on a terminal for people, else its time,
// event, type, actor, topic, status, message and detail, with "-" for nothing.
func (l *rowLayout) line(e *activitylog.Entry) string {
	cells := l.fit(e)
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
	shown := cells[:]
	if l.columns < narrow {
		shown = l.merged(e, cells)
	} else {
		for i, c := range shown {
			shown[i].text = screen.Pad(text.Clip(c.text, l.widths[i]), l.widths[i])
		}
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

// merged returns the cells of a row for a narrow terminal: the event in a column, and
// what earlier rows of the same message did not show.
func (l *rowLayout) merged(e *activitylog.Entry, cells [5]cell) []cell {
	event, typ, actor, topic, status := cells[0], cells[1], cells[2].text, cells[3].text, cells[4]
	name := max((l.columns-len("15:04:05.000")-l.widths[0]-len(typ.text)-6)/2, 8) // of actor and topic
	list := []cell{{screen.Pad(event.text, l.widths[0]), event.colour}}
	switch {
	case e.Is(activitylog.ProcessStart), e.Is(activitylog.ProcessFinish):
		list = append(list, cell{text: text.Clip(actor, maxWidths[2])})
	case e.Is(activitylog.SendFinish):
		list = append(list, cell{text: text.Clip(topic, maxWidths[3])})
	case topic == "" || topic == actor:
		list = append(list, typ, cell{text: text.Clip(actor, maxWidths[2])})
	default:
		list = append(list, typ, cell{text: text.Clip(actor, name)}, cell{text: "→ " + text.Clip(topic, name-2)})
	}
	if status.text != activitylog.StatusStart {
		list = append(list, status)
	}
	return slices.DeleteFunc(list, func(c cell) bool { return c.text == "" })
}

func (l *rowLayout) plain(e *activitylog.Entry, cells [5]cell, detail string) string {
	word := func(s string) string { return cmp.Or(strings.ReplaceAll(s, " ", "_"), "-") }
	fields := []string{word(screen.Printable(e.TS))}
	for _, c := range cells {
		fields = append(fields, word(c.text))
	}
	fields = append(fields, cmp.Or(screen.Printable(e.MessageID), "-"))
	if detail != "" {
		fields = append(fields, detail)
	}
	return strings.Join(fields, " ")
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
