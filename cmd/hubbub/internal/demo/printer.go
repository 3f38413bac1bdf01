package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"
)

const (
	// maxLineWait bounds how long a line waits for its first rows, to be printed beside them. It
	// is longer than the usual delay of the log, 250 ms.
	maxLineWait = time.Second
	// lineCheckInterval is how often the printer checks waiting lines.
	lineCheckInterval = 100 * time.Millisecond
)

// A Printer prints the chats of a server beside the rows of the activity log.
type Printer struct {
	server *ChatServer
	log    *read.Reader
	from   read.Cursor // where to start
	out    io.Writer
	paint  term.Painter
	width  int // columns of the terminal

	mu        sync.Mutex     // guards the fields below and the order of the output
	lastLine  int            // number of the last printed line
	lines     []Line         // lines of this step
	messages  []*publication // messages published in this step
	idle      bool           // no step runs: keep nothing
	brief     bool           // of the agents' records, print only escalations
	assembler activitylog.Assembler
	changed   notify.Broadcast
}

// A publication is a message that the bus has delivered.
type publication struct {
	*activitylog.Publication
	message protocol.Message
}

// maxIncomplete bounds the messages that wait for their last row.
const maxIncomplete = 4096

// NewPrinter returns a printer of a server's chats and of a log, from a position on. It writes to
// out, which has the given number of columns; 0 means that out is not a terminal.
func NewPrinter(
	stage *ChatServer, log *read.Reader, from read.Cursor, out io.Writer, columns int,
) *Printer {
	if columns == 0 {
		columns = 140
	}
	return &Printer{
		server: stage, log: log, from: from, out: out, paint: term.NewPainter(out),
		width: columns, idle: true,
		assembler: activitylog.Assembler{MaxPending: maxIncomplete},
	}
}

// Run prints until ctx ends.
func (n *Printer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		for retry.Sleep(ctx, lineCheckInterval) {
			n.update(nil)
		}
	})
	return n.log.Follow(ctx, read.Filter{}, n.from, nil, func(rows []activitylog.Entry) error {
		n.update(rows)
		return nil
	})
}

// update prints new lines and rows, and wakes the goroutines that wait for them.
func (n *Printer) update(rows []activitylog.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines, _ := n.server.feed.after(n.lastLine)
	lines = n.readyLines(lines, rows)
	if len(lines) > 0 {
		n.lastLine = lines[len(lines)-1].N
	}
	var notes []annotation
	var passed []*publication
	for i := range rows {
		p := &publication{}
		p.Publication, _ = n.assembler.Add(&rows[i])
		if p.Publication != nil && rows[i].Is(activitylog.SendFinish) && json.Unmarshal(p.Payload, &p.message) == nil {
			passed = append(passed, p)
			if d, part := describe(p); part && (!n.brief || d.escalates) {
				notes = append(notes, d)
			}
		}
	}
	n.print(lines, notes)
	if n.idle || len(lines)+len(passed) == 0 {
		return
	}
	n.lines, n.messages = append(n.lines, lines...), append(n.messages, passed...)
	n.changed.Notify()
}

// readyLines returns the lines that can be printed: lines before the newest row, and lines that
// have waited long enough for the log to catch up.
func (n *Printer) readyLines(lines []Line, rows []activitylog.Entry) []Line {
	var newest time.Time
	if len(rows) > 0 {
		newest = rows[len(rows)-1].Time()
	}
	for i, l := range lines {
		if l.At.After(newest) && time.Since(l.At) < maxLineWait {
			return lines[:i]
		}
	}
	return lines
}

// chatColumns is the width of the conversation if both columns fit.
const chatColumns = 44

// print prints lines and annotations in order of time, side by side or, on a narrow terminal, one
// below the other.
func (n *Printer) print(lines []Line, notes []annotation) {
	narrow := n.width < 110
	var said []string // rest of the left column
	row := func(right string) {
		l := strings.Repeat(" ", chatColumns)
		if len(said) > 0 {
			l, said = said[0], said[1:]
		}
		n.printLine(l + n.paint.Paint(term.Dim, " │") + " " + right)
	}
	finish := func() {
		for len(said) > 0 {
			row("")
		}
	}
	for len(lines)+len(notes) > 0 {
		next := len(notes) == 0 || len(lines) > 0 && lines[0].At.Before(notes[0].at) // the next one is a line
		switch {
		case next && narrow:
			for _, l := range n.renderLine(lines[0], n.width-2) {
				n.printLine(l)
			}
		case next:
			finish()
			said = n.renderLine(lines[0], chatColumns)
		case narrow:
			for _, right := range n.renderAnnotation(notes[0], n.width-4) {
				n.printLine("    " + right)
			}
		default:
			for _, right := range n.renderAnnotation(notes[0], n.width-chatColumns-3) {
				row(right)
			}
		}
		if next {
			lines = lines[1:]
		} else {
			notes = notes[1:]
		}
	}
	finish()
}

func (n *Printer) printLine(text string) { fmt.Fprintln(n.out, strings.TrimRight(text, " ")) }

// renderLine wraps a line of the chat and pads it to room columns.
func (n *Printer) renderLine(l Line, room int) []string {
	author, colour := term.Printable(l.Author), term.Bold
	if l.Bot {
		colour = term.Green
	}
	name := term.Pad(author+":", 8)
	var texts, out []string
	for line := range strings.Lines(l.Text) {
		texts = append(texts, term.Wrap(term.Printable(line), room-term.Width(name)-1)...)
	}
	for i, text := range texts {
		before := strings.Repeat(" ", term.Width(name))
		if i == 0 {
			before = n.paint.Paint(colour, name)
		}
		out = append(out, before+term.Pad(text, room-term.Width(name)))
	}
	return out
}

// renderAnnotation wraps an annotation to room columns.
func (n *Printer) renderAnnotation(d annotation, room int) []string {
	rows := term.Pad(d.rows, 9)
	indent := strings.Repeat(" ", len(rows)+1)
	text := d.summary
	if d.outcome != "" {
		text += "  " + d.outcome
	}
	colour := term.Green
	if d.failed {
		colour = term.Red
	}
	var out []string
	for i, l := range term.Wrap(text, room-len(indent)) {
		if at := strings.IndexAny(l, "✓✗"); at >= 0 {
			l = l[:at] + n.paint.Paint(colour, l[at:])
		}
		if i == 0 {
			out = append(out, n.paint.Paint(term.Dim, rows)+" "+l)
		} else {
			out = append(out, indent+l)
		}
	}
	if d.reason != "" {
		for _, l := range term.Wrap("because "+d.reason, room-len(indent)-2) {
			out = append(out, indent+"  "+n.paint.Paint(term.Yellow, l))
		}
	}
	return out
}

// beginStep prints the heading of a step and starts it.
func (n *Printer) beginStep(title, explanation string) {
	n.reset(false)
	n.printLines(term.Bold, "\n", title)
	n.printLines(term.Dim, "", term.Wrap(explanation, min(n.width, 110))...)
	n.printLines("", "", "")
}

// setBrief turns brief output on or off.
func (n *Printer) setBrief(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.brief = on
}

// reset discards the history of the last step. Idle means that no step follows.
func (n *Printer) reset(idle bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines, n.messages, n.idle = nil, nil, idle
}

func (n *Printer) printLines(colour term.Colour, before string, lines ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range lines {
		fmt.Fprintf(n.out, "%s%s\n", before, n.paint.Paint(colour, l))
	}
}

// remark prints a remark of the demo.
func (n *Printer) remark(text string) {
	for _, l := range term.Wrap(text, min(n.width, 110)-2) {
		n.printLines(term.Magenta, "", "» "+l)
	}
}

// A history is everything that has happened in a step so far.
type history struct {
	lines    []Line
	messages []*publication
}

// waitUntil waits until done returns true for the history of the step.
func (n *Printer) waitUntil(ctx context.Context, done func(history) bool) error {
	for {
		n.mu.Lock()
		m := history{slices.Clone(n.lines), slices.Clone(n.messages)}
		changed := n.changed.C()
		n.mu.Unlock()
		if done(m) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
