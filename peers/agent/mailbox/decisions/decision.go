package decisions

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/oklog/ulid/v2"
)

// idPrefix is the prefix of decision ids.
const idPrefix = "dec_"

// IsValue reports whether a text looks like the value of a decision button.
func IsValue(said string) bool { return strings.HasPrefix(said, idPrefix) }

// A Verdict is what a person answered about a decision in a chat.
type Verdict struct {
	Verdict collab.Verdict       `json:"verdict,omitempty"`
	Scope   collab.ApprovalScope `json:"scope,omitempty"`
	By      string               `json:"by,omitempty"`
	Answer  string               `json:"answer,omitempty"` // in words, to a decision that wants them
	// a word counts from this time on, unless its author writes more before it
	NotBefore time.Time `json:"notBefore,omitzero"`
	SourceID  string    `json:"sourceId,omitempty"`  // of that word
	Explained bool      `json:"explained,omitempty"` // the chat was notified why a word did not count
}

// Counts reports whether a verdict was given and is not about to be continued.
func (v *Verdict) Counts(now time.Time) bool { return v.Verdict != "" && !now.Before(v.NotBefore) }

// A Decision is a decision about a tool call that a turn asked people for.
type Decision struct {
	collab.Approval
	TurnID      string
	Used        bool    // the allowed call has begun
	ChatVerdict Verdict // given in the chat, not yet part of the record
}

func scan(d *Decision) []any {
	return []any{&d.TurnID, &d.Used, store.JSON{V: &d.ChatVerdict}, store.JSON{V: &d.Approval}}
}

func list(v *mailbox.View, where string, args ...any) []Decision {
	return store.All(v.Tx, scan, `SELECT turn_id, used, chat_verdict, record FROM decisions WHERE `+where, args...)
}

// Find returns a decision, or nil if there is none.
func Find(v *mailbox.View, id string) *Decision {
	if list := list(v, `id = ?`, id); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// Request returns the decision for a tool call of a turn: a standing decision that covers
// the call, the one that the turn requested before, or a new one. A new one is shown in the chat
// of e. If e is nil or from the broker, it is shown where a person who may decide writes to the
// agent.
func Request(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, p collab.ApprovalParams) *Decision {
	if e == nil || e.FromBroker() {
		e = nil
		for _, who := range p.MayDecide {
			e = cmp.Or(e, tx.FindPerson(who, protocol.Topic(p.Chat)))
		}
		if e != nil {
			p.Chat = string(e.Chat)
		}
	}
	d := Decision{TurnID: t.ID, Approval: collab.Approval{
		ID: idPrefix + ulid.Make().String(), ApprovalParams: p, AskedByID: tx.Self().Name(), AskedByIdentity: tx.Self(),
		CreatedAt:       protocol.FormatTime(time.Now()),
		ApprovalOutcome: collab.ApprovalOutcome{State: collab.ApprovalPending},
	}}
	for _, old := range list(&tx.View, `chat = ? AND tool = ? AND state = 'allowed' ORDER BY id DESC`, p.Chat, p.Tool) {
		if old.Covers(&d.Approval) && !wantsWords(&old.Approval) {
			return &old
		}
	}
	if same := list(&tx.View,
		`turn_id = ? AND tool = ? AND digest = ? AND used = 0 AND state IN ('pending', 'allowed', 'denied') ORDER BY id`, t.ID, p.Tool, p.Digest); len(same) > 0 {
		return &same[0]
	}
	save(tx, &d)
	if e != nil {
		tx.Reply(e, mailbox.SentNotice, mailbox.DecisionPrefix+d.ID, protocol.ChatReply{
			Text: questionText(&d.Approval), Buttons: buttons(&d.Approval), MayPress: p.MayDecide,
		})
	}
	return &d
}

func save(tx *mailbox.Tx, d *Decision) {
	tx.Exec(`INSERT OR REPLACE INTO decisions (id, turn_id, chat, tool, digest, state, scope, used, chat_verdict, record, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.ID, d.TurnID, d.Chat, d.Tool, d.Digest, d.State, d.Scope, d.Used, store.JSON{V: d.ChatVerdict},
		store.JSON{V: d.Approval}, time.Now().UnixMicro())
}

// Prefixes of the tool name of a decision that a server or a program requests; see harness.Elicit.
const (
	elicitPrefix = "elicit:"
	formPrefix   = "form:"
)

// wantsWords reports whether a decision is a question that is answered in words.
func wantsWords(a *collab.Approval) bool { return strings.HasPrefix(a.Tool, formPrefix) }

// toolName returns the name of a decision's tool as people see it.
func toolName(a *collab.Approval, limit int) (name string, elicited bool) {
	name = strings.TrimPrefix(strings.TrimPrefix(a.Tool, elicitPrefix), formPrefix)
	return text.Clip(text.EscapeInvisible(name), limit), name != a.Tool
}

// callText describes the requested call for a chat.
func callText(a *collab.Approval) string {
	tool, elicited := toolName(a, 80)
	said := fmt.Sprintf("%s asks to run %s", a.AskedByID, tool)
	if elicited {
		said = fmt.Sprintf("%s runs %s, which asks before it continues", a.AskedByID, tool)
	}
	if a.Arguments != "" {
		shown := text.EscapeInvisible(a.Arguments)
		fence := text.Fence(shown)
		said += ":\n" + fence + "\n" + shown + "\n" + fence
	}
	return said + "\n"
}

// questionText asks for a decision in a chat and explains how to answer.
func questionText(a *collab.Approval) string {
	if len(a.MayDecide) == 0 {
		return callText(a) + "Nobody in this chat asked for it. To let it run: `hubbub decisions allow " + a.ID + "`."
	}
	if wantsWords(a) {
		return callText(a) + "Reply to this message with your answer in words; no or 👎 declines. Without an answer by " +
			a.ExpiryText() + ": " + string(a.Default) + "."
	}
	return callText(a) + "Decide with 👍 or 👎, or reply yes or no. Without a decision by " + a.ExpiryText() + ": " +
		string(a.Default) + "."
}

// buttons returns the possible verdicts as buttons.
func buttons(a *collab.Approval) []protocol.Button {
	if len(a.MayDecide) == 0 {
		return nil
	}
	if wantsWords(a) {
		return []protocol.Button{{Text: "Decline", Value: a.ID + ":deny"}}
	}
	return []protocol.Button{
		{Text: "Allow", Value: a.ID + ":allow:once"}, {Text: "Deny", Value: a.ID + ":deny"},
		{Text: "Allow for this session", Value: a.ID + ":allow:session"},
		{Text: "Always allow " + text.Clip(text.EscapeInvisible(a.Tool), 30), Value: a.ID + ":allow:always"},
	}
}

// Apply stores and records the newest version of a decision, and shows the outcome in the
// chat.
func Apply(tx *mailbox.Tx, a collab.Approval) {
	d := Find(&tx.View, a.ID)
	if d == nil || d.State == a.State || !d.Open() {
		return
	}
	people := []string{a.By, d.By} // a revoked decision also says who allowed it
	d.Approval, d.ChatVerdict = a, Verdict{Answer: d.ChatVerdict.Answer}
	save(tx, d)
	record(tx, d, d.Digest, tx.Entry(a.EventID), mailbox.DecisionPrefix+string(a.State)+":"+a.ID)
	shown := tx.SentAs(mailbox.DecisionPrefix + a.ID)
	if shown == nil {
		return
	}
	if e := tx.Entry(shown.EventID); e != nil {
		outcome := "Decision: " + tx.WithNames(a.Describe(), e.Chat, people...) + "."
		if wantsWords(&a) && a.State == collab.ApprovalAllowed {
			outcome = "Answered by " + tx.WithNames(a.By, e.Chat, a.By) + "."
		}
		tx.Reply(e, mailbox.SentNotice, mailbox.DecidedPrefix+string(a.State)+":"+a.ID, protocol.ChatReply{
			Text:  callText(&a) + outcome,
			Edits: mailbox.DecisionPrefix + a.ID,
		})
	}
}

func record(tx *mailbox.Tx, d *Decision, digest string, e *mailbox.Entry, key string) {
	if e == nil {
		e = &mailbox.Entry{}
	}
	tx.Record(key, e, protocol.ApprovalRecord{
		Event:      protocol.RecordApproval,
		EventID:    d.EventID,
		Agent:      tx.Self(),
		State:      string(d.State),
		DecisionID: d.ID,
		By:         d.By,
		Tool:       d.Tool,
		Scope:      string(d.Scope),
		Digest:     digest,
		Reason:     d.Reason,
	})
}

// Use marks that the call allowed by a decision begins, and reports whether it may. Each
// further call under a standing decision gets its own record.
func Use(tx *mailbox.Tx, id, eventID, digest string) bool {
	d := Find(&tx.View, id)
	switch {
	case d == nil || d.State != collab.ApprovalAllowed || d.Used && !d.Reusable():
		return false
	case d.Used:
		e := tx.Entry(eventID)
		d.EventID = eventID
		record(tx, d, digest, e, mailbox.UniqueKey(mailbox.DecisionPrefix+"used", time.Now().UnixMicro()))
		return tx.Err() == nil
	}
	d.Used = true
	save(tx, d)
	return tx.Err() == nil
}

// Cancel cancels the pending decisions of a turn.
func Cancel(tx *mailbox.Tx, turnID, reason string) {
	for _, d := range list(&tx.View, `turn_id = ? AND state = 'pending'`, turnID) {
		a, err := d.Cancel(string(tx.Self()), reason, time.Now())
		if err != nil {
			continue
		}
		Apply(tx, a)
		notifyBroker(tx, collab.DecisionCancel, "cancel:"+d.ID, collab.ApprovalDecideParams{ID: d.ID, Reason: reason})
	}
}

// RevokeSession revokes the decisions that last until the agent stops.
func RevokeSession(tx *mailbox.Tx) {
	for _, d := range list(&tx.View, `state = 'allowed' AND scope = 'session'`) {
		const reason = "the agent was restarted"
		if a, err := d.Revoke(string(tx.Self()), reason, time.Now()); err == nil {
			Apply(tx, a)
			notifyBroker(tx, collab.DecisionRevoke, "revoke:"+d.ID,
				collab.ApprovalDecideParams{ID: d.ID, Reason: reason})
		}
	}
}

func notifyBroker(tx *mailbox.Tx, m collab.Method[collab.ApprovalDecideParams, collab.ApprovalResult], key string,
	p collab.ApprovalDecideParams) {
	if tx.Options().Broker.Known() {
		tx.Enqueue(protocol.TopicBroker, mailbox.DecisionPrefix+key, m.Message(tx.Self(), p))
	}
}
