package activity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/internal/term"
	"hubbub/protocol/text"
)

// The formats of a time in texts for people.
const (
	moment = "2006-01-02 15:04:05 MST"
	clock  = "15:04:05.000 MST"
)

// A rowLayout formats rows of the activity log as lines. On a terminal it aligns the columns,
// which grow with their contents.
type rowLayout struct {
	paint   term.Painter
	titles  *view.Titles
	columns int  // of the terminal; 0 if the output is not a terminal
	brief   bool // one line for each row
	day     string
	widths  [5]int
}

func newRowLayout(paint term.Painter, columns int, titles *view.Titles) *rowLayout {
	return &rowLayout{paint: paint, columns: columns, titles: titles, widths: [5]int{15, 12, 10, 10, 6}}
}

// maxWidths are the maximum widths of the columns event, type, actor, topic and status.
var maxWidths = [5]int{17, 15, 28, 28, 13}

// cells returns the cells of a row, and widens the columns to fit them.
func (l *rowLayout) cells(e *activitylog.Entry) [5]cell {
	cells := [5]cell{
		{e.Event, eventColour(e.Event)},
		{e.Type, term.Cyan},
		{e.Actor, ""},
		{e.Topic, ""},
		{e.Status, statusColour(e.Status)},
	}
	if l.columns > 0 {
		cells[2].text, cells[3].text = l.titles.Called(e.Actor), l.titles.Called(e.Topic)
	}
	for i := range cells {
		cells[i].text = term.Printable(cells[i].text)
		l.widths[i] = min(max(l.widths[i], term.Width(cells[i].text)), maxWidths[i])
		if cells[i].text == "" {
			cells[i].colour = ""
		}
	}
	return cells
}

// line formats a row. Without a terminal the line has the fields time, event, type, actor, topic,
// status, message and detail; an empty field is "-".
func (l *rowLayout) line(e *activitylog.Entry) string {
	cells := l.cells(e)
	detail := term.Printable(view.Full.Row(e))
	if l.columns == 0 {
		return l.plainLine(e, cells, detail)
	}
	line := ""
	at := e.Time().Local()
	if day := at.Format("Mon 2 Jan 2006 MST"); day != l.day {
		l.day = day
		line = l.paint.Paint(term.Dim, day) + "\n"
	}
	if l.brief {
		return line + l.briefLine(e, cells, detail)
	}
	clock := at.Format("15:04:05.000")
	line += l.paint.Paint(term.Dim, clock)
	used := len(clock)
	shown := cells[:]
	if l.columns < narrowColumns {
		shown = l.mergedCells(e, cells)
	} else {
		for i, c := range shown {
			shown[i].text = term.Pad(text.Clip(c.text, l.widths[i]), l.widths[i])
		}
	}
	for _, c := range shown {
		line += " " + l.paint.Paint(c.colour, c.text)
		used += 1 + term.Width(c.text)
	}
	id := displayID(e)
	if left := l.columns - used - 2; term.Width(id)+1+min(term.Width(detail), minDetailColumns) > left {
		used = len(clock) - 1
		line += "\n" + strings.Repeat(" ", used)
	}
	left := l.columns - used - 2
	gap := "  "
	if id != "" {
		left -= term.Width(id) + 1
		line += gap + l.paint.Paint(term.Dim, id)
		gap = " "
	}
	if detail != "" && left > 1 {
		line += gap + text.Clip(detail, left)
	}
	return strings.TrimRight(line, " ")
}

// briefLine formats a row as one line. On a narrow terminal it shows the short message ID, which
// [logs.ExpandID] accepts.
func (l *rowLayout) briefLine(e *activitylog.Entry, cells [5]cell, detail string) string {
	what, actor, topic, status := cells[1], cells[2].text, cells[3].text, cells[4]
	if !e.Is(activitylog.SendStart) {
		what = cells[0]
	}
	clock, id := e.Time().Local().Format(time.TimeOnly), logs.ShortID(e)
	if l.columns >= narrowColumns {
		id = term.Printable(e.MessageID)
	}
	what.text = term.Pad(what.text, 12)
	if status.text == activitylog.StatusStart || status.text == activitylog.StatusOK {
		status.text = ""
	}
	left := l.columns - len(clock) - 3 - term.Width(what.text) - term.Width(id)
	most := min(left*3/5, left-1-term.Width(status.text))
	words := actor
	if name := (most - 3) / 2; topic != "" && topic != actor && !strings.HasPrefix(topic, "system:") {
		words = text.Clip(actor, max(name, most-3-term.Width(topic))) + " → "
		words += text.Clip(topic, most-term.Width(words))
	}
	words = text.Clip(words, most)
	painted := words
	if status.text != "" {
		words, painted = words+" "+status.text, words+" "+l.paint.Paint(status.colour, status.text)
	}
	if room := left - 1 - term.Width(words); detail != "" && room > 4 {
		detail = text.Clip(detail, room)
		words, painted = words+" "+detail, painted+" "+detail
	}
	line := l.paint.Paint(term.Dim, clock) + " " + l.paint.Paint(what.colour, what.text) + " " + painted
	return strings.TrimRight(line+strings.Repeat(" ", max(left-term.Width(words), 0)+1)+l.paint.Paint(term.Dim, id),
		" ")
}

const (
	narrowColumns    = 110 // a narrower terminal gets merged cells
	minDetailColumns = 20  // with fewer columns left, the row continues on a second line
)

// A cell is one part of a line.
type cell struct {
	text   string
	colour term.Colour
}

// mergedCells returns the cells of a row for a narrow terminal: the event, and what the earlier
// rows of the same message did not show.
func (l *rowLayout) mergedCells(e *activitylog.Entry, cells [5]cell) []cell {
	event, typ, actor, topic, status := cells[0], cells[1], cells[2].text, cells[3].text, cells[4]
	name := max((l.columns-len("15:04:05.000")-l.widths[0]-len(typ.text)-6)/2, 6) // width of actor and topic
	list := []cell{{term.Pad(event.text, l.widths[0]), event.colour}}
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

func (l *rowLayout) plainLine(e *activitylog.Entry, cells [5]cell, detail string) string {
	word := func(s string) string { return cmp.Or(strings.ReplaceAll(s, " ", "_"), "-") }
	fields := []string{word(term.Printable(e.TS))}
	for _, c := range cells {
		fields = append(fields, word(c.text))
	}
	fields = append(fields, cmp.Or(term.Printable(e.MessageID), "-"))
	if detail != "" {
		fields = append(fields, detail)
	}
	return strings.Join(fields, " ")
}

// displayID returns the whole message ID for the first row of a message, so that it can be
// copied, and the short ID for other rows.
func displayID(e *activitylog.Entry) string {
	if e.Is(activitylog.SendStart) || e.Is(activitylog.Rejected) {
		return term.Printable(e.MessageID)
	}
	return logs.ShortID(e)
}

func eventColour(event string) term.Colour {
	switch e, _ := activitylog.ParseEvent(event); e {
	case activitylog.SendStart:
		return term.Bold
	case activitylog.Rejected, activitylog.LogGap:
		return term.Red
	case activitylog.PeerConnected, activitylog.PeerDisconnected, activitylog.Subscribe, activitylog.Unsubscribe:
		return term.Blue
	default:
		return term.Dim
	}
}

func statusColour(status string) term.Colour {
	switch status {
	case activitylog.StatusOK:
		return term.Green
	case activitylog.StatusStart, "":
		return term.Dim
	case activitylog.StatusNoSubscriber, activitylog.StatusPartial:
		return term.Yellow
	default:
		return term.Red
	}
}
