package outbox

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"sync"
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
	// ErrFull refuses an item because too many are waiting.
	ErrFull = errors.New("the outbox is full")
	// ErrTooLarge refuses an item whose body or name exceeds its limit.
	ErrTooLarge = errors.New("the item is too large for the outbox")
	// ErrNotFound says that no item has this id.
	ErrNotFound = errors.New("no such item in the outbox; list them to see their ids")
	// ErrBusy says that an item is being sent at this moment.
	ErrBusy = errors.New("the item is being sent right now; ask again when the attempt has ended")
	// ErrSettled says that an item was sent already.
	ErrSettled = errors.New("the item was sent already; sending it again would double it")
	// ErrRunning is Run's when it is already running.
	ErrRunning = errors.New("this outbox is running already")
)

// A SendFunc makes one attempt. Nil means that the item is sent. An error made
// by [Retry], [Later], [Permanent], [Drop] or [Unknown], or of a type that has the
// methods Permanent and Droppable, says what follows; after any other error the item is
// retried with backoff. The context ends after Options.AttemptTimeout and when Run stops:
// an unclassified error after that counts as an interrupted attempt. Errors are stored
// and shown to operators, so they must not contain secrets.
type SendFunc func(ctx context.Context, item Item) error

// A State is where an item stands. The last four are outcomes.
type State string

// The states of an item.
const (
	StatePending State = "pending" // waits for its turn or its next attempt
	StateSending State = "sending" // an attempt began and has not ended
	StateSent    State = "sent"
	StateDead    State = "dead"    // refused for good, or too old
	StateUnknown State = "unknown" // it may or may not have been sent
	StateDropped State = "dropped" // given up by an operator, or because nobody needs it
)

// An Item is one thing to send.
type Item struct {
	ID          int64 // grows in the order of enqueueing
	Destination string
	Key         string // names the item within its destination
	Body        []byte // empty once sent
	State       State
	Attempt     int // attempts begun, this one included; 1 is the first
	EnqueuedAt  time.Time
	NotBefore   time.Time // of the next attempt
	ExpiresAt   time.Time // it becomes a dead letter then
	SettledAt   time.Time // zero while open
	Error       string    // of the last attempt
}

// An Interruption is what becomes of an attempt whose end nobody saw.
type Interruption int

// What becomes of interrupted attempts.
const (
	Resend        Interruption = iota // attempt it again
	SettleUnknown                     // settle it as unknown
)

// Options are the optional settings of an Outbox. Nil is valid.
type Options struct {
	Name              string        // tells outboxes in one database apart; default ""
	MinBackoff        time.Duration // default 1s
	MaxBackoff        time.Duration // default 60s
	MaxAge            time.Duration // until an item is a dead letter; default 24h
	MaxPending        int           // open items in all; default 10,000
	MaxPerDestination int           // open items of one destination; default a quarter of MaxPending
	MaxBody           int           // bytes; default 4 MiB
	Parallel          int           // destinations served at once; default 16
	AttemptTimeout    time.Duration // of one SendFunc call; default 2m
	StopTimeout       time.Duration // for running attempts when Run ends; default 5s
	Poll              time.Duration // how often to look for changes by others; default 5s
	Retention         time.Duration // of sent and dropped items' names; default 7 days
	DeadRetention     time.Duration // of dead and unknown items; default 30 days
	OnInterrupted     Interruption  // default Resend

	// MayHaveSent reports, with SettleUnknown, whether an interrupted attempt may have had
	// its effect; one that cannot have is attempted again. Default: it may have.
	MayHaveSent func(item Item) bool

	// OnSettled is called inside the transaction that settles an item. Write with
	// tx alone: the database is locked for everybody else, so be short. cause is
	// the reason of an outcome other than sent.
	OnSettled func(tx *store.Tx, item Item, outcome State, cause error)
	// AfterSettled is called after that transaction, for logs and wake-ups.
	AfterSettled func(item Item, outcome State, cause error)

	Now    func() time.Time // default time.Now
	Jitter func() float64   // in [0,1); default random
	Log    *zerolog.Logger  // default: no log
}

// An Outbox is one queue. Its methods may be called from any goroutine.
type Outbox struct {
	db      *sql.DB
	send    SendFunc
	opts    Options
	wake    notify.Signal
	running atomic.Bool
	crash   func(point string) error // set by tests; an error stops everything at a point

	mu       sync.Mutex      // guards hurried
	retryNow map[string]bool // by destination with an attempt under way: whether Hurry was called since it began
}

// New makes an outbox on a database that has the table of [Schema]. It does no
// I/O. send may be nil where only the operators' methods are used.
func New(db *sql.DB, send SendFunc, opts *Options) *Outbox {
	return &Outbox{db: db, send: send, opts: opts.withDefaults(), wake: notify.New(), retryNow: map[string]bool{}}
}

// Wake makes a running outbox look for due items now. It never blocks.
func (o *Outbox) Wake() { o.wake.Notify() }

func (o *Outbox) crashAt(point string) error {
	if o.crash == nil {
		return nil
	}
	return o.crash(point)
}
