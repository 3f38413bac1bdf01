package tg_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
)

func TestDiagnose(t *testing.T) {
	type setup func(api *tgtest.Server)
	for _, test := range []struct {
		name  string
		opts  tgtest.Options
		setup setup
		check string
		level tg.Level
		says  string
	}{
		{"all is well", tgtest.Options{}, nil, "second poller", tg.LevelOK, "No other program"},
		{"a wrong token", tgtest.Options{}, func(api *tgtest.Server) { api.Fail(tgtest.Fault{Method: "getMe", Status: 401}) }, "bot token", tg.LevelProblem, "does not accept"},
		{"no network", tgtest.Options{}, func(api *tgtest.Server) { api.Fail(tgtest.Fault{Method: "getMe", Cut: tgtest.CutUnheard}) }, "bot token", tg.LevelProblem, "cannot be reached"},
		{"privacy mode", tgtest.Options{PrivacyMode: true}, nil, "privacy mode", tg.LevelWarning, "never arrives"},
		{"no privacy mode", tgtest.Options{}, nil, "privacy mode", tg.LevelOK, "off"},
		{"a webhook", tgtest.Options{}, func(api *tgtest.Server) { api.SetWebhook("https://old.example/x") }, "webhook", tg.LevelProblem, "old.example"},
		{"a second poller", tgtest.Options{}, func(api *tgtest.Server) {
			api.Fail(tgtest.Fault{Method: "getUpdates", Status: 409, Description: "Conflict: terminated by other getUpdates request"})
		}, "second poller", tg.LevelProblem, "Another program"},
		{"a clock that is behind", tgtest.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }}, nil, "clock", tg.LevelProblem, "behind"},
		{"a clock that is ahead", tgtest.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }}, nil, "clock", tg.LevelProblem, "ahead of"},
		{"a clock that is right", tgtest.Options{}, nil, "clock", tg.LevelOK, "agrees"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := tgtest.New(&test.opts)
				if test.setup != nil {
					test.setup(api)
				}
				found := tg.Diagnose(t.Context(), api.Token(), &botapi.Options{Transport: api.Transport()}, tg.BridgeState{})
				for _, f := range found {
					if (f.Level == tg.LevelProblem || f.Level == tg.LevelWarning) && f.Advice == "" {
						t.Errorf("%s: no advice in %+v", test.name, f)
					}
					if f.Check == test.check {
						if f.Level != test.level || !strings.Contains(f.Message, test.says) {
							t.Errorf("%+v", f)
						}
						return
					}
				}
				t.Errorf("nothing about %s in %+v", test.check, found)
			})
		})
	}
	for _, f := range tg.Diagnose(t.Context(), "no token at all", nil, tg.BridgeState{}) {
		if f.Level != tg.LevelProblem || strings.Contains(f.Message, "no token at all") {
			t.Errorf("%+v", f)
		}
	}
}

func TestDiagnose_FindsPoller(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.start()
		found := tg.Diagnose(t.Context(), h.api.Token(), &botapi.Options{Transport: h.api.Transport()}, tg.BridgeState{})
		if f := found[len(found)-1]; f.Check != "second poller" || f.Level != tg.LevelProblem {
			t.Errorf("%+v", f)
		}
	})
}

func TestDiagnose_IdentifiesWebhook(t *testing.T) {
	const address = "https://ours.example/hook"
	for _, test := range []struct {
		name   string
		bridge tg.BridgeState
		broken bool
		level  tg.Level
		says   string
	}{
		{"somebody's", tg.BridgeState{}, false, tg.LevelProblem, "cannot be polled"},
		{"ours", tg.BridgeState{Runs: true, Webhook: address}, false, tg.LevelOK, "to this bridge"},
		{"ours, and nobody listens", tg.BridgeState{Webhook: address}, false, tg.LevelProblem, "not online"},
		{"ours, and Telegram cannot reach it", tg.BridgeState{Runs: true, Webhook: address}, true, tg.LevelProblem, "cannot deliver"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := tgtest.New(nil)
				api.SetWebhook(address)
				if test.broken {
					will := api.User("Will")
					api.Say(api.DM(will), will, "hello")
					api.SetWebhook("http://127.0.0.1:1/hook")
					test.bridge.Webhook = "http://127.0.0.1:1/hook"
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if err := api.Run(ctx); err != nil { // delivers without success
						t.Fatal(err)
					}
				}
				for _, f := range tg.Diagnose(t.Context(), api.Token(), &botapi.Options{Transport: api.Transport()}, test.bridge) {
					if f.Check == "webhook" && (f.Level != test.level || !strings.Contains(f.Message, test.says) || f.Level == tg.LevelProblem && f.Advice == "") {
						t.Errorf("%+v", f)
					}
				}
			})
		})
	}
}
