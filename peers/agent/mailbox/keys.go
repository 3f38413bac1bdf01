package mailbox

import (
	"strings"

	"hubbub/peers/attention"
)

// Prefixes of the keys of a decision's question in a chat, and of the message with its outcome.
const (
	DecisionPrefix = "decision:"
	DecidedPrefix  = "decided:"
)

// Prefixes of the keys of a question with choices, and of the message that replaces it after a
// choice.
const (
	choicePrefix = "choice:"
	ChosenPrefix = "chosen:"
)

// ChoiceKey is the key of the question with choices that answers an event.
func ChoiceKey(e *Entry) string { return choicePrefix + e.EventID }

// Prefixes of the keys of a question to a person, and of the message that replaces it.
const (
	QuestionPrefix = "question:"
	repliedPrefix  = "replied:"
)

const (
	ReturnPrefix     = "return:"     // prefix of the ids of returns
	ObligationPrefix = "obligation:" // prefix of the keys of messages that show an escalation
)

// NoticeNobody notifies an author that there is nobody to escalate to.
const NoticeNobody = "nobody_above"

// ReasonHalted is the reason of turns that a halt stopped or did not let start.
const ReasonHalted = "halted"

// ReasonChatStopped is the reason of events and turns that ended because a person
// stopped their chat.
const ReasonChatStopped = "the chat was stopped"

// Kinds of notices.
const (
	NoticeFailed     = "failed"
	NoticeEscalation = "escalation"
	NoticeUnclear    = "unclear" // asks an author what a message means
)

// IsNoAnswerNotice reports whether a key belongs to a notice that an event gets no answer.
func IsNoAnswerNotice(key string) bool {
	return strings.HasPrefix(key, NoticeFailed+":") || strings.HasPrefix(key, "budget_") ||
		strings.HasPrefix(key, ReasonHalted+":")
}

// IsEscalationNotice reports whether a key belongs to a notice that calls a person into an
// exchange.
func IsEscalationNotice(key string) bool { return strings.HasPrefix(key, NoticeEscalation+":") }

// ReplyKey is the default key of the answer to an event.
func ReplyKey(e *Entry) string { return e.EventID + ":reply" }

// interimKey is the prefix of the keys of interim messages.
const interimKey = "interim:"

// InterimKey is the key of the interim message of an event.
func InterimKey(e *Entry) string { return interimKey + e.EventID }

// SignalKey is the key of a signal about an event.
func SignalKey(e *Entry, signal attention.Signal) string {
	return "react:" + e.EventID + ":" + string(signal)
}

// ReservedKey reports whether the agent itself uses keys like this. A model must not choose such
// a key.
func ReservedKey(key string, e *Entry) bool {
	if e != nil && (key == ReplyKey(e) || key == secondReplyKey(e)) {
		return false
	}
	return strings.HasSuffix(key, ":reply") || strings.HasPrefix(key, "react:") || strings.HasPrefix(key, "file:") ||
		strings.HasPrefix(key, PostKey) ||
		strings.HasPrefix(key, NoticeFailed+":") || strings.HasPrefix(key, NoticeEscalation+":") ||
		strings.HasPrefix(key, NoticeUnclear+":") || strings.HasPrefix(key, "budget_") ||
		strings.HasPrefix(key, ReasonHalted+":") || strings.HasPrefix(key, DecisionPrefix) ||
		strings.HasPrefix(key, DecidedPrefix) ||
		strings.HasPrefix(key, interimKey) || strings.HasPrefix(key, choicePrefix) ||
		strings.HasPrefix(key, QuestionPrefix) || strings.HasPrefix(key, repliedPrefix) ||
		strings.HasPrefix(key, ObligationPrefix) || strings.HasPrefix(key, NoticeNobody+":") ||
		strings.HasPrefix(key, ChosenPrefix)
}

// BrokerReplyPrefix begins the outbox keys of answers to the broker, which settle events. Other
// requests to the broker settle nothing.
const BrokerReplyPrefix = "reply:"

func secondReplyKey(e *Entry) string { return e.EventID + ":again:reply" }

// PostKey begins the keys of messages that the agent sends without an event.
const PostKey = "post:"
