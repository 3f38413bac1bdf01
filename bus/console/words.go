package console

import (
	"cmp"
	"encoding/json"
	"strings"

	"hubbub/activitylog/view"
	"hubbub/protocol"
)

// codeWords are everyday words for codes of the drafts and of the log. Pages show the words, and
// the codes as tooltips.
var codeWords = map[string]string{
	// To whom an event is directed.
	"to_me": "to it", "to_my_role": "to its role", "to_other": "to somebody else", "ambient": "to nobody",
	// What the policy lets an agent do.
	"must_respond": "must answer", "may_respond": "may answer", "must_not_respond": "must not answer",
	// How an event reaches a model.
	"immediate": "at once", "buffered": "in the next turn", "notify": "as a knock", "tool_mailbox": "on request only",
	// How an event ended.
	"responded": "answered", "acknowledged": "reacted", "ignored": "no answer", "superseded": "replaced",
	// Types of messages.
	"tg_message": "chat message", "chat_message": "chat message", "tg_reply": "reply", "chat_reply": "reply",
	"delivery_status": "delivery report", "agent_event": "agent's record", "configure": "introduction",
	"spawn_request": "request for an agent", "spawn_result": "result of starting an agent",
	"route_assigned": "assignment", "collab_request": "request to the broker", "collab_result": "broker's answer",
	"collab_event": "broker's event",
}

// wordsFor returns the words for a code.
func wordsFor(code string) string {
	return cmp.Or(codeWords[code], strings.NewReplacer("_", " ", ".", " ").Replace(strings.TrimPrefix(code, "collab.")))
}

// reasonWords returns the words for the reason of a record.
func reasonWords(reason string) string {
	return cmp.Or(view.DescribeReason(reason), wordsFor(reason))
}

// recordWords describes an agent's decision, or how an event ended. It returns "" for other
// messages.
func recordWords(kind string, payload []byte) string {
	var m struct{ Content json.RawMessage }
	if kind != string(protocol.TypeAgentEvent) || json.Unmarshal(payload, &m) != nil {
		return ""
	}
	r, err := protocol.ParseRecord(m.Content)
	if err != nil {
		return ""
	}
	words := ""
	switch c := r.Content.(type) {
	case *protocol.AttentionDecision:
		words = wordsFor(c.Policy) + ", " + wordsFor(c.Injection)
	case *protocol.Disposition:
		words = wordsFor(c.Disposition)
	default:
		return ""
	}
	if why := reasonWords(r.Reason); why != "" && why != words {
		words += ": " + why
	}
	return words
}

// Outcome describes what an agent did about an event, to follow the agent's name.
func (e *eventAt) Outcome() string {
	switch {
	case e.End.Disposition != "":
		return map[string]string{
			"responded": "answered", "acknowledged": "reacted", "ignored": "did not answer", "deferred": "puts it off",
			"claimed": "took it", "superseded": "skipped it for a newer one", "failed": "failed",
		}[e.End.Disposition]
	case !e.Decided():
		return "has not decided"
	case e.Turn.Event != "":
		return "is working on it"
	}
	return wordsFor(e.Decision.Policy)
}
