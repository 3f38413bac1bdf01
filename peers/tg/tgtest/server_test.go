package tgtest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/tg/tgtest"

	"github.com/go-telegram/bot/models"
)

type answer struct {
	OK          bool            `json:"ok"`
	Result      json.RawMessage `json:"result"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// call makes a JSON call without a socket.
func call(t *testing.T, api *tgtest.Server, method, body string) answer {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/bot"+api.Token()+"/"+method, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return do(t, api, req)
}

func do(t *testing.T, api *tgtest.Server, req *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v in %s", req.URL.Path, err, w.Body)
	}
	if !a.OK && a.Code != w.Code {
		t.Errorf("status %d with error_code %d", w.Code, a.Code)
	}
	return a
}

func updateIDs(t *testing.T, a answer) []int64 {
	t.Helper()
	var us []models.Update
	if err := json.Unmarshal(a.Result, &us); err != nil {
		t.Fatalf("%v in %s", err, a.Result)
	}
	var ids []int64
	for _, u := range us {
		ids = append(ids, u.ID)
	}
	return ids
}

func expectIDs(t *testing.T, a answer, want ...int64) {
	t.Helper()
	got := updateIDs(t, a)
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestGetUpdates_ConfirmsByHigherOffset(t *testing.T) {
	api := tgtest.New(nil)
	will := api.User("Will")
	for range 3 {
		api.Say(api.DM(will), will, "hello")
	}
	for range 2 {
		expectIDs(t, call(t, api, "getUpdates", `{}`), 1000, 1001, 1002)
	}
	expectIDs(t, call(t, api, "getUpdates", `{"offset":1000}`), 1000, 1001, 1002)
	expectIDs(t, call(t, api, "getUpdates", `{"offset":1001,"limit":1}`), 1001)
	expectIDs(t, call(t, api, "getUpdates", `{"offset":-1}`), 1002)
	expectIDs(t, call(t, api, "getUpdates", `{}`), 1002)
	expectIDs(t, call(t, api, "getUpdates", `{"offset":1003}`))
	api.RestartUpdateIDs(7)
	api.Say(api.DM(will), will, "after a quiet week")
	expectIDs(t, call(t, api, "getUpdates", `{}`), 7)
}

func TestGetUpdates_ReturnsRequestedKinds(t *testing.T) {
	api := tgtest.New(nil)
	will := api.User("Will")
	c := api.DM(will)
	m := api.Say(c, will, "hello")
	api.React(c, will, m.ID, nil, "👍") // not asked for yet, so it is lost
	call(t, api, "getUpdates", `{"allowed_updates":["message_reaction"]}`)
	api.React(c, will, m.ID, nil, "👍")
	api.Say(c, will, "not asked for any more")
	expectIDs(t, call(t, api, "getUpdates", `{}`), 1000, 1001)
	call(t, api, "getUpdates", `{"allowed_updates":[]}`)
	api.React(c, will, m.ID, nil, "👍")
	api.EditText(m, "hello again")
	expectIDs(t, call(t, api, "getUpdates", `{"offset":1002}`), 1002)
}

func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := tgtest.New(nil)
		will := api.User("Will")
		start := time.Now()
		expectIDs(t, call(t, api, "getUpdates", `{"timeout":30}`))
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("an empty poll took %v", d)
		}
		go func() {
			time.Sleep(5 * time.Second)
			api.Say(api.DM(will), will, "hello")
		}()
		start = time.Now()
		expectIDs(t, call(t, api, "getUpdates", `{"timeout":30}`), 1000)
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("the poll answered after %v", d)
		}
	})
}

func TestGetUpdates_SecondPollerEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := tgtest.New(nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a := call(t, api, "getUpdates", `{"timeout":30}`); a.Code != 409 || !strings.Contains(a.Description, "terminated by other getUpdates") {
				t.Errorf("the older poll got %+v", a)
			}
		})
		synctest.Wait()
		expectIDs(t, call(t, api, "getUpdates", `{"timeout":1}`))
		wg.Wait()
		api.SetWebhook("https://elsewhere.example/hook")
		if a := call(t, api, "getUpdates", `{}`); a.Code != 409 || !strings.Contains(a.Description, "webhook") {
			t.Errorf("polling beside a webhook got %+v", a)
		}
	})
}

func TestRefusals(t *testing.T) {
	api := tgtest.New(nil)
	will := api.User("Will")
	dm := api.DM(will)
	forum := api.Forum(-100500, "House")
	old := api.Group(-7, "Old")
	api.Migrate(old, -1007)
	ann := api.User("Ann")
	api.Member(api.DM(ann), ann, tgtest.StatusMember, tgtest.StatusRemoved)
	topic := api.Topic(forum, "Garden")
	m := api.Say(dm, will, "hello")
	chatID := func(id int64) string { return `"chat_id":` + strconv.FormatInt(id, 10) }
	emoji := func(e string) string { return `"reaction":[{"type":"emoji","emoji":"` + e + `"}]` }
	for _, test := range []struct {
		method, body string
		code         int
		says         string
	}{
		{"sendMessage", `{"chat_id":5,"text":"x"}`, 400, "chat not found"},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":" "}`, 400, "message text is empty"},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":"` + strings.Repeat("x", 4096) + `"}`, 0, ""},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":"` + strings.Repeat("😀", 2049) + `"}`, 400, "message is too long"},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":"😀","entities":[{"type":"bold","offset":0,"length":3}]}`, 400, "ENTITY_BOUNDS_INVALID"},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":"<b>x","parse_mode":"HTML"}`, 400, "unsupported parse_mode"},
		{"sendMessage", `{` + chatID(dm.ID) + `,"text":"x","reply_parameters":{"message_id":99}}`, 400, "message to be replied not found"},
		{"sendMessage", `{` + chatID(forum.ID) + `,"text":"x","message_thread_id":1}`, 400, "message thread not found"},
		{"sendMessage", `{` + chatID(forum.ID) + `,"text":"x","message_thread_id":` + strconv.Itoa(topic) + `}`, 0, ""},
		{"sendChatAction", `{` + chatID(forum.ID) + `,"action":"typing","message_thread_id":1}`, 0, ""},
		{"sendMessage", `{` + chatID(ann.ID) + `,"text":"x"}`, 403, "blocked by the user"},
		{"setMessageReaction", `{` + chatID(dm.ID) + `,"message_id":` + strconv.Itoa(m.ID) + `,` + emoji("👀") + `}`, 0, ""},
		{"setMessageReaction", `{` + chatID(dm.ID) + `,"message_id":` + strconv.Itoa(m.ID) + `,` + emoji("🔧") + `}`, 400, "REACTION_INVALID"},
		{"getFile", `{"file_id":"none"}`, 400, "invalid file_id"},
		{"noSuchMethod", `{}`, 404, "not found"},
		{"sendMessage", `{`, 400, "can't parse JSON"},
		{"sendMessage", `chat_id=5&text=x`, 400, "can't parse JSON"},
	} {
		a := call(t, api, test.method, test.body)
		if a.Code != test.code || !strings.Contains(a.Description, test.says) {
			t.Errorf("%s %.60s: %d %q, want %d %q", test.method, test.body, a.Code, a.Description, test.code, test.says)
		}
	}
	if a := call(t, api, "sendMessage", `{`+chatID(old.ID)+`,"text":"x"}`); a.Parameters.MigrateTo != -1007 {
		t.Errorf("the old chat answered %+v", a)
	}
	if len(tgtest.ReactionEmoji) != 73 {
		t.Errorf("%d reaction emoji, Telegram has 73", len(tgtest.ReactionEmoji))
	}
	req := httptest.NewRequest(http.MethodPost, "/bot1:wrong/getMe", http.NoBody)
	if a := do(t, api, req); a.Code != 401 {
		t.Errorf("a wrong token got %+v", a)
	}
}

func TestFaults(t *testing.T) {
	api := tgtest.New(nil)
	web := httptest.NewServer(api)
	defer web.Close()
	will := api.User("Will")
	body := `{"chat_id":` + strconv.FormatInt(api.DM(will).ID, 10) + `,"text":"hello"}`
	post := func() (*http.Response, error) {
		return http.Post(web.URL+"/bot"+api.Token()+"/sendMessage", "application/json", strings.NewReader(body))
	}
	api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard})
	api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutAfter})
	for i, sent := range []int{0, 1} {
		if r, err := post(); err == nil {
			r.Body.Close()
			t.Errorf("cut %d was answered", i)
		}
		if n := len(api.Texts(will.ID)); n != sent {
			t.Errorf("after cut %d %d messages were sent, want %d", i, n, sent)
		}
	}
	api.Fail(tgtest.Fault{Method: "sendMessage", Status: 429, RetryAfter: 7, Skip: 1})
	if a := call(t, api, "sendMessage", body); !a.OK {
		t.Errorf("the skipped call got %+v", a)
	}
	if a := call(t, api, "sendMessage", body); a.Code != 429 || a.Parameters.RetryAfter != 7 {
		t.Errorf("got %+v", a)
	}
	if a := call(t, api, "sendMessage", body); !a.OK {
		t.Errorf("a fault outlived its number of times: %+v", a)
	}
}

func TestWebhook_DeliversInOrderUntilAnswered(t *testing.T) {
	api := tgtest.New(nil)
	var mu sync.Mutex
	var got []int64
	refused := false
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("X-Telegram-Bot-Api-Secret-Token") != "s3cret" {
			t.Error("the secret is missing")
		}
		if !refused {
			refused = true
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		var u models.Update
		if err := json.Unmarshal(raw, &u); err != nil {
			t.Error(err)
		}
		got = append(got, u.ID)
	}))
	defer hook.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = api.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	will := api.User("Will")
	api.Say(api.DM(will), will, "one")
	call(t, api, "setWebhook", `{"url":"`+hook.URL+`","secret_token":"s3cret"}`)
	api.Say(api.DM(will), will, "two")
	wait, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := api.Await(wait, func(s *tgtest.Server) bool { return s.Pending() == 0 }); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 2 || got[0] != 1000 || got[1] != 1001 {
		t.Errorf("delivered %v", got)
	}
}

func TestFilesAndPrivacy(t *testing.T) {
	api := tgtest.New(&tgtest.Options{PrivacyMode: true})
	will := api.User("Will")
	group := api.Group(-5, "Team")
	id := api.AddFile("plan.pdf", "application/pdf", []byte("the plan"))
	api.Say(group, will, "hidden from the bot")
	api.Say(group, will, "@hubbub_bot seen")
	expectIDs(t, call(t, api, "getUpdates", `{}`), 1000)
	var f models.File
	if err := json.Unmarshal(call(t, api, "getFile", `{"file_id":"`+id+`"}`).Result, &f); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/file/bot"+api.Token()+"/"+f.FilePath, http.NoBody))
	if w.Body.String() != "the plan" {
		t.Errorf("downloaded %q", w.Body)
	}
}
