package attention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Version is a draft of C2A.
type Version string

// The drafts.
const (
	Version0602 Version = "2026-06-02" // four policies and directedness
	Version0624 Version = "2026-06-24" // three policies and addressedToMe
	Version0811 Version = "2026-08-11" // the same, with obligations
)

// Versions lists the drafts, the default first.
var Versions = []Version{Version0602, Version0624, Version0811}

// Flat reports whether a draft has three policies and flat events.
func (v Version) Flat() bool { return v == Version0624 || v == Version0811 }

// ParseVersion returns the draft with the given name. Empty means the default.
func ParseVersion(s string) (Version, error) {
	if v := cmp.Or(Version(s), Version0602); slices.Contains(Versions, v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown C2A draft %q: use %s, %s or %s", s, Version0602, Version0624, Version0811)
}

// Directedness says at whom an event is directed, from the view of one agent.
type Directedness string

// The directednesses.
const (
	DirectedToMe     Directedness = "to_me"
	DirectedToMyRole Directedness = "to_my_role"
	DirectedToOther  Directedness = "to_other"
	DirectedAmbient  Directedness = "ambient"
)

// MessageDirectedness returns whom a message from an agent obliges: those named in its text, or
// else whom its author chose, or nobody.
func MessageDirectedness(text string, chosen Directedness) Directedness {
	if chosen = cmp.Or(chosen, DirectedAmbient); chosen == DirectedAmbient && len(textMentions(spokenPart(text))) > 0 {
		return DirectedToMe
	}
	return chosen
}

// Directednesses lists all values of Directedness.
var Directednesses = []Directedness{DirectedToMe, DirectedToMyRole, DirectedToOther, DirectedAmbient}

// A Policy says whether an agent must, may or must not answer.
type Policy string

// The policies. PolicyAckOnly was removed in draft 2026-06-24.
const (
	PolicyMustRespond    Policy = "must_respond"
	PolicyMayRespond     Policy = "may_respond"
	PolicyAckOnly        Policy = "ack_only"
	PolicyMustNotRespond Policy = "must_not_respond"
)

// In returns the policy in the terms of a draft: ack_only is must_not_respond since draft
// 2026-06-24.
func (p Policy) In(v Version) Policy {
	if v.Flat() && p == PolicyAckOnly {
		return PolicyMustNotRespond
	}
	return p
}

// A Mode says how much of an event a model sees, and when.
type Mode string

// The injection modes.
const (
	ModeImmediate   Mode = "immediate"    // the content, immediately
	ModeBuffered    Mode = "buffered"     // the content, after the compose window
	ModeNotify      Mode = "notify"       // a knock without content
	ModeToolMailbox Mode = "tool_mailbox" // nothing; tools can read it
	ModeDigest      Mode = "digest"       // part of a periodic summary
	ModeSilent      Mode = "silent"       // nothing; only stored
)

// Injects reports whether a mode shows the model the content of the event.
func (m Mode) Injects() bool { return m == ModeImmediate || m == ModeBuffered }

// A Priority says how urgent an event is. The bridge sets it; text does not.
type Priority string

// The priorities.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityUrgent Priority = "urgent"
)

// ContextThread requests the recent messages of the same thread or conversation along with the
// event.
const ContextThread = "thread_window"

// A Disposition says how an agent finished an event.
type Disposition string

// The dispositions.
const (
	DispositionResponded    Disposition = "responded"
	DispositionAcknowledged Disposition = "acknowledged"
	DispositionDeferred     Disposition = "deferred"
	DispositionClaimed      Disposition = "claimed"
	DispositionIgnored      Disposition = "ignored"
	DispositionSuperseded   Disposition = "superseded"
	DispositionFailed       Disposition = "failed"
)

// Final reports whether a disposition is the last one. Claimed and deferred are promises, which
// another disposition follows.
func (d Disposition) Final() bool {
	return slices.Contains([]Disposition{
		DispositionResponded, DispositionAcknowledged, DispositionIgnored, DispositionSuperseded, DispositionFailed,
	}, d)
}

// May reports whether a disposition is allowed for an event with this policy.
func (p Policy) May(d Disposition) bool {
	switch d {
	case DispositionIgnored, DispositionSuperseded, DispositionFailed:
		return true
	case DispositionAcknowledged:
		return p != PolicyMustNotRespond
	}
	return p != PolicyMustNotRespond && p != PolicyAckOnly
}

// A Signal is a typed reaction. It settles an event without a turn and without a message. Chat
// surfaces map it to what they can show.
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

// SignalStop ends the work on a message or, as the signal of a message, in its whole chat. Only a
// person gives it.
const SignalStop Signal = "stop"

// A SignalRow is one row of the table of signals. An empty Disposition leaves
// the event open.
type SignalRow struct {
	Signal      Signal      `json:"signal"`
	Glyph       string      `json:"glyph"`
	Meaning     string      `json:"meaning"` // on an agent's own message
	Disposition Disposition `json:"disposition,omitempty"`
}

// Signals is the table of signals, their default glyphs, and their effect on the event that an
// agent puts them on.
var Signals = []SignalRow{
	{SignalSeen, "👀", "read, nothing promised", DispositionAcknowledged},
	{SignalAgree, "👍", "acknowledged or approved", DispositionAcknowledged},
	{SignalWorking, "🔧", "at work on it now", DispositionClaimed},
	{SignalQueued, "🕐", "accepted, after more pressing work", DispositionDeferred},
	{SignalClaimed, "✋", "taken by who says so", DispositionClaimed},
	{SignalDone, "✅", "handled already", DispositionResponded},
	{SignalDeclined, "🙅", "not so: revise it", DispositionIgnored},
	{SignalBlocked, "🚧", "cannot go on without help", DispositionDeferred},
	{SignalUnclear, "❓", "needs to be explained", ""},
}

// ParseSignal returns the signal with the given name. The error lists all names.
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
