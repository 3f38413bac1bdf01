package systemtest

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// Value returns the value of an option in a list of arguments, or "".
func Value(args []string, option string) string {
	if i := slices.Index(args, option); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// Agent runs an agent that connects to its bus with the token and identity of its arguments and
// announces itself until somebody receives it. It returns the exit code when the bus closes the
// connection. reached, if not nil, is called at the steps "agent connected" and "agent online".
func Agent(args []string, reached func(step string)) int {
	if reached == nil {
		reached = func(string) {}
	}
	token, err := os.ReadFile(Value(args, "--token-file"))
	if err != nil {
		return 5
	}
	ctx := context.Background()
	id := protocol.AgentID(Value(args, "--id"))
	p := peer.New(id, &peer.Options{Buses: []string{Value(args, "--bus")}, Token: strings.TrimSpace(string(token))})
	if err := p.Subscribe(ctx, protocol.Pattern(id)); err != nil {
		return 6
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	if err := p.Ready(ctx); err != nil {
		return 7
	}
	reached("agent connected")
	online := p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: id})
	for {
		if r, err := p.Send(ctx, protocol.TopicAgents, online); err == nil && r.DeliveredTo > 0 {
			break
		}
		select {
		case <-done:
			return 1
		case <-time.After(20 * time.Millisecond):
		}
	}
	reached("agent online")
	<-done
	return 1
}
