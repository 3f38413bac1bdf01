package peer_test

import (
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/wire"
)

// TestPresence_OutlivesARestartOfTheBus checks that peers that left during the restart are
// reported after the bus has listed all peers that are present.
func TestPresence_OutlivesARestartOfTheBus(t *testing.T) {
	b := bustest.Start(t, nil)
	changes := make(chan string, 100)
	p := peer.New("agent:eye", &peer.Options{Buses: []string{b.URL()}})
	p.HandlePresence(func(news protocol.Presence) { changes <- news.State + " " + string(news.Peer) })
	run(t, p)
	want := func(w string) {
		t.Helper()
		if got := <-changes; got != w {
			t.Fatalf("told %q; want %q", got, w)
		}
	}
	want("joined agent:eye")
	a := b.Join(t, "agent:a")
	want("joined agent:a")
	once, err := wire.Dial(t.Context(), b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { once.Close(wire.CloseNormal, "") })
	if err := once.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:z"}}`)); err != nil {
		t.Fatal(err)
	}
	once.Flush()
	want("joined agent:z")
	a.Leave()
	want("left agent:a")
	b.Restart(t)
	want("joined agent:eye") // the bus has another name now
	want("left agent:z")
	b.Join(t, "agent:a")
	want("joined agent:a")
}
