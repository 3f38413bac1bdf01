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

// A Turn is a run of the harness over one event or several merged events.
type Turn struct {
	ID        string
	EventID   string   // of the last fragment, which the others are merged into
	Merged    []string // ids of all fragments, in order
	Chat      protocol.Topic
	ThreadKey string // one turn at a time runs there
	Author    string
	Mode      attention.Mode
	State     TurnState
	Seq       int64 // of the last fragment
	Rank      int
	Attempt   int // deliveries started
	Failures  int
	Outbound  bool   // something was sent
	Body      string // of a digest, or what failed in the last attempt: the program's own error, or advice to the model
	Times
}

// Times are when things happen to a turn.
type Times struct {
	NotBefore time.Time
	FirstAt   time.Time // when the first fragment arrived
	StartedAt time.Time
	Deadline  time.Time
	EndedAt   time.Time

	// InterruptedAt is when the agent stopped during the last run of a turn that is queued with the
	// same content.
	InterruptedAt time.Time
}

// Ranks of turns in the order in which they start.
const (
	RankUrgent = iota
	RankImmediate
	RankNormal
	RankDigest
)

// digestChat is the scope of digests. A digest quotes many chats, so its turn may read no more
// and act nowhere.
const digestChat protocol.Topic = "digest"

// Scope returns the chat that the turn's tools belong to.
func (t *Turn) Scope() protocol.Topic {
	if t.Mode == attention.ModeDigest {
		return digestChat
	}
	return t.Chat
}

// newTurn returns a queued turn for an event, still without the event.
func newTurn(e *Entry) *Turn {
	return &Turn{
		ID: "turn_" + ulid.Make().String(), ThreadKey: e.ThreadKey(), Author: e.Content.Author.ID,
		Mode:  e.Decision.Injection,
		State: TurnQueued, Rank: RankNormal,
	}
}

const turnNames = `turn_id, event_id, merged, chat, thread_key, author, mode, state, seq, rank, attempt, failures, outbound, body,
	not_before, first_at, started_at, deadline_at, ended_at, interrupted_at`

// columns returns pointers to the fields of the turn in the order of turnNames.
func (t *Turn) columns() []any {
	return []any{
		&t.ID, &t.EventID, store.JSON{V: &t.Merged}, &t.Chat, &t.ThreadKey, &t.Author, &t.Mode, &t.State, &t.Seq,
		&t.Rank,
		&t.Attempt,
		&t.Failures, &t.Outbound, &t.Body, store.Micros{Time: &t.NotBefore}, store.Micros{Time: &t.FirstAt},
		store.Micros{Time: &t.StartedAt},
		store.Micros{Time: &t.Deadline},
		store.Micros{Time: &t.EndedAt},
		store.Micros{Time: &t.InterruptedAt},
	}
}

func scanTurn(into **Turn) []any {
	*into = new(Turn)
	return (*into).columns()
}

// Turns returns the turns of a query. where follows SELECT ... FROM turns.
func (v *View) Turns(where string, args ...any) []*Turn {
	return store.All(v.Tx, scanTurn, `SELECT `+turnNames+` FROM turns `+where, args...)
}

// Turn returns a turn, or nil if there is none.
func (v *View) Turn(id string) *Turn {
	return First(v.Tx, scanTurn, `SELECT `+turnNames+` FROM turns WHERE turn_id = ?`, id)
}

// TurnsIn returns at most 500 turns in a state, most urgent first. If there are more, the first turn of
// each thread comes before the second of any, so that no thread hides another.
func (v *View) TurnsIn(s TurnState) []*Turn {
	return v.Turns(`WHERE turn_id IN (SELECT turn_id FROM turns WHERE state = ?
		ORDER BY row_number() OVER (PARTITION BY chat, thread_key ORDER BY rank, seq), rank, seq LIMIT 500)
		ORDER BY rank, seq`, s)
}

// OverdueTurns returns the accepted turns whose deadline has passed.
func (v *View) OverdueTurns(now time.Time) []*Turn {
	return v.Turns(`WHERE state = 'accepted' AND deadline_at <= ?`, store.Micros{Time: &now})
}

// Recover requeues the turns that were withdrawn when the program last stopped, and returns those
// that were running. Queued turns lose their deadlines. Accepted turns get the
// full time for an answer again.
func (tx *Tx) Recover() []*Turn {
	deadline := time.Now().Add(tx.Options().Attention.Deadline)
	tx.Exec(`UPDATE turns SET deadline_at = max(deadline_at, ?) WHERE state = 'accepted' AND deadline_at > 0`,
		store.Micros{Time: &deadline})
	tx.Exec(`UPDATE turns SET state = 'queued', deadline_at = 0 WHERE state IN ('queued', 'withdrawn')`)
	return tx.TurnsIn(TurnRunning)
}

// Fragments returns the events of a turn, in order.
func (v *View) Fragments(t *Turn) []*Entry {
	return v.Events(`JOIN json_each(?) AS fragment ON fragment.value = event_id ORDER BY fragment.key`,
		store.JSON{V: t.Merged})
}

// SaveTurn inserts or replaces a turn.
func (tx *Tx) SaveTurn(t *Turn) {
	tx.Exec(`INSERT INTO turns (`+turnNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (turn_id) DO UPDATE SET event_id = excluded.event_id, merged = excluded.merged, mode = excluded.mode, state = excluded.state,
			seq = excluded.seq, rank = excluded.rank, attempt = excluded.attempt, failures = excluded.failures, body = excluded.body,
			outbound = max(outbound, excluded.outbound), not_before = excluded.not_before, first_at = excluded.first_at,
			started_at = excluded.started_at, deadline_at = excluded.deadline_at, ended_at = excluded.ended_at,
			interrupted_at = excluded.interrupted_at`,
		t.columns()...)
}

// OpenMarkup returns the markup, not meant for people, that the previous part of a turn's answer
// left open. revision identifies the text that is answered.
func OpenMarkup(v *View, turnID, revision string) string {
	of, inner, _ := strings.Cut(store.Value[string](v.Tx, `SELECT open_markup FROM turns WHERE turn_id = ?`, turnID),
		"\n")
	if of != revision {
		return ""
	}
	return inner
}

// SetOpenMarkup stores the markup that a part of an answer left open.
func SetOpenMarkup(tx *Tx, turnID, revision, inner string) {
	if inner != "" {
		inner = revision + "\n" + inner
	}
	tx.Exec(`UPDATE turns SET open_markup = ?2 WHERE turn_id = ?1 AND open_markup <> ?2`, turnID, inner)
}

// MoveTurn changes the state of a turn, stores it and records it. A turn that never started ends
// without a record. A state change that is not in the table is an error.
func (tx *Tx) MoveTurn(t *Turn, to TurnState, reason string, cost protocol.TurnCost) {
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
	addTokens(tx, t, cost)
	if word != "" {
		recordTurn(tx, t, word, reason, cost)
	}
}

// AddCost adds the cost of a run that returned after its turn was withdrawn or had ended, and
// records it.
func (tx *Tx) AddCost(t *Turn, cost protocol.TurnCost) {
	if !addTokens(tx, t, cost) {
		return
	}
	word := "interrupted"
	if t.Ended() {
		word = string(t.State)
	}
	recordTurn(tx, t, word, "its run was stopped", cost)
}

// addTokens adds the tokens of a run to its turn, where budgets count them. It reports whether
// there were any.
func addTokens(tx *Tx, t *Turn, cost protocol.TurnCost) bool {
	spent := cost.InputTokens + cost.OutputTokens
	return spent > 0 && tx.ExecCount(`UPDATE turns SET tokens = tokens + ? WHERE turn_id = ?`, spent, t.ID) > 0
}

// RecordWaiting records that a queued turn cannot start yet.
func (tx *Tx) RecordWaiting(t *Turn, reason string) {
	recordTurn(tx, t, "waiting", reason, protocol.TurnCost{})
}

// RecordAttempt records that the harness delivers a running turn again.
func (tx *Tx) RecordAttempt(t *Turn, attempt int) {
	t.Attempt = attempt
	tx.SaveTurn(t)
	recordTurn(tx, t, "started", "redelivered", protocol.TurnCost{})
}

func recordTurn(tx *Tx, t *Turn, word, reason string, cost protocol.TurnCost) {
	r := protocol.TurnRecord{
		Event:    protocol.RecordTurn,
		EventID:  t.EventID,
		Agent:    tx.m.id,
		Chat:     t.Scope(),
		TurnID:   t.ID,
		Attempt:  tx.attemptsInMode(t),
		Mode:     string(t.Mode),
		State:    word,
		Reason:   reason,
		TurnCost: cost,
	}
	if len(t.Merged) > 1 || t.Mode == attention.ModeDigest {
		r.MergedEventIDs = t.Merged
	}
	source := First(tx.Tx, func(s *Source) []any { return []any{&s.MessageID, &s.TraceParent} },
		`SELECT message_id, traceparent FROM events WHERE event_id = ?`, t.EventID)
	tx.Record(UniqueKey("turn:"+t.ID+":"+word, int64(t.Attempt)), &Entry{Source: source}, r)
}

// Withdraw restarts the turn of an event with the newest text. A running turn is stopped first; a
// queued one shows the newest text anyway.
func (tx *Tx) Withdraw(turnID, reason string) {
	t := tx.Turn(turnID)
	switch {
	case t == nil:
	case t.State == TurnRunning, t.State == TurnAccepted:
		tx.MoveTurn(t, TurnWithdrawn, reason, protocol.TurnCost{})
	case !t.InterruptedAt.IsZero():
		t.InterruptedAt = time.Time{}
		tx.SaveTurn(t)
	}
}

// CancelTurn ends a turn. Its run is stopped after the commit, and its tools refuse further calls.
func (tx *Tx) CancelTurn(t *Turn, reason string) {
	if t.Ended() {
		return
	}
	if t.State != TurnQueued {
		tx.OnCommit(func() { tx.m.opts.StopTurn(t.ID, reason) })
	}
	tx.MoveTurn(t, TurnCancelled, reason, protocol.TurnCost{})
}

// Compose queues a turn over those of the events that are still held, if any.
func (tx *Tx) Compose(events []*Entry) {
	if live := reloadHeld(tx, events); len(live) > 0 {
		last := live[len(live)-1]
		t := newTurn(last)
		t.Chat, t.Rank, t.FirstAt = tx.TurnChat(last), rankOf(live), live[0].ReceivedAt
		addFragments(tx, t, live)
	}
}

// Extend adds held events to the turn over the previous fragments if that turn is waiting or
// running, began after since, and has sent nothing. The turn restarts, not before due. Extend
// reports whether there was such a turn.
func (tx *Tx) Extend(events []*Entry, since, due time.Time) bool {
	last := events[len(events)-1]
	list := tx.Turns(`WHERE chat = ? AND +thread_key = ? AND author = ? AND state IN ('queued', 'running', 'withdrawn')
		AND outbound = 0 AND mode IN ('immediate', 'buffered') AND first_at >= ? ORDER BY seq DESC LIMIT 1`,
		last.Chat, last.ThreadKey(), last.Content.Author.ID, store.Micros{Time: &since})
	if len(list) == 0 {
		return false
	}
	t := list[0]
	carrier, live := tx.Entry(t.EventID), reloadHeld(tx, events)
	if tx.AwaitsDecision(t.ID) || carrier == nil || !carrier.Mergeable() || carrier.Settled() ||
		carrier.Decision.Reason == "claim_granted" ||
		len(live) == 0 {
		return false
	}
	if t.State == TurnRunning {
		tx.MoveTurn(t, TurnWithdrawn, "another fragment arrived before an answer", protocol.TurnCost{})
	}
	t.NotBefore, t.Rank, t.Mode = due, min(t.Rank, rankOf(live)), live[len(live)-1].Decision.Injection
	addFragments(tx, t, append([]*Entry{carrier}, live...))
	return true
}

// AwaitsDecision reports whether a turn waits for a person's decision. Nothing that is said
// meanwhile restarts it.
func (v *View) AwaitsDecision(turnID string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM decisions WHERE turn_id = ? AND state = 'pending')`,
		turnID)
}

// addFragments adds events to a turn. The last one becomes the event of the turn; the others are
// superseded.
func addFragments(tx *Tx, t *Turn, events []*Entry) {
	last := events[len(events)-1]
	for _, e := range events {
		if !slices.Contains(t.Merged, e.EventID) {
			t.Merged = append(t.Merged, e.EventID)
		}
	}
	t.EventID, t.Seq, t.InterruptedAt = last.EventID, last.Seq, time.Time{}
	tx.SaveTurn(t)
	for _, e := range events[:len(events)-1] {
		e.TurnID, e.MergedInto = t.ID, last.EventID
		tx.Move(e, Supersede, "merged into "+last.EventID)
	}
	last.TurnID, last.DeadlineAt = t.ID, time.Time{}
	tx.Move(last, Join, "")
}

// reloadHeld returns the current versions of the events that are still held. An edit or a
// deletion may have changed them.
func reloadHeld(tx *Tx, list []*Entry) (live []*Entry) {
	for _, e := range list {
		if fresh := tx.Entry(e.EventID); fresh != nil && fresh.State == Held {
			live = append(live, fresh)
		}
	}
	return live
}

// Mergeable reports whether the event may share a turn with others. Only messages may: knocks,
// edits, work and requests to leave may not.
func (e *Entry) Mergeable() bool {
	return e.Decision.Action != attention.ActionLeave && e.Decision.Injection.Injects() &&
		e.Content.Event == protocol.EventMessage
}

// IsFragment reports whether the event is part of another message from its author, which is
// addressed to the agent.
func (e *Entry) IsFragment() bool { return e.Decision.Rule() == attention.ReasonFragment }

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

// attemptsInMode returns the number of a turn's attempt in its mode. The attempts of a knock do
// not count for the turn after its claim.
func (v *View) attemptsInMode(t *Turn) int {
	if t.Mode == attention.ModeNotify || t.Attempt <= 1 {
		return t.Attempt
	}
	return t.Attempt - store.Value[int](v.Tx,
		`SELECT coalesce(max(attempt), 0) FROM turns WHERE event_id = ? AND mode = 'notify' AND attempt < ?`, t.EventID,
		t.Attempt)
}

// Requeue queues another turn for an event, with all its fragments. Attempts continue to be
// counted.
func (tx *Tx) Requeue(e *Entry) {
	t := newTurn(e)
	t.Chat, t.EventID, t.Merged, t.Seq, t.FirstAt, t.NotBefore = tx.TurnChat(e), e.EventID, []string{e.EventID}, e.Seq,
		e.ReceivedAt, time.Now()
	if before := tx.Turn(e.TurnID); before != nil {
		t.Attempt, t.Merged = before.Attempt, before.Merged
	}
	tx.SaveTurn(t)
	e.TurnID, e.DeadlineAt = t.ID, time.Time{}
	tx.Move(e, Join, "")
}

// NextDigest returns at most 1,000 events for the next digest, in order.
func (v *View) NextDigest() []*Entry {
	return v.Events(`WHERE mode = 'digest' AND seq > ? ORDER BY seq LIMIT 1000`, v.Counter("digest_seq"))
}

// Digest queues the turn of a digest over the events. Later digests do not include them. The turn
// does not block any chat.
func (tx *Tx) Digest(list []*Entry, ids []string, body string) {
	last := list[len(list)-1]
	t := newTurn(last)
	t.EventID, t.Merged, t.Chat, t.ThreadKey, t.Author = strings.Replace(t.ID, "turn_", "digest_", 1), ids, last.Chat,
		"\x00digest", ""
	t.Mode, t.Seq, t.Rank, t.FirstAt, t.Body = attention.ModeDigest, last.Seq, RankDigest, list[0].ReceivedAt, body
	tx.SaveTurn(t)
	tx.SetCounter("digest_seq", last.Seq)
}
