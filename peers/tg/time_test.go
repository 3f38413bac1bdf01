package tg

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestCall_TimesOut also checks that a poll waits longer.
func TestCall_TimesOut(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		b.ensureChat(autocommit(t, b.db), &models.Chat{ID: 5, Type: models.ChatTypePrivate})
		api.Fail(tgtest.Fault{Hold: make(chan struct{}), Times: -1})
		took := func(what string, want time.Duration, call func() error) {
			t.Helper()
			from := time.Now()
			if err := call(); err == nil || time.Since(from) != want {
				t.Errorf("%s ended after %v: %v; want %v", what, time.Since(from), err, want)
			}
		}
		took("a call", 30*time.Second, func() error { return b.call(t.Context(), "getMe", nil, nil) })
		took("an upload", 30*time.Second, func() error {
			how := sendMethodOf(&protocol.ChatReply{File: &protocol.File{Name: "a", Data: []byte("a")}})
			return b.out.transmit(t.Context(), &how, map[string]any{"chat_id": 5}, markdown.Text{}, nil)
		})
		took("a poll", 65*time.Second, func() error {
			_, err := b.getUpdates(t.Context(), cursor{wait: true})
			return err
		})
		took("a removal", 30*time.Second, func() error { return DeleteWebhook(t.Context(), api.Token(), b.opts.API) })
		from := time.Now()
		if found := Diagnose(t.Context(), api.Token(), b.opts.API, BridgeState{}); len(found) != 1 || found[0].Level != LevelProblem || time.Since(from) != 30*time.Second {
			t.Errorf("after %v: %+v", time.Since(from), found)
		}
	})
}

func TestSettings_Defaults(t *testing.T) {
	want := Options{
		PollTimeout: 50 * time.Second, AlbumWait: 1500 * time.Millisecond, TypingHold: 30 * time.Second, MinSendInterval: time.Second, GroupPerMinute: 20,
		BotPerSecond: 30, MaxPending: 10_000, WebhookListen: "127.0.0.1:8443",
	}
	ignored := cmpopts.IgnoreFields(Options{}, "OnReady", "Log")
	if diff := cmp.Diff(want, (*Options)(nil).withDefaults(), ignored); diff != "" {
		t.Error(diff)
	}
	chosen := Options{Peer: &peer.Options{}, PollTimeout: 1, AlbumWait: 2, TypingHold: 3, MinSendInterval: -1, GroupPerMinute: -1, BotPerSecond: -1, MaxPending: 4, WebhookListen: "x"}
	if diff := cmp.Diff(chosen, chosen.withDefaults(), ignored, cmpopts.IgnoreUnexported(peer.Options{})); diff != "" {
		t.Error(diff)
	}
}

// TestStoreUpdate_ReusedID checks that a number means the same update for two days and another
// one after that, and that an update that was not applied is never replaced.
func TestStoreUpdate_ReusedID(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		for _, c := range []struct {
			state string
			age   time.Duration
			fresh int
		}{{"done", 48*time.Hour - time.Second, 0}, {"skipped", 48*time.Hour + time.Second, 1}, {"new", 48*time.Hour + time.Second, 0}} {
			if err := storetest.Exec(b.db, `DELETE FROM updates; INSERT INTO updates (bot, update_id, raw, received_at, state) VALUES (?, 7, '', ?, ?)`,
				b.bot, time.Now().Add(-c.age).UnixMicro(), c.state); err != nil {
				t.Fatal(err)
			}
			if fresh, _, err := b.storeUpdates(t.Context(), []json.RawMessage{json.RawMessage(`{"update_id":7}`)}); fresh != c.fresh || err != nil {
				t.Errorf("%s %v ago: %d new, %v; want %d", c.state, c.age, fresh, err, c.fresh)
			}
		}
	})
}

// TestReasons_AreClipped covers quotes, errors and notices.
func TestReasons_AreClipped(t *testing.T) {
	for n, want := range map[int]int{1000: 1000, 1001: 1000} {
		var h parsedUpdate
		h.setQuote(&models.Message{ReplyToMessage: &models.Message{ID: 1, Text: strings.Repeat("ä", n)}}, nil, &models.User{})
		if got := utf8.RuneCountInString(h.data.ReplyText); got != want {
			t.Errorf("of %d characters that are answered %d are passed on", n, got)
		}
	}
	alone(t, Options{AllowAll: true}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		tx := autocommit(t, b.db)
		c := b.ensureChat(tx, &models.Chat{ID: 5, Type: models.ChatTypePrivate})
		o := &outgoing{item: &outbox.Item{Attempt: 1}, chat: c, agent: "agent:lead", busID: "msg_1", sendItem: sendItem{Reply: 1}}
		for _, again := range []bool{false, true} { // only the first attempt is reported
			if again {
				o.item.Attempt, o.Reply = 2, 2
			}
			if err := b.out.reportDelay(t.Context(), o, outbox.Retry(0, fmt.Errorf("%s", strings.Repeat("x", 400)))); err == nil {
				t.Error("the reason is lost")
			}
		}
		if err := b.out.reportDelay(t.Context(), &outgoing{item: o.item, chat: c, agent: o.agent, sendItem: sendItem{Reply: 3}}, outbox.Permanent(fmt.Errorf("no"))); err == nil {
			t.Error("the reason is lost")
		}
		items, err := b.router.Queue(bridge.QueueReports).List(t.Context(), &outbox.Filter{})
		if err != nil || len(items) != 1 {
			t.Fatalf("%d reports, %v; want one", len(items), err)
		}
		if s := bridge.ParseReport(items[0].Body); s.Status != protocol.StatusAccepted || utf8.RuneCountInString(s.Reason) != 300 {
			t.Errorf("%s because of %d characters", s.Status, utf8.RuneCountInString(s.Reason))
		}
	})
}

func TestDescribeKind_InvalidJSON(t *testing.T) {
	if words, says := describeKind(json.RawMessage("x"), true); words != "" || says {
		t.Errorf("%q, %v", words, says)
	}
	if said := richText(json.RawMessage("x")); said != "" {
		t.Errorf("%q", said)
	}
}

// TestGetUpdates_Parameters checks polls with and without an offset.
func TestGetUpdates_Parameters(t *testing.T) {
	alone(t, Options{PollTimeout: 7 * time.Second}, func(t *testing.T, b *Bridge, _ *tgtest.Server) {
		var asked struct{ Offset, Limit, Timeout *int }
		b.api = botapi.New("42:token", &botapi.Options{Transport: answers(func(r *http.Request) (*http.Response, error) {
			asked.Offset, asked.Limit, asked.Timeout = nil, nil, nil
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
				t.Error(err)
			}
			w := httptest.NewRecorder()
			_, _ = w.WriteString(`{"ok":true,"result":[]}`)
			return w.Result(), nil
		})})
		for _, c := range []struct {
			at                     cursor
			offset, limit, timeout int
		}{{cursor{}, -1, 100, 0}, {cursor{offset: 1}, 1, 100, 0}, {cursor{offset: 9, wait: true}, 9, 100, 7}, {cursor{single: true}, -1, 1, 0}} {
			if _, err := b.getUpdates(t.Context(), c.at); err != nil {
				t.Fatal(err)
			}
			offset := -1
			if asked.Offset != nil {
				offset = *asked.Offset
			}
			if offset != c.offset || *asked.Limit != c.limit || *asked.Timeout != c.timeout {
				t.Errorf("%+v: offset %d, limit %d, timeout %d", c.at, offset, *asked.Limit, *asked.Timeout)
			}
		}
	})
}
