package mx

import (
	"encoding/json"
	"fmt"
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
		in.announceEncryption(tx, c)
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

// announceEncryption tells an encrypted room, once, that the bot cannot read it.
func (in *ingester) announceEncryption(tx *store.Tx, c *chat) {
	if c.present && (in.admitsChat(tx, c) || in.pairing.HasOpenCode(tx)) { // a code may come in such a room
		in.notice(tx, c, "", "encrypted:"+c.room, "This room is encrypted, and I can't read encrypted messages: "+
			"please invite me to a room without encryption.")
	}
}

// handleMember stores who is in a room. It passes on when people join and leave.
func (in *ingester) handleMember(tx *store.Tx, room string, e *rawEvent) (string, error) {
	var m event.MemberEventContent
	if err := json.Unmarshal(e.Content, &m); err != nil {
		return "", fmt.Errorf("reading a membership: %w", err)
	}
	user := e.state()
	was := store.Value[bool](tx, `SELECT joined FROM members WHERE room = ? AND user = ?`, room, user)
	present := m.Membership == event.MembershipJoin || m.Membership == event.MembershipInvite
	if present {
		tx.Exec(`INSERT OR REPLACE INTO members (room, user, name, joined) VALUES (?, ?, ?, ?)`, room, user,
			cleanName(m.Displayname), m.Membership == event.MembershipJoin)
	} else {
		tx.Exec(`DELETE FROM members WHERE room = ? AND user = ?`, room, user)
	}
	c := in.ensure(tx, room)
	if user == string(in.bot) {
		in.handleOwnMembership(tx, c, room, m.Membership)
		return "the bot's membership", nil
	}
	words := ""
	switch {
	case m.Membership == event.MembershipLeave || m.Membership == event.MembershipBan:
		if was {
			words = " left"
		}
	case m.Membership == event.MembershipJoin && !was:
		words = " joined"
	}
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
		if c.room != room { // the successor of an upgraded room
			c.room = room
			tx.Exec(`UPDATE chats SET room = ? WHERE chat = ?`, room, c.key)
		}
		in.setPresent(tx, c, true)
		if c, _ := in.load(tx, room); c.encrypted {
			in.announceEncryption(tx, c)
		}
	case event.MembershipLeave, event.MembershipBan:
		if c.room == room && c.present {
			in.setPresent(tx, c, false)
		}
	}
}

// handleUpgrade makes the successor of a room another room of its chat, and joins it.
func (in *ingester) handleUpgrade(tx *store.Tx, room, to, by string) {
	c := in.ensure(tx, room)
	if c.key == to || !c.present || !in.admitsChat(tx, c) ||
		store.Value[bool](tx, `SELECT 1 FROM aliases WHERE room = ?`, to) {
		return
	}
	if other, known := in.load(tx, to); known && other.present { // who closes one room must not take over another
		in.log.Warn().Str("room", c.key).Str("to", to).Msg("upgrade to a room with a chat of its own; both remain")
		return
	}
	in.log.Info().Str("room", c.key).Str("to", to).Msg("room was upgraded; its chat keeps its agents")
	tx.Exec(`INSERT INTO aliases (room, chat) VALUES (?, ?)`, to, c.key)
	in.router.MoveChat(tx, peerOf(to), c.peer())
	_, server, _ := id.UserID(by).Parse() // the server of who upgraded it knows the successor
	in.enqueueAct(tx, &act{Kind: actJoin, Room: to, Via: server})
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
		in.updateRouter(tx, c)
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
