package bridge

import (
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A CommandHelp describes a command for people.
type CommandHelp struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

// AgentCommand is the one command of Commands that agents handle: they know who may close what.
const AgentCommand = "close"

// Commands returns the commands of a bridge, and AgentCommand. Every other one goes to the agents.
func Commands(prefix string) []CommandHelp {
	return []CommandHelp{
		{"start", "Start, or continue after " + prefix + "stop"},
		{"help", "Show what this bot is and how to use it"},
		{"status", "Check that everything works"},
		{"agents", "List the agents in this chat"},
		{"work", "Assign, list or show work"},
		{"who", "List the agents that can be given work"},
		{"ask", "Ask an agent or a person: " + prefix + "ask @NAME QUESTION"},
		{"done", "Close finished work: " + prefix + "done ID"},
		{AgentCommand, "As a reply: mark what you asked for as answered"},
		{"stop", "Stop the agents in this chat"},
		{"halt", "Pause the agents' work here until " + prefix + "resume"},
		{"resume", "Let the agents continue after " + prefix + "halt"},
		{"pair", "Give this chat access with a one-time code"},
	}
}

// IsCommand reports whether a word without prefix is a command that bridges handle.
func IsCommand(word string) bool {
	return word != AgentCommand && slices.ContainsFunc(Commands(""), func(c CommandHelp) bool { return c.Command == word })
}

// A ChatView is what a bridge itself knows about a chat, for the messages that people write there.
type ChatView struct {
	Router   *Router
	ID       protocol.PeerID
	Bot      string         // name of the bot
	System   string         // the chat system, for people
	Replies  *outbox.Outbox // answers; their destination is the chat
	IsDirect bool
	Stopped  bool // by a person
}

// RunCommand runs the router's part of one of Commands, and returns the text to show. help has
// the commands that the command help lists, by is the name of the person who sent the command,
// and key identifies the message.
func (v *ChatView) RunCommand(tx *store.Tx, help []CommandHelp, command, by, key string) string {
	switch command {
	case "start":
		return startText(v.Router.opts.Prefix, v)
	case "status":
		return v.describe(tx, true)
	case "agents":
		return v.describe(tx, false)
	case "halt", "resume":
		return v.halt(tx, halts[command], by, key)
	case "pair":
		return "This chat already has access."
	}
	text := "Write as you would to a person; the agent of this chat answers. In a group, mention an agent with @name " +
		"or reply to one of its messages.\n"
	for _, c := range help {
		text += "\n" + v.Router.opts.Prefix + c.Command + " — " + c.Description
	}
	return text
}

// MakeStop turns a message into one that tells the chat's agents to stop, and reports whether it must be
// delivered: to the agents of the chat, or behind the messages that wait for one. It adds the agents' names
// to those that the message mentions, since in a group an agent stops only when it is named.
func (v *ChatView) MakeStop(tx *store.Tx, m *protocol.ChatMessage, names []string) (all []string, deliver bool) {
	m.Text, m.Priority, m.Signal = "stop", "urgent", protocol.SignalStop
	at := v.Router.Status(tx, v.ID)
	for _, a := range at.Agents {
		names = AppendUnique(names, a.Agent.Name())
	}
	if len(at.Agents) == 0 { // the bot's name means the agent that comes
		names = AppendUnique(names, strings.ToLower(v.Bot))
	}
	return names, len(at.Agents) > 0 || at.Waiting > 0
}

// NamesAgent reports whether names have that of the bot or of one of the chat's agents.
func (v *ChatView) NamesAgent(tx *store.Tx, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(name, v.Bot) || slices.ContainsFunc(v.Router.Agents(tx, v.ID),
			func(a Assignment) bool { return a.Agent.Name() == name })
	})
}

// LeadsElsewhere reports whether a person's message, which mentions names, begins with one that belongs
// neither to the bot nor to anybody else in the chat; see [Router.NamesOutsider].
func (v *ChatView) LeadsElsewhere(tx *store.Tx, m *protocol.ChatMessage, names []string) bool {
	return m.Event == protocol.EventMessage && m.Author.Kind == string(attention.AuthorHuman) &&
		slices.Contains(names, strings.ToLower(LeadingName(m.Text))) &&
		v.Router.NamesOutsider(tx, v.ID, m.Text, func(name string) bool { return strings.EqualFold(name, v.Bot) })
}

// describe lists the agents of the chat and, for the command status, what is waiting.
func (v *ChatView) describe(tx *store.Tx, status bool) string {
	at := v.Router.Status(tx, v.ID)
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
	if !status {
		return text
	}
	text += fmt.Sprintf("\n\nMessages waiting for an agent: %d\nAnswers waiting for %s: %d", at.Waiting, v.System,
		v.Replies.Count(tx, string(v.ID), outbox.StatePending, outbox.StateSending))
	if lost := v.Replies.Count(tx, string(v.ID), outbox.StateDead, outbox.StateUnknown); lost > 0 {
		text += fmt.Sprintf("\nAnswers that may not have arrived: %d", lost)
	}
	if at.Problem != "" && at.State != Assigned {
		text += "\nTrouble: " + at.Problem
	}
	if v.Stopped {
		text += "\nThis chat is stopped. Send " + v.Router.opts.Prefix + "start to continue."
	}
	return text
}

// halt halts the agents of the chat or resumes them, and returns the text to show. Each agent
// reports what it halted.
func (v *ChatView) halt(tx *store.Tx, halt, by, key string) string {
	n := v.Router.Halt(tx, v.ID, halt, by, key)
	switch {
	case n == 0:
		return "There is no agent in this chat."
	case halt == "on":
		return fmt.Sprintf("Told %s to stop working here until %sresume.", text.Counted(n, "agent"), v.Router.opts.Prefix)
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

// startText answers the command start.
func startText(prefix string, v *ChatView) string {
	how := "Write a message"
	switch {
	case v.Stopped:
		return "This chat is running again. The agents see your messages."
	case !v.IsDirect:
		how = "Mention me, or reply to one of my messages"
	}
	return "Hello! " + how + ", and an agent will answer. Send " + prefix + "help to learn more."
}
