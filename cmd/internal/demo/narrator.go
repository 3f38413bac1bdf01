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
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/retry"
)

const (
	// besideWait is how long a line waits for the first rows, to stand beside them:
	// longer than the 250 ms within which a log that keeps up has them.
	besideWait = time.Second
	// besideLook is how often waiting lines are checked.
	besideLook = 100 * time.Millisecond
)

// A Narrator prints the chats of a stage beside the rows of the activity log.
type Narrator struct {
	stage *Stage
	log   *activitylog.Reader
	from  activitylog.Cursor // where the story begins
	out   io.Writer
	paint term.Painter
	width int // columns of the screen

	mu      sync.Mutex // guards the fields below, and the order of what is printed
	last    int        // number of the newest line that was printed
	lines   []Line     // everything visible in this scene
	seen    []*passage // everything that passed the bus in this scene
	idle    bool       // no scene: nothing is kept
	short   bool       // of what agents record only that they call a person is printed
	open    activitylog.Assembler
	changed chan struct{}
}

// A passage is one message that has gone through the bus.
type passage struct {
	*activitylog.Pass
	message protocol.Message
}

// maxOpen bounds the passages that wait for their last row.
const maxOpen = 4096

// NewNarrator makes a narrator of a stage and of a log, from a place in it on,
// that writes to out, which has so many columns; 0 means that out is no
// terminal.
func NewNarrator(stage *Stage, log *activitylog.Reader, from activitylog.Cursor, out io.Writer, columns int) *Narrator {
	if columns == 0 {
		columns = 140
	}
	return &Narrator{
		stage: stage, log: log, from: from, out: out, paint: term.NewPainter(out),
		width: columns, changed: make(chan struct{}), idle: true,
		open: activitylog.Assembler{Live: maxOpen},
	}
}

// Run narrates until ctx ends.
func (n *Narrator) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		for retry.Sleep(ctx, besideLook) {
			n.take(nil)
		}
	})
	return n.log.Follow(ctx, activitylog.Filter{}, n.from, nil, func(rows []activitylog.Entry) error {
		n.take(rows)
		return nil
	})
}

// take prints new lines and rows, and wakes those who wait for them.
func (n *Narrator) take(rows []activitylog.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines, _ := n.stage.feed.after(n.last)
	lines = n.due(lines, rows)
	if len(lines) > 0 {
		n.last = lines[len(lines)-1].N
	}
	var notes []note
	var passed []*passage
	for i := range rows {
		p := &passage{}
		p.Pass, _ = n.open.Add(&rows[i])
		if p.Pass != nil && rows[i].Is(activitylog.SendFinish) && json.Unmarshal(p.Payload, &p.message) == nil {
			passed = append(passed, p)
			if d, part := describe(p); part && (!n.short || d.call) {
				notes = append(notes, d)
			}
		}
	}
	n.print(lines, notes)
	if n.idle || len(lines)+len(passed) == 0 {
		return
	}
	n.lines, n.seen = append(n.lines, lines...), append(n.seen, passed...)
	close(n.changed)
	n.changed = make(chan struct{})
}

// due returns the lines whose turn it is: those before the newest row, and
// those that have waited long enough for the log to catch up.
func (n *Narrator) due(lines []Line, rows []activitylog.Entry) []Line {
	var newest time.Time
	if len(rows) > 0 {
		newest = rows[len(rows)-1].Time()
	}
	for i, l := range lines {
		if l.At.After(newest) && time.Since(l.At) < besideWait {
			return lines[:i]
		}
	}
	return lines
}

// left is how many columns the conversation takes, where both sides fit.
const left = 44

// print writes lines and notes in the order in which they happened: side by
// side, or below each other where the screen is narrow.
func (n *Narrator) print(lines []Line, notes []note) {
	narrow := n.width < 110
	var said []string // of the left side, not yet printed
	row := func(right string) {
		l := strings.Repeat(" ", left)
		if len(said) > 0 {
			l, said = said[0], said[1:]
		}
		n.line(l + n.paint.Paint(term.Dim, " │") + " " + right)
	}
	finish := func() {
		for len(said) > 0 {
			row("")
		}
	}
	for len(lines)+len(notes) > 0 {
		next := len(notes) == 0 || len(lines) > 0 && lines[0].At.Before(notes[0].at) // a line
		switch {
		case next && narrow:
			for _, l := range n.bubble(lines[0], n.width-2) {
				n.line(l)
			}
		case next:
			finish()
			said = n.bubble(lines[0], left)
		case narrow:
			for _, right := range n.render(notes[0], n.width-4) {
				n.line("    " + right)
			}
		default:
			for _, right := range n.render(notes[0], n.width-left-3) {
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

func (n *Narrator) line(text string) { fmt.Fprintln(n.out, strings.TrimRight(text, " ")) }

// bubble is one line of the chat, wrapped and padded to n columns.
func (n *Narrator) bubble(l Line, room int) []string {
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

// render is one note on the right, in lines of at most room columns.
func (n *Narrator) render(d note, room int) []string {
	rows := term.Pad(d.rows, 9)
	indent := strings.Repeat(" ", len(rows)+1)
	text := d.what
	if d.how != "" {
		text += "  " + d.how
	}
	colour := term.Green
	if d.bad {
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
	if d.why != "" {
		for _, l := range term.Wrap("because "+d.why, room-len(indent)-2) {
			out = append(out, indent+"  "+n.paint.Paint(term.Yellow, l))
		}
	}
	return out
}

// title prints the heading of a scene and begins it.
func (n *Narrator) title(title, explanation string) {
	n.begin(false)
	n.say(term.Bold, "\n", title)
	n.say(term.Dim, "", term.Wrap(explanation, min(n.width, 110))...)
	n.say("", "", "")
}

// brief has it print, from now on, little of what happens.
func (n *Narrator) brief(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.short = on
}

// begin forgets the last scene. Idle means that nobody waits from now on.
func (n *Narrator) begin(idle bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines, n.seen, n.idle = nil, nil, idle
}

func (n *Narrator) say(colour term.Colour, before string, lines ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range lines {
		fmt.Fprintf(n.out, "%s%s\n", before, n.paint.Paint(colour, l))
	}
}

// note prints a sentence between what happens.
func (n *Narrator) note(text string) {
	for _, l := range term.Wrap(text, min(n.width, 110)-2) {
		n.say(term.Magenta, "", "» "+l)
	}
}

// A moment is everything that happened in a scene so far.
type moment struct {
	lines    []Line
	passages []*passage
}

// until waits until done holds for the scene so far.
func (n *Narrator) until(ctx context.Context, done func(moment) bool) error {
	for {
		n.mu.Lock()
		m := moment{slices.Clone(n.lines), slices.Clone(n.seen)}
		changed := n.changed
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
