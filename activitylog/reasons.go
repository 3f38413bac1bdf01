package activitylog

import "strings"

// reasonWords say in words what the rules of the agents' attention found; what
// follows a + weighed in as well.
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
	"role_mention":          "a role that the agent has is mentioned",
	"status":                "it only tells how work goes on",
	"stop_word":             "it tells the agent to stop",
	"thread_participant":    "it is in a thread in which the agent takes part",
	"work_of_another":       "the work is somebody else's",
	"claim_granted":         "the agent was the first to claim it",
	"edited_after_response": "it was edited after the agent had answered",
	"+returned":             "which brings the agent back",
	"+stale":                "too long ago to owe an answer",
	"+no_immediate":         "its harness cannot be interrupted",
	"+no_buffered":          "its harness takes no messages",
	"+no_notify":            "its harness takes no knocks",
	"+no_digest":            "its harness takes no digests",
}

// ReasonInWords says what the reason of an attention record means, or nothing
// where it is in words already, or unknown.
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
