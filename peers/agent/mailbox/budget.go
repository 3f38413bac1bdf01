package mailbox

import (
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// budgetWindow is how far back a budget looks.
const budgetWindow = attention.BudgetWindowHours * time.Hour

// budgetSince returns from when on a budget counts: for the length of its window, or since somebody had it counted anew.
func budgetSince(tx *store.Tx) int64 {
	return store.Value[int64](tx, `SELECT max(?, (SELECT coalesce(max(at), 0) FROM budget_resets))`, time.Now().Add(-budgetWindow).UnixMicro())
}

// ResetBudget lets nothing that was spent until now count towards a budget. cause is the message that asked for it.
func ResetBudget(tx *Tx, scope protocol.Topic, by string, cause Source) {
	tx.Exec(`DELETE FROM budget_resets`) // only the last counts
	tx.Exec(`INSERT INTO budget_resets (at, by) VALUES (?, ?)`, time.Now().UnixMicro(), by)
	tx.recordHalt(HaltRecord{State: protocol.HaltBudgetReset, Scope: scope, By: by}, cause)
}

// payer returns on whose account a turn of an event goes: its author's or, since a
// service names its senders itself, the inbox's through which it came.
func payer(e *Entry) string {
	if id := protocol.PeerID(e.Chat); id.Family() == "chorus" {
		inbox, _, _ := strings.Cut(string(id), ".")
		return inbox
	}
	return e.Content.Author.ID
}

// spent returns what turns took within the window, from the view of one that is to
// start; until is when the oldest of them leaves it.
func (v *View) spent(t *Turn, payer string) (s attention.Usage, until time.Time) {
	var oldest time.Time
	s = first(v.Tx, func(s *attention.Usage) []any {
		return []any{&s.AuthorTurns, &s.ChatTurns, &s.Turns, &s.ChatTokens, &s.Tokens, timeColumn{&oldest}}
	}, `SELECT count(*) FILTER (WHERE payer = ?1 AND ?1 <> ''), count(*) FILTER (WHERE chat = ?2 AND mode <> 'digest'), count(*),
			coalesce(sum(tokens) FILTER (WHERE chat = ?2), 0), coalesce(sum(tokens), 0), coalesce(min(started_at), 0)
		FROM turns WHERE started_at > ?3`, payer, t.Chat, budgetSince(v.Tx))
	return s, oldest.Add(budgetWindow)
}

// CheckBudget reports whether a turn may start: where nothing is halted, and within the agent's
// budget. It puts it on somebody's account. If it may not, it ends, its event gets the reason, and the chat is
// told, once within the window; the bound that was reached is returned in words. A turn that
// started before may go on. e is nil for a digest.
func (tx *Tx) CheckBudget(t *Turn, e *Entry, b attention.Budget) (bound string, ok bool) {
	if h, ok := tx.halted(t); ok {
		tx.withhold(t, e, reasonHalted,
			fmt.Sprintf("I am halted by %s: nothing is answered until /resume, or hubbub resume.", attention.HeaderValue(h.by)))
		return "", false
	}
	if t.Attempt > 0 {
		return "", true
	}
	account := ""
	if e != nil && t.Mode != attention.ModeDigest {
		account = payer(e)
	}
	s, until := tx.spent(t, account)
	reason, most := b.Exceeded(s)
	if reason == "" {
		tx.Exec(`UPDATE turns SET payer = ? WHERE turn_id = ?`, account, t.ID)
		return "", true
	}
	tx.Record(UniqueKey("budget:"+t.ID, 0), e, map[string]any{
		"event": "budget", "eventId": t.EventID, "agent": tx.m.id, "chat": t.Scope(), "turnId": t.ID, "state": "withheld", "reason": reason,
		"bound": most, "until": protocol.FormatTime(until),
	})
	tx.withhold(t, e, reason,
		fmt.Sprintf("I have reached a bound of today: %s (%d). I go on about %s, or once an operator has me count anew (hubbub resume %s --budget).",
			budgetWords[reason], most, until.UTC().Format("15:04 UTC on January 2"), tx.m.id))
	return fmt.Sprintf("a bound of 24 hours is reached: %s (%d); hubbub resume %s --budget counts anew", budgetWords[reason], most, tx.m.id), false
}

// budgetWords say what a bound is of.
var budgetWords = map[string]string{
	attention.BudgetAuthorTurns: "turns for one author",
	attention.BudgetChatTurns:   "turns in one chat",
	attention.BudgetTurns:       "turns in all chats",
	attention.BudgetChatTokens:  "tokens in one chat",
	attention.BudgetTokens:      "tokens in all chats",
}

// withhold ends a turn that may not run, and its event. Whoever was owed an answer is
// told, unless the notice is empty, once within the window for each reason and chat, or
// conversation or question of the broker, and since the newest halt. e may be nil.
func (tx *Tx) withhold(t *Turn, e *Entry, reason, notice string) {
	tx.cancel(t, reason)
	if e == nil || e.Settled() {
		return
	}
	owed := e.Decision.Policy == attention.PolicyMustRespond
	if owed {
		tx.Move(e, Fail, reason)
	} else {
		tx.Move(e, Ignore, reason)
	}
	if owed && notice != "" && (e.Origin.QuestionID != "" || !tx.wasNotified(e, reason)) {
		tx.SendNotice(e, reason, notice)
	}
}

// wasNotified reports whether the conversation of an event had a notice of this kind within the window.
func (v *View) wasNotified(e *Entry, kind string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent WHERE chat = ?1 AND kind = 'notice' AND sent_at > ?2 AND key LIKE ?3
			AND (?3 <> 'halted:%' OR sent_at > (SELECT coalesce(max(at), 0) FROM halts)) AND (conversation = ?4 OR chat <> ?5))`,
		e.Chat, budgetSince(v.Tx), kind+":%", e.Content.Chat.ID, protocol.TopicBroker)
}
