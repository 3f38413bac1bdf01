package mx

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// handleState acts on the state of a room: names, members, encryption, upgrades.
func (in *ingester) handleState(tx *store.Tx, room string, e *rawEvent) (string, error) {
	reason := "the state " + e.Type
	var err error
	switch e.Type {
	case "m.room.member":
		return in.handleMember(tx, room, e)
	case "m.room.name", "m.room.canonical_alias":
		var named struct {
			Name  string `json:"name"`
			Alias string `json:"alias"`
		}
		if err = json.Unmarshal(e.Content, &named); err == nil {
			c := in.ensure(tx, room)
			isAlias := strings.HasPrefix(c.title, "#") && strings.Contains(c.title, ":")
			if e.Type == "m.room.name" || c.title == "" || isAlias { // a name precedes an alias
				tx.Exec(`UPDATE chats SET title = ? WHERE chat = ?`, cleanName(named.Name+named.Alias), c.key)
			}
		}
	case "m.room.encryption":
		c := in.ensure(tx, room)
		tx.Exec(`UPDATE chats SET encrypted = 1 WHERE chat = ?`, c.key)
		in.announceEncryption(tx, c, false)
	case "m.room.tombstone":
		var t event.TombstoneEventContent
		if err = json.Unmarshal(e.Content, &t); err == nil && t.ReplacementRoom != "" && e.state() == "" {
			in.handleUpgrade(tx, room, t.ReplacementRoom.String(), e.Sender)
		}
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", e.Type, err)
	}
	return reason, nil
}

// announceEncryption tells an encrypted room, once, that the bot cannot read it. With encryption, it
// tells once an hour that a message could not be read.
func (in *ingester) announceEncryption(tx *store.Tx, c *chat, unread bool) {
	if !c.present || in.cipher != nil && !unread ||
		!in.admitsChat(tx, c) && !in.pairing.HasOpenCode(tx) { // a code may come in such a room
		return
	}
	key, words := "encrypted:"+c.room, "This room is encrypted, and I can't read encrypted messages: "+
		"please invite me to a room without encryption."
	if in.cipher != nil {
		key, words = "locked:"+bridge.ThisHour(), "I couldn't read an encrypted message because I don't have its key "+
			"yet. If no answer follows, please send it again."
	}
	in.notice(tx, c, "", key, words)
}

// handleMember stores who is in a room. It passes on when people join and leave.
func (in *ingester) handleMember(tx *store.Tx, room string, e *rawEvent) (string, error) {
	var m event.MemberEventContent
	if err := json.Unmarshal(e.Content, &m); err != nil {
		return "", fmt.Errorf("reading a membership: %w", err)
	}
	user := e.state()
	was := store.Value[bool](tx, `SELECT joined FROM members WHERE room = ? AND user = ?`, room, user)
	isHere := m.Membership == event.MembershipJoin
	if name := cleanName(m.Displayname); isHere || m.Membership == event.MembershipInvite {
		tx.Exec(`INSERT OR REPLACE INTO members (room, user, name, called, joined) VALUES (?, ?, ?, ?, ?)`, room, user,
			name, strings.ToLower(name), isHere)
	} else {
		tx.Exec(`DELETE FROM members WHERE room = ? AND user = ?`, room, user)
	}
	c := in.ensure(tx, room)
	if user == string(in.bot) {
		in.handleOwnMembership(tx, c, room, m.Membership)
		return "the bot's membership", nil
	}
	words := map[[2]bool]string{{true, false}: " left", {false, true}: " joined"}[[2]bool{was, isHere}]
	if words == "" || c.isMuted() || len(in.router.Agents(tx, c.peer())) == 0 || !in.admitsChat(tx, c) {
		return "a membership", nil
	}
	h := in.newEvent(e, protocol.EventMembership)
	h.data.Content.Text = in.nameOf(tx, room, user) + words
	h.data.Content.Author = &protocol.Author{
		ID: user, Kind: string(attention.AuthorHuman), DisplayName: cleanName(m.Displayname),
	}
	in.storeEvent(tx, c, h)
	return "", nil
}

// handleOwnMembership records that the bot joined or left a room.
func (in *ingester) handleOwnMembership(tx *store.Tx, c *chat, room string, now event.Membership) {
	switch now {
	case event.MembershipJoin:
		if c.room != room && !continues(tx, room, c.room) { // its tombstone alone could lead the bot anywhere
			in.log.Warn().Str("room", c.key).Str("to", room).Msg("upgrade to a room that continues another one; left it")
			tx.Exec(`DELETE FROM aliases WHERE room = ?`, room)
			in.enqueueAct(tx, &act{Kind: actLeave, Room: room, Reason: "This room does not continue the one that named it."})
			return
		}
		c.room, c.present = room, true // perhaps the successor of an upgraded room
		in.save(tx, c)
		if c, _ := in.load(tx, room); c.encrypted {
			in.announceEncryption(tx, c, false)
		}
	case event.MembershipLeave, event.MembershipBan:
		if c.room == room && c.present {
			c.present = false
			in.save(tx, c)
		}
	}
}

// continues reports whether a room says that it continues another one, as the successor of an
// upgraded room does.
func continues(tx *store.Tx, room, other string) bool {
	return slices.ContainsFunc(store.All(tx, store.Scalar[string],
		`SELECT raw FROM inbox WHERE room = ? AND raw LIKE '%"m.room.create"%'`, room), func(raw string) bool {
		var made struct {
			Type    string
			Key     *string `json:"state_key"`
			Content event.CreateEventContent
		}
		return json.Unmarshal([]byte(raw), &made) == nil && made.Type == "m.room.create" &&
			made.Key != nil && *made.Key == "" && made.Content.Predecessor != nil &&
			made.Content.Predecessor.RoomID.String() == other
	})
}

// handleUpgrade makes the successor of a room another room of its chat, and joins it.
func (in *ingester) handleUpgrade(tx *store.Tx, room, to, by string) {
	c := in.ensure(tx, room)
	if c.key == to || c.room != room || !c.present || !in.admitsChat(tx, c) || // an older room says nothing now
		store.Value[bool](tx, `SELECT 1 FROM aliases WHERE room = ?`, to) {
		return
	}
	if other, known := in.load(tx, to); known && other.present { // closing a room must not take over another
		in.log.Warn().Str("room", c.key).Str("to", to).Msg("upgrade to a room with a chat of its own; both remain")
		return
	}
	in.log.Info().Str("room", c.key).Str("to", to).Msg("room was upgraded; its chat keeps its agents")
	tx.Exec(`INSERT INTO aliases (room, chat) VALUES (?, ?)`, to, c.key)
	in.router.MoveChat(tx, peerOf(to), c.peer())
	_, server, _ := id.UserID(by).Parse() // the server of the user who upgraded it knows the successor
	in.enqueueAct(tx, &act{Kind: actJoin, Room: to, Via: []string{server}})
}

// handleInvite accepts an invitation of an admitted user, to the successor of a known room, or
// while a pairing code is open. It rejects any other.
func (in *ingester) handleInvite(tx *store.Tx, e *storedEvent) (string, error) {
	var state []rawEvent
	if err := json.Unmarshal(e.raw, &state); err != nil {
		return "", fmt.Errorf("reading an invitation: %w", err)
	}
	inviter := ""
	for i := range state {
		if state[i].Type == "m.room.member" && state[i].state() == string(in.bot) {
			inviter = state[i].Sender
		}
	}
	known := store.Value[bool](tx, `SELECT 1 FROM aliases WHERE room = ?`, e.room)
	c := &chat{key: e.room, room: e.room, inviter: inviter, members: 3}
	switch {
	case protocol.CheckPeerID(string(peerOf(e.room))) != nil || len(peerOf(e.room)) > protocol.MaxPattern:
		in.enqueueAct(tx, &act{Kind: actLeave, Room: e.room, Reason: "The ID of this room is too long for me."})
		return "an invitation to a room with a long ID", nil
	case !known && !in.admitsChat(tx, c) && !in.pairing.HasOpenCode(tx):
		in.log.Info().Str("room", e.room).Str("user", inviter).
			Msg("invitation rejected: its user is not admitted (--allow-user, or hubbub pair)")
		in.enqueueAct(tx, &act{Kind: actLeave, Room: e.room, Reason: "This bot is private. Ask whoever runs it for access."})
		return "an invitation of " + inviter + ", who is not admitted", nil
	}
	if !known {
		in.ensure(tx, e.room)
		tx.Exec(`UPDATE chats SET inviter = ? WHERE chat = ?`, inviter, e.room)
	}
	in.enqueueAct(tx, &act{Kind: actJoin, Room: e.room})
	return "an invitation", nil
}

// reject logs a message of somebody who is not admitted. It answers only a pairing code and, a few
// times a day, the question how to get access.
func (in *ingester) reject(tx *store.Tx, c *chat, h *parsedEvent) string {
	reason := fmt.Sprintf("room %s is not admitted (--allow-room, or %spair there)", h.room, prefix)
	switch {
	case h.command == "pair" && h.arguments != "":
		kind, who := bridge.AdmitChat, c.key
		if c.isDirect() {
			kind, who = bridge.AdmitUser, h.sender
		}
		if says := in.pairing.Pair(tx, h.sender, h.arguments, kind, who); says != "" {
			in.notice(tx, c, h.thread, "pair:"+h.event, says)
		}
		in.save(tx, c)
		return "the command " + prefix + "pair"
	case h.command == "pair", c.isDirect() && (h.command == "start" || h.command == "help"):
		sent := store.Value[int](tx, `SELECT count(*) FROM replies WHERE chat = ? AND agent = '' AND received_at > ?`,
			c.key, nowMicros()-24*3600*1_000_000)
		if sent < maxNotices {
			in.notice(tx, c, h.thread, "stranger:"+h.event, "This bot is private. Ask whoever runs it to give you "+
				"access. If they send you a one-time code (from `hubbub pair`), send !pair CODE here.")
		}
	}
	in.log.Info().Str("room", h.room).Str("user", h.sender).Msg("message rejected: " + reason)
	return reason
}
