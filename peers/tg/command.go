package tg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"

	"github.com/go-telegram/bot/models"
)

// commands are the bridge's own, with what Telegram's menu says about them.
// Everything else that begins with a slash goes to the agent.
var commands = map[string]string{
	"/start":  "Begin, or go on after /stop",
	"/help":   "What this bot is and how to use it",
	"/status": "Whether everything works",
	"/agents": "Who answers in this chat",
	"/stop":   "Stop the agents in this chat",
	"/pair":   "Let this chat in with a one-time code",
}

// menu is the order in which Telegram shows the commands.
var menu = []string{"/start", "/help", "/status", "/agents", "/stop", "/pair"}

// obey carries out a command of somebody who is admitted.
func (in *intake) obey(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	var text string
	var err error
	switch h.command {
	case "/start":
		text, err = in.startChat(ctx, tx, c)
	case "/stop":
		text, err = in.stopChat(ctx, tx, c, h)
	case "/status":
		text, err = in.describe(ctx, tx, c, true)
	case "/agents":
		text, err = in.describe(ctx, tx, c, false)
	case "/pair":
		text = "This chat is admitted already."
		if h.arguments == "" && c.direct() {
			text += " To admit a group, add the bot to it and send /pair CODE there."
		}
	default:
		text = "Write as you would to a person; the agent of this chat answers. In a group, mention an agent with @name, or answer one of its messages.\n\n" +
			strings.Join(menuLines(), "\n")
	}
	if err != nil {
		return err
	}
	return in.out.notice(ctx, tx, c, h.thread, fmt.Sprintf("command:%d:%d", h.chat.ID, h.message), text)
}

func menuLines() []string {
	var lines []string
	for _, name := range menu {
		lines = append(lines, name+" — "+commands[name])
	}
	return lines
}

func (in *intake) startChat(ctx context.Context, tx *sql.Tx, c *chat) (string, error) {
	if !c.stopped {
		return "Hello! Write a message, and an agent will answer. /help says more.", nil
	}
	return "Going on. The agents hear this chat again.", in.setStopped(ctx, tx, c, false)
}

// stopChat tells the agents to stop, and then keeps both sides apart: what people
// write is not passed on and what agents write is not shown, until /start.
func (in *intake) stopChat(ctx context.Context, tx *sql.Tx, c *chat, h *happening) (string, error) {
	if c.stopped {
		return "This chat is stopped already. /start goes on.", nil
	}
	at, err := in.surface.Standing(ctx, tx, peerOf(c.key))
	if err != nil {
		return "", err
	}
	if at.State == surface.Assigned {
		h.draft.Content.Text, h.draft.Content.Priority = "stop", "urgent"
		if err := in.storeEvent(ctx, tx, c, h); err != nil {
			return "", err
		}
	}
	return "Stopped. What is written here does not reach the agents, and they do not answer, until /start.", in.setStopped(ctx, tx, c, true)
}

// remindStopped tells a direct chat, once a day, that it is stopped.
func (in *intake) remindStopped(ctx context.Context, tx *sql.Tx, c *chat) error {
	if !c.direct() {
		return nil
	}
	return in.out.notice(ctx, tx, c, 0, "stopped:"+today(), "This chat is stopped, so the agents do not see your message. /start goes on.")
}

// describe says which agents a chat has, and, for its status, what waits.
func (in *intake) describe(ctx context.Context, tx *sql.Tx, c *chat, status bool) (string, error) {
	at, err := in.surface.Standing(ctx, tx, peerOf(c.key))
	if err != nil {
		return "", err
	}
	lines := []string{"Agents of this chat:"}
	for _, a := range at.Agents {
		state := "ready"
		if !a.Configured {
			state = "not reached"
		}
		lines = append(lines, fmt.Sprintf("• @%s, %s", a.Agent.Name(), state))
	}
	if len(lines) == 1 {
		lines = []string{"No agent yet. The first message starts one."}
	}
	if !status {
		return strings.Join(lines, "\n"), nil
	}
	to := string(topicOf(c.key))
	sends, err := in.out.telegram.Count(ctx, tx, to, outbox.StatePending, outbox.StateSending)
	if err != nil {
		return "", err
	}
	lost, err := in.out.telegram.Count(ctx, tx, to, outbox.StateDead, outbox.StateUnknown)
	if err != nil {
		return "", err
	}
	lines = append(lines, "", fmt.Sprintf("Messages that wait for an agent: %d", at.Waiting), fmt.Sprintf("Answers that wait for Telegram: %d", sends))
	if lost > 0 {
		lines = append(lines, fmt.Sprintf("Answers that did not or may not have arrived: %d", lost))
	}
	if at.Trouble != "" && at.State != surface.Assigned {
		lines = append(lines, "Trouble: "+at.Trouble)
	}
	if c.stopped {
		lines = append(lines, "This chat is stopped; /start goes on.")
	}
	return strings.Join(lines, "\n"), nil
}

// commandsOnce gives Telegram the command list, unless it has it already: each
// start would otherwise cost a call, of which Telegram allows few.
func (in *intake) commandsOnce(ctx context.Context) error {
	var listed []models.BotCommand
	for _, name := range menu {
		listed = append(listed, models.BotCommand{Command: strings.TrimPrefix(name, "/"), Description: commands[name]})
	}
	raw, err := json.Marshal(listed)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:])
	if in.remembered(ctx, in.db, "commands") == hash {
		return nil
	}
	if err := in.call(ctx, "setMyCommands", map[string]any{"commands": listed}, nil); err != nil {
		in.log.Warn().Err(err).Msg("command list not taken by Telegram; the commands work without it")
		return nil
	}
	if err := store.Exec(ctx, in.db, `UPDATE bots SET commands = ? WHERE bot = ?`, hash, in.bot); err != nil {
		in.log.Warn().Err(err).Msg("storing that Telegram has the command list failed")
	}
	return nil
}
