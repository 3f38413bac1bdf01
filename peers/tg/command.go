package tg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/protocol"

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
func (b *Bridge) obey(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	var text string
	var err error
	switch h.command {
	case "/start":
		text, err = b.startChat(ctx, tx, c)
	case "/stop":
		text, err = b.stopChat(ctx, tx, c, h)
	case "/status":
		text, err = b.describeStatus(ctx, tx, c)
	case "/agents":
		text, err = b.describeAgents(ctx, tx, c)
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
	return b.notice(ctx, tx, c, h.thread, fmt.Sprintf("command:%d:%d", h.chat.ID, h.message), text)
}

func menuLines() []string {
	var lines []string
	for _, name := range menu {
		lines = append(lines, name+" — "+commands[name])
	}
	return lines
}

func (b *Bridge) startChat(ctx context.Context, tx *sql.Tx, c *chat) (string, error) {
	if !c.stopped {
		return "Hello! Write a message, and an agent will answer. /help says more.", nil
	}
	c.stopped = false
	return "Going on. The agents hear this chat again.", errors.Join(
		exec(ctx, tx, `UPDATE chats SET stopped = 0 WHERE bot = ? AND chat = ?`, b.bot, c.key),
		b.askAgain(ctx, tx, c))
}

// stopChat tells the agents to stop, and then keeps both sides apart: what people
// write is not passed on and what agents write is not shown, until /start.
func (b *Bridge) stopChat(ctx context.Context, tx *sql.Tx, c *chat, h *happening) (string, error) {
	if c.stopped {
		return "This chat is stopped already. /start goes on.", nil
	}
	if c.state == chatAssigned {
		h.draft.Content.Text, h.draft.Content.Priority = "stop", "urgent"
		if err := b.storeEvent(ctx, tx, c, h); err != nil {
			return "", err
		}
	}
	c.stopped = true
	return "Stopped. What is written here does not reach the agents, and they do not answer, until /start.",
		exec(ctx, tx, `UPDATE chats SET stopped = 1, state = CASE state WHEN 'assigned' THEN state ELSE 'idle' END
			WHERE bot = ? AND chat = ?`, b.bot, c.key)
}

// remindStopped answers the first message after a stop.
func (b *Bridge) remindStopped(ctx context.Context, tx *sql.Tx, c *chat) error {
	if !c.direct() {
		return nil
	}
	day := time.Now().UTC().Format(time.DateOnly)
	return b.notice(ctx, tx, c, 0, "stopped:"+day, "This chat is stopped, so the agents do not see your message. /start goes on.")
}

func (b *Bridge) describeAgents(ctx context.Context, tx *sql.Tx, c *chat) (string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT agent, configured FROM assignments WHERE bot = ? AND chat = ? ORDER BY id`, b.bot, c.key)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	lines := []string{"Agents of this chat:"}
	for rows.Next() {
		var agent string
		var configured bool
		if err := rows.Scan(&agent, &configured); err != nil {
			return "", err
		}
		state := "ready"
		if !configured {
			state = "not reached"
		}
		lines = append(lines, fmt.Sprintf("• @%s, %s", protocol.PeerID(agent).Name(), state))
	}
	if len(lines) == 1 {
		lines = []string{"No agent yet. The first message starts one."}
	}
	return strings.Join(lines, "\n"), rows.Err()
}

func (b *Bridge) describeStatus(ctx context.Context, tx *sql.Tx, c *chat) (string, error) {
	agents, err := b.describeAgents(ctx, tx, c)
	if err != nil {
		return "", err
	}
	var waiting, sends, dead int
	err = tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM events WHERE bot = ?1 AND chat = ?2 AND queued = 0) +
		(SELECT count(*) FROM outbox WHERE queue = ?3 AND state IN ('pending','sending') AND destination GLOB ?4),
		(SELECT count(*) FROM outbox WHERE queue = ?5 AND state IN ('pending','sending') AND destination = ?6),
		(SELECT count(*) FROM outbox WHERE queue = ?5 AND state IN ('dead','unknown') AND destination = ?6)`,
		b.bot, c.key, b.queue(queueForward), b.destination(c.key)+" > *", b.queue(queueTelegram), b.destination(c.key)).Scan(&waiting, &sends, &dead)
	if err != nil {
		return "", err
	}
	lines := []string{
		fmt.Sprintf("Messages that wait for an agent: %d", waiting),
		fmt.Sprintf("Answers that wait for Telegram: %d", sends),
	}
	if dead > 0 {
		lines = append(lines, fmt.Sprintf("Answers that did not or may not have arrived: %d", dead))
	}
	if c.trouble != "" && c.state != chatAssigned {
		lines = append(lines, "Trouble: "+c.trouble)
	}
	if c.stopped {
		lines = append(lines, "This chat is stopped; /start goes on.")
	}
	return agents + "\n\n" + strings.Join(lines, "\n"), nil
}

// commandsOnce gives Telegram the command list, unless it has it already: each
// start would otherwise cost a call, of which Telegram allows few.
func (b *Bridge) commandsOnce(ctx context.Context) error {
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
	var known string
	if err := b.db.QueryRowContext(ctx, `SELECT commands FROM bots WHERE bot = ?`, b.bot).Scan(&known); err != nil || known == hash {
		return nil //nolint:nilerr // the menu is a convenience
	}
	if err := b.call(ctx, "setMyCommands", map[string]any{"commands": listed}, nil); err != nil {
		b.log.Warn().Err(err).Msg("Telegram did not take the command list; the commands work without it")
		return nil
	}
	if err := exec(ctx, b.db, `UPDATE bots SET commands = ? WHERE bot = ?`, hash, b.bot); err != nil {
		b.log.Warn().Err(err).Msg("that Telegram has the command list is not remembered")
	}
	return nil
}

// notice queues a text of the bridge's own to a chat, once per key.
func (b *Bridge) notice(ctx context.Context, tx *sql.Tx, c *chat, thread int, key, text string) error {
	content := protocol.ChatReply{Text: text}
	if thread != 0 {
		content.ThreadID = id(int64(thread))
	}
	_, err := b.storeReply(ctx, tx, &reply{chat: c.key, key: key, content: content})
	if err != nil && !errorsIsFull(err) {
		return err
	}
	return nil
}

func errorsIsFull(err error) bool { return isAny(err, outbox.ErrFull) }
