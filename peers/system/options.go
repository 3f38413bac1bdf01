package system

import (
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Spawner. Nil is valid.
type Options struct {
	// how to reach the bus; OnConnect is called as well. With a token, each agent gets a credential.
	Peer *peer.Options

	Args     []string                 `flag:"agent-arg" usage:"argument given to every agent (repeatable)"`
	Env      func() ([]string, error) // environment of agents, read at every start; default empty
	Profiles map[string]Profile       // that requests may name
	Limits   Limits                   // of each agent
	Unit     []string                 `flag:"agent-unit" usage:"with systemd: change to the sandbox of an agent's unit that its harness needs, such as MemoryDenyWriteExecute=no (repeatable); see hubbub help security"`

	MaxAgents   int `flag:"max-agents" positive:"100" usage:"agents that may run at once"`
	MaxRequests int `positive:"4096"` // unanswered requests
	SpawnRate   int `flag:"spawn-rate" positive:"120" usage:"new agents that may be started in a minute; more wait"`
	// negative: none
	MaxRestarts  int           `flag:"max-restarts" default:"5" usage:"times in a row that an agent is restarted; the count starts over once it has run for 60s"`
	SteadyAfter  time.Duration `positive:"1m"` // run time that resets the count of restarts
	StartTimeout time.Duration `flag:"start-timeout" positive:"30s" usage:"how long an agent may take to report that it is online"`
	MinBackoff   time.Duration `positive:"1s"` // before a restart, doubling
	MaxBackoff   time.Duration `positive:"30s"`
	IdleStop     time.Duration `flag:"idle-stop" usage:"how long an agent's chats may be silent before the agent is stopped; 0 for never"`

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
	d.MaxRestarts = max(d.MaxRestarts, 0)
	defaults.Log(&d.Log)
	defaults.Set(&d.failpoint, func(string) {})
	return d
}
