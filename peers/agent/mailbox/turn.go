package mailbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A Turn is one run of the harness over one event or several merged ones.
type Turn struct {
	ID        string
	EventID   string   // of the last fragment, which carries the others
	Merged    []string // all fragments, in order
	Chat      protocol.Topic
	ThreadKey string // one turn at a time runs there
	Author    string
	Mode      attention.Mode
	State     TurnState
	Seq       int64 // of the last fragment
	Rank      int
	Attempt   int // deliveries begun
	Failures  int
	Outbound  bool   // something was sent
	Body      string // of a digest; else what was wrong with the last try: the program's own error, or advice to the model
	Times
}

// Times are when things happen to a turn.
type Times struct {
	NotBefore time.Time
	FirstAt   time.Time // the first fragment came
	StartedAt time.Time
	Deadline  time.Time
	EndedAt   time.Time
}

// Ranks of turns: what goes first within a place.
const (
	RankUrgent = iota
	RankImmediate
	RankNormal
	RankDigest
)

// digestChat is the chat of a digest's turn: none. Its excerpts are of many chats,
// so it reads no more and acts nowhere.
const digestChat protocol.Topic = "digest"

// Scope returns the chat to which the tools of a turn belong.
func (t *Turn) Scope() protocol.Topic {
	if t.Mode == attention.ModeDigest {
		return digestChat
	}
	return t.Chat
}

// newTurn returns a queued turn for an event that it does not hold yet.
func newTurn(e *Entry) *Turn {
	return &Turn{
		ID: "turn_" + ulid.Make().String(), ThreadKey: e.ThreadKey(), Author: e.Content.Author.ID, Mode: e.Decision.Injection,
		State: TurnQueued, Rank: RankNormal,
	}
}

const turnNames = `turn_id, event_id, merged, chat, thread_key, author, mode, state, seq, rank, attempt, failures, outbound, body,
	not_before, first_at, started_at, deadline_at, ended_at`

// columns returns where, and from where, the columns of a turn go.
func (t *Turn) columns() []any {
	return []any{
		&t.ID, &t.EventID, jsonColumn{&t.Merged}, &t.Chat, &t.ThreadKey, &t.Author, &t.Mode, &t.State, &t.Seq, &t.Rank, &t.Attempt,
		&t.Failures, &t.Outbound, &t.Body, timeColumn{&t.NotBefore}, timeColumn{&t.FirstAt}, timeColumn{&t.StartedAt}, timeColumn{&t.Deadline},
		timeColumn{&t.EndedAt},
	}
}

func scanTurn(into **Turn) []any {
	*into = new(Turn)
	return (*into).columns()
}

func (v *View) turns(where string, args ...any) []*Turn {
	return store.All(v.Tx, scanTurn, `SELECT `+turnNames+` FROM turns `+where, args...)
}

// Turn returns a turn, or nil if there is none.
func (v *View) Turn(id string) *Turn {
	return first(v.Tx, scanTurn, `SELECT `+turnNames+` FROM turns WHERE turn_id = ?`, id)
}

// TurnsIn returns the turns in a state, the most pressing first, at most 500.
func (v *View) TurnsIn(s TurnState) []*Turn {
	return v.turns(`WHERE state = ? ORDER BY rank, seq LIMIT 500`, s)
}

// OverdueTurns returns the accepted turns whose deadline has passed.
func (v *View) OverdueTurns(now time.Time) []*Turn {
	return v.turns(`WHERE state = 'accepted' AND deadline_at <= ?`, timeColumn{&now})
}

// Recover queues the withdrawn turns of the last run of the program again, and
// returns those that were running. No queued turn keeps its deadline.
func (tx *Tx) Recover() []*Turn {
	tx.Exec(`UPDATE turns SET state = 'queued', deadline_at = 0 WHERE state IN ('queued', 'withdrawn')`)
	return tx.TurnsIn(TurnRunning)
}

// Fragments returns the events of a turn, in order.
func (v *View) Fragments(t *Turn) []*Entry {
	return v.entries(`JOIN json_each(?) AS fragment ON fragment.value = event_id ORDER BY fragment.key`, jsonColumn{t.Merged})
}

// SaveTurn inserts or replaces a turn.
func (tx *Tx) SaveTurn(t *Turn) {
	tx.Exec(`INSERT INTO turns (`+turnNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (turn_id) DO UPDATE SET event_id = excluded.event_id, merged = excluded.merged, mode = excluded.mode, state = excluded.state,
			seq = excluded.seq, rank = excluded.rank, attempt = excluded.attempt, failures = excluded.failures, body = excluded.body,
			outbound = max(outbound, excluded.outbound), not_before = excluded.not_before, first_at = excluded.first_at,
			started_at = excluded.started_at, deadline_at = excluded.deadline_at, ended_at = excluded.ended_at`,
		t.columns()...)
}

// OpenMarkup returns with what the last part of a turn's answer to these words ended that was not
// for people.
func OpenMarkup(v *View, turnID, revision string) string {
	of, inner, _ := strings.Cut(store.Value[string](v.Tx, `SELECT open_markup FROM turns WHERE turn_id = ?`, turnID), "\n")
	if of != revision {
		return ""
	}
	return inner
}

// SetOpenMarkup stores it.
func SetOpenMarkup(tx *Tx, turnID, revision, inner string) {
	if inner != "" {
		inner = revision + "\n" + inner
	}
	tx.Exec(`UPDATE turns SET open_markup = ?2 WHERE turn_id = ?1 AND open_markup <> ?2`, turnID, inner)
}

// A TurnRecord is the agent_event that tells of one run of the harness, so that
// turns can be counted from the activity log alone.
type TurnRecord struct {
	Event          string          `json:"event"` // "turn"
	EventID        string          `json:"eventId"`
	MergedEventIDs []string        `json:"mergedEventIds,omitempty"`
	Agent          protocol.PeerID `json:"agent"`
	Chat           protocol.Topic  `json:"chat"`
	TurnID         string          `json:"turnId"`
	Attempt        int             `json:"attempt"`
	Mode           string          `json:"mode"`  // immediate, buffered, notify or digest
	State          string          `json:"state"` // waiting, started, accepted, finished, failed, cancelled, interrupted
	Reason         string          `json:"reason,omitempty"`
	Cost
}

// A Cost is what a finished turn took.
type Cost struct {
	Model        string  `json:"model,omitempty"`
	InputTokens  int64   `json:"inputTokens,omitempty"`
	CachedTokens int64   `json:"cachedTokens,omitempty"` // of the input: out of the provider's cache
	OutputTokens int64   `json:"outputTokens,omitempty"`
	USD          float64 `json:"usd,omitempty"` // as the provider tells it
	ToolCalls    int     `json:"toolCalls,omitempty"`
	DurationMS   int64   `json:"durationMs,omitempty"`
}

// MoveTurn stores a turn in another state and records it. A turn that never started
// ends without a record. A state that may not follow is an error.
func (tx *Tx) MoveTurn(t *Turn, to TurnState, reason string, cost Cost) {
	word, ok := turnTransitions[t.State][to]
	if !ok {
		tx.Fail(fmt.Errorf("turn %s is %s and cannot become %s", t.ID, t.State, to))
		return
	}
	if t.State == TurnQueued && to != TurnRunning && t.Attempt == 0 {
		word = ""
	}
	if t.State = to; t.Ended() {
		t.EndedAt = time.Now()
	}
	tx.SaveTurn(t)
	if t.Ended() {
		reportUndelivered(tx, inTurn, t.ID)
	}
	if spent := cost.InputTokens + cost.OutputTokens; spent > 0 {
		tx.Exec(`UPDATE turns SET tokens = tokens + ? WHERE turn_id = ?`, spent, t.ID)
	}
	if word != "" {
		recordTurn(tx, t, word, reason, cost)
	}
}

// RecordWaiting records, once, that a queued turn cannot start for now.
func (tx *Tx) RecordWaiting(t *Turn, reason string) { recordTurn(tx, t, "waiting", reason, Cost{}) }

// RecordAttempt records that a harness delivers a running turn once more.
func (tx *Tx) RecordAttempt(t *Turn, attempt int) {
	t.Attempt = attempt
	tx.SaveTurn(t)
	recordTurn(tx, t, "started", "delivered again", Cost{})
}

func recordTurn(tx *Tx, t *Turn, word, reason string, cost Cost) {
	r := TurnRecord{
		Event: "turn", EventID: t.EventID, Agent: tx.m.id, Chat: t.Scope(), TurnID: t.ID, Attempt: tx.attemptsInMode(t), Mode: string(t.Mode),
		State: word, Reason: reason, Cost: cost,
	}
	if len(t.Merged) > 1 || t.Mode == attention.ModeDigest {
		r.MergedEventIDs = t.Merged
	}
	tx.Record(UniqueKey("turn:"+t.ID+":"+word, int64(t.Attempt)), tx.Entry(t.EventID), r)
}

// Withdraw makes the turn of an event begin anew, with the newest text: a queued
// one shows it anyway, one that is with the harness is stopped first.
func (tx *Tx) Withdraw(turnID, reason string) {
	if t := tx.Turn(turnID); t != nil && (t.State == TurnRunning || t.State == TurnAccepted) {
		tx.MoveTurn(t, TurnWithdrawn, reason, Cost{})
	}
}

// cancel ends a turn for good. Its run is stopped after the transaction, and its
// tools are refused from then on.
func (tx *Tx) cancel(t *Turn, reason string) {
	if t.Ended() {
		return
	}
	if t.State != TurnQueued {
		tx.OnCommit(func() { tx.m.opts.StopTurn(t.ID, reason) })
	}
	tx.MoveTurn(t, TurnCancelled, reason, Cost{})
}

// Compose queues a turn over events that are still held, if any are.
func (tx *Tx) Compose(events []*Entry) {
	if live := reloadHeld(tx, events); len(live) > 0 {
		last := live[len(live)-1]
		t := newTurn(last)
		t.Chat, t.Rank, t.FirstAt = tx.TurnChat(last), rankOf(live), live[0].ReceivedAt
		addFragments(tx, t, live)
	}
}

// Extend adds held events to the turn that waits or runs over the fragments before
// them, if that came after since and has sent nothing. It begins anew, not before
// due. It reports whether there was such a turn.
func (tx *Tx) Extend(events []*Entry, since, due time.Time) bool {
	last := events[len(events)-1]
	list := tx.turns(`WHERE chat = ? AND +thread_key = ? AND author = ? AND state IN ('queued', 'running', 'withdrawn')
		AND outbound = 0 AND mode IN ('immediate', 'buffered') AND first_at >= ? ORDER BY seq DESC LIMIT 1`,
		last.Chat, last.ThreadKey(), last.Content.Author.ID, timeColumn{&since})
	if len(list) == 0 {
		return false
	}
	t := list[0]
	carrier, live := tx.Entry(t.EventID), reloadHeld(tx, events)
	if carrier == nil || !carrier.Mergeable() || carrier.Settled() || carrier.Decision.Reason == "claim_granted" || len(live) == 0 {
		return false
	}
	if t.State == TurnRunning {
		tx.MoveTurn(t, TurnWithdrawn, "a fragment came before an answer", Cost{})
	}
	t.NotBefore, t.Rank, t.Mode = due, min(t.Rank, rankOf(live)), live[len(live)-1].Decision.Injection
	addFragments(tx, t, append([]*Entry{carrier}, live...))
	return true
}

// addFragments adds events to a turn, which carries their last one from now on. All others of
// it end superseded.
func addFragments(tx *Tx, t *Turn, events []*Entry) {
	last := events[len(events)-1]
	for _, e := range events {
		if !slices.Contains(t.Merged, e.EventID) {
			t.Merged = append(t.Merged, e.EventID)
		}
	}
	t.EventID, t.Seq = last.EventID, last.Seq
	tx.SaveTurn(t)
	for _, e := range events[:len(events)-1] {
		e.TurnID, e.MergedInto = t.ID, last.EventID
		tx.Move(e, Supersede, "merged into "+last.EventID)
	}
	last.TurnID, last.DeadlineAt = t.ID, time.Time{}
	tx.Move(last, Join, "")
}

// reloadHeld reads events anew and returns those that are held: an edit or a
// deletion may have come between.
func reloadHeld(tx *Tx, list []*Entry) (live []*Entry) {
	for _, e := range list {
		if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == Held {
			live = append(live, fresh)
		}
	}
	return live
}

// Mergeable reports whether an event may be one of several in a turn: messages
// merge; knocks, edits, work and requests to leave stand alone.
func (e *Entry) Mergeable() bool {
	return e.Decision.Action != attention.ActionLeave && e.Decision.Injection.Injects() && e.Content.Event == protocol.EventMessage
}

func rankOf(list []*Entry) int {
	rank := RankNormal
	for _, e := range list {
		switch {
		case e.Decision.Injection != attention.ModeImmediate:
		case e.Decision.Priority == attention.PriorityUrgent:
			return RankUrgent
		default:
			rank = RankImmediate
		}
	}
	return rank
}

// attemptsInMode returns which try of its mode a turn is: that an event was knocked for is no
// try of the turn that has it by a claim.
func (v *View) attemptsInMode(t *Turn) int {
	if t.Mode == attention.ModeNotify {
		return t.Attempt
	}
	return t.Attempt - store.Value[int](v.Tx, `SELECT coalesce(max(attempt), 0) FROM turns WHERE event_id = ? AND mode = 'notify' AND attempt < ?`, t.EventID, t.Attempt)
}

// Requeue queues another turn of an event, with all its fragments and the attempts
// counted on.
func (tx *Tx) Requeue(e *Entry) {
	t := newTurn(e)
	t.Chat, t.EventID, t.Merged, t.Seq, t.FirstAt, t.NotBefore = tx.TurnChat(e), e.EventID, []string{e.EventID}, e.Seq, e.ReceivedAt, time.Now()
	if before := tx.Turn(e.TurnID); before != nil {
		t.Attempt, t.Merged = before.Attempt, before.Merged
	}
	tx.SaveTurn(t)
	e.TurnID, e.DeadlineAt = t.ID, time.Time{}
	tx.Move(e, Join, "")
}

// NextDigest returns the events that wait for the next digest, in order, at most 1,000.
func (v *View) NextDigest() []*Entry {
	return v.entries(`WHERE mode = 'digest' AND seq > ? ORDER BY seq LIMIT 1000`, v.Counter("digest_seq"))
}

// Digest queues the turn of a digest over these events; no later digest tells of them.
// It runs apart from every chat.
func (tx *Tx) Digest(list []*Entry, ids []string, body string) {
	last := list[len(list)-1]
	t := newTurn(last)
	t.EventID, t.Merged, t.Chat, t.ThreadKey, t.Author = strings.Replace(t.ID, "turn_", "digest_", 1), ids, last.Chat, "\x00digest", ""
	t.Mode, t.Seq, t.Rank, t.FirstAt, t.Body = attention.ModeDigest, last.Seq, RankDigest, list[0].ReceivedAt, body
	tx.SaveTurn(t)
	tx.SetCounter("digest_seq", last.Seq)
}
