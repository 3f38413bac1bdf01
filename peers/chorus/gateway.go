package chorus

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/netguard"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/http1"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// DefaultID is the gateway's identity on the bus. It cannot be confused with a channel, whose
// identity contains a dot.
const DefaultID protocol.PeerID = "chorus:gateway"

// Options are the optional settings of a Gateway. Nil is valid.
type Options struct {
	ID          protocol.PeerID // default DefaultID
	PublicURL   string          `flag:"public-url" usage:"public address of --listen, such as https://hubbub.example.com (default the address itself)"`
	ProxyURL    string          `flag:"proxy-url" usage:"where agents on the bus reach --listen, for the tools of services (default the address itself)"`
	Allow       []netip.Prefix  // permitted addresses that are not public
	CallbackTTL time.Duration   `flag:"callback-ttl" positive:"1h" usage:"lifetime of the callback and the tools' token of one delivery; 410 afterwards"`
	// negative: no wait
	ComposeWindow time.Duration `flag:"compose-window" default:"2s" usage:"wait for more from the same author before a delivery; 0 for none"`
	ComposeCap    time.Duration `flag:"compose-cap" positive:"30s" usage:"longest such wait"`
	MaxFrame      int           `flag:"max-frame" positive:"1<<20" usage:"largest frame of the bus, in bytes: what would not fit is refused with 413"`
	MinBackoff    time.Duration `positive:"1s"`  // before the first retry of a POST
	PostTimeout   time.Duration `positive:"30s"` // of one POST, including the answer
	StopTimeout   time.Duration `positive:"6s"`  // for running POSTs when Run ends
	Version       string        // of the program, for MCP clients
	Peer          *peer.Options // how to connect to the bus
	// OpenAgent opens an external agent. If it is nil, the gateway serves only inboxes.
	OpenAgent func(s *AgentSpec) (Agent, error)
	OnReady   func() // called once, when connected, subscribed and listening
	Now       func() time.Time
	Log       *zerolog.Logger // default: no log
}

// A Gateway implements both sides of Chorus: the agent side, to which services POST, and the
// service side, which POSTs to external agents.
type Gateway struct {
	opts     Options
	store    *Store
	listener net.Listener
	egress   egress
	limiters limiters

	callbacks  *callbackQueue
	deliveries *deliveryQueue
	webhooks   *webhookQueue
	tasks      *taskList
	proxy      *toolProxy

	bus     *peer.Peer
	router  *bridge.Router // finds the agents of channels
	agents  *agentSupervisor
	senders senders
}

// senders holds what tells agents from people among the senders of channels.
type senders struct {
	roster *roster
	echoes *echoFilter
	paces  *paceTracker
}

// egress holds what the gateway needs to call addresses that others name.
type egress struct {
	guard     *netguard.Policy
	transport *netguard.Transport
	poster    *poster
	tools     *http.Client // calls the MCP servers of services
}

func newEgress(o *Options) egress {
	guard := netguard.New(o.Allow)
	transport := netguard.NewTransport(guard)
	return egress{
		guard:     guard,
		transport: transport,
		poster:    newPoster(transport, o.PostTimeout),
		tools:     newToolsClient(transport),
	}
}

// limiters limit the concurrent calls of each kind.
type limiters struct {
	calls     *callLimiter // to inboxes and callbacks
	toolCalls *callLimiter // to the chat tools
	proxied   *callLimiter // to the tools of services
	taskCalls *callLimiter // over A2A
}

// New makes a gateway for an open data folder and a listener, which Run closes. It does no I/O.
func New(store *Store, listener net.Listener, opts *Options) *Gateway {
	g := &Gateway{opts: opts.withDefaults(listener), store: store, listener: listener}
	store.now = g.opts.Now
	g.egress = newEgress(&g.opts)
	g.limiters = limiters{
		calls:     newCallLimiter(),
		toolCalls: newCallLimiter(),
		proxied:   newCallLimiter(),
		taskCalls: newCallLimiter(),
	}
	g.callbacks = newCallbackQueue(g)
	g.deliveries = newDeliveryQueue(g)
	g.webhooks = newWebhookQueue(g)
	g.tasks = &taskList{g: g}
	g.proxy = newToolProxy(g)
	g.router = bridge.New(store.db, adapter{g}, &bridge.Options{
		OneAgent:   true,
		OnNotice:   adapter{g}.onNotice,
		OnSettled:  adapter{g}.onSettled,
		Commands:   g.commands(),
		MinBackoff: g.opts.MinBackoff,
		Now:        g.opts.Now,
		Log:        g.opts.Log,
	})
	g.senders = senders{newRoster(), newEchoFilter(g.opts.Now), newPaceTracker(g.opts.Now)}
	g.agents = &agentSupervisor{g: g, running: map[AgentName]*agentEntry{}}
	g.bus = g.newBus()
	return g
}

func (o *Options) withDefaults(listener net.Listener) Options {
	d := defaults.Of(o)
	local := "http://" + dialAddress(listener.Addr())
	defaults.Set(&d.ID, DefaultID)
	defaults.Set(&d.PublicURL, local)
	defaults.Set(&d.ProxyURL, local)
	d.PublicURL, d.ProxyURL = strings.TrimRight(d.PublicURL, "/"), strings.TrimRight(d.ProxyURL, "/")
	d.ComposeWindow = max(0, d.ComposeWindow)
	defaults.Set(&d.Now, time.Now)
	defaults.Log(&d.Log)
	link := defaults.Of(d.Peer)
	if len(link.Buses) == 0 {
		link.Buses = []string{"ws://127.0.0.1:7892"}
	}
	d.Peer = &link
	return d
}

// dialAddress returns the address at which to dial a listener. For a listener on all addresses,
// it is a loopback address.
func dialAddress(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// newOutbox makes an outbox of the gateway.
func (g *Gateway) newOutbox(send outbox.SendFunc, o outbox.Options) *outbox.Outbox {
	o.MinBackoff = g.opts.MinBackoff
	o.MaxPending = 20_000
	o.Now = g.opts.Now
	o.Log = g.opts.Log
	return outbox.New(g.store.db, send, &o)
}

// newBus makes the bus connection of all channels.
func (g *Gateway) newBus() *peer.Peer {
	opts := g.peerOptions()
	opts.OnConnect = g.onConnect
	p := peer.New(g.opts.ID, opts)
	p.HandlePresence(g.senders.roster.onPresence)
	g.router.Attach(p)
	p.Handle(protocol.TypeChatReply, g.callbacks.handleReply)
	p.Handle(protocol.TypeChatMessage, g.webhooks.handle)
	p.Handle(protocol.TypeAgentEvent, g.callbacks.handleReport)
	if err := p.Subscribe(context.Background(), "chorus:*"); err != nil { // recorded until p runs
		g.opts.Log.Error().Err(err).Msg("subscribing to channels failed")
	}
	return p
}

// onConnect ends every wait for the bus.
func (g *Gateway) onConnect(ctx context.Context) {
	g.router.OnConnected(ctx)
	if err := g.webhooks.queue.RetryNow(ctx, ""); err != nil && ctx.Err() == nil {
		g.opts.Log.Warn().Err(err).Msg("posts not retried after a reconnect; they wait for their backoff")
	}
}

func (g *Gateway) peerOptions() *peer.Options {
	o := *g.opts.Peer
	o.Log = g.opts.Log
	o.OnConnect, o.OnDisconnect = nil, nil
	return &o
}

// Run serves both sides. It returns nil when ctx ends, and an error when the listener fails or
// the bus refuses the gateway. By then, everything that it started has ended; accepted messages
// remain on disk.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.store.setPublicURL(ctx, g.opts.PublicURL); err != nil {
		return errors.Join(err, g.listener.Close())
	}
	err := g.bus.RunWith(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		g.agents.reconcile(ctx) // callbacks need their agents
		for _, run := range []func(context.Context) error{
			g.callbacks.queue.Run, g.deliveries.queue.Run, g.webhooks.queue.Run, g.router.Run,
			g.agents.run, g.proxy.combiner.run, g.prune, g.serve, g.reportReady,
		} {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	})
	g.egress.transport.CloseIdleConnections()
	return err
}

func (g *Gateway) reportReady(ctx context.Context) error {
	if err := g.bus.Ready(ctx); err != nil {
		return nil // the other parts of Run report the error
	}
	if g.opts.OnReady != nil {
		g.opts.OnReady()
	}
	return nil
}

// stopServing is how long calls may take after the context of Run has ended.
const stopServing = 5 * time.Second

// serve serves HTTP until ctx ends, and then waits for running calls.
func (g *Gateway) serve(ctx context.Context) error {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler: g.routes(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return calls },
		ErrorLog:    log.New(errorWriter{g.opts.Log}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopServing/2, cut) }) // streams would not end otherwise
	defer stop()
	if err := http1.Serve(ctx, netutil.LimitListener(g.listener, maxConnections), server, stopServing); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// An errorWriter logs the HTTP server's reports of connections and panics, which never contain a
// URL.
type errorWriter struct{ log *zerolog.Logger }

func (w errorWriter) Write(line []byte) (int, error) {
	w.log.Debug().Str("error", strings.TrimSpace(string(line))).Msg("HTTP server reports")
	return len(line), nil
}
