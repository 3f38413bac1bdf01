package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A Server is one bus.
type Server struct {
	options     Options
	log         Log // nil if there is no activity log
	index       *index
	metrics     metrics
	initialized []byte                    // the result of initialize
	started     atomic.Pointer[time.Time] // set by Run
	credentials uint64                    // version that the sessions were last checked against; used only by the sweeper

	shutdown
	clusterState
	quotas

	mu       sync.Mutex // guards the fields below
	streams  int        // that are open, those included whose session has ended and that are being closed
	sessions map[*session]struct{}
	peers    map[protocol.PeerID]*session
	latest   int64 // greatest Stamp.At so far, also of other buses, whose clocks may be ahead
}

// clusterState are the other buses of the cluster, who is told of all peers, and what waits for
// those that are slow, and what messages with once came here or to them.
type clusterState struct {
	presence presence
	slow     wire.Backlog // what waits for slow peers, in their streams and in their queues

	remoteMu sync.Mutex // guards remotes
	remotes  remotes

	dedupTable
}

// shutdown is what a bus needs to stop.
type shutdown struct {
	stopping   atomic.Bool
	cut        chan struct{}  // closed when streams must end at once
	readers    sync.WaitGroup // one for each session
	background sync.WaitGroup // close handshakes and pings
	inFlight   *inFlight      // publications that are not finished
}

// New makes a bus that records its activity in log, which may be nil. It does no I/O.
func New(log Log, opts *Options) *Server {
	o := opts.withDefaults()
	if o.Name == "" {
		o.Name = NewName()
	}
	srv := &Server{
		options: o, log: log, index: newIndex(), initialized: initializeResult(o.Name, o.Version),
		shutdown: shutdown{cut: make(chan struct{}), inFlight: newInFlight()},
		sessions: map[*session]struct{}{}, peers: map[protocol.PeerID]*session{},
		clusterState: clusterState{remotes: remotes{}},
	}
	srv.slow.Max = int64(o.SlowBytes)
	srv.dedupTable.srv = srv
	srv.presence.srv, srv.presence.watchers = srv, map[*session]*watcher{}
	srv.quotas = quotas{metrics: &srv.metrics, log: o.Log, logged: log != nil, defaults: o.CredentialLimits, byName: map[string]*usage{}}
	if o.Cluster != nil {
		o.Cluster.Attach(srv)
	}
	return srv
}

// NewName makes a random name for a bus.
func NewName() string {
	b := make([]byte, 4)
	rand.Read(b) //nolint:errcheck // it never fails
	return "bus-" + hex.EncodeToString(b)
}

// Run listens on Options.Listen and serves until ctx ends.
func (srv *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", srv.options.Listen)
	if err != nil {
		why := "--listen must be an address of this machine"
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			why = "is another bus running? choose another --listen"
		case errors.Is(err, syscall.EACCES):
			why = "ports below 1024 are not everybody's; choose another --listen"
		}
		return fmt.Errorf("listening on %s: %w (%s)", srv.options.Listen, err, why)
	}
	return srv.Serve(ctx, listener)
}

// Serve serves on a listener until ctx ends, then stops as Run does and closes the
// listener. Without credentials it refuses to serve other machines.
func (srv *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close() //nolint:errcheck // closed below, as a rule
	if file := srv.options.Credentials; file != nil {
		if err := file.Reload(); err != nil {
			return err
		}
	}
	if err := srv.checkExposure(listener.Addr()); err != nil {
		return err
	}
	return srv.run(ctx, listener)
}

// ServeOn is Serve with a listener that may be nil; then ServeStream is the only way
// to add sessions.
func (srv *Server) ServeOn(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		return srv.run(ctx, nil)
	}
	return srv.Serve(ctx, listener)
}

// answerTimeout is how long a client may take to read an HTTP answer. Sessions have
// Options.WriteTimeout instead.
const answerTimeout = 2 * time.Minute

// run serves until ctx ends.
func (srv *Server) run(ctx context.Context, listener net.Listener) error {
	at := time.Now()
	srv.started.Store(&at)
	var loops sync.WaitGroup
	loopsCtx, endLoops := context.WithCancel(context.WithoutCancel(ctx))
	loops.Go(func() { srv.sweepLoop(loopsCtx) })

	failed := make(chan error, 1)
	httpServer := &http.Server{
		Handler: srv.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: answerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		TLSConfig: srv.options.TLS, ErrorLog: log.New(httpErrors{srv.options.Log}, "", 0),
	}
	if listener != nil {
		loops.Go(func() { failed <- srv.serveHTTP(httpServer, listener) })
		if srv.options.OnReady != nil {
			srv.options.OnReady(listener.Addr())
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	srv.refuseSessions()
	if listener != nil {
		listener.Close() //nolint:errcheck // nothing to do about it
	}
	srv.drain()
	close(srv.cut)
	srv.closeSessions()
	srv.readers.Wait()
	httpServer.Close() //nolint:errcheck // nothing to do about it
	endLoops()
	loops.Wait()
	srv.background.Wait()
	srv.inFlight.wait(nil) // somebody may be finishing the last
	return err
}

func (srv *Server) serveHTTP(s *http.Server, listener net.Listener) error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(listener, "", "")
	} else {
		err = s.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain waits for what is in flight, at most Options.StopTimeout. Then it gives up the
// forwards to other buses, so that their senders get an answer before their sessions
// are closed.
func (srv *Server) drain() {
	timer := time.NewTimer(srv.options.StopTimeout)
	defer timer.Stop()
	srv.inFlight.wait(timer.C)
	if c := srv.options.Cluster; c != nil {
		c.FailPending("did not answer before the sender's bus stopped")
	}
}

// refuseSessions admits no session from now on.
func (srv *Server) refuseSessions() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.stopping.Store(true)
}

func (srv *Server) closeSessions() {
	b := srv.newBatch()
	for _, s := range srv.allSessions() {
		s.evict(b, wire.CloseGoingAway, "the bus is stopping")
	}
	b.flush()
}

// acceptsMessages returns nil if messages are accepted now, or the reason why not.
func (srv *Server) acceptsMessages() error {
	if srv.stopping.Load() {
		return errors.New("the bus is stopping; send again once it is back")
	}
	if srv.log == nil {
		return nil
	}
	return srv.log.Admit()
}

// ServeStream serves one session over a stream and returns when it has ended.
// The credential is nil on an open bus. It is for tests and in-process peers;
// Run must be running.
func (srv *Server) ServeStream(stream jsonrpc.Stream, remote string, credential *grant.Credential) {
	if s := srv.openSession(stream, remote, credential); s != nil {
		defer srv.closeStream(s)
		s.serve()
	}
}

// start serves one session in a goroutine of its own.
func (srv *Server) start(stream jsonrpc.Stream, remote string, credential *grant.Credential) {
	if s := srv.openSession(stream, remote, credential); s != nil {
		go func() {
			defer srv.closeStream(s)
			s.serve()
		}()
	}
}

// openSession adds a session. If the bus is full or stopping, it closes the stream and
// returns nil. The caller serves the session and then calls leave.
func (srv *Server) openSession(stream jsonrpc.Stream, remote string, credential *grant.Credential) *session {
	at := time.Now()
	s := &session{server: srv, stream: stream, remote: remote, opened: at, pings: pings{pinged: at}}
	s.credential.Store(credential)
	s.usage = srv.usageOf(credential, srv.options.Credentials)
	s.self.session = s
	err := s.usage.openSession(at)
	if err == nil {
		if srv.admitSession(s) {
			srv.recheckNew(s)
			return s
		}
		s.usage.closeSession()
		err = errors.New("the bus takes no more connections")
	}
	stream.Close(wire.CloseTryLater, err.Error())
	return nil
}

// recheckNew ends a session whose credential was revoked while its upgrade was under way:
// the sweep saw the change before it could see the session.
func (srv *Server) recheckNew(s *session) {
	file := srv.options.Credentials
	if file == nil || file.Open() {
		return
	}
	if _, err := s.recheck(file); err != nil {
		b := srv.newBatch()
		s.evict(b, wire.ClosePolicy, err.Error())
		b.flush()
	}
}

func (srv *Server) admitSession(s *session) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.stopping.Load() {
		return false
	}
	if srv.streams >= srv.options.MaxSessions {
		srv.metrics.limit(limitSessions)
		return false
	}
	srv.streams++
	srv.sessions[s] = struct{}{}
	srv.readers.Add(1)
	return true
}

// closeStream counts a stream as closed. It may be called long after the session ended: the
// last words to a slow peer keep its stream open.
func (srv *Server) closeStream(s *session) {
	s.usage.closeSession()
	srv.mu.Lock()
	srv.streams--
	srv.mu.Unlock()
	srv.readers.Done()
}

// register gives a session a clientId that older has; nil if nobody has it. It returns
// false if another session has it now.
func (srv *Server) register(s *session, id protocol.PeerID, older *session) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.peers[id] != older {
		return false
	}
	srv.latest = max(srv.latest+1, time.Now().UnixNano())
	s.id, s.stamp = id, Stamp{At: srv.latest, Bus: srv.options.Name}
	srv.peers[id] = s
	return true
}

// sessionOf returns this bus's session of an identity, or nil.
func (srv *Server) sessionOf(id protocol.PeerID) *session {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.peers[id]
}

// unregister takes its clientId from a session.
func (srv *Server) unregister(s *session) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.peers[s.id] == s {
		delete(srv.peers, s.id)
		srv.presence.noteChange(s.id)
	}
}

// forget removes a session that has ended.
func (srv *Server) forget(s *session) {
	srv.unregister(s)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	delete(srv.sessions, s)
}

func (srv *Server) allSessions() []*session {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	list := make([]*session, 0, len(srv.sessions))
	for s := range srv.sessions {
		list = append(list, s)
	}
	return list
}
