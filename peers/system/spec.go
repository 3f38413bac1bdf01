package system

import (
	"context"
	"slices"

	"hubbub/protocol"
)

// spec returns how an agent is started, except for its environment.
func (s *Spawner) spec(a agentRow) Spec {
	place := s.launcher.Paths(a.name)
	args := []string{"--id", string(a.name)}
	for _, bus := range s.peer.Buses() {
		args = append(args, "--bus", bus)
	}
	args = append(args, "--data", place.Data, "--token-file", place.TokenFile)
	args = append(args, s.opts.Args...)
	profile := s.opts.Profiles[a.profile]
	args = append(args, profile.Args...)
	limits := s.opts.Limits
	if profile.Limits != nil {
		limits = *profile.Limits
	}
	return Spec{Name: a.name, Command: s.command, Args: args, TokenFile: s.tokenFile(a.name), Limits: limits,
		Unit: slices.Concat(s.opts.Unit, profile.Unit)}
}

// environment returns the environment of the agent.
func (k *supervisor) environment(ctx context.Context) ([]string, error) {
	a, err := k.agent(ctx)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, read := range []func() ([]string, error){k.opts.Env, k.opts.Profiles[a.profile].Env} {
		if read == nil {
			continue
		}
		more, err := read()
		if err != nil {
			return nil, err
		}
		env = append(env, more...)
	}
	return env, nil
}

// A grantRequest is the body of POST /credentials.
type grantRequest struct {
	Name       string   `json:"name"`
	Identities []string `json:"identities"`
	Subscribe  []string `json:"subscribe"`
	Publish    []string `json:"publish"`
}

// grants returns what an agent is granted: its identity, its own topic, and publishing to its
// chats, the system, the broker and, if people is set, to people who use `hubbub chat`.
func grants(agent AgentName, topics []protocol.Topic, people bool) grantRequest {
	self := string(agent.PeerID())
	g := grantRequest{Identities: []string{self}, Subscribe: []string{self}, Publish: []string{"system:*", "collab:*"}}
	if people {
		g.Publish = append(g.Publish, "cli:*.chat-"+string(agent))
	}
	for _, topic := range topics {
		g.Publish = append(g.Publish, string(topic))
	}
	return g
}
