package tg_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"

	"hubbub/peers/bridge/bridgetest"
	"hubbub/peers/tg"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// newDriver returns a driver with a Bot API server.
func newDriver(t *testing.T) *bridgetest.Driver {
	t.Helper()
	api := tgtest.New(nil)
	web := httptest.NewServer(api)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	wg.Go(func() { _ = api.Run(ctx) }) // returns nil when ctx ends
	encode := func(bus, database, point string) string {
		raw, err := json.Marshal(child{API: web.URL, Bus: bus, Token: api.Token(), Database: database, Point: point})
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	return &bridgetest.Driver{
		Message: protocol.TypeTGMessage, Reply: protocol.TypeTGReply, Prefix: "/", MayBeUnknown: true,
		Launch: func(t *testing.T, bus, database, point string) *exec.Cmd {
			t.Helper()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+encode(bus, database, point))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd
		},
		Bridge: func(ctx context.Context, bus, database string) error {
			return runChild(ctx, encode(bus, database, "nowhere"))
		},
		NewChat: func(*testing.T) bridgetest.Chat {
			will := api.User("Will")
			dm := api.DM(will)
			return bridgetest.Chat{
				Topic: topic(dm.ID), Person: topic(will.ID),
				Say: func(text string) { api.Say(dm, will, text) },
				Shown: func() (list []string) {
					for _, m := range api.Messages(dm.ID) {
						list = append(list, m.Text)
					}
					return list
				},
			}
		},
		Open: tg.Open,
		Limit: func() {
			api.Fail(tgtest.Fault{Method: "sendMessage", Status: 429, RetryAfter: 1, Description: "Too Many Requests: retry after 1"})
		},
		Refuse: func() {
			api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: something is wrong with it"})
		},
	}
}

func TestBridge_KeepsThePromisesOfBridges(t *testing.T) { bridgetest.Run(t, newDriver(t)) }
