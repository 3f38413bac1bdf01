package attention

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// A ReplyContext is what an agent's records say about an event when the agent wants to act on it.
type ReplyContext struct {
	Known       bool           // the agent has this event
	Policy      Policy         // of its decision
	Disposition Disposition    // so far; empty = none
	Replied     bool           // a message was sent in response to it
	Left        bool           // the agent has left that place
	LeaveEvent  bool           // this is the event that asked it to leave
	ClaimNeeded bool           // it must hold the claim
	ClaimHeld   bool           // it holds the claim
	ClaimOwner  string         // the holder of the claim, if it is somebody else
	Exchange    ExchangeAction // of the exchange between agents; empty = allow
	Repeats     bool           // the text repeats an earlier one
}

// A Refusal says why an action is not performed: a short name for the record, and advice for the
// model. The zero value means that the action is allowed.
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

// refusals lists what is never sent, whatever a model writes. The first row that applies decides.
var refusals = []permitRow{
	{"unknown_event", true, func(s *ReplyContext) bool { return !s.Known },
		"There is no such event. Use chat.list_events to see the events, and give the eventId of one as inReplyTo."},
	{"superseded", true, func(s *ReplyContext) bool { return s.Disposition == DispositionSuperseded },
		"The message was edited, deleted or merged into a newer one. Act on the newer event; send nothing for this one."},
	{"must_not_respond", true, func(s *ReplyContext) bool { return s.Policy == PolicyMustNotRespond },
		"The event is not for you to answer. Send nothing; end your turn in silence."},
	{"ack_only", false, func(s *ReplyContext) bool { return s.Policy == PolicyAckOnly },
		"A message is too much for an acknowledgement. Use chat.react with a signal such as seen, or end your turn " +
			"in silence."},
	{"already_answered", false, func(s *ReplyContext) bool {
		return s.Replied ||
			s.Disposition == DispositionResponded
	},
		"You have answered this event. One event gets one answer: send nothing more for it."},
	{"left", true, func(s *ReplyContext) bool { return s.Left && !s.LeaveEvent },
		"You were asked to leave here and have left. Say nothing until somebody mentions you again."},
	{"claimed_by_other", false, func(s *ReplyContext) bool {
		return s.ClaimNeeded && !s.ClaimHeld &&
			s.ClaimOwner != ""
	},
		"Another agent has claimed this event and will answer it. Stay out; end your turn in silence."},
	{"event_closed", false, func(s *ReplyContext) bool { return s.Disposition.Final() },
		"The event is closed. Send nothing for it."},
	{"claim_needed", false, func(s *ReplyContext) bool { return s.ClaimNeeded && !s.ClaimHeld },
		"Several agents may see this event. Call chat.claim with its eventId first, and answer only if it is granted."},
	{"exchange_held", false, func(s *ReplyContext) bool {
		return s.Exchange == ExchangeHold ||
			s.Exchange == ExchangeEscalate
	},
		"Agents have exchanged many messages here without a person. A person was asked to decide; send nothing until " +
			"one writes."},
	{"nothing_new", false, func(s *ReplyContext) bool { return s.Repeats },
		"You have said nearly this before. Add something new or end your turn in silence."},
}

// PermitMessage returns why an agent may not send a message in response to an event. The zero
// Refusal means that it may.
func PermitMessage(s ReplyContext) Refusal { return permit(&s, false) }

// PermitReaction is PermitMessage for a signal. Signals promise and acknowledge. They need no
// claim and are allowed where a message is not, except on unknown, superseded and forbidden events and after leaving.
func PermitReaction(s ReplyContext) Refusal { return permit(&s, true) }

// permit returns the first refusal that applies to a message or a signal.
func permit(s *ReplyContext, signal bool) Refusal {
	for _, row := range refusals {
		if (row.signals || !signal) && row.when(s) {
			return Refusal{row.reason, row.advice}
		}
	}
	return Refusal{}
}

// silenceTexts are texts by which models express that they say nothing.
var silenceTexts = []string{
	"no reply", "no_reply", "noreply", "no response", "no_response", "stay silent", "remain silent", "staying silent",
	"heartbeat ok", "heartbeat_ok",
	"no action", "no action needed", "no response needed", "no reply needed", "no reply necessary",
	"no response necessary", "end turn",
	"end_turn", "do not respond", "must_not_respond", "must not respond", "not addressed to me",
}

// bracketedSilenceTexts mean silence only inside brackets. Otherwise each may be a short answer to a
// question.
var bracketedSilenceTexts = []string{
	"none", "nothing", "skip", "pass", "na", "n/a", "nil", "null", "ignore", "ignored", "empty",
}

// markedSilenceTexts mean silence inside brackets, asterisks, quotes or similar.
var markedSilenceTexts = []string{"silence", "silent", "no comment"}

// MeansSilence reports whether a text expresses silence: only space and punctuation without "!", or one of the
// known words. Such a text is not sent, unless it is an answer: see IsSilentSentence. Bold type and quotes do not
// turn a word such as "none" into silence, since they also emphasize an answer. Punctuation in code is an answer.
func MeansSilence(text string) bool {
	bare, inner := silenceWords(text)
	if inner == "" {
		isCode := strings.HasPrefix(bare, "`") && strings.Trim(bare, "` \n") != ""
		return !isCode && !strings.ContainsAny(bare, "!")
	}
	before, _, _ := strings.Cut(bare, inner)
	return slices.Contains(silenceTexts, inner) ||
		slices.Contains(bracketedSilenceTexts, inner) && strings.ContainsAny(before, "([{<") ||
		slices.Contains(markedSilenceTexts, inner) && (before != "" || isShouted(inner, text))
}

// IsSilentSentence reports whether a text that means silence may also be the answer to a question, such as
// "No action needed.": words of a sentence, and no marker for a program.
func IsSilentSentence(text string) bool {
	_, inner := silenceWords(text)
	return MeansSilence(text) && strings.Contains(inner, " ") && !strings.ContainsAny(text, "_()[]{}<>") &&
		text != strings.ToUpper(text)
}

// silenceWords returns a text in lower case without space around it, and its words without punctuation.
func silenceWords(text string) (bare, inner string) {
	bare = strings.ToLower(strings.Trim(text, " \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff"))
	return bare, strings.Trim(bare, " \t\r\n*_~`'\"()[]{}<>.,;:!-–—…/|#=")
}

// isShouted reports whether a word is in capitals, and so meant for a program: nobody answers a
// question with SILENT.
func isShouted(word, text string) bool {
	return (word == "silent" || word == "silence") && text == strings.ToUpper(text)
}

// Limits of an exchange between agents without a person.
const (
	ExchangeTotal  = 12          // messages of all agents, including the one that calls a person
	ExchangeLimit  = 10          // messages of all agents
	ExchangeWindow = time.Minute // within this time
	exchangeStuck  = 2           // consecutive messages by others that repeat themselves
)

// An Exchange is what agents said to each other since a person last wrote.
type Exchange struct {
	Sent      []time.Time // times of all messages, in order
	Received  []string    // the latest texts of the other agents, newest first
	Escalated bool        // a person has been called since
}

// An ExchangeAction says how to treat one more message of an exchange.
type ExchangeAction string

// The actions on a message of an exchange.
const (
	ExchangeAllow    ExchangeAction = "allow"    // send it
	ExchangeEscalate ExchangeAction = "escalate" // send an escalation instead, once
	ExchangeHold     ExchangeAction = "hold"     // send nothing until a person writes
)

// Next returns the action on one more message at a time. It allows at most ExchangeTotal messages
// in total and ExchangeLimit within ExchangeWindow, while the others say something new. Then it
// escalates once, and holds all messages until a person writes, which begins a new exchange.
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

// isStuck reports whether the other agents only repeat themselves.
func (x Exchange) isStuck() bool {
	for i := range exchangeStuck {
		if i >= len(x.Received) || !IsRepeat(x.Received[i], x.Received[i+1:]) {
			return false
		}
	}
	return true
}

// Two texts are similar if sameShare of their characters are equal. Only the first comparedRunes are compared.
const (
	sameShare     = 0.9
	comparedRunes = 600
)

// IsRepeat reports whether a text nearly repeats an earlier text of the same agent, apart from
// case and punctuation.
func IsRepeat(text string, earlier []string) bool {
	words := normalize(text)
	return words != "" && slices.ContainsFunc(earlier, func(e string) bool { return isSimilar(words, normalize(e)) })
}

// normalize returns the beginning of a text as plain words.
func normalize(text string) string {
	words := []rune(strings.Join(tokens(text), " "))
	return string(words[:min(len(words), comparedRunes)])
}

func isSimilar(a, b string) bool {
	longest := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	return float64(levenshtein.ComputeDistance(a, b)) <= (1-sameShare)*float64(longest)
}

// Limits for a forwarded text: the minimum share of the longer text that the other must have, and
// the minimum length of a part, in characters.
const (
	passedOnShare = 0.7
	passedOnPart  = 40
)

// IsForward reports whether a text passes on another one: nearly the same words, all of them with
// little added, or their beginning.
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
	return float64(shorter) >= sameShare*float64(longer) && isSimilar(a, b)
}
