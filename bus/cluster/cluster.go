package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/bus"
	"hubbub/protocol/defaults"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Cluster. Nil is valid.
type Options struct {
	Prefix      string        `default:"hubbub"` // of all subjects
	Heartbeat   time.Duration `positive:"500ms"` // interval
	SilentAfter time.Duration `positive:"2.5s"`  // a bus without a heartbeat for this long is silent
	ForgetAfter time.Duration `positive:"1h"`    // a bus that has been silent for this long no longer counts as missing
	Queue       int           `positive:"65536"` // messages that may wait for NATS, up to 256 MiB; one more fails
	NATS        []nats.Option // credentials, TLS
	Log         *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Log(&out.Log)
	return out
}

// A Cluster connects one bus to the others.
type Cluster struct {
	urls     []string
	name     string // of this bus
	instance string // of this run
	options  Options
	local    bus.Local

	queue       *sendQueue
	received    chan *nats.Msg // from NATS
	epochs      chan string    // reasons to begin a new epoch, for the loop
	state       state
	members     memberTable
	heartbeats  heartbeats
	checks      duplicateChecks
	reassembler reassembler
	natsFault   fault
	nameFault   fault // another bus has the same name
}

// A state is shared by all goroutines of a Cluster.
type state struct {
	mu          sync.Mutex // guards the fields below
	seq         uint64     // of the last change that was sent
	nextID      uint64
	pending     map[uint64]*pendingForward
	heard       map[string]uint64 // the last heartbeat received from each other bus
	connected   bool
	since       time.Time // when connected changed
	failReason  string    // why all forwards fail; empty until FailPending
	incarnation uint64    // grows whenever messages may have been lost
	view        view
}

// A memberTable is what is known about the other buses. Only the loop uses it.
type memberTable struct {
	buses      map[string]*member
	silent     map[string]silentBus
	everMet    map[string]bool // names of all buses that this run has received messages from
	epochBegan time.Time
}

// A silentBus is a bus without heartbeats.
type silentBus struct {
	instance string
	since    time.Time
}

// New returns the Cluster of the bus with that name. It does no I/O.
func New(urls []string, name string, opts *Options) *Cluster {
	o := opts.withDefaults()
	return &Cluster{
		urls:     urls,
		name:     name,
		instance: ulid.Make().String(),
		options:  o,
		queue:    newSendQueue(o.Prefix, o.Queue),
		received: make(chan *nats.Msg, 4*o.Queue),
		epochs:   make(chan string, 8),
		state: state{
			incarnation: 1,
			since:       time.Now(),
			view:        view{isolated: true},
			pending:     map[uint64]*pendingForward{},
			heard:       map[string]uint64{},
			nextID:      rand.Uint64() >> 1, // so that answers to an earlier run match nothing
		},
		members: memberTable{
			buses:   map[string]*member{},
			silent:  map[string]silentBus{},
			everMet: map[string]bool{},
		},
		heartbeats:  newHeartbeats(o.SilentAfter),
		checks:      duplicateChecks{open: map[uint64]*duplicateCheck{}},
		reassembler: reassembler{parts: map[partKey]*partial{}},
	}
}

var _ bus.Cluster = (*Cluster)(nil)

// Attach implements bus.Cluster.
func (c *Cluster) Attach(local bus.Local) { c.local = local }

// Run takes part in the cluster until ctx ends, and then tells the others that it is leaving. It
// continues if no NATS server can be reached.
func (c *Cluster) Run(ctx context.Context) error {
	nc, err := c.connect()
	if err != nil {
		return fmt.Errorf("the cluster at %s: %w", redactURLs(c.urls), err)
	}
	defer nc.Close()
	for _, subject := range []string{c.queue.subjectOfAll(), c.queue.subjectOf(c.name)} {
		if _, err := nc.ChanSubscribe(subject, c.received); err != nil {
			return fmt.Errorf("subscribing to %s: %w", subject, err)
		}
	}
	var sender sync.WaitGroup
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	sender.Go(func() { c.sendLoop(sending, nc) })
	c.loop(ctx)
	c.queue.broadcast(header{Kind: kindBye}, nil)
	c.flushQueue(nc)
	stop()
	sender.Wait()
	c.FailPending("cannot be reached any more: the sender's bus is stopping")
	return nil
}

// flushQueue waits a moment for the last message to be sent.
func (c *Cluster) flushQueue(nc *nats.Conn) {
	for range 20 {
		if len(c.queue.messages) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if nc.IsConnected() {
		nc.FlushTimeout(200 * time.Millisecond) //nolint:errcheck // otherwise the others notice that this bus is silent
	}
}

func (c *Cluster) connect() (*nats.Conn, error) {
	return connect(c.urls, "hubbub-bus "+c.name, &c.options,
		nats.NoEcho(),
		nats.ConnectHandler(func(*nats.Conn) { c.setConnected(true, "connected to NATS") }),
		nats.ReconnectHandler(func(*nats.Conn) { c.setConnected(true, "connected to NATS again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.setConnected(false, fmt.Sprintf("lost NATS: %v", err))
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.reportNATSError(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.reportNATSError(err)
			c.requestEpoch(fmt.Sprintf("NATS: %v", err))
		}),
	)
}

// connect connects to NATS, now or when a server can be reached. If a server does not answer for
// two seconds, it tries another.
func connect(urls []string, name string, o *Options, more ...nats.Option) (*nats.Conn, error) {
	own := []nats.Option{
		nats.Name(name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(2 * time.Second),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(2 * time.Second),
	}
	return nats.Connect(strings.Join(urls, ","), slices.Concat(own, more, o.NATS)...)
}

// setConnected records that a connection to NATS began or ended. The NATS client calls it a
// little late, when a new connection may already carry messages. So only the end of a connection
// counts as a loss of messages.
func (c *Cluster) setConnected(on bool, what string) {
	s := &c.state
	s.mu.Lock()
	s.connected, s.since = on, time.Now()
	s.view.isolated = s.view.isolated || !on
	s.mu.Unlock()
	c.options.Log.Info().Bool("connected", on).Msg("cluster: " + what)
	if on {
		c.natsFault.clear()
		c.hello()
	} else {
		c.requestEpoch(what)
	}
}

// reportNATSError logs an error from NATS. NATS reports the refusal of a subscription only once,
// so that error holds until the next connection.
func (c *Cluster) reportNATSError(err error) {
	err = fmt.Errorf("NATS: %w", err)
	c.natsFault.report(c.options.Log, zerolog.WarnLevel, err, time.Now())
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "for Subscription to") {
		c.natsFault.hold(err)
	}
}

// requestEpoch makes the loop begin a new epoch, because messages may have been lost.
func (c *Cluster) requestEpoch(reason string) {
	select {
	case c.epochs <- reason:
	default: // the loop will begin one anyway
	}
}

// Status implements bus.Cluster.
func (c *Cluster) Status() any {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	status := map[string]any{
		"connected": s.connected,
		"buses":     append([]string{c.name}, s.view.reachable...),
		"pending":   len(s.pending),
	}
	if missing := s.view.missing(time.Now(), c.options.certainFor()); missing != nil {
		status["partial"], status["missing"] = true, missing
	}
	if err := c.natsFault.current(time.Now()); err != "" {
		status["error"] = err
	}
	return status
}

// Missing implements bus.Cluster.
func (c *Cluster) Missing() []string {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.view.missing(time.Now(), c.options.certainFor())
}

// sendLoop is the only goroutine that writes to NATS.
func (c *Cluster) sendLoop(ctx context.Context, nc *nats.Conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-c.queue.messages:
			c.send(nc, o)
			c.queue.bytes.Add(-int64(len(o.body)))
		}
	}
}

func (c *Cluster) send(nc *nats.Conn, o outgoing) {
	o.head.From, o.head.Instance = c.name, c.instance
	if o.head.Kind == kindForward {
		var ok bool
		if o.head.Beat, ok = c.markSent(o.head.ID); !ok {
			return
		}
	}
	limit := int(nc.MaxPayload())
	if limit <= 0 {
		limit = 1 << 20
	}
	for _, part := range split(o.head, o.body, limit) {
		if err := nc.Publish(o.subject, part); err != nil {
			switch o.head.Kind {
			case kindAsk:
				c.checks.fail(o.head.ID, errNotChecked)
			case kindForward:
				written := !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed)
				c.failForward(o.head.ID, "cannot be reached", written)
			}
			return
		}
	}
}

// loop is the only goroutine that changes what is known about the other buses.
func (c *Cluster) loop(ctx context.Context) {
	ticker := time.NewTicker(c.options.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.received:
			c.receive(m)
		case reason := <-c.epochs:
			c.beginEpoch(reason, time.Now())
		case <-ticker.C:
			c.receiveQueued()
			c.tick(time.Now())
		}
	}
}

// receiveQueued handles all messages that have arrived, before the loop decides which buses are
// silent.
func (c *Cluster) receiveQueued() {
	for range cap(c.received) {
		select {
		case m := <-c.received:
			c.receive(m)
		default:
			return
		}
	}
}

// beginEpoch begins a new epoch, because messages in transit may be lost. If the last epoch began
// more than a heartbeat ago, it says hello at once. Otherwise it waits for the next heartbeat: if
// NATS refuses the hello, each hello would cause the next.
func (c *Cluster) beginEpoch(reason string, at time.Time) {
	c.state.mu.Lock()
	c.state.incarnation++
	c.state.mu.Unlock()
	c.failForwards("was cut off ("+reason+")", nil)
	c.checks.failAll(errNotChecked, always)
	for _, m := range c.members.buses {
		m.stale = true
	}
	c.updateView()
	if at.Sub(c.members.epochBegan) >= c.options.Heartbeat {
		c.hello()
	}
	c.members.epochBegan = at
}

func (c *Cluster) hello() {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock() // after broadcast: otherwise a change sent before the hello would seem to be missing
	c.queue.broadcast(header{
		Kind:  kindHello,
		Epoch: s.incarnation,
		Seq:   s.seq,
		Beat:  c.heartbeats.next(time.Now()),
	}, encode(s.view.heartbeatsHeard(s.heard)))
}

// tick sends a heartbeat, removes silent buses, and fails forwards and checks that have waited
// too long.
func (c *Cluster) tick(at time.Time) {
	c.state.mu.Lock()
	c.state.endIsolation(at, c.options.Heartbeat)
	c.state.mu.Unlock()
	c.hello()
	for name, m := range c.members.buses {
		if at.Sub(m.seen) > c.options.SilentAfter {
			c.removeBus(name, reasonSilent)
		}
	}
	for name, gone := range c.members.silent {
		if c.isConnected() && at.Sub(gone.since) > c.options.ForgetAfter {
			c.removeBus(name, "has been silent for too long: it no longer counts as missing")
		}
	}
	c.expire(at)
	c.reassembler.expire(at.Add(-c.options.SilentAfter))
}

// removeBus removes a bus and fails the forwards to it. If the bus is silent, its peers are kept,
// so that results name them, and it counts as missing.
func (c *Cluster) removeBus(name, reason string) {
	m := c.members.buses[name]
	delete(c.members.buses, name)
	delete(c.members.silent, name)
	if m != nil && reason == reasonSilent && len(c.members.silent) < maxSilent {
		c.members.silent[name] = silentBus{m.instance, time.Now()}
		c.local.SetBusMissing(name, true)
	} else {
		c.local.RemoveBus(name)
	}
	c.updateView()
	c.failForwards(reason, func(f *pendingForward) bool { return f.Bus == name })
	c.checks.skipBus(name)
	c.options.Log.Warn().Str("bus", name).Msg("cluster: another bus " + reason)
}

// reasonSilent is the reason of removeBus for a bus without heartbeats.
const reasonSilent = "is silent"

// maxSilent bounds the silent buses whose peers are kept.
const maxSilent = 64

func (c *Cluster) isConnected() bool {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.connected
}
