package budget

import (
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// window is the period that a budget covers.
const window = attention.BudgetWindowHours * time.Hour

// periodStart returns when the current budget period began: at the start of the window, or at the
// last reset.
func periodStart(tx *store.Tx) int64 {
	return store.Value[int64](tx, `SELECT max(?, (SELECT coalesce(max(at), 0) FROM budget_resets))`,
		time.Now().Add(-window).UnixMicro())
}

// Reset stops all usage so far from counting against a budget. cause is the message that
// requested it.
func Reset(tx *mailbox.Tx, scope protocol.Topic, by string, cause mailbox.Source) {
	tx.Exec(`DELETE FROM budget_resets`) // only the last one matters
	tx.Exec(`INSERT INTO budget_resets (at, by) VALUES (?, ?)`, time.Now().UnixMicro(), by)
	recordHalt(tx, protocol.HaltRecord{State: protocol.HaltBudgetReset, Scope: scope, By: by}, cause)
}

// payer returns whose budget a turn counts against: the author's, or that of the inbox for a
// service, which names its senders itself.
func payer(e *mailbox.Entry) string {
	if id := protocol.PeerID(e.Chat); id.Family() == "chorus" {
		inbox, _, _ := strings.Cut(string(id), ".")
		return inbox
	}
	return e.Content.Author.ID
}

// spent returns the usage in the window that counts against a turn's budget. until is when the
// oldest turn leaves the window.
func spent(v *mailbox.View, t *mailbox.Turn, payer string) (s attention.Usage, until time.Time) {
	var oldest time.Time
	s = mailbox.First(v.Tx, func(s *attention.Usage) []any {
		return []any{&s.AuthorTurns, &s.ChatTurns, &s.Turns, &s.ChatTokens, &s.Tokens, store.Micros{Time: &oldest}}
	}, `SELECT count(*) FILTER (WHERE payer = ?1 AND ?1 <> ''), count(*) FILTER (WHERE chat = ?2 AND mode <> 'digest'), count(*),
			coalesce(sum(tokens) FILTER (WHERE chat = ?2), 0), coalesce(sum(tokens), 0), coalesce(min(started_at), 0)
		FROM turns WHERE started_at > ?3`, payer, t.Chat, periodStart(v.Tx))
	return s, oldest.Add(window)
}

// Check reports whether a turn may start: nothing is halted, and the agent is within its
// budget. It records whose budget the turn counts against. A turn that may not start ends, and
// its event is settled with the reason. The chat is notified once per window. bound describes the
// bound that was reached. A turn that has started before may continue. e is nil for a digest.
func Check(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, b attention.Budget) (bound string, ok bool) {
	if h, ok := halted(&tx.View, t); ok {
		withhold(tx, t, e, mailbox.ReasonHalted,
			fmt.Sprintf("I was halted by %s and answer nothing until %sresume or hubbub resume.",
				attention.HeaderValue(h.by), protocol.CommandPrefix(t.Chat)))
		return "", false
	}
	if t.Attempt > 0 {
		return "", true
	}
	account := ""
	if e != nil && t.Mode != attention.ModeDigest {
		account = payer(e)
	}
	s, until := spent(&tx.View, t, account)
	reason, most := b.Exceeded(s)
	if reason == "" {
		tx.Exec(`UPDATE turns SET payer = ? WHERE turn_id = ?`, account, t.ID)
		return "", true
	}
	tx.Record(mailbox.UniqueKey("budget:"+t.ID, 0), e, protocol.BudgetRecord{
		Agent:   tx.Self(),
		Bound:   most,
		Chat:    t.Scope(),
		Event:   protocol.RecordBudget,
		EventID: t.EventID,
		Reason:  reason,
		State:   "withheld",
		TurnID:  t.ID,
		Until:   protocol.FormatTime(until),
	})
	withhold(tx, t, e, reason,
		fmt.Sprintf("I have reached a daily limit: %s (%d). I continue about %s, or when an operator resets my "+
			"budget (hubbub resume %s --budget).",
			boundNames[reason], most, until.UTC().Format("15:04 UTC on January 2"), tx.Self()))
	return fmt.Sprintf("the limit for 24 hours is reached: %s (%d); hubbub resume %s --budget resets it",
		boundNames[reason], most, tx.Self()), false
}

// boundNames describes what each bound limits.
var boundNames = map[string]string{
	attention.BudgetAuthorTurns: "turns for one author",
	attention.BudgetChatTurns:   "turns in one chat",
	attention.BudgetTurns:       "turns in all chats",
	attention.BudgetChatTokens:  "tokens in one chat",
	attention.BudgetTokens:      "tokens in all chats",
}

// withhold ends a turn that may not run and settles its event. If an answer was due and notice is
// not empty, the author is notified once per window, reason and chat (for the broker: per
// conversation or question), and again after a newer halt. e may be nil.
func withhold(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, reason, notice string) {
	tx.CancelTurn(t, reason)
	if e == nil || e.Settled() {
		return
	}
	owed := e.Decision.Policy == attention.PolicyMustRespond
	if owed {
		tx.Move(e, mailbox.Fail, reason)
	} else {
		tx.Move(e, mailbox.Ignore, reason)
	}
	if owed && notice != "" && (e.Origin.QuestionID != "" || !wasNotified(&tx.View, e, reason)) {
		tx.SendNotice(e, reason, notice)
	}
	if owed {
		tx.ReportEnd(e)
	}
}

// wasNotified reports whether the event's conversation got a notice of this kind within the
// window.
func wasNotified(v *mailbox.View, e *mailbox.Entry, kind string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent WHERE chat = ?1 AND kind = 'notice' AND sent_at > ?2 AND key LIKE ?3
			AND (?3 <> 'halted:%' OR sent_at > (SELECT coalesce(max(at), 0) FROM halts)) AND (conversation = ?4 OR chat <> ?5))`,
		e.Chat, periodStart(v.Tx), kind+":%", e.Content.Chat.ID, protocol.TopicBroker)
}
