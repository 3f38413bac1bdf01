package outbox

import (
	"context"
	_ "embed"
	"errors"
	"sync/atomic"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/notify"

	"github.com/rs/zerolog"
)

// Schema is the SQL of the outbox's table. The owner of the database makes it a
// migration step (or a part of one) for peers/store. One table serves any number
// of outboxes that differ in Options.Name.
//
//go:embed schema.sql
var Schema string

// Errors of an outbox.
var (
	// ErrFull means that too many items are waiting.
	ErrFull = errors.New("the outbox is full")
	// ErrTooLarge means that the body or a name exceeds its limit.
	ErrTooLarge = errors.New("the item is too large for the outbox")
	// ErrNotFound means that no item has this id.
	ErrNotFound = errors.New("no such item in the outbox; list them to see their ids")
	// ErrBusy means that the item is being sent.
	ErrBusy = errors.New("the item is being sent right now; ask again when the attempt has ended")
	// ErrSettled means that the item has been sent.
	ErrSettled = errors.New("the item was sent already; sending it again would double it")
	// ErrRunning means that Run was called while it was running.
	ErrRunning = errors.New("this outbox is running already")
)

// A SendFunc makes one attempt. Nil means that the item has been sent. The errors of [Retry],
// [Later], [Permanent], [Drop] and [Unknown], and error types with the methods Permanent and
// Droppable, decide what follows. After any other error, the item is retried with backoff. The
// context ends after Options.AttemptTimeout and when Run stops; an unclassified error after that
// counts as an interrupted attempt. Errors are stored and shown to operators, so they must not
// contain secrets.
type SendFunc func(ctx context.Context, item Item) error

// A State is the state of an item. The last four are outcomes.
type State string

// The states of an item.
const (
	StatePending State = "pending" // waits for its turn or its next attempt
	StateSending State = "sending" // an attempt has started or is about to start, and has not ended
	StateSent    State = "sent"
	StateDead    State = "dead"    // failed permanently, or expired
	StateUnknown State = "unknown" // may have been sent
	StateDropped State = "dropped" // dropped by an operator, or because nobody needs it
)

// An Item is something to send.
type Item struct {
	ID          int64 // increases in the order of enqueueing
	Destination string
	Key         string // identifies the item within its destination
	Body        []byte // empty once sent
	State       State
	Attempt     int // attempts started, including this one; 1 is the first
	EnqueuedAt  time.Time
	NotBefore   time.Time // earliest time of the next attempt
	ExpiresAt   time.Time // when it becomes a dead letter
	SettledAt   time.Time // zero while open
	Error       string    // of the last attempt
}

// An Interruption says what happens after an attempt whose result is unknown.
type Interruption int

// Values of Options.OnInterrupted.
const (
	Resend        Interruption = iota // attempt it again
	SettleUnknown                     // settle it as unknown
)

// Options are the optional settings of an Outbox. Nil is valid.
type Options struct {
	Name              string        // distinguishes outboxes in one database; default ""
	MinBackoff        time.Duration `positive:"1s"`
	MaxBackoff        time.Duration `positive:"1m"`
	MaxAge            time.Duration `positive:"24h"`   // age at which an item becomes a dead letter
	MaxPending        int           `positive:"10000"` // open items in total
	MaxPerDestination int           // open items of one destination; default a quarter of MaxPending
	MaxBody           int           `positive:"4<<20"` // bytes
	Parallel          int           `positive:"16"`    // destinations served at once
	AttemptTimeout    time.Duration `positive:"2m"`    // of one SendFunc call
	StopTimeout       time.Duration `positive:"5s"`    // for running attempts when Run ends
	Poll              time.Duration `positive:"5s"`    // how often to look for changes by other processes
	Retention         time.Duration `positive:"168h"`  // how long the names of sent and dropped items are kept
	DeadRetention     time.Duration `positive:"720h"`  // the same for dead and unknown items
	OnInterrupted     Interruption  // default Resend

	// MayHaveSent reports whether an interrupted attempt may have had its effect. With
	// SettleUnknown, an item is attempted again if not. SendFunc must have stored the answer in
	// the outbox's database, by store.InTx or store.Autocommit, before it has an effect.
	// Default: always true.
	MayHaveSent func(item Item) bool

	// OnSettled is called in the transaction that settles an item. It must write with tx only,
	// and return quickly, because the database is locked. cause is the reason of an outcome other
	// than sent.
	OnSettled func(tx *store.Tx, item Item, outcome State, cause error)
	// AfterSettled is called after that transaction, for logs and notifications.
	AfterSettled func(item Item, outcome State, cause error)

	Now    func() time.Time // default time.Now
	Jitter func() float64   // in [0,1); default random
	Log    *zerolog.Logger  // default: no log
}

// An Outbox is one queue. Its methods may be called from any goroutine.
type Outbox struct {
	db   *store.DB
	send SendFunc
	opts Options
	wake notify.Signal
	run  struct {
		running atomic.Bool
		current atomic.Pointer[runState] // takes items, or nil
	}
	crash   func(point string) error // set by tests; an error stops everything
	started attempts
}

// New makes an outbox in a database that has the table of [Schema]. It does no I/O. send may be
// nil if only the methods for operators are used.
func New(db *store.DB, send SendFunc, opts *Options) *Outbox {
	return &Outbox{db: db, send: send, opts: opts.withDefaults(), wake: notify.New(),
		started: attempts{running: map[string]*attemptState{}}}
}

// Wake makes a running outbox look for due items now. It never blocks.
func (o *Outbox) Wake() { o.wake.Notify() }

func (o *Outbox) crashAt(point string) error {
	if o.crash == nil {
		return nil
	}
	return o.crash(point)
}
