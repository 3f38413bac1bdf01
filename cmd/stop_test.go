package cmd_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestBus_StopsInTimeWhenPeersHang stops a bus whose peer and trace collector never answer, and
// whose log is locked. The waits for each come one after another.
func TestBus_StopsInTimeWhenPeersHang(t *testing.T) {
	t.Run("peer and collector", func(t *testing.T) {
		t.Parallel()
		collector, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts
		if err != nil {
			t.Fatal(err)
		}
		defer collector.Close() //nolint:errcheck // nothing was accepted
		p, _ := startHangingBus(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector.Addr().String())
		p.stop() // checks the exit code
	})
	t.Run("peer and log", func(t *testing.T) {
		t.Parallel()
		p, data := startHangingBus(t)
		other, err := sqlite.OpenConn(filepath.Join(data, "activity.db"), sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close() //nolint:errcheck // of a test
		if err := sqlitex.ExecuteTransient(other, "BEGIN EXCLUSIVE", nil); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		if says := p.text(); !strings.Contains(says, "rows could not be written") || strings.Contains(says, "ending anyway") {
			t.Errorf("the bus did not end by itself, saying what is lost:\n%s", says)
		}
	})
}

// startHangingBus runs a bus with a message in flight to a peer that never answers.
func startHangingBus(t *testing.T, env ...string) (p *process, data string) {
	t.Helper()
	data = t.TempDir()
	addr := bustest.FreeAddress(t)
	p = start(t, t, "hubbub-bus", env, "--data", data, "--listen", addr, "--log-format", "json")
	asked := make(chan struct{})
	mute, err := wire.Dial(t.Context(), "ws://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := jsonrpc.NewConn(mute, func(*jsonrpc.Conn, jsonrpc.Message) { close(asked) })
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() { _ = conn.Run() }) // it ends with the bus
	for _, call := range [][2]string{
		{protocol.MethodInitialize, `{"clientId":"agent:mute"}`}, {protocol.MethodSubscribe, `{"topic":"agent:mute"}`},
	} {
		if _, err := conn.Call(t.Context(), call[0], []byte(call[1])); err != nil {
			t.Fatal(err)
		}
	}
	sender := peer.New("cli:sender", &peer.Options{Buses: []string{"ws://" + addr}})
	running.Go(func() { _ = sender.Run(t.Context()) })
	running.Go(func() {
		_, _ = sender.Send(t.Context(), "agent:mute", sender.NewMessage(protocol.TypeAgentEvent, struct{}{})) // never answered
	})
	<-asked
	return p, data
}
