package attention

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// A ReplyContext is what an agent's records say about an event at the moment when
// it wants to act on it.
type ReplyContext struct {
	Known       bool           // the agent has such an event
	Policy      Policy         // of its decision
	Disposition Disposition    // so far; empty = none
	Replied     bool           // a message was sent in response to it
	Left        bool           // the agent has left that place
	LeaveEvent  bool           // this is the event that asked it to leave
	ClaimNeeded bool           // it must hold the claim
	ClaimHeld   bool           // it does
	ClaimOwner  string         // who does, if somebody else does
	Exchange    ExchangeAction // of the exchange between agents; empty = allow
	Repeats     bool           // the text says again what was said
}

// A Refusal says why an action is not carried out: a short name for the
// record, and a sentence that tells a model what to do. The zero value is
// permission.
type Refusal struct {
	Reason string // "must_not_respond"
	Advice string
}

// Refused reports whether there is a refusal.
func (r Refusal) Refused() bool { return r.Reason != "" }

// A permitRow is one row of the table of refusals.
type permitRow struct {
	reason  string
	signals bool // refuses signals as well
	when    func(*ReplyContext) bool
	advice  string
}

// refusals is the table of what is never sent, whatever a model writes. The
// first row that applies decides.
var refusals = []permitRow{
	{"unknown_event", true, func(s *ReplyContext) bool { return !s.Known },
		"There is no such event. Use chat.list_events to see the events, and give the eventId of one as inReplyTo."},
	{"superseded", true, func(s *ReplyContext) bool { return s.Disposition == DispositionSuperseded },
		"The message was edited, deleted or merged into a newer one. Act on the newer event; send nothing for this one."},
	{"must_not_respond", true, func(s *ReplyContext) bool { return s.Policy == PolicyMustNotRespond },
		"The event is not for you to answer. Send nothing; end your turn in silence."},
	{"ack_only", false, func(s *ReplyContext) bool { return s.Policy == PolicyAckOnly },
		"A message is too much for an acknowledgement. Use chat.react with a signal such as seen, or end your turn in silence."},
	{"already_answered", false, func(s *ReplyContext) bool { return s.Replied || s.Disposition == DispositionResponded },
		"You have answered this event. One event gets one answer: send nothing more for it."},
	{"left", true, func(s *ReplyContext) bool { return s.Left && !s.LeaveEvent },
		"You were asked to leave here and have left. Say nothing until somebody mentions you again."},
	{"claimed_by_other", false, func(s *ReplyContext) bool { return s.ClaimNeeded && !s.ClaimHeld && s.ClaimOwner != "" },
		"Another agent has claimed this event and will answer it. Stay out; end your turn in silence."},
	{"event_closed", false, func(s *ReplyContext) bool { return s.Disposition.Final() },
		"The event is closed. Send nothing for it."},
	{"claim_needed", false, func(s *ReplyContext) bool { return s.ClaimNeeded && !s.ClaimHeld },
		"Several agents may see this event. Call chat.claim with its eventId first, and answer only if it is granted."},
	{"exchange_held", false, func(s *ReplyContext) bool { return s.Exchange == ExchangeHold || s.Exchange == ExchangeEscalate },
		"Agents have said much here without a person. A person was asked to decide; say nothing until one speaks."},
	{"nothing_new", false, func(s *ReplyContext) bool { return s.Repeats },
		"You have said nearly this before. Add something new or end your turn in silence."},
}

// PermitMessage returns why an agent may not send a message in response to an event,
// or the zero Refusal.
func PermitMessage(s ReplyContext) Refusal { return permit(&s, false) }

// PermitReaction is PermitMessage for a signal. Signals promise and acknowledge; they
// need no claim, and are allowed where a message is not, except on events of others and
// after leaving.
func PermitReaction(s ReplyContext) Refusal { return permit(&s, true) }

// permit returns the first refusal that applies to a message, or to a signal.
func permit(s *ReplyContext, signal bool) Refusal {
	for _, row := range refusals {
		if (row.signals || !signal) && row.when(s) {
			return Refusal{row.reason, row.advice}
		}
	}
	return Refusal{}
}

// silenceTexts are texts that models write when they mean to say nothing.
var silenceTexts = []string{
	"no reply", "no_reply", "noreply", "no response", "no_response", "stay silent", "remain silent", "staying silent", "heartbeat ok", "heartbeat_ok",
	"no action", "no action needed", "no response needed", "no reply needed", "no reply necessary", "no response necessary", "end turn",
	"end_turn", "do not respond", "must_not_respond", "must not respond", "not addressed to me",
}

// wrappedSilenceTexts are silences only if they are wrapped: else each is a short answer to
// an honest question.
var wrappedSilenceTexts = []string{
	"none", "nothing", "skip", "pass", "na", "n/a", "nil", "null", "ignore", "ignored", "silence", "silent", "empty", "no comment",
}

// MeansSilence reports whether a text is a way to write silence: nothing but
// space, punctuation, or one of the known words for it inside brackets,
// asterisks or quotes. Such a text is never sent.
func MeansSilence(text string) bool {
	bare := strings.ToLower(strings.Trim(text, " \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff"))
	inner := strings.Trim(bare, " \t\r\n*_~`'\"()[]{}<>.,;:!-–—…/|#=")
	if inner == "" {
		return !strings.ContainsAny(bare, "!")
	}
	wrapped := strings.ContainsAny(bare[:1], "*_~`'\"([{<-—–…|#=") || strings.ContainsAny(text, "_")
	return slices.Contains(silenceTexts, inner) || slices.Contains(wrappedSilenceTexts, inner) && (wrapped || isShouted(inner, text))
}

// isShouted reports whether a word is written for a program: nobody answers a question with
// SILENT.
func isShouted(word, text string) bool {
	return (word == "silent" || word == "silence") && text == strings.ToUpper(text)
}

// Bounds of an exchange between agents without a person.
const (
	ExchangeTotal  = 12          // messages of all, with the one that calls a person
	ExchangeLimit  = 10          // messages of all
	ExchangeWindow = time.Minute // within this time
	exchangeStuck  = 2           // messages in a row of others that say what they said before
)

// An Exchange is what agents alone said to each other since a person last spoke.
type Exchange struct {
	Sent      []time.Time // of all messages, in order
	Received  []string    // the latest texts of the others, the newest first
	Escalated bool        // a person was called in since
}

// A ExchangeAction says what to do with one more message of an exchange.
type ExchangeAction string

// The verdicts.
const (
	ExchangeAllow    ExchangeAction = "allow"    // send it
	ExchangeEscalate ExchangeAction = "escalate" // send an escalation in its place, once
	ExchangeHold     ExchangeAction = "hold"     // send nothing until a person speaks
)

// Next returns whether one more message may join an exchange at a time: at most
// ExchangeTotal in all and ExchangeLimit in any ExchangeWindow, as long as the others
// say something new. Then one escalation, then nothing until a person has spoken (which
// begins a new exchange).
func (x Exchange) Next(now time.Time) ExchangeAction {
	first := len(x.Sent) - ExchangeLimit
	switch {
	case x.Escalated:
		return ExchangeHold
	case len(x.Sent) > ExchangeTotal-2, first >= 0 && now.Sub(x.Sent[first]) < ExchangeWindow, x.isStuck():
		return ExchangeEscalate
	}
	return ExchangeAllow
}

// isStuck reports whether the others only repeat themselves.
func (x Exchange) isStuck() bool {
	for i := range exchangeStuck {
		if i >= len(x.Received) || !IsRepeat(x.Received[i], x.Received[i+1:]) {
			return false
		}
	}
	return true
}

// sameWords is the share of equal characters from which two texts say the same, and
// comparedWords is how much of a text is looked at.
const (
	sameWords     = 0.9
	comparedWords = 600
)

// IsRepeat reports whether a text says again what one of the earlier texts
// of the same agent said: nearly the same words, whatever the case and punctuation.
func IsRepeat(text string, earlier []string) bool {
	words := normalize(text)
	return words != "" && slices.ContainsFunc(earlier, func(e string) bool { return isSimilar(words, normalize(e)) })
}

// normalize returns the beginning of a text as bare words.
func normalize(text string) string {
	words := []rune(strings.Join(tokens(text), " "))
	return string(words[:min(len(words), comparedWords)])
}

func isSimilar(a, b string) bool {
	longest := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	return float64(levenshtein.ComputeDistance(a, b)) <= (1-sameWords)*float64(longest)
}

// Bounds of what is taken for words that somebody passes on: how much of the longer text the
// other must be, and how much a part must be at least, in characters.
const (
	passedOnShare = 0.7
	passedOnPart  = 40
)

// IsForward reports whether a text is what was said elsewhere, as somebody passes it on: nearly
// the same words, or all of them with little around, or the beginning of them.
func IsForward(text, said string) bool {
	a, b := normalize(text), normalize(said)
	longer, shorter := max(len(a), len(b)), min(len(a), len(b))
	switch {
	case shorter == 0:
		return false
	case strings.HasPrefix(b, a) && len(a) >= passedOnPart:
		return true
	case float64(shorter) < passedOnShare*float64(longer):
		return false
	case strings.Contains(a, b), strings.Contains(b, a):
		return true
	}
	return float64(shorter) >= sameWords*float64(longer) && isSimilar(a, b)
}
