package tg

import (
	"cmp"
	"fmt"
	"strconv"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// enqueueCommand queues a command for the broker. It returns a text to show at once, usually "",
// since the result is shown later.
func (in *ingester) enqueueCommand(tx *store.Tx, c *chat, u *parsedUpdate, verb, text string) string {
	if u.user == 0 {
		return "I can't tell who you are here, so I can't do this. Please write under your own name."
	}
	o := &bridge.Command{
		Verb: verb, Text: text, By: peerOf(u.user), Kind: bridge.KindOf(c.isDirect()), Title: c.title,
		Key: fmt.Sprintf("%d:%d", u.chat.ID, u.message),
	}
	if u.thread > generalThread {
		o.Thread = strconv.Itoa(u.thread)
	}
	in.router.EnqueueCommand(tx, peerOf(c.key), o)
	return ""
}

// Post implements [bridge.CommandAdapter].
func (out *outbound) Post(tx *store.Tx, chat protocol.PeerID, thread, key, text string) {
	n, err := chatOf(chat.Topic())
	tx.Fail(err)
	if c, known := out.load(tx, n); known {
		thread, _ := strconv.Atoi(thread) // 0 for the chat itself
		out.notice(tx, c, thread, key, text)
	}
}

// rememberName stores the current username of a user, "" for none. Usernames distinguish people from agents
// and roles.
func (in *ingester) rememberName(tx *store.Tx, user int64, name string) {
	tx.Exec(`DELETE FROM people WHERE bot = ? AND user = ? AND username <> lower(?)`, in.bot, user, name)
	if name != "" {
		tx.Exec(`INSERT OR REPLACE INTO people (bot, username, user) VALUES (?, lower(?), ?)`, in.bot, name, user)
	}
}

// People implements [bridge.CommandAdapter]: it returns the user with a username.
func (out *outbound) People(tx *store.Tx, _ protocol.PeerID, name string) []protocol.PeerID {
	return people(store.All(tx, store.Scalar[int64], `SELECT user FROM people WHERE bot = ? AND username = lower(?)`,
		out.bot, name))
}

// DisplayName implements [bridge.CommandAdapter]: it returns the username of a person, or the
// name of the direct chat.
func (out *outbound) DisplayName(tx *store.Tx, person protocol.PeerID) string {
	if name := store.Value[string](tx, `SELECT username FROM people WHERE bot = ? AND 'tg:' || user = ?`, out.bot,
		person); name != "" {
		return "@" + name
	}
	n, err := chatOf(person.Topic())
	if c, known := out.load(tx, n); err == nil && known && c.kind == string(models.ChatTypePrivate) {
		return cmp.Or(c.title, string(person))
	}
	return ""
}
