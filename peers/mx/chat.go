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

// setPresent records whether the bot is a member of a room. If it is not, the chat requests no
// agent.
func (a *account) setPresent(tx *store.Tx, c *chat, present bool) {
	c.present = present
	tx.Exec(`UPDATE chats SET present = ? WHERE chat = ?`, present, c.key)
	a.updateRouter(tx, c)
}

// setStopped records that a person stopped or restarted a chat.
func (a *account) setStopped(tx *store.Tx, c *chat, stopped bool) {
	c.stopped = stopped
	tx.Exec(`UPDATE chats SET stopped = ? WHERE chat = ?`, stopped, c.key)
	a.updateRouter(tx, c)
}

func (a *account) updateRouter(tx *store.Tx, c *chat) {
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
	return c.isDirect() && slices.ContainsFunc(a.members(tx, c.room), func(m member) bool {
		return m.user != string(a.bot) && a.admitsUser(tx, m.user)
	})
}

// A member is a user of a room.
type member struct{ user, name string }

// isCalled reports whether a name is the user's, with or without the server.
func (m member) isCalled(name string) bool {
	return name != "" && (strings.EqualFold(name, m.name) || strings.EqualFold(name, localpart(m.user)))
}

func (a *account) members(tx *store.Tx, room string) []member {
	return store.All(tx, func(m *member) []any { return []any{&m.user, &m.name} },
		`SELECT user, name FROM members WHERE room = ? ORDER BY user`, room)
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
		for _, m := range a.members(tx, c.room) {
			if m.user != string(a.bot) {
				d.Title = cmp.Or(m.name, localpart(m.user))
			}
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
