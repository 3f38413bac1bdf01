package mx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/bridge/bridgetest"
	"hubbub/peers/mx"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// A child configures a bridge that runs as a process: the test binary with this in its environment.
type child struct{ Server, Bus, Database, Point string }

const childVariable = "MX_TEST_CHILD"

func TestMain(m *testing.M) {
	if raw := os.Getenv(childVariable); raw != "" {
		var c child
		err := json.Unmarshal([]byte(raw), &c)
		if err == nil {
			err = c.run(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// run runs the bridge until ctx ends, or until it comes to its point.
func (c *child) run(ctx context.Context) error {
	db, err := mx.Open(c.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	var ready atomic.Int32
	b, err := mx.New(c.Server, db, &mx.Options{
		User: "@bot:hs", Password: "password", AllowUsers: []string{"@will:hs"}, FilesListen: "none",
		Peer: &peer.Options{Buses: []string{c.Bus}, Log: &log}, Log: &log,
		OnReady: func() { ready.Add(1) },
		Crash: func(at string) {
			if at == c.Point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	if err != nil {
		return err
	}
	err = b.Run(ctx)
	if n := ready.Load(); n > 1 {
		err = errors.Join(err, fmt.Errorf("OnReady was called %d times", n))
	}
	return err
}

// newDriver returns a driver with a homeserver.
func newDriver(t *testing.T) (*bridgetest.Driver, *homeserver) {
	s := newHomeserver("@bot:hs")
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return &bridgetest.Driver{
		Message: protocol.TypeChatMessage, Reply: protocol.TypeChatReply, Prefix: "!",
		Launch: func(t *testing.T, bus, database, point string) *exec.Cmd {
			raw, err := json.Marshal(child{web.URL, bus, database, point})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+string(raw))
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd
		},
		Bridge: func(ctx context.Context, bus, database string) error {
			return (&child{web.URL, bus, database, "nowhere"}).run(ctx)
		},
		NewChat: func(t *testing.T) bridgetest.Chat {
			room := s.Room("@will:hs")
			return bridgetest.Chat{
				Topic: protocol.Topic("mx:" + room), Person: "mx:@will:hs",
				Say: func(text string) {
					join(t, s, room)
					s.Say(room, "@will:hs", text)
				},
				Shown: func() []string { return shownIn(s, room) },
			}
		},
		Open:   mx.Open,
		Limit:  func() { s.Limit(1, time.Second) },
		Refuse: func() { s.Refuse("m.room.message") },
	}, s
}

// join waits until the bot is in a room.
func join(t *testing.T, s *homeserver, room string) {
	t.Helper()
	for {
		changed := s.Changed()
		if len(s.Sent(room, "m.room.member")) > 0 {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the bot never came")
		}
	}
}

// shownIn returns the texts of a room as people see them: with edits in place.
func shownIn(s *homeserver, room string) []string {
	var ids, texts []string
	for _, e := range s.Sent(room, "m.room.message") {
		body, _ := e.Content["body"].(string)
		relation, _ := e.Content["m.relates_to"].(map[string]any)
		if content, ok := e.Content["m.new_content"].(map[string]any); ok {
			body, _ = content["body"].(string)
			if i := slices.Index(ids, fmt.Sprint(relation["event_id"])); i >= 0 {
				texts[i] = body
				continue
			}
		}
		ids, texts = append(ids, e.ID), append(texts, body)
	}
	return texts
}

func TestBridge_KeepsThePromisesOfBridges(t *testing.T) {
	d, _ := newDriver(t)
	bridgetest.Run(t, d)
}

// TestSIGKILL_MatrixLosesAndDoublesNothing kills the bridge at each point. The homeserver does not
// know transaction IDs, as after a restart.
func TestSIGKILL_MatrixLosesAndDoublesNothing(t *testing.T) {
	d, _ := newDriver(t)
	bridgetest.Kill(t, d, "received", "stored", "taken in", "asked", "assigned", "configured", "forwarding", "forwarded",
		"reply received", "reply stored", "sending", "sent", "recorded", "reported")
}
