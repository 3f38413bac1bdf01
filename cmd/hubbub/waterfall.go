package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/cmd/internal/screen"
	"hubbub/protocol"
)

// A waterfall draws messages and their deliveries as bars on one time axis.
type waterfall struct {
	paint   screen.Painter
	begin   time.Time
	whole   time.Duration
	columns int // of the terminal; 0 where there is none
	bar     int // columns of the axis
	note    int // columns of what stands behind it
	rows    []bar
}

// A bar is one line of a waterfall.
type bar struct {
	id     string // of the message; empty for a delivery
	label  string
	note   string
	status string
	start  time.Time
	finish time.Time // zero while under way
	until  time.Time // of what goes on afterwards at an agent; zero for nothing
	self   bool      // of the message that is traced
	cause  bool      // of what led to it
}

const (
	maxLabel        = 58
	besideBars      = 2 + 2 + 8 + 9 + 2 + 9 + 2 // gaps, when, how long, and status
	shownDeliveries = 50                        // of the traced message
)

func newWaterfall(c *activitylog.Chain, paint screen.Painter, columns int) *waterfall {
	f := &waterfall{paint: paint, columns: columns}
	for _, s := range c.Causes {
		f.addStep(s, false)
		f.rows[len(f.rows)-1].cause = true
	}
	for i, s := range c.Steps {
		f.addStep(s, i == 0)
	}
	f.addSpans(c.Spans())
	var end time.Time
	for _, r := range f.rows {
		if f.begin.IsZero() || !r.start.IsZero() && r.start.Before(f.begin) {
			f.begin = r.start
		}
		for _, t := range []time.Time{r.start, r.finish} {
			if t.After(end) {
				end = t
			}
		}
	}
	f.whole = max(end.Sub(f.begin), time.Microsecond)
	if columns == 0 {
		f.bar, f.note = 40, 80
		return f
	}
	left := columns - f.labelWidth() - besideBars
	f.bar = min(max(left/2, 12), 60)
	if f.note = left - f.bar; f.note < 8 {
		f.note = 0
	}
	return f
}

// addSpans adds waits and turns to the bars of the messages with which they begin.
func (f *waterfall) addSpans(spans map[string]activitylog.Span) {
	for i := range f.rows {
		r := &f.rows[i]
		s, ok := spans[r.id]
		if !ok || !s.Until.After(r.start) {
			continue
		}
		delete(spans, r.id)
		r.until = s.Until
		if s.Kind == activitylog.SpanTurn {
			r.note += ", and took " + short(s.Until.Sub(r.start))
		} else {
			r.note += ", waited " + short(s.Until.Sub(r.start))
		}
	}
}

// addStep adds the bars of one message: its own, and one for each delivery that
// somebody may want to see.
func (f *waterfall) addStep(s activitylog.Step, self bool) {
	indent := strings.Repeat("  ", s.Depth)
	label := func(topic string) string { return indent + nameOf(s.Message, topic) }
	if len(s.Passes) == 0 {
		f.rows = append(f.rows, bar{id: s.ID, label: label(s.Topic), status: stepStatus(s.Message), note: refusalOf(s.Message), start: s.Begin(), finish: s.End(), self: self})
		return
	}
	for i, p := range s.Passes {
		row := bar{id: s.ID, label: label(p.Topic), status: p.Status, start: p.Start, finish: p.Finish, self: self}
		if row.start.IsZero() {
			row.start = s.Begin()
		}
		if i > 0 && p.Topic == s.Passes[i-1].Topic {
			row.label = indent + "sent again"
		}
		if !self {
			row.note = noteOf(s.Message)
		}
		f.rows = append(f.rows, row)
		f.addDeliveries(p.Deliveries, indent, self)
	}
}

// nameOf names a message: its type and way, or what an agent tells by it.
func nameOf(m *activitylog.Message, topic string) string {
	var told struct{ Content struct{ Event string } }
	if m.Type == string(protocol.TypeAgentEvent) && json.Unmarshal(m.Payload, &told) == nil && told.Content.Event != "" {
		return screen.Printable(told.Content.Event + " " + m.From)
	}
	return orWord(m.Type, "message") + " " + routeOf(m.From, topic)
}

func (f *waterfall) addDeliveries(list []*activitylog.Delivery, indent string, self bool) {
	shown := 0
	for _, d := range list {
		failed := d.Status != "" && d.Status != activitylog.StatusOK
		if !failed && (!self || shown >= shownDeliveries) {
			continue
		}
		shown++
		f.rows = append(f.rows, bar{
			label: indent + "  ↳ " + screen.Printable(d.Peer), status: d.Status, note: screen.Printable(d.Error), start: d.Start, finish: d.Finish, self: self,
		})
	}
	if self && shown < len(list) {
		f.rows = append(f.rows, bar{label: fmt.Sprintf("%s  ↳ and %d peers more", indent, len(list)-shown)})
	}
}

// noteOf says what a message of the chain brought.
func noteOf(m *activitylog.Message) string {
	return screen.Printable(messageDetail(m.Payload))
}

func refusalOf(m *activitylog.Message) string {
	if len(m.Refusals) == 0 {
		return ""
	}
	return screen.Printable(m.Refusals[len(m.Refusals)-1].Error)
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return screen.Printable(s)
}

func (f *waterfall) labelWidth() int {
	width := 0
	for _, r := range f.rows {
		width = max(width, screen.Width(r.label))
	}
	if f.columns > 0 {
		return min(width, maxLabel, max(f.columns*2/5, 24))
	}
	return min(width, maxLabel)
}

// lines draws everything: a ruler, and a line for each bar.
func (f *waterfall) lines() []string {
	width := f.labelWidth()
	ruler := fmt.Sprintf("%-*s%s", f.bar-len([]rune(short(f.whole))), "0", short(f.whole))
	lines := []string{f.paint.Paint(screen.Dim, strings.Repeat(" ", width)+"  "+ruler)}
	for _, r := range f.rows {
		label := screen.Pad(screen.Clip(r.label, width), width)
		switch {
		case r.self && !strings.Contains(r.label, "↳"):
			label = f.paint.Paint(screen.Bold, label)
		case r.cause:
			label = f.paint.Paint(screen.Dim, label)
		}
		line := label + "  " + f.paint.Paint(statusColour(r.status), f.draw(r))
		at, took := f.timing(r)
		line += fmt.Sprintf("  %8s %8s  ", at, took) + f.paint.Paint(statusColour(r.status), screen.Pad(orWord(r.status, f.open(r)), 9))
		if r.note != "" && f.note > 0 {
			line += "  " + screen.Clip(r.note, f.note)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (f *waterfall) open(r bar) string {
	if r.start.IsZero() {
		return ""
	}
	return "under way"
}

// timing says when a bar begins and how long it lasts.
func (f *waterfall) timing(r bar) (at, took string) {
	if r.start.IsZero() {
		return "", ""
	}
	at = "+" + short(r.start.Sub(f.begin))
	if r.finish.IsZero() {
		return at, ""
	}
	return at, short(r.finish.Sub(r.start))
}

// draw returns the bar in its columns. What is too short for a column is a
// thin mark; what is not finished runs to the end; a wait or a turn is a line
// behind its bar.
func (f *waterfall) draw(r bar) string {
	if r.start.IsZero() {
		return strings.Repeat(" ", f.bar)
	}
	from := f.column(r.start)
	if r.finish.IsZero() {
		return strings.Repeat(" ", from) + strings.Repeat("░", f.bar-from)
	}
	to := f.column(r.finish)
	mark := "▏"
	if to > from {
		mark = strings.Repeat("█", to-from)
	} else {
		to = from + 1
	}
	line := max(f.column(r.until)-to, 0)
	return strings.Repeat(" ", from) + mark + strings.Repeat("─", line) + strings.Repeat(" ", f.bar-to-line)
}

func (f *waterfall) column(t time.Time) int {
	at := float64(t.Sub(f.begin)) / float64(f.whole)
	return min(max(int(at*float64(f.bar)), 0), f.bar-1)
}
