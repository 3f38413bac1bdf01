package attention

import (
	"fmt"
	"strings"
)

// A Signal is a typed reaction: it settles an event without a turn and without
// a message. Chat surfaces map it to what they can show.
type Signal string

// The signals.
const (
	SignalSeen     Signal = "seen"
	SignalAgree    Signal = "agree"
	SignalWorking  Signal = "working"
	SignalQueued   Signal = "queued"
	SignalClaimed  Signal = "claimed"
	SignalDone     Signal = "done"
	SignalDeclined Signal = "declined"
	SignalBlocked  Signal = "blocked"
	SignalUnclear  Signal = "unclear"
)

// A SignalRow is one row of the table of signals. An empty Disposition leaves
// the event open.
type SignalRow struct {
	Signal      Signal      `json:"signal"`
	Glyph       string      `json:"glyph"`
	Meaning     string      `json:"meaning"`
	Disposition Disposition `json:"disposition,omitempty"`
}

// Signals is the table of signals, their default glyphs and what they do to
// the event that an agent puts them on.
var Signals = []SignalRow{
	{SignalSeen, "👀", "read, nothing promised", DispositionAcknowledged},
	{SignalAgree, "👍", "acknowledged or approved", DispositionAcknowledged},
	{SignalWorking, "🔧", "at work on it now", DispositionClaimed},
	{SignalQueued, "🕐", "accepted, after more pressing work", DispositionDeferred},
	{SignalClaimed, "✋", "this agent takes it", DispositionClaimed},
	{SignalDone, "✅", "resolved", DispositionResponded},
	{SignalDeclined, "🙅", "not this agent, or it will not act", DispositionIgnored},
	{SignalBlocked, "🚧", "cannot go on without help", DispositionDeferred},
	{SignalUnclear, "❓", "needs to be explained", ""},
}

// ParseSignal returns the signal that a string names. The error lists them all.
func ParseSignal(s string) (SignalRow, error) {
	names := make([]string, 0, len(Signals))
	for _, row := range Signals {
		if string(row.Signal) == s {
			return row, nil
		}
		names = append(names, string(row.Signal))
	}
	return SignalRow{}, fmt.Errorf("unknown signal %q: use one of %s", s, strings.Join(names, ", "))
}
