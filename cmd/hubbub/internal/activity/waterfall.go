package activity

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog/chain"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/term"
	"hubbub/protocol/text"
)

// A waterfall draws messages and their deliveries as bars on one time axis.
type waterfall struct {
	*view.Waterfall
	paint   term.Painter
	columns int // of the terminal; 0 if the output is not a terminal
	bar     int // columns of the time axis
	note    int // columns of the note after the bar
}

const (
	maxLabel        = 58
	fixedColumns    = 2 + 2 + 8 + 9 + 2 + 9 + 2 // gaps, start, duration and status
	shownDeliveries = 50                        // of the traced message
)

func newWaterfall(c *chain.Chain, titles *view.Titles, paint term.Painter, columns int) *waterfall {
	f := &waterfall{Waterfall: view.NewWaterfall(c, shownDeliveries, 0), paint: paint, columns: columns, bar: 40,
		note: 80}
	for i := range f.Bars {
		b := &f.Bars[i]
		b.From, b.Topic, b.Peer = titles.Called(b.From), titles.Called(b.Topic), titles.Called(b.Peer)
	}
	if columns == 0 {
		return f
	}
	left := columns - f.labelWidth() - fixedColumns
	f.bar = min(max(left/2, 12), 60)
	if f.note = left - f.bar; f.note < 8 {
		f.note = 0
	}
	return f
}

// label returns the label of a bar: the type and route of a message, or the record that it
// carries.
func label(b *view.Bar) string {
	indent := strings.Repeat("  ", b.Depth)
	switch {
	case b.Kind == view.BarDelivery:
		return indent + "↳ " + term.Printable(b.Peer)
	case b.Kind == view.BarNote:
		return indent + "↳ " + b.Note
	case b.Reason == view.SentAgain:
		return indent + b.Reason
	}
	name, told := view.NameOf(b.Type, b.Payload)
	if told {
		return indent + term.Printable(name+" "+b.From)
	}
	return indent + term.Printable(name) + " " + route(b.From, b.Topic)
}

// barNote returns the text after a bar: the error or the text of the message, and how long the
// agent then waited or worked.
func barNote(b *view.Bar) string {
	text := b.Error
	if b.Kind == view.BarMessage && b.Error == "" && !b.Self {
		text = view.Full.Message(b.Payload)
	}
	switch b.Span.Kind {
	case chain.SpanTurn:
		text += ", and took " + view.Short(b.Lasted())
	case chain.SpanWait:
		text += ", waited " + view.Short(b.Lasted())
	}
	return term.Printable(text)
}

func orDefault(s, word string) string { return term.Printable(cmp.Or(s, word)) }

func (f *waterfall) labelWidth() int {
	width := 0
	for i := range f.Bars {
		width = max(width, term.Width(label(&f.Bars[i])))
	}
	if f.columns > 0 {
		return min(width, maxLabel, max(f.columns*2/5, 24))
	}
	return min(width, maxLabel)
}

// lines draws a ruler, and one line for each bar.
func (f *waterfall) lines() []string {
	width, whole := f.labelWidth(), view.Short(f.Whole)
	ruler := fmt.Sprintf("%-*s%s", f.bar-len([]rune(whole)), "0", whole)
	lines := []string{f.paint.Paint(term.Dim, strings.Repeat(" ", width)+"  "+ruler)}
	for i := range f.Bars {
		lines = append(lines, f.line(&f.Bars[i], width))
	}
	return lines
}

func (f *waterfall) line(b *view.Bar, width int) string {
	name := term.Pad(text.Clip(label(b), width), width)
	switch {
	case b.Self && b.Kind == view.BarMessage:
		name = f.paint.Paint(term.Bold, name)
	case b.Cause:
		name = f.paint.Paint(term.Dim, name)
	}
	at, took, open := "", "", ""
	if !b.Start.IsZero() {
		at, open = "+"+view.Short(b.Start.Sub(f.Begin)), "under way"
		if !b.Finish.IsZero() {
			took = view.Short(b.Finish.Sub(b.Start))
		}
	}
	colour := statusColour(b.Status)
	line := name + "  " + f.paint.Paint(colour, f.draw(b)) + fmt.Sprintf("  %8s %8s  ", at, took) +
		f.paint.Paint(colour, term.Pad(orDefault(b.Status, open), 9))
	if words := barNote(b); words != "" && f.note > 0 {
		line += "  " + text.Clip(words, f.note)
	}
	return strings.TrimRight(line, " ")
}

// draw draws a bar. A bar shorter than one column is a thin mark, an unfinished bar extends to
// the end, and a wait or turn is a line after its bar.
func (f *waterfall) draw(b *view.Bar) string {
	if b.Start.IsZero() {
		return strings.Repeat(" ", f.bar)
	}
	from := f.column(b.Start)
	if b.Finish.IsZero() {
		return strings.Repeat(" ", from) + strings.Repeat("░", f.bar-from)
	}
	to := f.column(b.Finish)
	mark := "▏"
	if to > from {
		mark = strings.Repeat("█", to-from)
	} else {
		to = from + 1
	}
	line := max(f.column(b.Span.Until)-to, 0)
	return strings.Repeat(" ", from) + mark + strings.Repeat("─", line) + strings.Repeat(" ", f.bar-to-line)
}

func (f *waterfall) column(t time.Time) int {
	return min(max(int(f.Place(t)*float64(f.bar)), 0), f.bar-1)
}
