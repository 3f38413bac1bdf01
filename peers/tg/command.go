package tg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxMenu is Telegram's limit for the commands of a menu.
const maxMenu = 100

var commandName = text.Pattern(`^[a-z0-9_]{1,32}$`)

// ParseMenu parses commands for the menu, such as "ask=Ask the agent". A command of the bridge
// gets another description this way.
func ParseMenu(list []string) (menu []bridge.CommandHelp, err error) {
	for _, given := range list {
		name, description, _ := strings.Cut(given, "=")
		switch description = strings.TrimSpace(description); {
		case !commandName().MatchString(name):
			return nil, fmt.Errorf("%q does not begin with a command of 1 to 32 letters a to z, digits and "+
				"underscores, as in \"ask=Ask the agent\"", given)
		case description == "" || utf8.RuneCountInString(description) > 256 || !text.IsCleanLine(description):
			return nil, fmt.Errorf("%q needs a description of 1 to 256 characters after the =, in one line", given)
		case slices.ContainsFunc(menu, func(c bridge.CommandHelp) bool { return c.Command == name }):
			return nil, fmt.Errorf("%q is given twice", name)
		}
		menu = append(menu, bridge.CommandHelp{Command: name, Description: description})
	}
	if n := len(fullMenu(menu)); n > maxMenu {
		return nil, fmt.Errorf("the menu would have %d commands; Telegram accepts %d", n, maxMenu)
	}
	return menu, nil
}

// fullMenu returns a menu with the bridge's own commands first. Those of Options.Menu go to the agent.
func fullMenu(menu []bridge.CommandHelp) []bridge.CommandHelp {
	all := bridge.Commands("/")
	for _, c := range menu {
		if i := slices.IndexFunc(all, func(own bridge.CommandHelp) bool { return own.Command == c.Command }); i >= 0 {
			all[i] = c
		} else {
			all = append(all, c)
		}
	}
	return all
}

// businessConnected is the command of an update about a business account. Nobody can type it.
const businessConnected = "a business account was connected"

// runCommand runs a command from an admitted chat.
func (in *ingester) runCommand(tx *store.Tx, c *chat, u *parsedUpdate) {
	in.noteFiles(tx, c, u)
	key := fmt.Sprintf("%d:%d", u.chat.ID, u.message)
	text := ""
	if verb, _ := bridge.ParseCommand("/", u.command); verb != "" {
		if text = in.enqueueCommand(tx, c, u, verb, u.arguments); text != "" {
			in.notice(tx, c, u.thread, "command:"+key, text)
		}
		return
	}
	switch u.command {
	case "/stop":
		text = in.stopChat(tx, c, u)
	case businessConnected:
		text = "I don't work in the chats of a business account. Remove me there (Settings, Telegram Business, " +
			"Chatbots), " +
			"then write to me here or add me to a group."
	default:
		by := cmp.Or(u.author.DisplayName, u.author.Username, u.author.ID, "somebody")
		text = in.view(c).RunCommand(tx, fullMenu(in.opts.Menu), u.command[1:], by, key)
	}
	switch {
	case u.command == "/start" && c.isStopped():
		in.setStopped(tx, c, false)
	case u.command == "/pair" && u.arguments == "" && c.isDirect():
		text += " To give a group access, add the bot to it and send /pair CODE there."
	}
	in.notice(tx, c, u.thread, "command:"+key, text)
}

// view returns what the bridge knows about a chat.
func (out *outbound) view(c *chat) *bridge.ChatView {
	return &bridge.ChatView{
		Router: out.router, ID: peerOf(c.key), Bot: out.me.Username, System: "Telegram", Replies: out.telegram,
		IsDirect: c.isDirect(), Stopped: c.isStopped(),
	}
}

// noteFiles says in the chat that the files of a command are not kept.
func (in *ingester) noteFiles(tx *store.Tx, c *chat, u *parsedUpdate) {
	if len(u.files.own) == 0 {
		return
	}
	were, them := strings.ReplaceAll(u.files.own[0].Kind, "_", " ")+" was", "it"
	if u.album != "" {
		were, them = "files were", "them"
	}
	in.notice(tx, c, u.thread, fmt.Sprintf("files:%d:%d", u.chat.ID, u.message), fmt.Sprintf(
		"%s takes only text, so the %s not passed on with it. To show %s to an agent, send %[3]s as a message.",
		u.command, were, them))
}

// isForAgents reports whether a message in a group is addressed to the bot or to one of its agents.
func (in *ingester) isForAgents(tx *store.Tx, c *chat, u *parsedUpdate) bool {
	if u.data.Content.Event != protocol.EventMessage {
		return false
	}
	return u.data.ReplyToBot || in.view(c).NamesAgent(tx, u.data.Names)
}

// noteStopped says that a stopped chat does not answer: once a day, and once after each stop.
func (in *ingester) noteStopped(tx *store.Tx, c *chat, u *parsedUpdate) {
	if c.isDirect() || in.isForAgents(tx, c, u) {
		in.notice(tx, c, u.thread, fmt.Sprintf("stopped:%d:%s", c.stopped, bridge.Today()), bridge.StoppedText("/"))
	}
}

// stopChat tells the agents to stop. Until /start, the chat's messages then do not reach the
// agents, and the agents' replies are not shown.
func (in *ingester) stopChat(tx *store.Tx, c *chat, u *parsedUpdate) string {
	if c.isStopped() {
		return bridge.StopText("/", true)
	}
	names, deliver := in.view(c).MakeStop(tx, &u.data.Content, u.data.Names)
	if u.data.Names = names; deliver {
		in.storeEvent(tx, c, u)
	}
	in.setStopped(tx, c, true)
	in.closeQuestions(tx, c)
	return bridge.StopText("/", false)
}

// publishMenu gives Telegram the menu, unless it already has it: Telegram allows few of these
// calls.
func (in *ingester) publishMenu(ctx context.Context) error {
	commands := fullMenu(in.opts.Menu)
	hash := digest(string(mustJSON(commands)))
	published, err := store.Read(ctx, in.db, func(tx *store.Tx) string { return in.botColumn(tx, "commands") })
	if err == nil && published == hash { // after an error the menu is published again
		return nil
	}
	if err := in.call(ctx, "setMyCommands", map[string]any{"commands": commands}, nil); err != nil {
		in.log.Warn().Err(err).Msg("menu not accepted by Telegram; the commands work without it")
		return nil
	}
	err = store.Exec(ctx, in.db, `UPDATE bots SET commands = ? WHERE bot = ?`, hash, in.bot)
	if err != nil {
		in.log.Warn().Err(err).Msg("storing the hash of the menu failed")
	}
	return nil
}
