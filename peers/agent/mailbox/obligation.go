package mailbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An event of draft 2026-08-11 may oblige: its author waits until they, or their delegate, say that
// it is answered. Kept is one row for each event and recipient, and every act about it; what is
// due about it says attention.ObligationRecord.Next, and return.go does it.

// Limits of obligations, in bytes.
const (
	maxDefaultAction = 500
	maxTitle         = 160
)

// maxEarlyActs bounds the acts that are held for events which did not come yet.
const maxEarlyActs = 1000

// An Obligation is what somebody waits for from one recipient.
type Obligation struct {
	ID string // of the event, by which all who know it name it
	attention.ObligationRecord
	Blocks        attention.Blocks
	DefaultAction string
	Title         string
	Level         attention.Level // that it is, if the ladder made it
	Members       []string        // ids of those that it lists
	EventID       string          // of this mailbox
	attention.ReturnState
	CheckAt time.Time
	Open    bool
	State   attention.ObligationState
	Sync    SyncState
}

// SyncState says whether the broker has an obligation as it is.
type SyncState int

// The values of Told.
const (
	NotSynced  SyncState = iota
	Synced               // or it need not be
	AwaitingID           // its message is on its way, and its chat gives it the id by which others name it
)

// An Act is one act as it is kept.
type Act struct {
	ID, Target string
	attention.Act
}

const obligationNames = `id, recipient, author, delegate, blocks, default_action, mode, title, level, members, created_at, event_id,
	slot, missed, escalated, check_at, open, state, synced`

func (o *Obligation) columns() []any {
	return []any{
		&o.ID, &o.Recipient, &o.Author, &o.Delegate, &o.Blocks, &o.DefaultAction, &o.Mode, &o.Title, &o.Level, jsonColumn{&o.Members},
		timeColumn{&o.CreatedAt}, &o.EventID, &o.Slot, &o.Missed, &o.Escalated, timeColumn{&o.CheckAt}, &o.Open, &o.State, &o.Sync,
	}
}

func scanObligation(into **Obligation) []any {
	*into = &Obligation{}
	return (*into).columns()
}

func obligationsWhere(v *View, where string, args ...any) []*Obligation {
	list := store.All(v.Tx, scanObligation, `SELECT `+obligationNames+` FROM obligations WHERE `+where, args...)
	for _, o := range list {
		o.Escalation = o.Level != ""
	}
	return list
}

// findObligation returns what somebody waits for from a recipient on account of an event, or nil.
func findObligation(v *View, id, recipient string) *Obligation {
	if list := obligationsWhere(v, `id = ? AND recipient = ?`, id, recipient); len(list) > 0 {
		return list[0]
	}
	return nil
}

// saveObligation stores an obligation; what differs from before, the broker is told.
func saveObligation(tx *Tx, o *Obligation) {
	if o.Members == nil {
		o.Members = []string{}
	}
	tx.Exec(`INSERT OR REPLACE INTO obligations (`+obligationNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, o.columns()...)
}

// actsOn returns what was done about an event, in the order of the log.
func actsOn(v *View, target string) (list []attention.Act) {
	return store.All(v.Tx, func(a *attention.Act) []any {
		return []any{&a.Kind, &a.Actor, &a.Signal, &a.Recipient, timeColumn{&a.At}}
	}, `SELECT kind, actor, signal, recipient, at FROM acts WHERE target = ? ORDER BY n`, target)
}

// hasObligations reports whether the agent goes by a draft with obligations.
func (m *Mailbox) hasObligations() bool { return m.opts.Attention.Version == attention.Version0811 }

// HasObligations reports whether the agent goes by a draft with obligations.
func HasObligations(v *View) bool { return v.m.hasObligations() }

// Self returns whose mailbox it is.
func Self(v *View) protocol.PeerID { return v.m.id }

// Coordinator returns who may close what this agent waits for, if it names nobody: its lead.
func Coordinator(v *View) string { return v.m.opts.Escalation.Target(attention.LevelLead) }

// ObligationID is the id by which all who know an event name it.
func (e *Entry) ObligationID() string {
	return cmp.Or(e.Origin.QuestionID, e.Origin.MessageID, e.SourceID)
}

// partyIdentity returns the identity of a party that a chat names: a bare id is of its kind.
func partyIdentity(p protocol.Party, chat protocol.Topic) string {
	switch {
	case p.ID == "" || protocol.RoleOf(protocol.PeerID(p.ID)) != protocol.RoleUnknown:
		return p.ID
	case p.Kind == string(attention.AuthorAgent):
		return "agent:" + p.ID
	}
	return protocol.PeerID(chat).Family() + ":" + strings.TrimPrefix(p.ID, string(attention.AuthorHuman)+":")
}

// OpenObligation keeps that the author of an event waits for this agent. What opens again the same
// question of that author ends a pause.
func OpenObligation(tx *Tx, e *Entry) {
	given := e.Content.Obligation
	if !e.Decision.Obliges || given == nil {
		return
	}
	o := &Obligation{
		ID: e.ObligationID(), EventID: e.EventID, Blocks: parseBlocks(given.Blocks), Open: true, State: attention.ObligationOpen, CheckAt: time.Now(),
		DefaultAction: text.Clip(text.OneLine(given.DefaultAction), maxDefaultAction), Title: titleOf(strings.TrimPrefix(e.Content.Text, "Question "+e.Origin.QuestionID+" (open): ")), // as a wake has it
		ObligationRecord: attention.ObligationRecord{Author: e.AuthorIdentity(), Recipient: string(tx.m.id), Mode: e.Decision.Injection, CreatedAt: creationTime(e)},
	}
	if isEscalation(e) {
		o.Level = attention.LevelLead
		o.Escalation = true
	}
	if given.DischargeDelegate != nil {
		o.Delegate = partyIdentity(*given.DischargeDelegate, e.Chat)
	}
	if findObligation(&tx.View, o.ID, o.Recipient) != nil { // an edit of it, or the event once more
		return
	}
	saveObligation(tx, o)
	recordObligation(tx, o, "opened", "", nil)
	for _, before := range obligationsWhere(&tx.View, `author = ? AND recipient = ? AND id <> ? AND open = 1 AND state = 'paused'`, o.Author, o.Recipient, o.ID) {
		if there := tx.Entry(before.EventID); there != nil && there.ThreadKey() == e.ThreadKey() {
			RecordAct(tx, Act{ID: "renewed:" + before.ID + ":" + o.ID, Target: before.ID, Act: attention.Act{Kind: attention.ActRenewed, Actor: o.Author}})
		}
	}
	applyActs(tx, o, nil)
}

// isEscalation reports whether an event is a rung of somebody's ladder.
func isEscalation(e *Entry) bool { return IsEscalation(e.Origin.QuestionID) }

// parseBlocks reads how the author fares; whatever else is said means that it waits.
func parseBlocks(said string) attention.Blocks {
	if b := attention.Blocks(said); slices.Contains(attention.AllBlocks, b) {
		return b
	}
	return attention.BlocksNone
}

func titleOf(said string) string {
	return text.Clip(text.OneLine(strings.TrimSpace(said)), maxTitle)
}

// creationTime is when an event was created as its log says, and not in the future.
func creationTime(e *Entry) time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.Content.CreatedAt)
	if err != nil || at.After(e.ReceivedAt) {
		return e.ReceivedAt
	}
	return at
}

// RecordAct keeps an act once, and sees to what it comes to. One about an event that is not known is
// held until that comes.
func RecordAct(tx *Tx, a Act) {
	if !tx.m.hasObligations() || a.Target == "" || a.Actor == "" {
		return
	}
	known := obligationsWhere(&tx.View, `id = ?`, a.Target)
	if len(known) == 0 && store.Value[int](tx.Tx, `SELECT count(*) FROM acts WHERE target NOT IN (SELECT id FROM obligations)`) >= maxEarlyActs {
		tx.Exec(`DELETE FROM acts WHERE n = (SELECT min(n) FROM acts WHERE target NOT IN (SELECT id FROM obligations))`)
	}
	a.Kind, a.ID = cmp.Or(a.Kind, attention.ActSignal), cmp.Or(a.ID, actID(a))
	if a.At.IsZero() {
		a.At = time.Now()
	}
	if tx.ExecCount(`INSERT OR IGNORE INTO acts (id, target, kind, actor, signal, recipient, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.Target, a.Kind, a.Actor, a.Signal, a.Recipient, timeColumn{&a.At}) == 0 {
		return
	}
	for _, o := range known {
		applyActs(tx, o, &a.Act)
	}
}

// actID names an act that has no id of its own: the same of the same actor is one.
func actID(a Act) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{a.Target, string(a.Kind), a.Actor, string(a.Signal), a.Recipient}, "\x00")))
	return "rxn_" + hex.EncodeToString(sum[:10])
}

// applyActs does what the newest act about an obligation comes to; nil: whatever was held for it.
func applyActs(tx *Tx, o *Obligation, newest *attention.Act) {
	s := o.Status(actsOn(&tx.View, o.ID))
	if newest != nil {
		if effect, reason := o.Effect(*newest); effect == attention.EffectExtend || reason == "evidence" {
			recordObligation(tx, o, string(effect), reason, map[string]any{"by": newest.Actor, "signal": newest.Signal})
		}
	}
	before := o.State
	o.State, o.CheckAt = s.State, time.Now()
	if before != s.State {
		recordObligation(tx, o, string(s.State), s.Reason, map[string]any{"by": s.By})
	}
	if o.Open = s.State != attention.ObligationDischarged; !o.Open {
		o.CheckAt = time.Time{}
	}
	saveObligation(tx, o)
	switch {
	case before == s.State:
	case !o.Open:
		endObligation(tx, o)
	case s.State == attention.ObligationPaused && o.Recipient == string(tx.m.id):
		requestClarification(tx, o)
	case before == attention.ObligationPaused:
		closeOwn(tx, clarifyKey(o)+"%", "clarified")
	}
	tx.OnCommit(tx.m.opts.OnChange)
}

// endObligation ends what went with an obligation that is discharged: its returns, what it asked
// of its author, and the rungs of which it was the last.
func endObligation(tx *Tx, o *Obligation) {
	for _, e := range tx.entries(`WHERE kind = 'return' AND `+isOpen+` AND json_extract(content, '$.targetEventId') = ?`, o.ID) {
		if t := tx.Turn(e.TurnID); t != nil && t.State == TurnQueued {
			tx.cancel(t, "the obligation is discharged")
		}
		tx.Move(e, Supersede, "the obligation is discharged")
	}
	closeOwn(tx, clarifyKey(o)+"%", "discharged")
	for _, r := range obligationsWhere(&tx.View, `author = ? AND level <> '' AND open = 1`, tx.m.id) {
		if slices.Contains(r.Members, o.ID) && !slices.ContainsFunc(r.Members, func(id string) bool {
			return len(obligationsWhere(&tx.View, `id = ? AND open = 1 AND recipient = ?`, id, tx.m.id)) > 0
		}) {
			closeOwn(tx, r.ID, "all that it lists is discharged")
		}
	}
	if o.Author == string(tx.m.id) {
		showClosed(tx, o)
	}
}

// closeOwn discharges what this agent's host asked of somebody itself, by the pattern of its id.
func closeOwn(tx *Tx, id, why string) {
	for _, o := range obligationsWhere(&tx.View, `id LIKE ? AND author = ? AND open = 1`, id, tx.m.id) {
		RecordAct(tx, Act{ID: "close:" + o.ID, Target: o.ID, Act: attention.Act{Actor: o.Author, Signal: attention.SignalDone, Recipient: o.Recipient}})
		recordObligation(tx, o, "withdrawn", why, nil)
	}
}

// recordObligation tells of an obligation on the record.
func recordObligation(tx *Tx, o *Obligation, state, reason string, more map[string]any) {
	record := map[string]any{
		"event": "obligation", "eventId": cmp.Or(o.EventID, o.ID), "agent": tx.m.id, "obligationId": o.ID, "state": state, "author": o.Author, "recipient": o.Recipient,
		"blocks": o.Blocks, "age": o.Age(time.Now()),
	}
	if reason != "" {
		record["reason"] = reason
	}
	for k, v := range more {
		record[k] = v
	}
	tx.Record(UniqueKey("obligation:"+state, o.CreatedAt.Unix()), tx.Entry(o.EventID), record)
}

// OpenObligations returns what is open of one side: what a recipient owes, or what an author or
// delegate waits for, the most pressing first.
func OpenObligations(v *View, recipient, author string) []*Obligation {
	list := obligationsWhere(v, `open = 1 AND (recipient = ?1 OR ?1 = '') AND (author = ?2 OR delegate = ?2 OR ?2 = '')`, recipient, author)
	slices.SortStableFunc(list, func(a, b *Obligation) int {
		return cmp.Or(cmp.Compare(slices.Index(attention.AllBlocks, a.Blocks), slices.Index(attention.AllBlocks, b.Blocks)), a.CreatedAt.Compare(b.CreatedAt))
	})
	return list
}
