package mx

import (
	"cmp"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// prefix starts commands. Clients of Matrix keep "/" for themselves. Chinese and Japanese keyboards write
// widePrefix.
const (
	prefix     = "!"
	widePrefix = "！"
)

// parseCommand parses a command of the bridge. Any other command remains a message. An !ask that names nobody
// else, and words after a command that takes none, are for the chat's agent. Agents know their commands by "/".
func (h *parsedEvent) parseCommand(a *account) {
	line, found := strings.CutPrefix(h.data.Content.Text, prefix)
	if !found {
		line, found = strings.CutPrefix(h.data.Content.Text, widePrefix)
	}
	if !found {
		return
	}
	word, rest := bridge.SplitCommand(strings.TrimLeft(line, " \t"))
	own := localpart(string(a.bot))
	if name := bridge.LeadingName(rest); word == "ask" && rest != "" && (name == "" || strings.EqualFold(name, own)) {
		h.data.Names = bridge.AppendUnique(h.data.Names, strings.ToLower(own))
		h.data.Content.Text = "/" + word + " " + rest
		return
	}
	if word == bridge.AgentCommand {
		h.data.Content.Text = strings.TrimSpace("/" + word + " " + rest)
		return
	}
	if bridge.IsCommand(word) {
		h.command, h.arguments = word, rest
	}
	if h.isQuestion() {
		h.data.Names = bridge.AppendUnique(h.data.Names, strings.ToLower(own))
	}
}

// isQuestion reports whether a command has words that make it a message for the agents.
func (h *parsedEvent) isQuestion() bool { return bridge.IsQuestion(h.command, h.arguments) }

// runCommand runs a command from an admitted chat.
func (in *ingester) runCommand(tx *store.Tx, c *chat, h *parsedEvent) {
	if verb, _ := bridge.ParseCommand(prefix, prefix+h.command); verb != "" {
		in.enqueueCommand(tx, c, h, verb, h.arguments)
		return
	}
	words, wasStopped := "", c.stopped
	if h.command == "stop" {
		words = bridge.StopText(prefix, c.stopped)
		names, deliver := in.view(c).MakeStop(tx, &h.data.Content, h.data.Names)
		if h.data.Names = names; deliver && !c.stopped {
			in.storeEvent(tx, c, h)
		}
	} else {
		words = in.view(c).RunCommand(tx, bridge.Commands(prefix), h.command, in.nameOf(tx, c.room, h.sender),
			h.event)
	}
	// Until !start, the chat's messages do not reach the agents, and their replies are not shown.
	if c.stopped = h.command == "stop" || c.stopped && h.command != "start"; c.stopped != wasStopped {
		in.save(tx, c)
	}
	in.notice(tx, c, h.thread, "command:"+h.event, words)
}

// view returns what the bridge knows about a chat.
func (out *outbound) view(c *chat) *bridge.ChatView {
	return &bridge.ChatView{
		Router: out.router, ID: c.peer(), Bot: localpart(string(out.bot)), System: "Matrix", Replies: out.matrix,
		IsDirect: c.isDirect(), Stopped: c.stopped,
	}
}

// enqueueCommand queues a command for the broker. Its result is shown later.
func (in *ingester) enqueueCommand(tx *store.Tx, c *chat, h *parsedEvent, verb, words string) {
	in.router.EnqueueCommand(tx, c.peer(), &bridge.Command{
		Verb: verb, Text: words, By: peerOf(h.sender), Kind: bridge.KindOf(c.isDirect()), Title: c.title, Key: h.event,
		Thread: h.thread,
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
	c, _ := out.load(tx, chat.Name())
	users := out.called(tx, cmp.Or(c.room, chat.Name()), name)
	if len(users) == 0 {
		users = out.called(tx, "", name)
	}
	for _, user := range users {
		list = append(list, peerOf(string(user)))
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
