package mx

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// prefix starts commands. Clients of Matrix keep "/" for themselves.
const prefix = "!"

// agentCommand is the one command that agents handle: they know who may close what.
const agentCommand = "close"

// commands are the commands of the bridge, and agentCommand, with their descriptions. Every other
// one goes to the agents.
var commands = []struct{ name, description string }{
	{"start", "Start, or continue after !stop"},
	{"help", "Show what this bot is and how to use it"},
	{"status", "Check that everything works"},
	{"agents", "List the agents in this room"},
	{"work", "Assign, list or show work"},
	{"who", "List the agents that can be given work"},
	{"ask", "Ask an agent or a person: !ask @NAME QUESTION"},
	{"done", "Close finished work: !done ID"},
	{agentCommand, "As a reply: mark what you asked for as answered"},
	{"stop", "Stop the agents in this room"},
	{"halt", "Pause the agents' work here until !resume"},
	{"resume", "Let the agents continue after !halt"},
	{"pair", "Give this room access with a one-time code"},
}

// parseCommand parses a command of the bridge. Any other command remains a message, and so does an
// !ask that names nobody else: it asks the chat's agent. Agents know their commands by "/".
func (h *parsedEvent) parseCommand(a *account) {
	line, found := strings.CutPrefix(h.data.Content.Text, prefix)
	if !found {
		return
	}
	line = strings.TrimLeft(line, " \t")
	end := strings.IndexFunc(line+" ", unicode.IsSpace)
	word, rest := strings.ToLower(line[:end]), strings.TrimSpace(line[end:])
	own := localpart(string(a.bot))
	if name := bridge.LeadingName(rest); word == "ask" && rest != "" && (name == "" || strings.EqualFold(name, own)) {
		h.data.Names = bridge.AppendUnique(h.data.Names, strings.ToLower(own))
		h.data.Content.Text = "/" + word + " " + rest
		return
	}
	if word == agentCommand {
		h.data.Content.Text = strings.TrimSpace("/" + word + " " + rest)
		return
	}
	known := slices.ContainsFunc(commands, func(c struct{ name, description string }) bool { return c.name == word })
	if known && !bridge.IsQuestion(word, rest) {
		h.command, h.arguments = word, rest
	}
}

// runCommand runs a command from an admitted chat.
func (in *ingester) runCommand(tx *store.Tx, c *chat, h *parsedEvent) {
	if verb, _ := bridge.ParseCommand(prefix, prefix+h.command); verb != "" {
		in.enqueueCommand(tx, c, h, verb, h.arguments)
		return
	}
	words := ""
	switch h.command {
	case "start":
		was := c.stopped
		if was {
			in.setStopped(tx, c, false)
		}
		words = bridge.StartText(prefix, was)
	case "stop":
		words = in.stopChat(tx, c, h)
	case "halt", "resume":
		words = in.router.RunHalt(tx, c.peer(), bridge.ParseHalt(prefix, prefix+h.command),
			in.nameOf(tx, c.room, h.sender), h.event)
	case "status":
		words = in.router.DescribeChat(tx, c.peer(), &bridge.ChatView{
			System:  "Matrix",
			Waiting: in.matrix.Count(tx, string(c.peer()), outbox.StatePending, outbox.StateSending),
			Lost:    in.matrix.Count(tx, string(c.peer()), outbox.StateDead, outbox.StateUnknown),
			Stopped: c.stopped,
		})
	case "agents":
		words = in.router.DescribeChat(tx, c.peer(), nil)
	case "pair":
		words = "This chat already has access."
	default:
		words = "Write as you would to a person; the agent of this room answers. In a room with others, mention an " +
			"agent with @name or reply to one of its messages.\n"
		for _, known := range commands {
			words += "\n- " + prefix + known.name + ": " + known.description
		}
	}
	in.notice(tx, c, h.thread, "command:"+h.event, words)
}

// stopChat tells the agents to stop. Until !start, the chat's messages then do not reach the
// agents, and the agents' replies are not shown.
func (in *ingester) stopChat(tx *store.Tx, c *chat, h *parsedEvent) string {
	if !c.stopped {
		if in.router.Status(tx, c.peer()).State == bridge.Assigned {
			h.data.Content.Text, h.data.Content.Priority, h.data.Content.Signal = "stop", "urgent", protocol.SignalStop
			in.storeEvent(tx, c, h)
		}
		in.setStopped(tx, c, true)
		return bridge.StopText(prefix, false)
	}
	return bridge.StopText(prefix, true)
}

// enqueueCommand queues a command for the broker. Its result is shown later.
func (in *ingester) enqueueCommand(tx *store.Tx, c *chat, h *parsedEvent, verb, words string) {
	o := &bridge.Command{
		Verb: verb, Text: words, By: peerOf(h.sender), Kind: "group", Title: c.title, Key: h.event, Thread: h.thread,
	}
	switch {
	case h.thread != "":
		o.Kind = "thread"
	case c.isDirect():
		o.Kind = "dm"
	}
	in.router.EnqueueCommand(tx, c.peer(), o)
}

// namesOutsider reports whether a person's message begins with the name of somebody who is
// neither in the chat nor a known person. It may be the name of an agent elsewhere.
func (in *ingester) namesOutsider(tx *store.Tx, c *chat, h *parsedEvent) bool {
	m := &h.data.Content
	return m.Event == protocol.EventMessage && m.Author.Kind == string(attention.AuthorHuman) &&
		slices.Contains(h.data.Names, strings.ToLower(bridge.LeadingName(m.Text))) &&
		in.router.NamesOutsider(tx, c.peer(), m.Text, func(name string) bool {
			return strings.EqualFold(name, localpart(string(in.bot)))
		})
}

// Post implements [bridge.CommandAdapter].
func (out *outbound) Post(tx *store.Tx, chat protocol.PeerID, thread, key, words string) {
	if c, refusal := out.find(tx, chat.Topic()); refusal == "" {
		out.notice(tx, c, thread, key, words)
	}
}

// People implements [bridge.CommandAdapter]: it returns the members of the chat with a name, or else
// those of any room.
func (out *outbound) People(tx *store.Tx, chat protocol.PeerID, name string) (list []protocol.PeerID) {
	for _, of := range []string{chat.Name(), ""} {
		for _, m := range store.All(tx, func(m *member) []any { return []any{&m.user, &m.name} },
			`SELECT DISTINCT user, name FROM members
			WHERE ?1 = '' OR room = (SELECT room FROM chats WHERE chat = ?1) ORDER BY user`, of) {
			if who := peerOf(m.user); m.isCalled(name) && m.user != string(out.bot) && !slices.Contains(list, who) {
				list = append(list, who)
			}
		}
		if len(list) > 0 {
			break
		}
	}
	return list
}

// DisplayName implements [bridge.CommandAdapter].
func (out *outbound) DisplayName(tx *store.Tx, person protocol.PeerID) string {
	if protocol.RoleOf(person) != protocol.RoleMX {
		return ""
	}
	return cmp.Or(store.Value[string](tx, `SELECT name FROM members WHERE user = ? AND name <> '' LIMIT 1`,
		person.Name()), "@"+localpart(person.Name()))
}
