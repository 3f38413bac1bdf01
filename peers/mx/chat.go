package mx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"

	"maunium.net/go/mautrix/id"
)

// A chat is a row of the table chats.
type chat struct {
	key       string // names the chat's topic: its first room
	room      string // the current room
	title     string
	inviter   string
	encrypted bool
	present   bool
	stopped   bool
	members   int // that joined or are invited
}

// isDirect reports whether the room is the bot's with one person.
func (c *chat) isDirect() bool { return c.members <= 2 }

// isMuted reports whether nothing may be sent to the chat.
func (c *chat) isMuted() bool { return !c.present || c.stopped }

func (c *chat) peer() protocol.PeerID { return peerOf(c.key) }

// load returns a chat by any room that it has had, and reports whether it exists.
func (a *account) load(tx *store.Tx, room string) (*chat, bool) {
	c, found := store.One(tx, func(c *chat) []any {
		return []any{&c.key, &c.room, &c.title, &c.inviter, &c.encrypted, &c.present, &c.stopped, &c.members}
	}, `SELECT chat, room, title, inviter, encrypted, present, stopped,
		(SELECT count(*) FROM members m WHERE m.room = c.room)
		FROM chats c WHERE chat = coalesce((SELECT chat FROM aliases WHERE room = ?1), ?1)`, room)
	return &c, found
}

// ensure returns the chat of a room, which it creates if there is none.
func (a *account) ensure(tx *store.Tx, room string) *chat {
	c, known := a.load(tx, room)
	if !known {
		c = &chat{key: room, room: room}
		tx.Exec(`INSERT INTO chats (chat, room) VALUES (?1, ?1)`, room)
	}
	return c
}

// find returns the chat that a topic names: a room, or the direct room of a person.
func (a *account) find(tx *store.Tx, topic protocol.Topic) (*chat, string) {
	name, ok := strings.CutPrefix(string(topic), "mx:")
	if !ok || name == "" {
		return nil, fmt.Sprintf("%q is not a room of Matrix; the address of a chat is mx:<room id>", topic)
	}
	if strings.HasPrefix(name, "@") {
		room := store.Value[string](tx, `SELECT c.room FROM chats c JOIN members m ON m.room = c.room
			WHERE m.user = ? AND c.present AND (SELECT count(*) FROM members o WHERE o.room = c.room) = 2
			ORDER BY c.stopped, c.chat LIMIT 1`, name)
		if name == string(a.bot) || room == "" {
			return nil, fmt.Sprintf("this bot has no direct room with %s", name)
		}
		name = room
	}
	c, known := a.load(tx, name)
	if !known {
		return nil, fmt.Sprintf("this bot has no room %s", name)
	}
	return c, ""
}

// save stores where a chat is and what it may do. If nothing may be sent to it, it requests no agent.
func (a *account) save(tx *store.Tx, c *chat) {
	tx.Exec(`UPDATE chats SET room = ?, present = ?, stopped = ? WHERE chat = ?`, c.room, c.present, c.stopped, c.key)
	set := a.router.Open
	if c.isMuted() {
		set = a.router.Close
	}
	set(tx, c.peer())
}

// admitsUser reports whether a user may invite the bot and write to it.
func (a *account) admitsUser(tx *store.Tx, user string) bool {
	return a.opts.AllowAll || slices.Contains(a.opts.AllowUsers, user) || user != "" &&
		a.pairing.IsPaired(tx, "user", user)
}

// admitsChat reports whether a room is admitted: by a flag, by a code, through the admitted person
// who invited the bot, or as the direct room of an admitted person.
func (a *account) admitsChat(tx *store.Tx, c *chat) bool {
	if a.opts.AllowAll || c.inviter != "" && a.admitsUser(tx, c.inviter) {
		return true
	}
	for _, room := range []string{c.key, c.room} {
		if slices.Contains(a.opts.AllowRooms, room) || a.pairing.IsPaired(tx, "chat", room) {
			return true
		}
	}
	return c.isDirect() && slices.ContainsFunc(a.others(tx, c.room), func(u string) bool { return a.admitsUser(tx, u) })
}

// others returns the users of a room other than the bot.
func (a *account) others(tx *store.Tx, room string) []string {
	return store.All(tx, store.Scalar[string], `SELECT user FROM members WHERE room = ? AND user <> ? ORDER BY user`,
		room, string(a.bot))
}

// called returns the users, other than the bot, that a name means in a room, or in any room for "":
// by their display name there or by the name of their account.
func (a *account) called(tx *store.Tx, room, name string) []id.UserID {
	return store.All(tx, store.Scalar[id.UserID], `SELECT DISTINCT user FROM members
		WHERE (called = ?2 OR user COLLATE NOCASE BETWEEN '@' || ?2 || ':' AND '@' || ?2 || ';') AND ?2 <> ''
		AND user <> ?3 AND (?1 = '' OR room = ?1) ORDER BY user`, room, strings.ToLower(name), string(a.bot))
}

// nameOf returns the name of a user in a room.
func (a *account) nameOf(tx *store.Tx, room, user string) string {
	return cmp.Or(store.Value[string](tx, `SELECT name FROM members WHERE room = ? AND user = ?`, room, user),
		localpart(user))
}

// describe returns a chat for the bus, and the conversation of a thread in it.
func (a *account) describe(tx *store.Tx, c *chat, thread string) *protocol.Chat {
	d := &protocol.Chat{ID: c.key, Kind: string(attention.ConversationChannel), Title: c.title, ThreadID: thread,
		TimeZone: a.opts.Zones[c.room]}
	switch {
	case thread != "":
		d.Kind = string(attention.ConversationThread)
	case c.isDirect():
		d.Kind = string(attention.ConversationDM)
	}
	if c.isDirect() && d.Title == "" {
		for _, user := range a.others(tx, c.room) {
			d.Title = a.nameOf(tx, c.room, user)
		}
	}
	return d
}

// localpart returns the name in a user ID: will for @will:example.org.
func localpart(user string) string {
	name, _, err := id.UserID(user).Parse()
	if err != nil {
		return strings.TrimPrefix(user, "@")
	}
	return name
}
