package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Broker. Nil is valid.
type Options struct {
	SweepInterval   time.Duration    `flag:"sweep-interval" positive:"1m" usage:"time between two checks for work that nobody has touched"`
	StaleAfter      time.Duration    `flag:"stale-after" positive:"30m" usage:"how long work may rest before the one with the next move is woken"`
	EndpointTimeout time.Duration    `flag:"endpoint-timeout" positive:"30s" usage:"how long an agent's endpoint may be silent before it counts as offline"`
	Keep            time.Duration    `default:"2160h"` // retention of events and finished records; negative is forever
	RetireAfter     time.Duration    `positive:"168h"` // time offline after which an endpoint is removed
	Now             func() time.Time // default time.Now
	OnReady         func()           // called once, when the broker is connected and subscribed
	Log             *zerolog.Logger  // default: no log
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.Now, time.Now)
	defaults.Log(&d.Log)
	return d
}

// queueLength is how many jobs may wait for the writer. Further requests wait in the peer, whose
// own queue is bounded.
const queueLength = 1024

// stopGrace is how long a stopping broker may send answers.
const stopGrace = 3 * time.Second

// A Broker is the collaboration broker.
type Broker struct {
	db      *store.DB
	peer    *peer.Peer
	opts    Options
	writer  *writer
	outbox  *outbox.Outbox
	answers *answerer
	facts   *publisher
	due     chan time.Time // the next time at which a sweep has something to do
	closing atomic.Bool
}

// New makes a broker on a database that was opened with Schema, and on a peer with the identity
// collab:broker that is not running yet. It does no I/O.
func New(db *store.DB, p *peer.Peer, opts *Options) *Broker {
	o := opts.withDefaults()
	b := &Broker{
		db:   db,
		peer: p,
		opts: o,
		due:  make(chan time.Time, 1),
	}
	b.outbox = outbox.New(db, b.sendItem, &outbox.Options{
		Name:           "letters",
		MaxPending:     20_000,
		MaxAge:         7 * 24 * time.Hour,
		OnInterrupted:  outbox.Resend,
		AttemptTimeout: answerTimeout,
		StopTimeout:    time.Second,
		Now:            o.Now,
		Log:            o.Log,
	})
	b.writer = &writer{
		db:           db,
		opts:         &b.opts,
		presence:     newPresenceTracker(p.PresenceSynced, o.Now),
		jobs:         make(chan job, queueLength),
		enqueue:      b.enqueue,
		enqueueSpawn: b.enqueueSpawn,
		committed:    b.committed,
	}
	b.answers = newAnswerer(p.Send, b.forget, o.Now, o.Log)
	b.facts = newPublisher(db, p.Ready, p.Send, b.writer.deferToCommit, o.Log)
	p.Handle(protocol.TypeCollabRequest, b.handle)
	p.HandlePresence(b.writer.presence.onPresence)
	return b
}

// Run loads the state, connects, and serves until ctx ends (nil) or the peer or the database
// fails permanently. It first sends what the previous run left unsent.
func (b *Broker) Run(outer context.Context) error {
	if err := b.open(outer); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	start := func(runs ...func(context.Context) error) (stop func()) {
		ctx, end := context.WithCancel(context.WithoutCancel(ctx))
		var wg sync.WaitGroup
		for _, run := range runs {
			wg.Go(func() { cancel(run(ctx)) })
		}
		return func() { end(); wg.Wait() }
	}
	stopWriter := start(b.writer.run)
	stopSending := start(b.outbox.Run, b.facts.run, b.sweepLoop, b.presenceLoop, b.announceReady)
	stopPeer := start(b.peer.Run)

	<-ctx.Done()
	b.drain()
	stopPeer()
	b.answers.close()
	stopSending()
	stopWriter()
	if outer.Err() != nil || errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return context.Cause(ctx)
}

// open loads the stored state and the unsent answers.
func (b *Broker) open(ctx context.Context) error {
	state, err := load(ctx, b.db, b.opts.Now())
	if err != nil {
		return err
	}
	b.writer.state = state
	unsent, err := store.Read(ctx, b.db, func(tx *store.Tx) []answer {
		b.facts.settled = store.Value[int64](tx, `SELECT seq FROM published`)
		return unsentAnswers(tx)
	})
	if err != nil {
		return err
	}
	b.answers.add(unsent)
	return b.peer.Subscribe(ctx, "collab:*")
}

// announceReady says that the broker is connected, and waits for ctx to end.
func (b *Broker) announceReady(ctx context.Context) error {
	if b.peer.Ready(ctx) == nil && b.opts.OnReady != nil {
		b.opts.OnReady()
	}
	<-ctx.Done()
	return nil
}

// drain refuses new requests and waits briefly until the earlier ones are answered.
func (b *Broker) drain() {
	b.closing.Store(true)
	limit, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	for !b.answers.idle() || len(b.writer.jobs) > 0 {
		if !retry.Sleep(limit, 10*time.Millisecond) {
			return
		}
	}
}

// handle takes one collab_request. It answers "processed" once the effects of the request and its
// answer are stored.
func (b *Broker) handle(ctx context.Context, d *peer.Delivery) error {
	if d.Topic != protocol.TopicBroker {
		return nil // for other subscribers of collab:*
	}
	if b.closing.Load() {
		return errStopping
	}
	m := &d.Message
	if b.answers.full(m.From) {
		return peer.Reject(fmt.Sprintf("%d answers wait for %s; take them first", maxUnsent, m.From))
	}
	r := request{from: m.From, messageID: m.MessageID, traceParent: m.TraceParent, names: d.Names}
	r.malformed = json.Unmarshal(m.Content, &r.content)
	return b.writer.change(ctx, func(t *tx) { answerRequest(t, r) })
}

// forget deletes a sent answer, or marks it as sent if it is kept for repeated requests.
func (b *Broker) forget(sent answer) {
	b.writer.deferToCommit(func(tx *store.Tx) {
		tx.Exec(`DELETE FROM answers WHERE id = ? AND kept = 0`, sent.id)
		tx.Exec(`UPDATE answers SET sent = 1 WHERE id = ?`, sent.id)
	})
}

// committed sends what a batch produced.
func (b *Broker) committed(done *tx) {
	b.answers.add(done.answers)
	if len(done.events) > 0 {
		b.facts.wake.Notify()
	}
	due := done.nextDue()
	if due.IsZero() {
		return
	}
	select {
	case <-b.due: // only the newest counts
	default:
	}
	b.due <- due // does not block: there is no other sender
}

// newID makes an id that sorts after all earlier ones.
func newID(prefix string, now time.Time) string {
	return prefix + ulid.MustNew(ulid.Timestamp(now), ulid.DefaultEntropy()).String()
}
