package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/cmd/internal/term"
)

// A Printer merges the log lines of many programs. For people, each line begins with the
// program's name. For machines, it is JSON with the name in "program".
type Printer struct {
	mu    sync.Mutex
	w     io.Writer
	json  bool
	paint term.Painter
	width int
	names []string // in the order of their first lines; the index selects the colour
	now   func() time.Time
}

// A Format is the output format of a Printer.
type Format int

// The formats of a Printer.
const (
	Plain  Format = iota // for people
	Colour               // for people at a terminal
	JSON                 // for machines
)

// NewPrinter makes a printer that pads names to width characters.
func NewPrinter(w io.Writer, format Format, width int) *Printer {
	return &Printer{w: w, json: format == JSON, paint: format == Colour, width: width, now: time.Now}
}

// Line prints one line of a program's log. A line that is not JSON, such as the reason for a
// program's end, is printed as an error.
func (p *Printer) Line(name string, line []byte) {
	var entry map[string]any
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(&entry); err != nil || entry == nil {
		entry = map[string]any{
			"level":   "error",
			"message": strings.TrimRight(string(line), "\n"),
			"time":    p.now().Format(time.RFC3339Nano),
		}
	}
	p.print(name, entry)
}

// Event prints an event from a program.
func (p *Printer) Event(name, text string) {
	p.print(name, map[string]any{"level": "warn", "message": text, "time": p.now().Format(time.RFC3339Nano)})
}

// Say prints a plain line of information about a program.
func (p *Printer) Say(name, text string) {
	p.print(name, map[string]any{"level": "info", "message": text, "time": p.now().Format(time.RFC3339Nano)})
}

func (p *Printer) print(name string, entry map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		entry["program"] = name
		if line, err := json.Marshal(entry); err == nil {
			fmt.Fprintf(p.w, "%s\n", line)
		}
		return
	}
	fmt.Fprintln(p.w, p.render(name, entry))
}

// nameColours are assigned to programs in turn.
var nameColours = []term.Colour{term.Cyan, term.Green, term.Magenta, term.Blue, term.Yellow}

func (p *Printer) render(name string, entry map[string]any) string {
	var b strings.Builder
	b.WriteString(p.paint.Paint(term.Dim, clock(text(entry["time"]))))
	b.WriteByte(' ')
	b.WriteString(p.paint.Paint(p.colourOf(name), fmt.Sprintf("%-*s", p.width, name)))
	b.WriteByte(' ')
	message := term.Printable(text(entry["message"]))
	switch text(entry["level"]) {
	case "warn":
		message = p.paint.Paint(term.Yellow, message)
	case "error", "fatal", "panic":
		message = p.paint.Paint(term.Red, message)
	}
	b.WriteString(message)
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		switch key {
		case "time", "message", "level", "program":
			continue
		}
		b.WriteByte(' ')
		b.WriteString(p.paint.Paint(term.Dim, key+"="))
		b.WriteString(value(text(entry[key])))
	}
	return b.String()
}

func (p *Printer) colourOf(name string) term.Colour {
	i := slices.Index(p.names, name)
	if i < 0 {
		i = len(p.names)
		p.names = append(p.names, name)
	}
	return nameColours[i%len(nameColours)]
}

// clock shortens a time stamp to local time of day.
func clock(stamp string) string {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return "             "
	}
	return t.Local().Format("15:04:05.000Z07:00")
}

// text renders a member of a log entry.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// value quotes a value unless it is one word.
func value(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\"=") {
		return fmt.Sprintf("%q", s)
	}
	return term.Printable(s)
}
