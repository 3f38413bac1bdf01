package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/bus"
	"hubbub/protocol/defaults"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Cluster. Nil is valid.
type Options struct {
	Prefix      string        // of every subject; default "hubbub"
	Heartbeat   time.Duration // default 500 ms
	SilentAfter time.Duration // a bus without a heartbeat for this long is forgotten; default 2.5 s
	ForgetAfter time.Duration // a bus that is silent for longer counts as gone, not as missing; default 1 h
	Queue       int           // messages that may wait for NATS, up to 256 MiB in all; one more fails; default 65,536
	NATS        []nats.Option // credentials, TLS
	Log         *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Set(&out.Prefix, "hubbub")
	defaults.Positive(&out.Heartbeat, 500*time.Millisecond)
	defaults.Positive(&out.SilentAfter, 2500*time.Millisecond)
	defaults.Positive(&out.ForgetAfter, time.Hour)
	defaults.Positive(&out.Queue, 65536)
	defaults.Log(&out.Log)
	return out
}

// A Cluster is the part of one bus in a cluster.
type Cluster struct {
	urls     []string
	name     string // of this bus
	instance string // of this run of it
	options  Options
	local    bus.Local

	out    chan outgoing  // to the sender
	queued atomic.Int64   // bytes in out, and of the message that is being sent
	in     chan *nats.Msg // from NATS
	epoch  chan string    // to the loop: the connection broke, and why

	shared
	neighbours
	pulse pulse
	polls polls

	nats trouble // with the NATS server
	twin trouble // with a bus of the same name
}

// shared is what every goroutine of a Cluster uses.
type shared struct {
	mu          sync.Mutex // guards the fields below
	seq         uint64     // of the last change that was told
	nextID      uint64
	pending     map[uint64]*crossing
	heard       map[string]uint64 // the last sign of life of each other bus
	connected   bool
	since       time.Time // when that changed
	gaveUp      string    // why nothing is forwarded any more; empty until then
	incarnation uint64    // grows whenever something may have been lost
	view        view
}

// neighbours is what the loop knows of the other buses. Only the loop uses it.
type neighbours struct {
	buses     map[string]*member
	absent    map[string]absence   // buses that fell silent
	met       map[string]bool      // names of all buses that this run of this bus has heard
	parts     map[partKey]*partial // of messages that are not whole yet
	restarted time.Time            // when the last epoch began
}

// An absence is a bus that fell silent.
type absence struct {
	instance string
	since    time.Time
}

// An outgoing message waits for the sender.
type outgoing struct {
	subject string
	head    header
	body    []byte
}

// New makes the part of the bus with that name. It does no I/O.
func New(urls []string, name string, opts *Options) *Cluster {
	o := opts.withDefaults()
	return &Cluster{
		urls: urls, name: name, instance: ulid.Make().String(), options: o,
		out: make(chan outgoing, o.Queue), in: make(chan *nats.Msg, 4*o.Queue), epoch: make(chan string, 8),
		shared: shared{
			incarnation: 1, since: time.Now(), view: view{apart: true}, pending: map[uint64]*crossing{}, heard: map[string]uint64{},
			nextID: rand.Uint64() >> 1, // so that this run takes no answer that is meant for the one before
		},
		pulse:      newPulse(o.SilentAfter),
		polls:      polls{open: map[uint64]*poll{}},
		neighbours: neighbours{buses: map[string]*member{}, absent: map[string]absence{}, met: map[string]bool{}, parts: map[partKey]*partial{}},
	}
}

var _ bus.Cluster = (*Cluster)(nil)

// Attach implements bus.Cluster.
func (c *Cluster) Attach(local bus.Local) { c.local = local }

// Run takes part in the cluster until ctx ends, then tells the others that it leaves. It
// does not end if no NATS server can be reached.
func (c *Cluster) Run(ctx context.Context) error {
	nc, err := c.connect()
	if err != nil {
		return fmt.Errorf("the cluster at %s: %w", shown(c.urls), err)
	}
	defer nc.Close()
	for _, subject := range []string{c.subjectOfAll(), c.subjectOf(c.name)} {
		if _, err := nc.ChanSubscribe(subject, c.in); err != nil {
			return fmt.Errorf("subscribing to %s: %w", subject, err)
		}
	}
	var sender sync.WaitGroup
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	sender.Go(func() { c.sendLoop(sending, nc) })
	c.loop(ctx)
	c.tellAll(header{Kind: kindBye}, nil)
	c.settle(nc)
	stop()
	sender.Wait()
	c.FailPending("cannot be reached any more: the sender's bus is stopping")
	return nil
}

// settle waits a moment for the last message to be sent.
func (c *Cluster) settle(nc *nats.Conn) {
	for range 20 {
		if len(c.out) == 0 {
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
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.complain(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.complain(err)
			c.broke(fmt.Sprintf("NATS: %v", err))
		}),
	)
}

// connect connects to NATS, now or once it can be reached. A server that does not
// answer for two seconds is left for another.
func connect(urls []string, name string, o *Options, more ...nats.Option) (*nats.Conn, error) {
	own := []nats.Option{
		nats.Name(name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(2 * time.Second),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(2 * time.Second),
	}
	return nats.Connect(strings.Join(urls, ","), slices.Concat(own, more, o.NATS)...)
}

// setConnected notes that a connection to NATS began or ended. The NATS client calls it
// some time later, when messages may already have crossed a new connection. So only the
// end of a connection counts as a loss of messages.
func (c *Cluster) setConnected(on bool, what string) {
	c.mu.Lock()
	c.connected, c.view.apart, c.since = on, c.view.apart || !on, time.Now()
	c.mu.Unlock()
	c.options.Log.Info().Bool("connected", on).Msg("cluster: " + what)
	if on {
		c.nats.over()
		c.hello()
	} else {
		c.broke(what)
	}
}

// complain logs an error of NATS. If NATS does not let this bus subscribe to a subject,
// it says so only once, and the error holds until the next connection.
func (c *Cluster) complain(err error) {
	err = fmt.Errorf("NATS: %w", err)
	c.nats.note(c.options.Log, zerolog.WarnLevel, err, time.Now())
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "for Subscription to") {
		c.nats.hold(err)
	}
}

// broke tells the loop that messages may have been lost.
func (c *Cluster) broke(why string) {
	select {
	case c.epoch <- why:
	default: // the loop has epochs to begin already
	}
}

// subjectOfAll is where every bus listens, subjectOf where one does.
func (c *Cluster) subjectOfAll() string        { return c.options.Prefix + ".all" }
func (c *Cluster) subjectOf(bus string) string { return c.options.Prefix + ".to." + token(bus) }

// token encodes any name so that it can be a part of a subject.
func token(name string) string { return hex.EncodeToString([]byte(name)) }

// Status implements bus.Cluster.
func (c *Cluster) Status() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := map[string]any{"connected": c.connected, "buses": append([]string{c.name}, c.view.known...), "pending": len(c.pending)}
	if missing := c.view.missing(time.Now(), c.options.certainFor()); missing != nil {
		status["partial"], status["missing"] = true, missing
	}
	if what := c.nats.now(time.Now()); what != "" {
		status["error"] = what
	}
	return status
}

// Missing implements bus.Cluster.
func (c *Cluster) Missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view.missing(time.Now(), c.options.certainFor())
}

// maxQueued bounds what waits for NATS, in bytes: a slow connection must not fill the
// memory.
const maxQueued = 256 << 20

// tellAll queues a message for every bus, and tellBus one for the bus of that name,
// as tell does.
func (c *Cluster) tellAll(head header, body []byte) bool {
	return c.tell(outgoing{c.subjectOfAll(), head, body})
}

func (c *Cluster) tellBus(name string, head header, body []byte) bool {
	return c.tell(outgoing{c.subjectOf(name), head, body})
}

// tell queues a message for NATS. It never waits: it returns false if the queue is
// full.
func (c *Cluster) tell(o outgoing) bool {
	size := int64(len(o.body))
	if c.queued.Add(size) <= maxQueued {
		select {
		case c.out <- o:
			return true
		default:
		}
	}
	c.queued.Add(-size)
	return false
}

// sendLoop is the only goroutine that writes to NATS.
func (c *Cluster) sendLoop(ctx context.Context, nc *nats.Conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-c.out:
			c.send(nc, o)
			c.queued.Add(-int64(len(o.body)))
		}
	}
}

func (c *Cluster) send(nc *nats.Conn, o outgoing) {
	o.head.From, o.head.Instance = c.name, c.instance
	if o.head.Kind == kindForward {
		var ok bool
		if o.head.Beat, ok = c.depart(o.head.ID); !ok {
			return
		}
	}
	most := int(nc.MaxPayload())
	if most <= 0 {
		most = 1 << 20
	}
	for _, part := range split(o.head, o.body, most) {
		if err := nc.Publish(o.subject, part); err != nil {
			switch o.head.Kind {
			case kindAsk:
				c.polls.fail(o.head.ID, errNotAsked)
			case kindForward:
				c.lose(o.head.ID, "cannot be reached", !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed))
			}
			return
		}
	}
}

// loop is the only goroutine that changes what this bus knows of the others.
func (c *Cluster) loop(ctx context.Context) {
	ticker := time.NewTicker(c.options.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.in:
			c.receive(m)
		case why := <-c.epoch:
			c.restart(why, time.Now())
		case <-ticker.C:
			c.drain()
			c.tick(time.Now())
		}
	}
}

// drain handles what has arrived, before the loop decides which buses are silent.
func (c *Cluster) drain() {
	for range cap(c.in) {
		select {
		case m := <-c.in:
			c.receive(m)
		default:
			return
		}
	}
}

// restart begins a new epoch: what was on its way may be lost. It says hello at once if
// the last epoch began more than a heartbeat ago, and otherwise leaves that to the next
// heartbeat: if NATS refuses the hello itself, each hello would cause the next.
func (c *Cluster) restart(why string, at time.Time) {
	c.mu.Lock()
	c.incarnation++
	c.mu.Unlock()
	c.loseAll("was cut off ("+why+")", nil)
	c.polls.failAll(errNotAsked, every)
	for _, m := range c.buses {
		m.stale = true
	}
	c.look()
	if at.Sub(c.restarted) >= c.options.Heartbeat {
		c.hello()
	}
	c.restarted = at
}

func (c *Cluster) hello() {
	c.mu.Lock()
	defer c.mu.Unlock() // after tellAll: a change that is told first would make one seem to be missing
	c.tellAll(header{Kind: kindHello, Epoch: c.incarnation, Seq: c.seq, Beat: c.pulse.next(time.Now())}, encode(c.view.hears(c.heard)))
}

// tick sends a heartbeat, forgets silent buses and gives up what waited too long.
func (c *Cluster) tick(at time.Time) {
	c.mu.Lock()
	settleDown(&c.shared, at, c.options.Heartbeat)
	c.mu.Unlock()
	c.hello()
	for name, m := range c.buses {
		if at.Sub(m.seen) > c.options.SilentAfter {
			c.forget(name, silent)
		}
	}
	for name, gone := range c.absent {
		if c.isConnected() && at.Sub(gone.since) > c.options.ForgetAfter {
			c.forget(name, "has been silent for too long: it counts as gone")
		}
	}
	c.expire(at)
	for key, p := range c.parts {
		if at.Sub(p.since) > c.options.SilentAfter {
			delete(c.parts, key)
		}
	}
}

// forget fails the forwards to a bus and removes it. If it fell silent, its peers are kept,
// so that results name them, and it counts as missing; without NATS all others do.
func (c *Cluster) forget(name, why string) {
	m := c.buses[name]
	delete(c.buses, name)
	delete(c.absent, name)
	if m != nil && why == silent && len(c.absent) < maxAbsent {
		c.absent[name] = absence{m.instance, time.Now()}
		c.local.SetBusMissing(name, true)
	} else {
		c.local.RemoveBus(name)
	}
	c.look()
	c.loseAll(why, func(f *crossing) bool { return f.Bus == name })
	c.polls.skip(name)
	c.options.Log.Warn().Str("bus", name).Msg("cluster: another bus " + why)
}

// silent is why most buses are forgotten.
const silent = "is silent"

// maxAbsent bounds the silent buses whose peers are kept.
const maxAbsent = 64

func (c *Cluster) isConnected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected
}
