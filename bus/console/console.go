package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// ErrUnreachable is in the chain of the error of dead letters that cannot be
// reached from here.
var ErrUnreachable = errors.New("the bridge's queues are not in this bus's data folder")

// Options are the optional settings of a Console. Nil is valid.
type Options struct {
	Credentials Credentials // who may look; nil: everyone
	DeadLetters DeadLetters // nil: there are none to show
	ActingAs    ActingAs    // speaks for everyone, where everyone may act; nil: nobody does
	Log         *zerolog.Logger
	Now         func() time.Time // default time.Now
}

// A Console serves /console/. It is an http.Handler; its answers are only
// current while Run runs.
type Console struct {
	bus       Bus
	log       *activitylog.Reader
	auth      *auth
	dead      DeadLetters
	openActor ActingAs
	logger    zerolog.Logger
	now       func() time.Time

	model       *readModel
	series      *series
	deadCount   deadLetterCount
	lastRequest atomic.Int64  // time of the last request, in unix nanoseconds
	wake        chan struct{} // wakes the follower; capacity 1
	current     atomic.Bool   // the facts hold the log's rows
	mux         *http.ServeMux
	pages       map[string]*template.Template
}

// New makes the console of a bus whose activity log is read with log, which may
// be nil. It does no I/O.
func New(bus Bus, log *activitylog.Reader, opts *Options) *Console {
	o := defaults.Of(opts)
	defaults.Set(&o.Now, time.Now)
	defaults.Log(&o.Log)
	c := &Console{
		bus: bus, log: log, dead: o.DeadLetters, openActor: o.ActingAs, logger: *o.Log, now: o.Now,
		model: newReadModel(), series: newSeries(), wake: make(chan struct{}, 1),
	}
	c.pages = parsePages(&c.model.titles)
	c.auth = newAuth(o.Credentials, o.Now)
	c.mux = c.routes()
	return c
}

// routes says what answers each path. A page is filled in by a method and drawn with a
// template; without one, it is JSON.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/assets/{name}", serveAsset)
	mux.HandleFunc("POST /console/link", c.makeLink)
	mux.HandleFunc("GET /console/enter/{key}", c.enter)
	for _, p := range []struct {
		method, page, template, section string
		fill                            func(*request) error
	}{
		{"GET", "{$}", "topology", "topology", (*request).topology},
		{"GET", "topology", "topology", "topology", (*request).topologyPart},
		{"GET", "activity", "activity", "activity", (*request).activity},
		{"GET", "activity/rows", "activity", "activity", (*request).activityRows},
		{"GET", "message", "message", "activity", (*request).message},
		{"GET", "agents", "agents", "agents", (*request).agents},
		{"GET", "agent", "agent", "agents", (*request).agent},
		{"GET", "chat", "chat", "agents", (*request).chat},
		{"GET", "peer", "peer", "topology", (*request).peer},
		{"GET", "work", "work", "work", (*request).work},
		{"GET", "item", "item", "work", (*request).item},
		{"GET", "decisions", "decisions", "decisions", (*request).decisions},
		{"GET", "owed", "obligations", "owed", (*request).obligations},
		{"GET", "health", "health", "health", (*request).health},
		{"GET", "series.json", "", "", (*request).seriesJSON},
		{"GET", "state.json", "", "", (*request).stateJSON},
		{"POST", "leave", "", "", (*request).leave},
		{"POST", "deadletter", "", "", (*request).changeDeadLetter},
		{"POST", "agent", "agent", "agents", (*request).directChat},
		{"POST", "budget", "", "", (*request).resetBudget},
		{"POST", "decision", "", "", (*request).decide},
		{"POST", "owed", "", "", (*request).actOnObligation},
		{"GET", "", "", "", (*request).notFound},
	} {
		for _, at := range []string{home(""), home("{visit}")} {
			mux.HandleFunc(p.method+" "+at+p.page, func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, p.template, p.section, p.fill) })
		}
	}
	return mux
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	c.mux.ServeHTTP(w, r)
}

// Run keeps the console current until ctx ends: it samples the counters, and
// follows the log while somebody looks.
func (c *Console) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.sample(ctx) })
	if c.log != nil {
		wg.Go(func() { c.follow(ctx) })
	}
	wg.Wait()
	return nil
}

// sampleEvery is how often the counters are sampled.
const sampleEvery = 2 * time.Second

func (c *Console) sample(ctx context.Context) {
	for again := true; again; again = retry.Sleep(ctx, sampleEvery) {
		c.series.add(c.now(), c.bus.Counters())
	}
}

// A Bus is what the console shows of one. Its methods are called from any
// goroutine, about once a second and for each page.
type Bus interface {
	Peers() []report.Peer
	Counters() report.Counters
}

// A Credentials decides who may look. A nil Gate is open.
type Credentials interface {
	// Open reports whether the bus has no credentials: everyone may look and act.
	Open() bool
	// Lookup returns what a token allows; false if it is not valid.
	Lookup(token string) (Access, bool)
}

// A ActingAs speaks on the bus for whoever acts in the console.
type ActingAs interface {
	collab.Asker // asks the broker
	// DirectChat says a text to an agent, in a direct chat that goes on from call to call, and
	// returns what the agent answers. It waits until ctx ends.
	DirectChat(ctx context.Context, agent protocol.PeerID, text string) (answer string, err error)
	// As speaks as a person of the command line, where whoever acts may be that.
	As(person protocol.PeerID) ActingAs
	// ResetBudget has an agent count its budgets anew.
	ResetBudget(ctx context.Context, agent protocol.PeerID) error
}

// An Access is what a credential allows.
type Access struct {
	Name     string      // of the credential
	MayRead  bool        // may read everything
	MayAct   bool        // may retry and drop as an operator
	Valid    func() bool // whether the credential still stands, unchanged
	ActingAs ActingAs    // speaks as its holder; nil: nobody does
}

// DeadLetters are the messages that could not be delivered to the outside and
// wait for a person.
type DeadLetters interface {
	// List returns them, at most limit, the oldest of each program first. Its error
	// says whose are missing; ErrUnreachable is in its chain when the bridge's queues
	// cannot be reached from here.
	List(ctx context.Context, limit int) ([]DeadLetter, error)
	// Retry sends one again, Drop gives it up.
	Retry(ctx context.Context, id string) error
	Drop(ctx context.Context, id string) error
}

// A DeadLetter is one of them.
type DeadLetter struct {
	ID          string
	Queue       string
	Destination string
	State       string // dead, or unknown: it may have arrived
	Attempts    int
	QueuedAt    time.Time
	Agent       string
	Text        string
	Error       string
}
