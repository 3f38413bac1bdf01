package attention

import (
	"strings"
	"time"
)

// Bounds of an exchange between two agents without a person.
const (
	ExchangeLimit  = 10          // messages of both
	ExchangeWindow = time.Minute // within this time
)

// An Exchange is what two agents alone said to each other in one conversation
// since a person last spoke there.
type Exchange struct {
	Sent      []time.Time // of both agents' messages, in order
	Escalated bool        // a person was called in since
}

// A Verdict says what to do with one more message of an exchange.
type Verdict string

// The verdicts.
const (
	VerdictAllow    Verdict = "allow"    // send it
	VerdictEscalate Verdict = "escalate" // send an escalation in its place, once
	VerdictHold     Verdict = "hold"     // send nothing until a person speaks
)

// Weigh returns whether one more message may join an exchange at a time: at most
// ExchangeLimit in any ExchangeWindow, then one escalation, then nothing until
// a person has spoken (which begins a new exchange).
func (x Exchange) Weigh(now time.Time) Verdict {
	if x.Escalated {
		return VerdictHold
	}
	recent := 0
	for _, t := range x.Sent {
		if now.Sub(t) < ExchangeWindow {
			recent++
		}
	}
	if recent < ExchangeLimit {
		return VerdictAllow
	}
	return VerdictEscalate
}

// AddsNothing reports whether a text says again what one of the earlier texts
// of the same agent said: the same words, whatever the case and punctuation.
func AddsNothing(text string, earlier []string) bool {
	words := strings.Join(tokens(text), " ")
	if words == "" {
		return false
	}
	for _, e := range earlier {
		if strings.Join(tokens(e), " ") == words {
			return true
		}
	}
	return false
}
