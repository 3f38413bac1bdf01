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

	Args     []string                 // given to every agent, after ours
	Env      func() ([]string, error) // environment of agents, read at every start; default none
	Profiles map[string]Profile       // what a request may name
	Limits   Limits                   // of each agent
	Unit     []string                 // of each agent, see Spec

	MaxAgents    int           // running at once; default 100
	MaxRequests  int           // that wait for an answer; default 4096
	SpawnRate    int           // new starts by request in a minute; default 60
	MaxRestarts  int           // in a row, before an agent is given up; default 5, negative: none
	SteadyAfter  time.Duration // run time after which restarts are counted from zero; default 60s
	StartTimeout time.Duration // until an agent must be online; default 30s
	MinBackoff   time.Duration // before a restart, doubling; default 1s
	MaxBackoff   time.Duration // default 30s
	IdleStop     time.Duration // before an agent is ended to which no chat talks; 0: never

	Credentials bool // issue one credential for each agent; needs a token in Peer

	OnReady func()          // called once, when connected and subscribed
	Log     *zerolog.Logger // default: no log

	failpoint func(step string) // set by tests: kills the process at a step
}

// A Profile is a way of running agents that the operator defined.
type Profile struct {
	Args   []string                 // after those of Options.Args
	Env    func() ([]string, error) // after that of Options.Env
	Limits *Limits                  // instead of Options.Limits
	Unit   []string                 // after that of Options.Unit
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Positive(&d.MaxAgents, 100)
	defaults.Positive(&d.MaxRequests, 4096)
	defaults.Positive(&d.SpawnRate, 60)
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
