package cmd_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
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
		if says := p.whole(); !strings.Contains(says, "rows could not be written") || strings.Contains(says, "ending anyway") {
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
	hang(t, addr, "")
	return p, data
}

// hang sends a message to a peer that never answers.
func hang(t *testing.T, addr, token string) {
	t.Helper()
	asked := make(chan struct{})
	mute, err := wire.Dial(t.Context(), "ws://"+addr, &wire.DialOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	conn := jsonrpc.NewConn(mute, func(*jsonrpc.Conn, jsonrpc.Message) { close(asked) })
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() { _ = conn.Run() }) // it ends with the bus
	for _, call := range [][2]string{
		{protocol.MethodInitialize, `{"clientId":"cli:mute"}`}, {protocol.MethodSubscribe, `{"topic":"cli:mute"}`},
	} {
		if _, err := conn.Call(t.Context(), call[0], []byte(call[1])); err != nil {
			t.Fatal(err)
		}
	}
	sender := peer.New("cli:sender", &peer.Options{Buses: []string{"ws://" + addr}, Token: token})
	running.Go(func() { _ = sender.Run(t.Context()) })
	running.Go(func() {
		_, _ = sender.Send(t.Context(), "cli:mute", sender.NewMessage(protocol.TypeAgentEvent, struct{}{})) // never answered
	})
	<-asked
}

// TestUp_LetsItsBusStop stops `hubbub up` while a peer that it did not start holds a message. The bus
// must wait as long for that as without `hubbub up`, and record how it ended.
func TestUp_LetsItsBusStop(t *testing.T) {
	t.Parallel()
	data, addr := t.TempDir(), bustest.FreeAddress(t)
	config := filepath.Join(data, "hubbub.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[bus]\nlisten = %q\n", addr), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, t, "hubbub", nil, "up", "--config", config, "--data", data, "--log-format", "json")
	token, err := os.ReadFile(filepath.Join(data, "tokens", "cli"))
	if err != nil {
		t.Fatal(err)
	}
	hang(t, addr, strings.TrimSpace(string(token)))
	p.stop()
	if says := p.whole(); strings.Contains(says, "does not stop") {
		t.Errorf("a program was killed:\n%s", p.text())
	}
	log := read.Open(filepath.Join(data, "activity.db"))
	defer log.Close()
	count := map[string]int{}
	if err := log.Each(context.Background(), read.Filter{}, func(e *activitylog.Entry) error {
		count[e.Event]++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if count["send_start"] == 0 || count["send_finish"] != count["send_start"] || count["process_finish"] != count["process_start"] {
		t.Errorf("the log does not say how each message ended: %v", count)
	}
}
