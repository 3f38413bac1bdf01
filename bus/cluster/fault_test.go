package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

func TestFault_IsLoggedOncePerMinute(t *testing.T) {
	var logged bytes.Buffer
	log := zerolog.New(&logged)
	lines := func() int { return bytes.Count(logged.Bytes(), []byte("\n")) }
	var tr fault
	at := time.Now()
	if tr.current(at) != "" {
		t.Errorf("before any: %q", tr.current(at))
	}
	refused, denied := errors.New("refused"), errors.New("denied")
	for range 1000 { // two servers, each with its own
		tr.report(&log, zerolog.WarnLevel, refused, at)
		tr.report(&log, zerolog.WarnLevel, denied, at)
	}
	if lines() != 2 || tr.current(at) != "denied" {
		t.Errorf("%d lines for two kinds of errors, now %q; want each once, and the last:\n%s", lines(), tr.current(at), logged.String())
	}
	tr.report(&log, zerolog.WarnLevel, refused, at.Add(faultLogInterval-1))
	tr.report(&log, zerolog.WarnLevel, refused, at.Add(faultLogInterval))
	if lines() != 3 {
		t.Errorf("%d lines after a minute; want 3", lines())
	}
	if last := at.Add(faultLogInterval); tr.current(last.Add(faultTTL)) != "refused" || tr.current(last.Add(faultTTL+1)) != "" {
		t.Error("an error must be current while it is recent, and no longer")
	}
	tr.report(&log, zerolog.WarnLevel, refused, at)
	if tr.clear(); tr.current(at) != "" {
		t.Errorf("after its end: %q", tr.current(at))
	}
	tr.hold(denied)
	if tr.current(at.Add(time.Hour)) != "denied" {
		t.Errorf("what is held shows as %q", tr.current(at.Add(time.Hour)))
	}
	if tr.clear(); tr.current(at.Add(time.Hour)) != "" {
		t.Errorf("after its end: %q", tr.current(at.Add(time.Hour)))
	}
	for i := range 10 * maxFaults {
		tr.report(&log, zerolog.WarnLevel, fmt.Errorf("error %d", i), at)
	}
	if tr.logged.Len() > maxFaults {
		t.Errorf("%d kinds are remembered; want at most %d", tr.logged.Len(), maxFaults)
	}
}

// TestFault_HoldsDeniedSubscription lets this bus publish everything and
// receive nothing, which it logs once.
func TestFault_HoldsDeniedSubscription(t *testing.T) {
	c := New(nil, "east", nil)
	later := func() string { return c.natsFault.current(time.Now().Add(time.Hour)) }
	c.reportNATSError(fmt.Errorf("%w: Permissions Violation for Publish to \"hubbub.all\"", nats.ErrPermissionViolation))
	if later() != "" {
		t.Errorf("a denied publication, which NATS tells each time, stays: %q", later())
	}
	c.reportNATSError(fmt.Errorf("%w: Permissions Violation for Subscription to \"hubbub.all\"", nats.ErrPermissionViolation))
	if !bytes.Contains([]byte(later()), []byte("Subscription")) {
		t.Errorf("an hour later: %q", later())
	}
	if c.setConnected(true, "connected"); later() != "" {
		t.Errorf("on the next connection: %q", later())
	}
}

func TestRedactURLs_HidesPasswords(t *testing.T) {
	if got, want := redactURLs([]string{"nats://u:secret@a:1", "b:2", "nats://c", "tls://secret@d", "u:secret@e:1", "nats://u:se@cret@f"}), "nats://a:1, nats://b:2, nats://c, tls://d, nats://e:1, nats://f"; got != want {
		t.Errorf("shown = %q; want %q", got, want)
	}
}

// TestCluster_SaysHelloOncePerHeartbeatAfterLoss makes NATS refuse every publication,
// including the hello after each refusal, which must not cause an endless loop.
func TestCluster_SaysHelloOncePerHeartbeatAfterLoss(t *testing.T) {
	c := New(nil, "east", nil)
	at := time.Now()
	for range 1000 {
		c.beginEpoch("NATS: denied", at)
	}
	if n := len(c.queue.messages); n != 1 {
		t.Errorf("%d hellos for 1,000 losses at once; want 1", n)
	}
	if c.state.incarnation != 1001 {
		t.Errorf("the epoch is %d; want one more for each loss", c.state.incarnation)
	}
	c.beginEpoch("NATS: lost", at.Add(c.options.Heartbeat))
	if n := len(c.queue.messages); n != 2 {
		t.Errorf("%d hellos after a loss one heartbeat later; want 2", n)
	}
}
