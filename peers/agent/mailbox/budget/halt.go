package budget

import (
	"fmt"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A halt forbids turns in a chat or in all chats.
type halt struct {
	by string
	at time.Time
}

// halted returns the halt that applies to a turn.
func halted(v *mailbox.View, t *mailbox.Turn) (h halt, ok bool) {
	return store.One(v.Tx, func(h *halt) []any { return []any{&h.by, store.Micros{Time: &h.at}} },
		`SELECT by, at FROM halts WHERE scope IN (?, ?) ORDER BY at DESC LIMIT 1`, t.Chat, v.Self())
}

// Halt forbids turns in a chat until Resume, or in all chats if scope is the agent's own topic.
// Running and waiting turns are stopped, and their chats are notified. cause is the message that
// requested the halt.
func Halt(tx *mailbox.Tx, scope protocol.Topic, by string, cause mailbox.Source) {
	tx.Exec(`INSERT INTO halts (scope, by, at) VALUES (?1, ?2, ?3) ON CONFLICT (scope) DO UPDATE SET by = ?2, at = ?3`,
		scope, by, time.Now().UnixMicro())
	chats, stopped := map[protocol.Topic]int{}, []string{}
	if scope != tx.Self().Topic() {
		chats[scope] = 0
	}
	for _, t := range tx.Turns(`WHERE `+mailbox.LiveCondition+` AND (chat = ?1 OR ?1 = ?2) ORDER BY rank, seq`, scope,
		tx.Self()) {
		withhold(tx, t, tx.Entry(t.EventID), mailbox.ReasonHalted, "")
		stopped = append(stopped, t.EventID)
		if t.Mode != attention.ModeDigest {
			chats[t.Chat]++
		}
	}
	for chat, n := range chats {
		notifyChat(tx, chat, cause, fmt.Sprintf("%s: halted by %s. %s stopped; nothing runs until %sresume.",
			tx.Self().Name(), attention.HeaderValue(by), text.Counted(n, "turn"), protocol.CommandPrefix(chat)))
	}
	recordHalt(tx, protocol.HaltRecord{State: "halted", Scope: scope, By: by, Stopped: stopped}, cause)
}

// Resume ends a halt. Turns that were stopped do not run again.
func Resume(tx *mailbox.Tx, scope protocol.Topic, by string, cause mailbox.Source) {
	if tx.ExecCount(`DELETE FROM halts WHERE scope = ?`, scope) > 0 && scope != tx.Self().Topic() {
		notifyChat(tx, scope, cause, fmt.Sprintf("%s: resumed by %s. What was stopped is not restarted.",
			tx.Self().Name(), attention.HeaderValue(by)))
	}
	recordHalt(tx, protocol.HaltRecord{State: "resumed", Scope: scope, By: by}, cause)
}

// notifyChat sends a text that answers no event to a chat that the agent talks to.
func notifyChat(tx *mailbox.Tx, chat protocol.Topic, cause mailbox.Source, said string) {
	there := tx.AssignedChat(string(chat))
	if there == nil {
		return // another agent's chat, or the broker
	}
	key := mailbox.ReasonHalted + ":" + string(cause.MessageID) + ":" + string(chat)
	reply := protocol.ChatReply{Text: said, IdempotencyKey: key, Visibility: there.Visibility(),
		Directedness: string(attention.DirectedAmbient)}
	tx.Enqueue(chat, key, tx.Mailbox().MessageFor(&mailbox.Entry{Source: cause}, mailbox.ReplyType(chat), reply))
}

func recordHalt(tx *mailbox.Tx, r protocol.HaltRecord, cause mailbox.Source) {
	r.Event, r.Agent = protocol.RecordHalt, tx.Self()
	tx.Record("halt:"+string(cause.MessageID), &mailbox.Entry{Source: cause}, r)
}
