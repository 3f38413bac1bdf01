package systemtest

import (
	"context"
	"strings"
	"testing"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// A Bridge is a peer that requests agents and collects the answers.
type Bridge struct {
	*peer.Peer
	Got chan *peer.Delivery
}

// JoinBridge connects to the bus as a bridge for tg:* until the test ends.
func JoinBridge(t *testing.T, bus, token string) *Bridge {
	t.Helper()
	b := &Bridge{peer.New("tg:bot", &peer.Options{Buses: []string{bus}, Token: token}), make(chan *peer.Delivery, 1000)}
	b.HandleAny(func(_ context.Context, d *peer.Delivery) error { b.Got <- d; return nil })
	ctx, cancel := context.WithCancel(context.Background())
	if err := b.Subscribe(ctx, "tg:*"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := b.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// Ask sends a spawn request of a chat once and reports whether a spawner accepted it.
func (b *Bridge) Ask(t *testing.T, chat protocol.PeerID, request string) bool {
	t.Helper()
	r, err := b.Send(t.Context(), protocol.TopicSpawn,
		protocol.NewMessage(protocol.TypeSpawnRequest, chat, protocol.SpawnRequest{RequestID: request}))
	if err != nil {
		t.Fatal(err)
	}
	return r.DeliveredTo == 1
}

// Whoami asks the bus what a token grants.
func Whoami(t *testing.T, bus, token string) (status int, grants string) {
	t.Helper()
	c := peer.HTTPCall{Bus: bus, Method: "GET", Path: "/whoami", Authorization: peer.Bearer(strings.TrimSpace(token)),
		Limit: 1 << 20}
	status, body, err := c.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status, string(body)
}
