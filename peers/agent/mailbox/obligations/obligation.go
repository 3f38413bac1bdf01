package obligations

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

//
// An event of draft 2026-08-11 may create an obligation: its author waits until they, or their
// delegate, close it. The mailbox stores one row per event and recipient, and every act about it.
// attention.ObligationRecord.Next decides what is due.

// Limits of obligations, in bytes.
const (
	maxDefaultAction = 500
	maxTitle         = 160
)

// maxEarlyActs bounds the acts that are kept for events that have not arrived yet.
const maxEarlyActs = 1000

// An Obligation is an answer that an author waits for from one recipient.
type Obligation struct {
	ID string // of the event; all participants use it
	attention.ObligationRecord
	Blocks        attention.Blocks
	DefaultAction string
	Title         string
	Level         attention.Level // of the escalation that created it; empty for others
	Members       []string        // ids of the obligations that an escalation lists
	EventID       string          // in this mailbox
	attention.ReturnState
	CheckAt time.Time
	Open    bool
	State   attention.ObligationState
	Sync    SyncState
}

// A SyncState says whether the broker has the current version of an obligation.
type SyncState int

// The sync states.
const (
	NotSynced  SyncState = iota
	Synced               // or the broker need not have it
	AwaitingID           // the chat has not assigned an id to the message yet
)

// An Act is a stored act about an obligation.
type Act struct {
	ID, Target string
	attention.Act
}

const columnNames = `id, recipient, author, delegate, blocks, default_action, mode, title, level, members, created_at, event_id,
	slot, missed, escalated, check_at, open, state, synced`

func (o *Obligation) columns() []any {
	return []any{
		&o.ID, &o.Recipient, &o.Author, &o.Delegate, &o.Blocks, &o.DefaultAction, &o.Mode, &o.Title, &o.Level,
		store.JSON{V: &o.Members},
		store.Micros{Time: &o.CreatedAt}, &o.EventID, &o.Slot, &o.Missed, &o.Escalated, store.Micros{Time: &o.CheckAt},
		&o.Open,
		&o.State, &o.Sync,
	}
}

func scan(into **Obligation) []any {
	*into = &Obligation{}
	return (*into).columns()
}

// List returns the obligations of a query. where follows SELECT ... FROM obligations WHERE.
func List(v *mailbox.View, where string, args ...any) []*Obligation {
	list := store.All(v.Tx, scan, `SELECT `+columnNames+` FROM obligations WHERE `+where, args...)
	for _, o := range list {
		o.Escalation = o.Level != ""
	}
	return list
}

// find returns the obligation of a recipient for an event, or nil.
func find(v *mailbox.View, id, recipient string) *Obligation {
	if list := List(v, `id = ? AND recipient = ?`, id, recipient); len(list) > 0 {
		return list[0]
	}
	return nil
}

// save stores an obligation. The broker is notified of changes.
func save(tx *mailbox.Tx, o *Obligation) {
	if o.Members == nil {
		o.Members = []string{}
	}
	tx.Exec(`INSERT OR REPLACE INTO obligations (`+columnNames+
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, o.columns()...)
}

// actsOn returns the acts about an event, oldest first.
func actsOn(v *mailbox.View, target string) (list []attention.Act) {
	return store.All(v.Tx, func(a *attention.Act) []any {
		return []any{&a.Kind, &a.Actor, &a.Signal, &a.Recipient, store.Micros{Time: &a.At}}
	}, `SELECT kind, actor, signal, recipient, at FROM acts WHERE target = ? ORDER BY n`, target)
}

// Enabled reports whether the agent uses a draft with obligations.
func Enabled(v *mailbox.View) bool {
	return v.Options().Attention.Version == attention.Version0811
}

// Facts returns the recorded facts that a decision about an event needs.
func Facts(v *mailbox.View, e *mailbox.Entry) attention.Facts {
	facts := v.Facts(e)
	if o := OfReturn(v, e); o != nil {
		facts.Waited = time.Since(o.CreatedAt)
	}
	return facts
}

// ReplyContext returns the recorded facts that decide whether the agent may reply to an event now. text is
// the intended reply. e may be nil.
func ReplyContext(v *mailbox.View, e *mailbox.Entry, text string) attention.ReplyContext {
	s := v.ReplyContext(e, text)
	if e == nil {
		return s
	}
	if o := Of(v, e); o != nil && o.Open { // an open obligation may always be answered
		s.Exchange, s.Left = attention.ExchangeAllow, false
	}
	return s
}

// Coordinator returns the default delegate of the agent's obligations: its lead.
func Coordinator(v *mailbox.View) string { return v.Options().Escalation.Target(attention.LevelLead) }

// Open stores that the author of an event waits for this agent. It resumes paused
// obligations of the same author in the same thread.
func Open(tx *mailbox.Tx, e *mailbox.Entry) {
	given := e.Content.Obligation
	if !e.Decision.Obliges || given == nil {
		return
	}
	o := &Obligation{
		ID: e.ObligationID(), EventID: e.EventID, Blocks: mailbox.ParseBlocks(given.Blocks), Open: true,
		State: attention.ObligationOpen, CheckAt: time.Now(),
		// wakes have this prefix
		DefaultAction: text.Clip(text.OneLine(given.DefaultAction), maxDefaultAction),
		Title:         titleOf(strings.TrimPrefix(e.Content.Text, "Question "+e.Origin.QuestionID+" (open): ")),
		ObligationRecord: attention.ObligationRecord{Author: e.AuthorIdentity(), Recipient: string(tx.Self()),
			Mode: e.Decision.Injection, CreatedAt: e.SentAt()},
	}
	if isEscalation(e) {
		o.Level = attention.LevelLead
		o.Escalation = true
	}
	if given.DischargeDelegate != nil {
		o.Delegate = mailbox.PartyIdentity(*given.DischargeDelegate, e.Chat)
	}
	if find(&tx.View, o.ID, o.Recipient) != nil { // an edit, or the same event again
		return
	}
	save(tx, o)
	record(tx, o, "opened", "", protocol.ObligationRecord{})
	for _, before := range List(&tx.View, `author = ? AND recipient = ? AND id <> ? AND open = 1 AND state = 'paused'`,
		o.Author, o.Recipient, o.ID) {
		if there := tx.Entry(before.EventID); there != nil && there.ThreadKey() == e.ThreadKey() {
			RecordAct(tx, Act{ID: "renewed:" + before.ID + ":" + o.ID, Target: before.ID,
				Act: attention.Act{Kind: attention.ActRenewed, Actor: o.Author}})
		}
	}
	applyActs(tx, o, nil)
}

func titleOf(said string) string {
	return text.Clip(text.OneLine(strings.TrimSpace(said)), maxTitle)
}

// RecordAct stores an act once and applies it. An act about an unknown event is kept until the
// event arrives.
func RecordAct(tx *mailbox.Tx, a Act) {
	if !Enabled(&tx.View) || a.Target == "" || a.Actor == "" {
		return
	}
	known := List(&tx.View, `id = ?`, a.Target)
	if len(known) == 0 && store.Value[int](tx.Tx,
		`SELECT count(*) FROM acts WHERE target NOT IN (SELECT id FROM obligations)`) >= maxEarlyActs {
		tx.Exec(`DELETE FROM acts WHERE n = (SELECT min(n) FROM acts WHERE target NOT IN (SELECT id FROM obligations))`)
	}
	a.Kind, a.ID = cmp.Or(a.Kind, attention.ActSignal), cmp.Or(a.ID, actID(a))
	if a.At.IsZero() {
		a.At = time.Now()
	}
	if tx.ExecCount(`INSERT OR IGNORE INTO acts (id, target, kind, actor, signal, recipient, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.Target, a.Kind, a.Actor, a.Signal, a.Recipient, store.Micros{Time: &a.At}) == 0 {
		return
	}
	for _, o := range known {
		applyActs(tx, o, &a.Act)
	}
}

// actID returns an id for an act without one. Equal acts of the same actor have the same id.
func actID(a Act) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{a.Target, string(a.Kind), a.Actor, string(a.Signal), a.Recipient},
		"\x00")))
	return "rxn_" + hex.EncodeToString(sum[:10])
}

// applyActs updates an obligation after a new act. newest is nil for a new obligation whose acts
// arrived earlier.
func applyActs(tx *mailbox.Tx, o *Obligation, newest *attention.Act) {
	s := o.Status(actsOn(&tx.View, o.ID))
	if newest != nil {
		if effect, reason := o.Effect(*newest); effect == attention.EffectExtend || reason == "evidence" {
			record(tx, o, string(effect), reason,
				protocol.ObligationRecord{By: &newest.Actor, Signal: new(string(newest.Signal))})
		}
	}
	before := o.State
	o.State, o.CheckAt = s.State, time.Now()
	if before != s.State {
		record(tx, o, string(s.State), s.Reason, protocol.ObligationRecord{By: &s.By})
	}
	if o.Open = s.State != attention.ObligationDischarged; !o.Open {
		o.CheckAt = time.Time{}
	}
	save(tx, o)
	switch {
	case before == s.State:
	case !o.Open:
		end(tx, o)
	case s.State == attention.ObligationPaused && o.Recipient == string(tx.Self()):
		requestClarification(tx, o)
	case before == attention.ObligationPaused:
		closeOwn(tx, clarifyKey(o)+"%", "clarified")
	}
	tx.OnCommit(tx.Options().OnChange)
}

// end cleans up after a discharged obligation: its returns, its clarification
// questions, and the escalations that list no other open obligation.
func end(tx *mailbox.Tx, o *Obligation) {
	for _, e := range tx.Events(`WHERE kind = 'return' AND `+mailbox.OpenCondition+
		` AND json_extract(content, '$.targetEventId') = ?`, o.ID) {
		if t := tx.Turn(e.TurnID); t != nil && t.State == mailbox.TurnQueued {
			tx.CancelTurn(t, "the obligation is discharged")
		}
		tx.Move(e, mailbox.Supersede, "the obligation is discharged")
	}
	closeOwn(tx, clarifyKey(o)+"%", "discharged")
	for _, r := range List(&tx.View, `author = ? AND level <> '' AND open = 1`, tx.Self()) {
		if slices.Contains(r.Members, o.ID) && !slices.ContainsFunc(r.Members, func(id string) bool {
			return len(List(&tx.View, `id = ? AND open = 1 AND recipient = ?`, id, tx.Self())) > 0
		}) {
			closeOwn(tx, r.ID, "all that it lists is discharged")
		}
	}
	if o.Author == string(tx.Self()) {
		showClosed(tx, o)
	}
}

// CloseUndelivered closes the obligation in a message that will never be delivered.
func CloseUndelivered(tx *mailbox.Tx, id protocol.MessageID) {
	closeOwn(tx, string(id), "not_delivered")
}

// closeOwn discharges the agent's own obligations whose ids match a LIKE pattern.
func closeOwn(tx *mailbox.Tx, id, why string) {
	for _, o := range List(&tx.View, `id LIKE ? AND author = ? AND open = 1`, id, tx.Self()) {
		RecordAct(tx, Act{ID: "close:" + o.ID, Target: o.ID,
			Act: attention.Act{Actor: o.Author, Signal: attention.SignalDone, Recipient: o.Recipient}})
		record(tx, o, "withdrawn", why, protocol.ObligationRecord{})
	}
}

// record records a change of an obligation.
func record(tx *mailbox.Tx, o *Obligation, state, reason string, r protocol.ObligationRecord) {
	r.Event, r.Agent, r.State, r.Reason = protocol.RecordObligation, tx.Self(), state, reason
	r.EventID, r.ObligationID, r.Author, r.Recipient = cmp.Or(o.EventID, o.ID), o.ID, o.Author, o.Recipient
	r.Blocks, r.Age = string(o.Blocks), o.Age(time.Now())
	tx.Record(mailbox.UniqueKey("obligation:"+state, o.CreatedAt.Unix()), tx.Entry(o.EventID), r)
}

// ListOpen returns the open obligations of a recipient, or of an author or delegate, most
// urgent first. An empty argument matches all.
func ListOpen(v *mailbox.View, recipient, author string) []*Obligation {
	list := List(v, `open = 1 AND (recipient = ?1 OR ?1 = '') AND (author = ?2 OR delegate = ?2 OR ?2 = '')`, recipient,
		author)
	slices.SortStableFunc(list, func(a, b *Obligation) int {
		return cmp.Or(cmp.Compare(slices.Index(attention.AllBlocks, a.Blocks),
			slices.Index(attention.AllBlocks, b.Blocks)), a.CreatedAt.Compare(b.CreatedAt))
	})
	return list
}
