package tg_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
)

func TestConflict_IsReportedAndOutlasted(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: 409, Times: 3, Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"})
		h.start()
		h.pass(50 * time.Second)
		if !h.log.has("another program polls this bot") || !h.log.has("@hubbub_bot") {
			t.Error("the log does not say what is wrong")
		}
		if n := strings.Count(h.log.String(), "another program polls"); n != 3 {
			t.Errorf("%d attempts in 50 s, want 3: after 0, 5 and 35", n)
		}
		h.api.Say(dm, will, "/help")
		h.texts(dm.ID, 1)
	})
}

func TestForeignWebhook_IsReported(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.api.SetWebhook("https://somebody.example/secret/path")
		h.start()
		h.pass(time.Second)
		if !h.log.has("somebody.example") || h.log.has("secret/path") || !h.log.has("hubbub doctor") {
			t.Error("the log does not say whose webhook it is, or says too much")
		}
		if n := len(h.api.Calls("deleteWebhook")); n != 0 {
			t.Error("somebody's webhook was removed")
		}
	})
}

func TestUnknownToken_EndsRun(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.api.Fail(tgtest.Fault{Method: "getMe", Status: 401, Description: "Unauthorized"})
		h.start()
		if err := h.stop(); !errors.Is(err, tg.ErrToken) {
			t.Errorf("Run returned %v", err)
		}
		h.start()
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: 401, Description: "Unauthorized"})
		if err := <-h.done; !errors.Is(err, tg.ErrToken) {
			t.Errorf("Run returned %v", err)
		}
		h.cancel = nil
	})
}

func TestUnauthorizedSend_EndsRun(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 401, Description: "Unauthorized"})
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "kept"})
		if err := <-h.done; !errors.Is(err, tg.ErrToken) {
			t.Errorf("Run returned %v", err)
		}
		h.cancel = nil
		h.start() // with the valid token again
		h.texts(dm.ID, 1)
	})
}

func TestStart_WithoutTelegram(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.api.Fail(tgtest.Fault{Status: 503, Times: -1})
		h.start() // the bot's account is stored
		if r := reply(t, lead, dm.ID, protocol.ChatReply{Text: "as soon as it goes"}); r.DeliveredTo != 1 {
			t.Errorf("the reply was not taken: %+v", r)
		}
		h.pass(10 * time.Second)
		h.api.Heal()
		h.texts(dm.ID, 1)
	})
}

func TestSecondBridge_TakesOver(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.start()
		h.pass(time.Second)
		h.bus.Join(t, "tg:123456")
		if err := <-h.done; !errors.Is(err, peer.ErrReplaced) {
			t.Errorf("Run returned %v", err)
		}
		h.cancel = nil
		h.pass(time.Minute)
		will, dm := h.dm("Will")
		h.api.Say(dm, will, "for the other bridge")
		if h.api.Pending() != 1 {
			t.Error("the replaced bridge still polls")
		}
	})
}

// real runs a bridge and a Bot API with sockets, and returns a function that ends them.
func real(t *testing.T, api *tgtest.Server, opts tg.Options, log io.Writer) (*bustest.Bus, func()) {
	t.Helper()
	web := httptest.NewServer(api)
	b := bustest.Start(t, nil)
	db, err := tg.Open(filepath.Join(t.TempDir(), tg.Database))
	if err != nil {
		t.Fatal(err)
	}
	logger := zerolog.New(log)
	ready := make(chan struct{})
	opts.Log, opts.API = &logger, &botapi.Options{URL: web.URL}
	opts.Peer = &peer.Options{Buses: []string{b.URL()}, Log: &logger}
	opts.OnReady = func() { close(ready) }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := tg.New(api.Token(), db, &opts).Run(ctx); err != nil {
			t.Errorf("the bridge ended: %v", err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		db.Close()
		web.CloseClientConnections()
		web.Close()
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the bridge is not ready")
	}
	return b, stop
}

func TestWebhook(t *testing.T) {
	api := tgtest.New(nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = api.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	at := bustest.FreeAddress(t)
	will := api.User("Will")
	api.Say(api.DM(will), will, "/start")
	var log syncBuffer
	_, stop := real(t, api, tg.Options{AllowAll: true, WebhookURL: "http://" + at + "/hook", WebhookListen: at, WebhookSecret: "s3cret"}, &log)
	wait, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	if err := api.Await(wait, func(s *tgtest.Server) bool { return len(s.Calls("sendMessage")) > 0 }); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if c := api.Calls("setWebhook")[0]; c.Int("max_connections") != 1 { // more connections would change the order
		t.Errorf("Telegram may deliver %d updates at once", c.Int("max_connections"))
	}
	for secret, want := range map[string]int{"": 401, "wrong": 401, "s3cret": 400} {
		req, _ := http.NewRequest(http.MethodPost, "http://"+at+"/", strings.NewReader("no update"))
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("secret %q: %d, want %d", secret, resp.StatusCode, want)
		}
	}
	if log.has("s3cret") {
		t.Error("the secret is in the log")
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
}

func TestFiles_AreServedWithoutToken(t *testing.T) {
	api := tgtest.New(nil)
	id := api.AddFile("plan.pdf", "application/pdf", []byte("the plan"))
	var log syncBuffer
	b, stop := real(t, api, tg.Options{AllowAll: true}, &log)
	lead := b.Join(t, "agent:lead", "agent:lead")
	system := b.Join(t, protocol.PeerSystem, "system:*")
	will := api.User("Will")
	dm := api.DM(will)
	api.Post(models.Message{Chat: dm, From: &will, Document: &models.Document{FileID: id, FileName: "plan.pdf", MimeType: "application/pdf"}})
	r := request(t, system)
	system.Send(t, r.Topic, protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: "agent:lead", RequestID: r.RequestID})
	ref := next(t, lead).Attachments[0].Ref
	resp, err := http.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "the plan" || resp.Header.Get("Content-Type") != "application/pdf" || strings.Contains(ref, "AAtest") {
		t.Errorf("%s gave %q, %v", ref, body, resp.Header)
	}
	api.Fail(tgtest.Fault{Method: "getFile", Status: 400, Description: "Bad Request: file is too big"})
	for _, path := range []string{ref, ref + "x", strings.Split(ref, "/telegram")[0] + "/"} {
		resp, err := http.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s gave %d", path, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
}

func TestToken_IsNowhere(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		_, secret, _ := strings.Cut(h.api.Token(), ":")
		echo := "error about https://api.telegram.org/bot" + h.api.Token() + "/sendMessage"
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: 500, Description: echo, Times: 3})
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Cut: tgtest.CutAfter, Times: 2})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 500, Description: echo})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutAfter})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: echo})
		for _, text := range []string{"a", "b", "c"} {
			reply(t, lead, dm.ID, protocol.ChatReply{Text: text})
		}
		h.pass(time.Minute)
		if err := h.stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		h.db.Close()
		h.db = nil
		if h.log.has(secret) {
			t.Error("the token is in the log")
		}
		files, err := filepath.Glob(h.path + "*")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), secret) {
				t.Errorf("the token is in %s", filepath.Base(name))
			}
		}
		for lead.Pending() > 0 {
			if d := lead.Next(t); strings.Contains(string(d.Raw), secret) {
				t.Errorf("the token is in %s", d.Raw)
			}
		}
	})
}

func TestToken_OfAnotherServer(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		// The same data folder now serves another bot, whose updates have lower numbers.
		h.api = tgtest.New(&tgtest.Options{Token: "local-server:token", Username: "other_bot", FirstUpdateID: 5})
		will := models.User{ID: dm.ID, FirstName: "Will"}
		h.start()
		h.api.Say(h.api.DM(will), will, "to the other bot")
		h.pass(time.Second)
		if lead.Pending() != 0 {
			t.Error("an agent of the first bot's chat got the other bot's message")
		}
		h.assign(dm.ID, "agent:lead")
		if got := next(t, lead); got.Text != "to the other bot" || got.SourceID != "tg:4242:1001:1" {
			t.Errorf("got %+v", got)
		}
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "hi"})
		h.texts(dm.ID, 1)
	})
}

func TestConflict_PausesLonger(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.start()
		// Each side wins sometimes. A successful poll must not make the next conflict the first
		// one.
		for range 4 {
			h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: 409, Description: "Conflict: terminated by other getUpdates request"})
			h.api.Say(dm, will, "/help")
			h.pass(40 * time.Second)
		}
		if n := strings.Count(h.log.String(), `"pause_ms":30000`); n != 3 {
			t.Errorf("%d long pauses, want one after each conflict but the first", n)
		}
		h.texts(dm.ID, 4)
	})
}

func TestRetryAfter_HoldsForEveryCall(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		from := time.Now()
		h.api.Fail(tgtest.Fault{Method: "getMe", Status: 429, RetryAfter: 300, Description: "Too Many Requests: retry after 300"})
		h.start()
		if waited := time.Since(from); waited < 300*time.Second {
			t.Errorf("getMe was called again after %s", waited)
		}
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: 429, RetryAfter: 200, Description: "Too Many Requests: retry after 200"})
		will, dm := h.dm("Will")
		h.api.Say(dm, will, "/help") // ends the current poll; the next one fails
		h.pass(time.Second)
		from = time.Now()
		h.api.Say(dm, will, "/help")
		h.texts(dm.ID, 2)
		if waited := time.Since(from); waited < 190*time.Second {
			t.Errorf("getUpdates was called again after %s", waited)
		}
	})
}

func TestPoll_OversizedBatchIsSplit(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		large := strings.Repeat("x", 80<<10)
		for range 24 { // 1.9 MB in total
			h.api.Say(dm, will, large)
		}
		h.opts.API = &botapi.Options{Transport: h.api.Transport(), MaxAnswer: 1600 << 10}
		h.start()
		h.pass(5 * time.Minute)
		if n := h.api.Pending(); n != 0 {
			t.Errorf("%d updates are not taken in", n)
		}
		if got := h.states(); got["done"] != 24 {
			t.Errorf("the states are %v", got)
		}
	})
}
