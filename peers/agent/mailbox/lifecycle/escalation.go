package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

//
// An event that needs an answer, and that the agent cannot answer, is escalated: the next level
// of the escalation policy is asked while the event is deferred. The first answer is passed on to
// the author. If none comes in time, the next level is asked. Questions are closed when the event
// is settled.

const (
	maxOpenEscalations  = 5        // of one person or agent at a time
	maxEscalationQuote  = 1200     // bytes of the original messages in the question
	maxEscalationAnswer = 48 << 10 // bytes
)

// An escalation is a question to one level of the policy.
type escalation struct {
	id, event      string
	level          attention.Level
	who            string
	reason, notice string
}

func scanEscalation(r *escalation) []any {
	return []any{&r.id, &r.event, &r.level, &r.who, &r.reason, &r.notice}
}

// escalations returns escalations, oldest first.
func escalations(v *mailbox.View, where string, args ...any) []escalation {
	return store.All(v.Tx, scanEscalation,
		`SELECT question_id, event_id, level, who, reason, notice FROM escalations WHERE `+where+` ORDER BY asked_at`,
		args...)
}

// Escalate asks the next level to answer an event that the agent cannot answer, and reports
// whether it did. notice is sent to the author if nobody answers. An escalation question from
// another agent is not escalated further: that agent asks its own next level.
func Escalate(tx *mailbox.Tx, e *mailbox.Entry, reason, notice string) bool {
	if _, ok := mailbox.Next(e.State, mailbox.Defer); !ok && e.State != mailbox.Deferred ||
		collab.IsEscalationQuestion(e.Origin.QuestionID) || e.FromAgent() && !mayNotify(&tx.View, e) {
		return false
	}
	policy := tx.Options().Escalation.WithOwners(e.Origin.Lead, e.Origin.Owner)
	state := attention.Escalation{
		Self: string(tx.Self()), Author: e.AuthorIdentity(), Asked: map[attention.Level]string{},
		Unreachable: map[attention.Level]bool{}, Busy: map[attention.Level]bool{},
	}
	for _, r := range escalations(&tx.View, `event_id = ?`, e.EventID) {
		state.Asked[r.level] = r.who
	}
	for _, name := range []attention.Level{attention.LevelLead, attention.LevelOwner, attention.LevelPerson} {
		if who := policy.Target(name); who != "" {
			state.Unreachable[name] = tx.FindPerson(who, e.Chat) == nil && !tx.Options().Broker.Known()
			state.Busy[name] = store.Value[int](tx.Tx, `SELECT count(*) FROM escalations WHERE who = ? AND open = 1`,
				who) >= maxOpenEscalations
		}
	}
	step := policy.Next(state)
	if step.Level == attention.LevelAuthor && step.Reason == "unanswered" { // there is no further level
		return false
	}
	recordEscalation(tx, e, protocol.EscalationRecord{Rung: string(step.Level), To: step.To, Reason: step.Reason})
	if step.Level == attention.LevelAuthor {
		return false
	}
	askLevel(tx, e, step, reason, notice)
	e.DeadlineAt = time.Now().Add(policy.Timeout)
	if e.State == mailbox.Deferred {
		tx.Save(e)
	} else {
		tx.Move(e, mailbox.Defer, reason)
	}
	return true
}

// recordEscalation records a step of an escalation.
func recordEscalation(tx *mailbox.Tx, e *mailbox.Entry, r protocol.EscalationRecord) {
	r.Event, r.EventID, r.Agent = protocol.RecordEscalation, e.EventID, tx.Self()
	tx.Record(mailbox.UniqueKey("escalation", e.Seq), e, r)
}

// askLevel asks a question: a person in their chat, anybody else through the broker.
func askLevel(tx *mailbox.Tx, e *mailbox.Entry, step attention.EscalationStep, reason, notice string) {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(tx.Self()), string(e.Chat), e.EventID, string(step.Level)},
		"\x00")))
	id, question := collab.EscalationQuestionID(hex.EncodeToString(sum[:10])), escalationQuestion(tx, e, reason)
	tx.Exec(`INSERT INTO escalations (question_id, event_id, level, who, open, reason, notice, asked_at) VALUES (?, ?, ?, ?, 1, ?, ?, ?)`,
		id, e.EventID, step.Level, step.To, reason, notice, time.Now().UnixMicro())
	if there := tx.FindPerson(step.To, e.Chat); there != nil {
		tx.ShowQuestion(id, there, question)
		return
	}
	tx.Enqueue(protocol.TopicBroker, "ask:"+id, collab.QuestionAsk.Message(tx.Self(),
		collab.QuestionParams{ID: &id, Title: question, AskedOfID: step.To, OnBehalfOf: e.OnBehalfOf()}))
}

// escalationQuestion returns the question, with the original messages, their author, and why the
// agent does not answer.
func escalationQuestion(tx *mailbox.Tx, e *mailbox.Entry, reason string) string {
	said, author := []string{}, e.Content.Author
	for _, f := range append(fragmentsBefore(tx, e), e) {
		said = append(said, f.Content.Text)
	}
	quoted := text.Clip(strings.TrimSpace(strings.Join(said, "\n")), maxEscalationQuote)
	return fmt.Sprintf("%s cannot answer %s (%s). Please answer instead; it will forward your answer. The "+
		"message:\n> %s", tx.Self().Name(),
		attention.HeaderValue(cmp.Or(author.DisplayName, author.Username, author.ID)),
		text.Clip(attention.HeaderValue(reason), 200),
		strings.ReplaceAll(quoted, "\n", "\n> "))
}

// fragmentsBefore returns the events that were merged into an event's turn before it.
func fragmentsBefore(tx *mailbox.Tx, e *mailbox.Entry) (list []*mailbox.Entry) {
	if t := tx.Turn(e.TurnID); t != nil && t.EventID == e.EventID {
		for _, f := range tx.Fragments(t) {
			if f.EventID != e.EventID {
				list = append(list, f)
			}
		}
	}
	return list
}

// escalateFurther asks the next level after the time for an answer has passed. It reports whether
// the event was escalated before.
func escalateFurther(tx *mailbox.Tx, e *mailbox.Entry) bool {
	before := escalations(&tx.View, `event_id = ?`, e.EventID)
	if len(before) == 0 {
		return false
	}
	GiveUpWithNotice(tx, e, before[0].reason, before[0].notice)
	return true
}

// HandleEscalationAnswer handles the answer to an escalation question, and reports whether id
// names one. The first answer is passed on as the answer to the event.
func HandleEscalationAnswer(tx *mailbox.Tx, id, answer, by string) bool {
	list := escalations(&tx.View, `question_id = ?`, id)
	if len(list) == 0 {
		return false
	}
	if e := tx.Entry(list[0].event); e != nil && e.State == mailbox.Deferred && tx.SentAs(mailbox.ReplyKey(e)) == nil {
		recordEscalation(tx, e, protocol.EscalationRecord{
			Rung:  string(list[0].level),
			To:    list[0].who,
			State: "answered",
			By:    by,
		})
		tx.SendText(e, mailbox.SentText, mailbox.ReplyKey(e), attention.HeaderValue(by)+" answers: "+
			text.Clip(answer, maxEscalationAnswer))
	}
	return true
}

// HandleEscalationDecline asks the next level at once if the newest escalation of an event was
// declined.
func HandleEscalationDecline(tx *mailbox.Tx, id string) {
	for _, r := range escalations(&tx.View, `question_id = ? AND open = 1`, id) {
		all := escalations(&tx.View, `event_id = ?`, r.event)
		if e := tx.Entry(r.event); e != nil && e.State == mailbox.Deferred && all[len(all)-1].id == id {
			escalateFurther(tx, e)
		}
	}
}

// CloseEscalation closes the open questions about an event that no longer needs an answer.
func CloseEscalation(tx *mailbox.Tx, e *mailbox.Entry) {
	for _, r := range escalations(&tx.View, `event_id = ? AND open = 1`, e.EventID) {
		tx.Exec(`UPDATE escalations SET open = 0 WHERE question_id = ?`, r.id)
		if tx.SentAs(mailbox.QuestionPrefix+r.id) != nil {
			mailbox.ReplaceQuestion(tx, r.id, "It no longer needs an answer.")
		} else {
			tx.Enqueue(protocol.TopicBroker, "close:"+r.id,
				collab.QuestionClose.Message(tx.Self(), collab.IDParams{ID: r.id}))
		}
	}
}

// unansweredNotice tells the author of an event who was asked and did not answer.
func unansweredNotice(tx *mailbox.Tx, e *mailbox.Entry) string {
	var names []string
	for _, r := range escalations(&tx.View, `event_id = ?`, e.EventID) {
		names = append(names, attention.HeaderValue(protocol.PeerID(r.who).Name()))
	}
	if len(names) == 0 {
		return ""
	}
	return " I asked " + strings.Join(names, " and ") + ", but got no answer."
}
