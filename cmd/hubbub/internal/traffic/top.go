package traffic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/console"
	"hubbub/bus/report"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"
)

// NewTop returns the command `hubbub top`.
func NewTop() *cobra.Command {
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the live state of the bus: traffic, queues and failures",
		Long: "Show the state of the bus, refreshed until q or Ctrl-C: rates and latency, the busiest peers and\n" +
			"their queues, and the latest failures. The data comes from the console of the bus, which costs\n" +
			"the bus little. If the output is not a terminal, it is shown once.",
		Example: "  hubbub top\n  hubbub top --once --json | jq .rates",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 200*time.Millisecond {
				return program.Usage("--every must be at least 200ms")
			}
			return runTop(cmd, every, once)
		},
	}
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "refresh interval")
	cmd.Flags().BoolVar(&once, "once", false, "show the state once and exit")
	return cmd
}

// Control sequences of the terminal.
const (
	enterAltScreen = "\x1b[?1049h\x1b[?25l"
	leaveAltScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome     = "\x1b[H"
	clearLine      = "\x1b[K"
	clearBelow     = "\x1b[J"
)

func runTop(cmd *cobra.Command, every time.Duration, once bool) error {
	out := cmd.OutOrStdout()
	if term.Columns(out) == 0 || once || output.WantsJSON(cmd) {
		return topOnce(cmd, out)
	}
	ctx, restore := quitOnKey(cmd.Context())
	defer restore()
	fmt.Fprint(out, enterAltScreen)
	defer fmt.Fprint(out, leaveAltScreen)
	for {
		state, _, err := fetchState(ctx, program.From(cmd))
		if ctx.Err() != nil {
			return nil
		}
		t := newTopScreen(out)
		if err != nil {
			t.add("%s", t.Paint(term.Red, err.Error()))
		} else {
			t.draw(state)
		}
		fmt.Fprint(out, cursorHome+strings.Join(t.lines, clearLine+"\r\n")+clearLine+clearBelow)
		if !retry.Sleep(ctx, every) {
			return nil
		}
	}
}

// quitOnKey returns a context that ends when the user types q or Ctrl-C, and a function that
// restores the terminal. Its goroutine may outlive the context, because a read from a terminal
// cannot be interrupted. It ends with the process.
func quitOnKey(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	before, err := xterm.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return ctx, cancel // not a terminal: signals end the command
	}
	go func() {
		key := make([]byte, 1)
		for {
			if _, err := os.Stdin.Read(key); err != nil {
				return
			}
			if key[0] == 'q' || key[0] == 3 {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		_ = xterm.Restore(int(os.Stdin.Fd()), before) // fails only if the terminal is gone
	}
}

func topOnce(cmd *cobra.Command, out io.Writer) error {
	state, raw, err := fetchState(cmd.Context(), program.From(cmd))
	switch {
	case err != nil:
		return err
	case output.WantsJSON(cmd):
		_, err = output.WriteRaw(out, append(bytes.TrimSpace(raw), '\n'))
		return err
	}
	t := newTopScreen(out)
	t.rows = math.MaxInt32
	t.draw(state)
	_, err = fmt.Fprintln(out, strings.Join(t.lines, "\n"))
	return err
}

// fetchState fetches the state of the bus from its console.
func fetchState(ctx context.Context, env *program.Env) (state console.State, raw []byte, err error) {
	raw, _, err = busclient.Fetch(ctx, env, http.MethodGet, "/console/state.json", busclient.ExplainConsole)
	if err != nil {
		return state, nil, err
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return state, nil, fmt.Errorf("the bus's state cannot be decoded: %w", err)
	}
	return state, raw, nil
}

// A topScreen is one screen of top.
type topScreen struct {
	term.Painter
	columns, rows int
	titles        map[string]string // of chats and their agents, by identity
	lines         []string
}

// newTopScreen returns a screen the size of out.
func newTopScreen(out io.Writer) *topScreen {
	t := &topScreen{Painter: term.NewPainter(out)}
	if f, ok := out.(interface{ Fd() uintptr }); ok {
		t.columns, t.rows, _ = xterm.GetSize(int(f.Fd())) // 0 if out is not a terminal
	}
	return t
}

// add adds a line, cut to the width of the terminal.
func (t *topScreen) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if t.columns > 0 {
		line = term.Fit(line, t.columns)
	}
	t.lines = append(t.lines, line)
}

// addGroup adds texts side by side, on as many lines as they need.
func (t *topScreen) addGroup(texts ...string) {
	line := texts[0]
	for _, next := range slices.DeleteFunc(texts[1:], func(s string) bool { return s == "" }) {
		if both := line + "   " + next; t.columns <= 0 || term.Fit(both, t.columns) == both {
			line = both
			continue
		}
		t.add("%s", line)
		line = next
	}
	t.add("%s", line)
}

func (t *topScreen) draw(s console.State) {
	c, r := &s.Counters, &s.Rates
	p99 := "–"
	if r.P99 >= 0 {
		p99 = view.Short(time.Duration(r.P99 * float64(time.Millisecond)))
	}
	t.add(
		"%s  %s  up %s  %s",
		t.Paint(term.Bold, "hubbub "+c.Name),
		c.Version,
		view.Ago(s.At.Sub(c.Started), ""),
		t.Paint(term.Dim, s.At.Local().Format("15:04:05 MST")),
	)
	t.titles = map[string]string{}
	for i := range s.Peers {
		t.titles[s.Peers[i].ID] = term.Printable(s.Peers[i].Title)
	}
	t.addGroup(fmt.Sprintf("%.1f messages/s", r.Accepted), fmt.Sprintf("%.1f delivered/s", r.Delivered),
		t.paintIf(r.Failed > 0, term.Red, "%.1f failed/s", r.Failed), "99% within "+p99)
	t.addGroup(fmt.Sprintf("%d peers", c.Peers), fmt.Sprintf("%d subscriptions", c.Subscriptions),
		t.paintIf(
			c.Queued > 0, term.Yellow, "%d unanswered", c.Unanswered,
		), t.paintIf(c.Queued > 0, term.Yellow, "%d queued", c.Queued), t.logLine(c))
	if s.Skipped > 0 {
		t.add("%s", t.paintIf(true, term.Dim, "rates of peers are too low: %d rows were skipped", s.Skipped))
	}
	t.add("")
	failures := min(len(s.Failures), 8)
	t.peers(&s, max(t.rows-len(t.lines)-failures-4, 5))
	if failures > 0 {
		t.add("")
		t.add("%s", t.Paint(term.Dim, "LAST FAILURES"))
		for _, f := range s.Failures[:failures] {
			t.failure(&f, s.At)
		}
	}
	if len(t.lines) > t.rows && t.rows > 0 {
		t.lines = t.lines[:t.rows]
	}
}

func (t *topScreen) logLine(c *report.Counters) string {
	s := c.Log
	if s == nil {
		return "no activity log"
	}
	line := fmt.Sprintf("log: %d rows queued", s.QueuedRows)
	switch {
	case s.Failing:
		return t.Paint(term.Red, line+", failing: "+text.Clip(term.Printable(s.LastError), 80))
	case s.Stalled:
		return t.Paint(term.Yellow, line+", stalled")
	case s.Lost > 0:
		return t.Paint(term.Yellow, fmt.Sprintf("%s, %d lost", line, s.Lost))
	}
	return line
}

// peers adds the connected peers and the chats. It counts the commands that came and went.
func (t *topScreen) peers(s *console.State, room int) {
	list, gone := []*console.StatePeer{}, 0
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Connected || protocol.RoleOf(protocol.PeerID(p.ID)) != protocol.RoleCLI {
			list = append(list, p)
		} else {
			gone++
		}
	}
	// with .0, zero prints as nothing
	head, row, name := "   IN/MIN   OUT/MIN UNANSWERED  QUEUED  FAILURES", "%9s %9s %10.0d %7.0d %9.0d", 0
	if t.columns > 0 && t.columns < 100 {
		head, row = "IN/MIN OUT/MIN WAITING QUEUED FAILED", "%6s %7s %7.0d %6.0d %6.0d"
	}
	name = min(max(cmp.Or(t.columns, 110)-len(head)-1, 20), 44)
	t.add("%s", t.Paint(term.Dim, term.Pad("PEER", name)+" "+head))
	for _, p := range list[:min(len(list), room)] {
		label := t.paintIf(!p.Connected, term.Dim, "%s", term.Pad(text.Clip(t.displayName(p.ID), name), name))
		line := fmt.Sprintf(row, decimal(p.In), decimal(p.Out), p.Unanswered, p.Queued, p.Failures)
		switch {
		case !p.LastFail.IsZero() && s.At.Sub(p.LastFail) < time.Minute:
			line = t.Paint(term.Red, line+"  "+term.Printable(p.Status))
		case p.Queued > 0:
			line = t.Paint(term.Yellow, line)
		}
		t.add("%s %s", label, line)
	}
	rest := ""
	if n := len(list) - room; n > 0 {
		rest = fmt.Sprintf("and %d more", n)
	}
	if gone > 0 {
		rest = strings.TrimPrefix(rest+", and "+text.Counted(gone, "command")+" that came and went", ", ")
	}
	if rest != "" {
		t.add("%s", t.Paint(term.Dim, rest))
	}
}

// displayName returns the name by which a person knows an identity or a topic.
func (t *topScreen) displayName(id string) string {
	role, _, _ := strings.Cut(id, ":")
	if title := t.titles[id]; title != "" && role != "agent" {
		return term.Printable(role) + ":“" + title + "”"
	}
	return term.Printable(id)
}

func (t *topScreen) failure(f *console.StateFailure, now time.Time) {
	who := strings.TrimSpace(term.Printable(f.Type) + " " + t.displayName(f.From))
	if to := cmp.Or(f.Peer, f.Topic); to != "" {
		who += " → " + t.displayName(to)
	}
	why := t.Paint(term.Dim, text.Clip(term.Printable(f.Error), 60))
	t.addGroup(view.Ago(now.Sub(f.At), "")+" ago "+t.Paint(term.Red, term.Printable(f.Status)), who, why)
}

// paintIf formats a text, and colours it if standsOut is true.
func (t *topScreen) paintIf(standsOut bool, c term.Colour, format string, args ...any) string {
	if !standsOut {
		c = ""
	}
	return t.Paint(c, fmt.Sprintf(format, args...))
}

// decimal formats a rate. It returns "" for a rate near zero.
func decimal(v float64) string {
	if v < 0.05 {
		return ""
	}
	return fmt.Sprintf("%.1f", v)
}
