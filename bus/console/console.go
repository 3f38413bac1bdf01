package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog/read"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// ErrUnreachable is the error for dead letters in another data folder.
var ErrUnreachable = errors.New("the bridge's queues are not in this bus's data folder")

// Options are the optional settings of a Console. Nil is valid.
type Options struct {
	Credentials Credentials // nil: every visitor may read and act
	DeadLetters DeadLetters // nil: none are shown
	ActingAs    ActingAs    // acts for all visitors of an open bus; nil: none may act
	Log         *zerolog.Logger
	Now         func() time.Time // default time.Now
}

// A Console serves /console/. It is an http.Handler. Its answers are current only while Run is
// running.
type Console struct {
	bus       Bus
	log       *read.Reader
	auth      *auth
	dead      DeadLetters
	openActor ActingAs
	logger    zerolog.Logger
	now       func() time.Time

	model       *readModel
	series      *series
	deadCount   deadLetterCount
	lastRequest atomic.Int64  // unix nanoseconds
	wake        notify.Signal // wakes the follower
	current     atomic.Bool   // the model is up to date with the log
	mux         *http.ServeMux
	pages       map[string]*template.Template
}

// New returns the console of a bus. log reads the activity log of the bus and may be nil. New
// does no I/O.
func New(bus Bus, log *read.Reader, opts *Options) *Console {
	o := defaults.Of(opts)
	defaults.Set(&o.Now, time.Now)
	defaults.Log(&o.Log)
	c := &Console{
		bus: bus, log: log, dead: o.DeadLetters, openActor: o.ActingAs, logger: *o.Log, now: o.Now,
		model: newReadModel(), series: newSeries(), wake: notify.New(),
	}
	c.pages = parsePages(&c.model.titles, c.now)
	c.auth = newAuth(o.Credentials, o.Now)
	c.mux = c.routes()
	return c
}

// routes maps each path to a method and a template. The method fills in the page, and the
// template renders it. A page without a template is JSON.
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
			mux.HandleFunc(p.method+" "+at+p.page, func(w http.ResponseWriter, r *http.Request) {
				c.serve(w, r, p.template, p.section, p.fill)
			})
		}
	}
	return mux
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	c.mux.ServeHTTP(w, r)
}

// Run keeps the console current until ctx ends. It samples the counters, and follows the log
// while pages are open.
func (c *Console) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.sample(ctx) })
	if c.log != nil {
		wg.Go(func() { c.follow(ctx) })
	}
	wg.Wait()
	return nil
}

// sampleInterval is the time between two samples of the counters.
const sampleInterval = 2 * time.Second

func (c *Console) sample(ctx context.Context) {
	for again := true; again; again = retry.Sleep(ctx, sampleInterval) {
		c.series.add(c.now(), c.bus.Counters())
	}
}

// A Bus is the bus that the console shows. Its methods are called from any goroutine, about once
// a second and for each page.
type Bus interface {
	Peers() []report.Peer
	Counters() report.Counters
}

// Credentials are the credentials of the bus. Nil Credentials mean an open bus.
type Credentials interface {
	// Open reports whether the bus has no credentials. Then every visitor may read and act.
	Open() bool
	// Lookup returns the access of a token, or false if the token is not valid.
	Lookup(token string) (Access, bool)
}

// An ActingAs acts on the bus for a visitor.
type ActingAs interface {
	collab.Asker // asks the broker
	// DirectChat sends a text to an agent and returns the answer. All calls belong to one direct
	// chat. It waits until ctx ends.
	DirectChat(ctx context.Context, agent protocol.PeerID, text string) (answer string, err error)
	// As returns an ActingAs that acts as a person of the command line, if the visitor may use
	// that identity.
	As(person protocol.PeerID) ActingAs
	// ResetBudget resets the budgets of an agent.
	ResetBudget(ctx context.Context, agent protocol.PeerID) error
}

// An Access is what a credential allows in the console.
type Access struct {
	Name     string      // of the credential
	MayRead  bool        // may read everything
	MayAct   bool        // as an operator
	Valid    func() bool // reports whether the credential is still valid and unchanged
	ActingAs ActingAs    // acts as the holder; nil: the holder may not act
}

// DeadLetters are the messages that could not be delivered outside the bus and wait for a person.
type DeadLetters interface {
	// List returns at most limit of them, the oldest of each program first. Its error names the
	// programs whose messages are missing. It wraps ErrUnreachable if the bridge's queues cannot
	// be read.
	List(ctx context.Context, limit int) ([]DeadLetter, error)
	// Retry sends a message again, and Drop discards it.
	Retry(ctx context.Context, id string) error
	Drop(ctx context.Context, id string) error
}

// A DeadLetter is one undelivered message.
type DeadLetter struct {
	ID          string
	Queue       string
	Destination string
	State       string // dead, or unknown if it may have arrived
	Attempts    int
	QueuedAt    time.Time
	Agent       string
	Text        string
	Error       string
}
