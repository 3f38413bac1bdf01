package tg

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// agentCommand is the one command in the menu that agents handle: they know who may close what.
const agentCommand = "/close"

// bridgeCommands are the commands of the menu. The bridge handles all of them except
// agentCommand. Every other command goes to the agent, including those of Options.Menu.
var bridgeCommands = []models.BotCommand{
	{Command: "start", Description: "Start, or continue after /stop"},
	{Command: "help", Description: "Show what this bot is and how to use it"},
	{Command: "status", Description: "Check that everything works"},
	{Command: "agents", Description: "List the agents in this chat"},
	{Command: "work", Description: "Assign, list or show work"},
	{Command: "who", Description: "List the agents that can be given work"},
	{Command: "ask", Description: "Ask an agent or a person: /ask @NAME QUESTION"},
	{Command: "done", Description: "Close finished work: /done ID"},
	{Command: "close", Description: "As a reply: mark what you asked for as answered"},
	{Command: "stop", Description: "Stop the agents in this chat"},
	{Command: "halt", Description: "Pause the agents' work here until /resume"},
	{Command: "resume", Description: "Let the agents continue after /halt"},
	{Command: "pair", Description: "Give this chat access with a one-time code"},
}

// maxMenu is Telegram's limit for the commands of a menu.
const maxMenu = 100

var commandName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// ParseMenu parses commands for the menu, such as "ask=Ask the agent". A command of the bridge
// gets another description this way.
func ParseMenu(list []string) (menu []models.BotCommand, err error) {
	for _, given := range list {
		name, description, _ := strings.Cut(given, "=")
		switch description = strings.TrimSpace(description); {
		case !commandName.MatchString(name):
			return nil, fmt.Errorf("%q does not begin with a command of 1 to 32 letters a to z, digits and "+
				"underscores, as in \"ask=Ask the agent\"", given)
		case description == "" || utf8.RuneCountInString(description) > 256 || !text.IsCleanName(description):
			return nil, fmt.Errorf("%q needs a description of 1 to 256 characters after the =, in one line", given)
		case slices.ContainsFunc(menu, func(c models.BotCommand) bool { return c.Command == name }):
			return nil, fmt.Errorf("%q is given twice", name)
		}
		menu = append(menu, models.BotCommand{Command: name, Description: description})
	}
	if n := len(fullMenu(menu)); n > maxMenu {
		return nil, fmt.Errorf("the menu would have %d commands; Telegram accepts %d", n, maxMenu)
	}
	return menu, nil
}

// fullMenu returns a menu with the bridge's own commands first.
func fullMenu(menu []models.BotCommand) []models.BotCommand {
	all := slices.Clone(bridgeCommands)
	for _, c := range menu {
		if i := slices.IndexFunc(all, func(own models.BotCommand) bool { return own.Command == c.Command }); i >= 0 {
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
	text := "This chat already has access."
	in.noteFiles(tx, c, u)
	if verb, _ := bridge.ParseCommand("/", u.command); verb != "" {
		if text = in.enqueueCommand(tx, c, u, verb, u.arguments); text == "" {
			return
		}
	}
	switch u.command {
	case "/work", "/who", "/ask", "/done":
	case "/start":
		text = in.startChat(tx, c)
	case "/stop":
		text = in.stopChat(tx, c, u)
	case "/halt", "/resume":
		by := cmp.Or(u.author.DisplayName, u.author.Username, u.author.ID, "somebody")
		text = in.router.RunHalt(tx, peerOf(c.key), bridge.ParseHalt("/", u.command), by,
			fmt.Sprintf("%d:%d", u.chat.ID, u.message))
	case "/status":
		text = in.describeChat(tx, c, true)
	case "/agents":
		text = in.describeChat(tx, c, false)
	case "/pair":
		if u.arguments == "" && c.isDirect() {
			text += " To give a group access, add the bot to it and send /pair CODE there."
		}
	case businessConnected:
		text = "I don't work in the chats of a business account. Remove me there (Settings, Telegram Business, " +
			"Chatbots), " +
			"then write to me here or add me to a group."
	default:
		text = "Write as you would to a person; the agent of this chat answers. In a group, mention an agent with " +
			"@name or reply to one of its messages.\n"
		for _, known := range fullMenu(in.opts.Menu) {
			text += "\n/" + known.Command + " — " + known.Description
		}
	}
	in.notice(tx, c, u.thread, fmt.Sprintf("command:%d:%d", u.chat.ID, u.message), text)
}

// noteFiles says in the chat that the files of a command are not kept.
func (in *ingester) noteFiles(tx *store.Tx, c *chat, u *parsedUpdate) {
	if len(u.files.own) > 0 {
		in.notice(tx, c, u.thread, fmt.Sprintf("files:%d:%d", u.chat.ID, u.message), fmt.Sprintf(
			"%s takes only text, so the %s was not passed on with it. To show it to an agent, send it as a message.",
			u.command, strings.ReplaceAll(u.files.own[0].Kind, "_", " ")))
	}
}

// isForAgents reports whether a message in a group is addressed to the bot or to one of its agents.
func (in *ingester) isForAgents(tx *store.Tx, c *chat, u *parsedUpdate) bool {
	if u.data.Content.Event != protocol.EventMessage {
		return false
	}
	return u.data.ReplyToBot || slices.Contains(u.data.Names, strings.ToLower(in.me.Username)) ||
		slices.ContainsFunc(in.chatStatus(tx, c).Agents, func(a bridge.Assignment) bool {
			return slices.Contains(u.data.Names, a.Agent.Name())
		})
}

// noteStopped says that a stopped chat does not answer: once a day, and once after each stop.
func (in *ingester) noteStopped(tx *store.Tx, c *chat, u *parsedUpdate) {
	if c.isDirect() || in.isForAgents(tx, c, u) {
		in.notice(tx, c, u.thread, fmt.Sprintf("stopped:%d:%s", c.stopped, bridge.Today()), bridge.StoppedText("/"))
	}
}

func (in *ingester) startChat(tx *store.Tx, c *chat) string {
	was := c.isStopped()
	if was {
		in.setStopped(tx, c, false)
	}
	return bridge.StartText("/", was)
}

// stopChat tells the agents to stop. Until /start, the chat's messages then do not reach the
// agents, and the agents' replies are not shown.
func (in *ingester) stopChat(tx *store.Tx, c *chat, u *parsedUpdate) string {
	if c.isStopped() {
		return bridge.StopText("/", true)
	}
	if at := in.chatStatus(tx, c); at.State == bridge.Assigned {
		u.data.Content.Text, u.data.Content.Priority, u.data.Content.Signal = "stop", "urgent", protocol.SignalStop
		for _, a := range at.Agents { // in a group, a word for nobody stops nobody
			u.data.Names = bridge.AppendUnique(u.data.Names, a.Agent.Name())
		}
		in.storeEvent(tx, c, u)
	}
	in.setStopped(tx, c, true)
	in.closeQuestions(tx, c)
	return bridge.StopText("/", false)
}

// describeChat lists the agents of a chat and, for /status, what is waiting.
func (in *ingester) describeChat(tx *store.Tx, c *chat, status bool) string {
	if !status {
		return in.router.DescribeChat(tx, peerOf(c.key), nil)
	}
	return in.router.DescribeChat(tx, peerOf(c.key), &bridge.ChatView{
		System:  "Telegram",
		Waiting: in.countReplies(tx, c, outbox.StatePending, outbox.StateSending),
		Lost:    in.countReplies(tx, c, outbox.StateDead, outbox.StateUnknown),
		Stopped: c.isStopped(),
	})
}

// chatStatus returns the router's status of a chat.
func (in *ingester) chatStatus(tx *store.Tx, c *chat) bridge.ChatStatus {
	return in.router.Status(tx, peerOf(c.key))
}

// countReplies returns the number of replies to a chat that are in the given states.
func (out *outbound) countReplies(tx *store.Tx, c *chat, states ...outbox.State) int {
	return out.telegram.Count(tx, string(topicOf(c.key)), states...)
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
	err = store.Autocommit(ctx, in.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE bots SET commands = ? WHERE bot = ?`, hash, in.bot)
	})
	if err != nil {
		in.log.Warn().Err(err).Msg("storing the hash of the menu failed")
	}
	return nil
}
