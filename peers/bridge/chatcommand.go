package bridge

import (
	"fmt"

	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A ChatView is what a bridge itself knows about a chat, for [Router.DescribeChat].
type ChatView struct {
	System  string // the chat system, for people
	Waiting int    // answers that have not been sent
	Lost    int    // answers that may not have arrived
	Stopped bool   // by a person
}

// DescribeChat lists the agents of a chat and, with a view, what is waiting.
func (r *Router) DescribeChat(tx *store.Tx, chat protocol.PeerID, v *ChatView) string {
	at := r.Status(tx, chat)
	text := "There is no agent yet. Your first message starts one."
	if len(at.Agents) > 0 {
		text = "Agents of this chat:"
	}
	for _, a := range at.Agents {
		state := "ready"
		if !a.Configured {
			state = "not reached yet"
		}
		text += fmt.Sprintf("\n• @%s, %s", a.Agent.Name(), state)
	}
	if v == nil {
		return text
	}
	text += fmt.Sprintf("\n\nMessages waiting for an agent: %d\nAnswers waiting for %s: %d", at.Waiting, v.System,
		v.Waiting)
	if v.Lost > 0 {
		text += fmt.Sprintf("\nAnswers that may not have arrived: %d", v.Lost)
	}
	if at.Problem != "" && at.State != Assigned {
		text += "\nTrouble: " + at.Problem
	}
	if v.Stopped {
		text += "\nThis chat is stopped. Send " + r.opts.Prefix + "start to continue."
	}
	return text
}

// RunHalt halts the agents of a chat or resumes them, as [ParseHalt] understood it, and returns
// the text to show. Each agent reports what it halted.
func (r *Router) RunHalt(tx *store.Tx, chat protocol.PeerID, halt, by, key string) string {
	n := r.Halt(tx, chat, halt, by, key)
	switch {
	case n == 0:
		return "There is no agent in this chat."
	case halt == "on":
		return fmt.Sprintf("Told %s to stop working here until %sresume.", text.Counted(n, "agent"), r.opts.Prefix)
	default:
		return fmt.Sprintf("Told %s to continue.", text.Counted(n, "agent"))
	}
}

// StopText answers the command stop.
func StopText(prefix string, already bool) string {
	if already {
		return "This chat is already stopped. Send " + prefix + "start to continue."
	}
	return "Stopped. The agents don't see messages from here and don't answer until you send " + prefix +
		"start."
}

// StoppedText is the notice, shown once a day, that the agents do not see the
// messages of a stopped chat.
func StoppedText(prefix string) string {
	return "This chat is stopped, so the agents don't see your message. Send " + prefix +
		"start to continue."
}

// StartText answers the command start.
func StartText(prefix string, wasStopped bool) string {
	if wasStopped {
		return "This chat is running again. The agents see your messages."
	}
	return "Hello! Write a message, and an agent will answer. Send " + prefix + "help to learn more."
}
