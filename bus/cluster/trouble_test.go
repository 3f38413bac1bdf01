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

func TestTroubleIsToldOnceAMinute(t *testing.T) {
	var logged bytes.Buffer
	log := zerolog.New(&logged)
	lines := func() int { return bytes.Count(logged.Bytes(), []byte("\n")) }
	var tr trouble
	at := time.Now()
	if tr.now(at) != "" {
		t.Errorf("before any: %q", tr.now(at))
	}
	refused, denied := errors.New("refused"), errors.New("denied")
	for range 1000 { // two servers, each with its own
		tr.note(&log, zerolog.WarnLevel, refused, at)
		tr.note(&log, zerolog.WarnLevel, denied, at)
	}
	if lines() != 2 || tr.now(at) != "denied" {
		t.Errorf("%d lines for two kinds of trouble, now %q; want each once, and the last:\n%s", lines(), tr.now(at), logged.String())
	}
	tr.note(&log, zerolog.WarnLevel, refused, at.Add(tellEvery-1))
	tr.note(&log, zerolog.WarnLevel, refused, at.Add(tellEvery))
	if lines() != 3 {
		t.Errorf("%d lines after a minute; want 3", lines())
	}
	if last := at.Add(tellEvery); tr.now(last.Add(recent)) != "refused" || tr.now(last.Add(recent+1)) != "" {
		t.Error("a trouble must show while it is recent, and no longer")
	}
	tr.note(&log, zerolog.WarnLevel, refused, at)
	if tr.over(); tr.now(at) != "" {
		t.Errorf("after its end: %q", tr.now(at))
	}
	tr.hold(denied)
	if tr.now(at.Add(time.Hour)) != "denied" {
		t.Errorf("what is held shows as %q", tr.now(at.Add(time.Hour)))
	}
	if tr.over(); tr.now(at.Add(time.Hour)) != "" {
		t.Errorf("after its end: %q", tr.now(at.Add(time.Hour)))
	}
	for i := range 10 * maxTroubles {
		tr.note(&log, zerolog.WarnLevel, fmt.Errorf("trouble %d", i), at)
	}
	if len(tr.told) > maxTroubles {
		t.Errorf("%d kinds are remembered; want at most %d", len(tr.told), maxTroubles)
	}
}

// TestADeniedSubscriptionIsToldUntilTheNextConnection has NATS let this bus say
// everything and hear nothing, of which it speaks once.
func TestADeniedSubscriptionIsToldUntilTheNextConnection(t *testing.T) {
	c := New(nil, "east", nil)
	later := func() string { return c.nats.now(time.Now().Add(time.Hour)) }
	c.complain(fmt.Errorf("%w: Permissions Violation for Publish to \"hubbub.all\"", nats.ErrPermissionViolation))
	if later() != "" {
		t.Errorf("a denied publication, which NATS tells each time, stays: %q", later())
	}
	c.complain(fmt.Errorf("%w: Permissions Violation for Subscription to \"hubbub.all\"", nats.ErrPermissionViolation))
	if !bytes.Contains([]byte(later()), []byte("Subscription")) {
		t.Errorf("an hour later: %q", later())
	}
	if c.setConnected(true, "connected"); later() != "" {
		t.Errorf("on the next connection: %q", later())
	}
}

func TestPasswordsOfServersAreNotShown(t *testing.T) {
	if got, want := shown([]string{"nats://u:secret@a:1", "b:2", "nats://c", "tls://secret@d", "u:secret@e:1", "nats://u:se@cret@f"}), "nats://a:1, nats://b:2, nats://c, tls://d, nats://e:1, nats://f"; got != want {
		t.Errorf("shown = %q; want %q", got, want)
	}
}

// TestALossSaysHelloOnceAHeartbeat has NATS refuse what is published, the hello
// after each refusal too: that must not go round in circles.
func TestALossSaysHelloOnceAHeartbeat(t *testing.T) {
	c := New(nil, "east", nil)
	at := time.Now()
	for range 1000 {
		c.restart("NATS: denied", at)
	}
	if n := len(c.out); n != 1 {
		t.Errorf("%d hellos for 1,000 losses at once; want 1", n)
	}
	if c.incarnation != 1001 {
		t.Errorf("the epoch is %d; want one more for each loss", c.incarnation)
	}
	c.restart("NATS: lost", at.Add(c.options.Heartbeat))
	if n := len(c.out); n != 2 {
		t.Errorf("%d hellos after a loss one heartbeat later; want 2", n)
	}
}
