package system

import (
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Spawner. Nil is valid.
type Options struct {
	Peer *peer.Options // how to reach the bus; OnConnect is called as well

	Args     []string                 // of every agent, after the spawner's own
	Env      func() ([]string, error) // environment of agents, read at every start; default empty
	Profiles map[string]Profile       // that requests may name
	Limits   Limits                   // of each agent
	Unit     []string                 // of each agent, see Spec

	MaxAgents    int           // running at once; default 100
	MaxRequests  int           // unanswered requests; default 4096
	SpawnRate    int           // new starts per minute, also at once; default 120
	MaxRestarts  int           // in a row, before an agent fails; default 5, negative: none
	SteadyAfter  time.Duration // run time that resets the count of restarts; default 60s
	StartTimeout time.Duration // for an agent to come online; default 30s
	MinBackoff   time.Duration // before a restart, doubling; default 1s
	MaxBackoff   time.Duration // default 30s
	IdleStop     time.Duration // before an idle agent is ended; 0: never

	Credentials bool // issue a credential for each agent; needs a token in Peer

	OnReady func()          // called once, when connected and subscribed
	Log     *zerolog.Logger // default: no log

	failpoint func(step string) // set by tests to kill the process at a step
}

// A Profile is a way of running agents, defined by the operator.
type Profile struct {
	Args   []string                 // in addition to Options.Args
	Env    func() ([]string, error) // in addition to Options.Env
	Limits *Limits                  // instead of Options.Limits
	Unit   []string                 // in addition to Options.Unit
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Positive(&d.MaxAgents, 100)
	defaults.Positive(&d.MaxRequests, 4096)
	defaults.Positive(&d.SpawnRate, 120)
	defaults.Set(&d.MaxRestarts, 5)
	d.MaxRestarts = max(d.MaxRestarts, 0)
	defaults.Positive(&d.SteadyAfter, time.Minute)
	defaults.Positive(&d.StartTimeout, 30*time.Second)
	defaults.Positive(&d.MinBackoff, time.Second)
	defaults.Positive(&d.MaxBackoff, 30*time.Second)
	defaults.Log(&d.Log)
	defaults.Set(&d.failpoint, func(string) {})
	return d
}
