package activitylog

import "strings"

// reasonWords describe each reason that an attention record may carry. Those with a
// + are added to another reason.
var reasonWords = map[string]string{
	"acknowledgement":       "it is only thanks",
	"addressed_to_other":    "somebody else is addressed",
	"agent_without_task":    "an agent said it, to nobody in particular",
	"ambient":               "nobody in particular is addressed",
	"answer":                "it answers a question that the agent asked",
	"approval":              "the agent is asked for its approval",
	"asked_to_leave":        "the agent is asked to leave",
	"assignment":            "work was given to the agent",
	"blocker":               "work of the agent is blocked",
	"deleted":               "the message was deleted",
	"direct_message":        "it was written to the agent alone",
	"direct_question":       "it answers what the agent said",
	"left":                  "the agent has left this conversation",
	"membership":            "somebody came or went",
	"mention":               "the agent is mentioned",
	"own_message":           "the agent said it itself",
	"owned_stream":          "it is in a stream that the agent owns",
	"owned_thread":          "it is in a thread that the agent began",
	"reaction":              "somebody reacted to what the agent said",
	"reaction_asks":         "somebody's reaction to what the agent said asks for more",
	"reaction_elsewhere":    "somebody reacted to what another said",
	"reaction_removed":      "a reaction was taken back",
	"reaction_proceeds":     "a person agrees to what the agent asked: it may go on",
	"told_nobody":           "an agent said it for information, and says that it obliges nobody",
	"told_role":             "an agent said it to whoever of the others takes it up",
	"role_mention":          "a role that the agent has is mentioned",
	"status":                "it only tells how work goes on",
	"repeated":              "an agent said the same again, and had a turn for it",
	"stop_pressed":          "a person stopped the work on their message",
	"stop_word":             "it tells the agent to stop",
	"thread_participant":    "it is in a thread in which the agent takes part",
	"work_of_another":       "the work is somebody else's",
	"claim_granted":         "the agent was the first to claim it",
	"edited_after_response": "it was edited after the agent had answered",
	"already_answered":      "the agent has answered it already",
	"ack_only":              "a message is too much for it; a reaction would do",
	"budget_author_turns":   "its author has had as many turns within a day as the budget allows",
	"budget_chat_turns":     "its chat has had as many turns within a day as the budget allows",
	"budget_chat_tokens":    "turns of its chat took as many tokens within a day as the budget allows",
	"budget_turns":          "the agent has had as many turns within a day as its budget allows",
	"budget_tokens":         "the agent's turns took as many tokens within a day as its budget allows",
	"budget_posts":          "the agent has spoken first there as often within a day as its budget allows",
	"cancelled":             "the turn was cancelled",
	"claim_needed":          "several agents see it, and the agent has no claim on it",
	"chosen_before":         "somebody chose before",
	"claimed_by_other":      "another agent has claimed it",
	"deadline":              "nothing came of it in time",
	"deferred_too_often":    "it was put off too often",
	"digest":                "it came in a digest",
	"digest_with_mention":   "it came in a digest, and the agent is mentioned",
	"event_closed":          "the event has ended",
	"exchange_escalated":    "two agents have said much without a person, and one was called",
	"exchange_held":         "two agents have said much without a person, who is waited for",
	"exchange_limit":        "two agents have said much without a person",
	"halted":                "somebody halted its chat, or the agent",
	"interim_sent":          "its one word on the way to the answer was sent already",
	"invalid":               "what the agent asked for is not valid",
	"key_reused":            "its key belongs to another message",
	"must_not_respond":      "it is not for the agent to answer",
	"not_decided":           "who tried may not decide this, or it is decided",
	"no_files":              "its chat shows no files",
	"no_first_word":         "in its channel only messages are answered",
	"not_assigned":          "the agent is not assigned to that chat",
	"no_conversation":       "it belongs to no conversation",
	"not_for_people":        "the text held only thoughts, a tool call or a copy of the prompt",
	"nothing_new":           "the agent has said exactly this before",
	"other_chat":            "it is in another chat",
	"outbox_full":           "too many messages wait to be sent",
	"policy":                "the policy of the event forbids it",
	"silence":               "the text means silence",
	"superseded":            "it was edited, deleted or merged into a newer one",
	"too_many_files":        "the agent has sent as many files for it as it may",
	"unavailable":           "the broker could not be asked",
	"unknown_event":         "there is no such event",
	"unknown_turn":          "there is no such turn",
	"which_event":           "it could mean several open events",
	"wrong_target":          "it is addressed to another chat",
	"unanswered":            "the agent must answer it, and cannot",
	"+lead_asked":           "its lead was asked, and gave no answer",
	"+lead_itself":          "its lead is the agent itself",
	"+lead_waits":           "its lead is who waits for the answer",
	"+lead_unreached":       "its lead cannot be asked: there is no broker, and they write in no chat of the agent",
	"+lead_busy":            "its lead has as many such questions as one may have",
	"+owner_asked":          "the owner was asked, and gave no answer",
	"+owner_itself":         "the owner is the agent itself",
	"+owner_waits":          "the owner is who waits for the answer",
	"+owner_unreached":      "the owner cannot be asked: there is no broker, and they write in no chat of the agent",
	"+owner_busy":           "the owner has as many such questions as one may have",
	"+person_asked":         "the person to be called was asked, and gave no answer",
	"+person_itself":        "the person to be called is the agent itself",
	"+person_waits":         "the person to be called is who waits for the answer",
	"+person_unreached":     "the person to be called cannot be asked: there is no broker, and they write in no chat of the agent",
	"+person_busy":          "the person to be called has as many such questions as one may have",
	"+returned":             "which brings the agent back",
	"+quoted":               "all of it is quoted or forwarded: words of others",
	"+stale":                "too long ago to owe an answer",
	"+no_immediate":         "its harness cannot be interrupted",
	"+no_buffered":          "its harness takes no messages",
	"+no_notify":            "its harness takes no knocks",
	"+no_digest":            "its harness takes no digests",
}

// ReasonInWords describes the reason of an attention record. It returns nothing if the
// reason is in words already, or unknown.
func ReasonInWords(reason string) string {
	name, more, weighed := strings.Cut(reason, "+")
	words := reasonWords[name]
	for weighed && words != "" {
		name, more, weighed = strings.Cut(more, "+")
		also := reasonWords["+"+name]
		if also == "" {
			return ""
		}
		words += ", " + also
	}
	return words
}
