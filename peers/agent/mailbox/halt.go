package mailbox

import (
	"fmt"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// reasonHalted is why a turn ends that a halt stopped, or that it never let start.
const reasonHalted = "halted"

// A halt is where no turn may run.
type halt struct {
	by string
	at time.Time
}

// halted returns the halt that a turn falls under: of its chat, or of the agent.
func (v *View) halted(t *Turn) (h halt, ok bool) {
	return store.One(v.Tx, func(h *halt) []any { return []any{&h.by, timeColumn{&h.at}} },
		`SELECT by, at FROM halts WHERE scope IN (?, ?) ORDER BY at DESC LIMIT 1`, t.Chat, v.m.id)
}

// A HaltRecord is the agent_event that tells of a halt, of its end, or of budgets that are counted anew.
type HaltRecord struct {
	Event   string          `json:"event"` // "halt"
	EventID string          `json:"eventId"`
	Agent   protocol.PeerID `json:"agent"`
	State   string          `json:"state"` // halted, resumed or protocol.HaltBudgetReset
	Scope   protocol.Topic  `json:"scope"` // a chat, or the agent: all its chats
	By      string          `json:"by"`
	Stopped []string        `json:"stopped,omitempty"` // events whose turns were stopped
}

// Halt lets no turn run in a chat, or, if scope is the agent's own topic, in any, until
// Resume. What runs or waits there is stopped, and each chat concerned is told what was.
// cause is the message that asked for it.
func (tx *Tx) Halt(scope protocol.Topic, by string, cause Source) {
	tx.Exec(`INSERT INTO halts (scope, by, at) VALUES (?1, ?2, ?3) ON CONFLICT (scope) DO UPDATE SET by = ?2, at = ?3`, scope, by, time.Now().UnixMicro())
	chats, stopped := map[protocol.Topic]int{}, []string{}
	if scope != tx.m.id.Topic() {
		chats[scope] = 0
	}
	for _, t := range tx.turns(`WHERE `+isLive+` AND (chat = ?1 OR ?1 = ?2) ORDER BY rank, seq`, scope, tx.m.id) {
		tx.withhold(t, tx.Entry(t.EventID), reasonHalted, "")
		stopped = append(stopped, t.EventID)
		if t.Mode != attention.ModeDigest {
			chats[t.Chat]++
		}
	}
	for chat, n := range chats {
		tx.notifyChat(chat, cause, fmt.Sprintf("%s: halted by %s. %s stopped; none runs until /resume.", tx.m.id.Name(), attention.HeaderValue(by), text.Counted(n, "turn")))
	}
	tx.recordHalt(HaltRecord{State: "halted", Scope: scope, By: by, Stopped: stopped}, cause)
}

// Resume ends a halt. What was stopped stays so: whoever still wants it asks again.
func (tx *Tx) Resume(scope protocol.Topic, by string, cause Source) {
	if tx.ExecCount(`DELETE FROM halts WHERE scope = ?`, scope) > 0 && scope != tx.m.id.Topic() {
		tx.notifyChat(scope, cause, fmt.Sprintf("%s: going on, %s said so. What was stopped is not begun again.", tx.m.id.Name(), attention.HeaderValue(by)))
	}
	tx.recordHalt(HaltRecord{State: "resumed", Scope: scope, By: by}, cause)
}

// notifyChat says something that answers no event in a chat to which the agent talks.
func (tx *Tx) notifyChat(chat protocol.Topic, cause Source, said string) {
	if !store.Value[bool](tx.Tx, `SELECT EXISTS (SELECT 1 FROM chats WHERE topic = ?)`, chat) {
		return // the chat of others, or the broker
	}
	key := reasonHalted + ":" + string(cause.MessageID) + ":" + string(chat)
	reply := protocol.ChatReply{Text: said, IdempotencyKey: key, Directedness: string(attention.DirectedAmbient)}
	tx.Enqueue(chat, key, tx.m.MessageFor(&Entry{Source: cause}, ReplyType(chat), reply))
}

func (tx *Tx) recordHalt(r HaltRecord, cause Source) {
	r.Event, r.Agent = "halt", tx.m.id
	tx.Record("halt:"+string(cause.MessageID), &Entry{Source: cause}, r)
}
