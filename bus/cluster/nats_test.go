package cluster_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/cluster"
	"hubbub/protocol"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
)

// freePort returns a port for a NATS server that is started again.
func freePort(t *testing.T) (port int) {
	t.Helper()
	if _, err := fmt.Sscanf(bustest.FreeAddress(t), "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// TestCluster_SurvivesLossOfNATS starts without NATS, starts it, stops it and starts it
// again: peers of one bus are served all the while.
func TestCluster_SurvivesLossOfNATS(t *testing.T) {
	port := freePort(t)
	url := fmt.Sprint("nats://127.0.0.1:", port)
	a, b := join(t, "a", url, nil), join(t, "b", url, nil)
	near, far := a.Join(t, "agent:near", "agent:near"), b.Join(t, "agent:far", "agent:far")
	sender := a.Join(t, "cli:s")
	local := func() {
		t.Helper()
		if r := sender.Send(t, "agent:near", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 1 {
			t.Fatalf("a peer of the same bus: %+v", r)
		}
		near.Next(t)
	}
	local()
	for range 2 {
		nats := startNATS(t, port)
		settle(t, a, b)
		if r := sender.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 1 {
			t.Fatalf("a peer of the other bus: %+v", r)
		}
		far.Next(t)
		nats.Shutdown()
		nats.WaitForShutdown()
		local()
		for range 2 { // before the silence is noticed, and after it
			r := sender.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{})
			if r.DeliveredTo != 0 || !r.Partial || !slices.Equal(r.Missing, []string{"b"}) || len(r.Failures) != 1 || r.Failures[0].Peer != "agent:far" || r.Addressee != protocol.AddresseeFailed {
				t.Fatalf("without NATS: %+v; want the peer of the other bus named", r)
			}
			waitFor(t, "the other bus is not missed", func() bool {
				status := a.part.Status().(map[string]any)
				return status["partial"] == true && len(status["buses"].([]string)) == 1
			})
		}
	}
}

// TestFault_EndsAfterRefusal uses a server that refuses the bus repeatedly, like
// one whose accounts are not loaded, and then accepts it.
func TestFault_EndsAfterRefusal(t *testing.T) {
	port := freePort(t)
	strict, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true, Username: "u", Password: "p",
	})
	if err != nil {
		t.Fatal(err)
	}
	go strict.Start()
	if !strict.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	url := strict.ClientURL()
	dials := make(dialer, 1000)
	c := cluster.New([]string{url}, "east", &cluster.Options{NATS: []nats.Option{nats.SetCustomDialer(dials)}})
	bus.New(nil, &bus.Options{Cluster: c})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	waitFor(t, "the bus does not try again", func() bool { return len(dials) >= 4 })
	strict.Shutdown()
	strict.WaitForShutdown()
	startNATS(t, port)
	waitFor(t, "the bus is not taken back", func() bool { return c.Status().(map[string]any)["connected"] == true })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A dialer counts its calls.
type dialer chan struct{}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	d <- struct{}{}
	return net.DialTimeout(network, address, time.Minute)
}

// TestCluster_UsesConnectionBeforeItsNotice delays the NATS client's notice of the
// connection of one bus: messages already cross it, and the notice does not fail those
// under way.
func TestCluster_UsesConnectionBeforeItsNotice(t *testing.T) {
	url := startNATS(t, 0).ClientURL()
	tell, receiveFrom := make(chan struct{}), make(chan struct{})
	late := func(o *nats.Options) error {
		connected := o.ConnectedCB
		o.ConnectedCB = func(nc *nats.Conn) {
			<-tell
			connected(nc)
			close(receiveFrom)
		}
		return nil
	}
	c := cluster.New([]string{url}, "a", &cluster.Options{NATS: []nats.Option{late}})
	a, b := joinBy(t, c, "a", nil), join(t, "b", url, nil)
	far := b.Join(t, "agent:far", "agent:far")
	started, finished := make(chan struct{}, 1), make(chan struct{})
	finish := sync.OnceFunc(func() { close(finished) })
	defer finish()
	far.Refuse(func(*bustest.Delivery) error { started <- struct{}{}; <-finished; return nil })
	sender := a.Join(t, "cli:s")
	settle(t, a, b)
	result := make(chan protocol.SendResult, 1)
	go func() { result <- sender.Send(t, "agent:far", protocol.TypeAgentEvent, protocol.AgentOnline{}) }()
	select {
	case <-started:
	case r := <-result:
		t.Fatalf("the message did not come to its peer: %+v", r)
	}
	close(tell)
	<-receiveFrom
	later := b.Join(t, "agent:later", "agent:later") // the bus continues to read from the others
	defer later.Leave()
	settle(t, a, b)
	finish()
	if r := <-result; r.DeliveredTo != 1 {
		t.Errorf("result %+v; the message was given up", r)
	}
}

// A lines log is written and read by several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestCluster_ReportsRefusalOfNATS uses a server with another password, one that lets
// this bus publish nothing, and none at all: the bus is alone, and its log and
// /readyz say why.
func TestCluster_ReportsRefusalOfNATS(t *testing.T) {
	user := &server.User{Username: "u", Password: "right", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{">"}},
	}}
	s := runNATS(t, &server.Options{Port: server.RANDOM_PORT, Users: []*server.User{user}})
	for url, want := range map[string]string{
		"nats://u:wrong@" + s.Addr().String(): "authorization violation",
		"nats://u:right@" + s.Addr().String(): "permissions violation",
		"nats://127.0.0.1:1":                  "connection refused",
	} {
		var logged lines
		log := zerolog.New(&logged)
		c := cluster.New([]string{url}, "east", &cluster.Options{Log: &log})
		node := joinBy(t, c, "east", nil)
		says := func(what string) bool { return strings.Contains(strings.ToLower(what), want) }
		waitFor(t, url+" is not told", func() bool { return says(fmt.Sprint(c.Status())) && says(logged.String()) })
		node.stop()
		if strings.Contains(logged.String(), "wrong") {
			t.Errorf("the log has the password:\n%s", logged.String())
		}
	}
}

// TestNATS_ReadsExpiredCredentialsAgain uses credentials that expire after four seconds and are
// replaced late by the operator. Until then the bus is alone and says why; after that the
// server accepts it again.
func TestNATS_ReadsExpiredCredentialsAgain(t *testing.T) {
	operator, account := keyPair(t, nkeys.CreateOperator), keyPair(t, nkeys.CreateAccount)
	public := func(k nkeys.KeyPair) string {
		p, err := k.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	signed, err := jwt.NewAccountClaims(public(account)).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	known := &server.MemAccResolver{}
	if err := known.Store(public(account), signed); err != nil {
		t.Fatal(err)
	}
	s := runNATS(t, &server.Options{Port: server.RANDOM_PORT, TrustedKeys: []string{public(operator)}, AccountResolver: known})
	file := filepath.Join(t.TempDir(), "bus.creds")
	renew := func(valid time.Duration) {
		user := keyPair(t, nkeys.CreateUser)
		claims := jwt.NewUserClaims(public(user))
		claims.Expires = time.Now().Add(valid).Unix()
		token, err := claims.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		creds, err := jwt.FormatUserConfig(token, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, creds, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	valid := 4 * time.Second
	renew(valid)
	renewed := time.Now()
	var logged lines
	log := zerolog.New(&logged)
	c := cluster.New([]string{s.ClientURL()}, "east", &cluster.Options{Log: &log, NATS: []nats.Option{nats.UserCredentials(file)}})
	joinBy(t, c, "east", nil)
	connected := func() bool { return c.Status().(map[string]any)["connected"] == true }
	waitFor(t, "the bus is not taken", func() bool {
		if connected() {
			return true
		}
		if time.Since(renewed) > valid { // a busy machine needs longer to connect
			valid, renewed = 2*valid, time.Now()
			renew(valid)
		}
		return false
	})
	waitFor(t, "the end of the credentials is not told", func() bool { return !connected() && strings.Contains(strings.ToLower(logged.String()), "expired") })
	renew(time.Hour)
	waitFor(t, "the bus is not taken back with its new credentials", connected)
	if strings.Contains(logged.String(), "SU") && strings.Contains(logged.String(), "SEED") {
		t.Errorf("the log has the seed:\n%s", logged.String())
	}
}

func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
