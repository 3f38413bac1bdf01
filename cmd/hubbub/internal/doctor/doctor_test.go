package doctor

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/write"
	"hubbub/cmd/internal/program"
	"hubbub/peers/agent"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg"
)

var testTime = time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)

// TestCheckMailboxes_FindsUndecidedEvents checks an agent whose harness does not start. It accepts
// events, and no row of the log shows that nothing follows.
func TestCheckMailboxes_FindsUndecidedEvents(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data [of mine")
	path := filepath.Join(data, "agents", "tg-5", "agent-tg-5.db")
	for _, folder := range []string{filepath.Dir(path), filepath.Join(data, "launch")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(data, "launch", "tg-5.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := agent.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for state, count := range map[string]int{"stored": 2, "ignored": 1} {
		for i := range count {
			err := storetest.Exec(db, `INSERT INTO events (event_id, source_id, chat, message_id, received_at, content, kind, conversation, thread, stream, author, author_kind, state)
				VALUES (?, '', '', '', ?, '', '', '', '', '', '', '', ?)`, state+string(rune('0'+i)), testTime.UnixMicro(), state)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if found := checkMailboxes(t.Context(), data, testTime.Add(time.Second)); len(found) != 0 {
		t.Errorf("a moment after it came: %+v", found)
	}
	found := checkMailboxes(t.Context(), data, testTime.Add(time.Hour))
	if len(found) != 1 || found[0].Level != tg.LevelProblem || !strings.Contains(found[0].Message, "agent:tg-5 has decided nothing since ") ||
		!strings.Contains(found[0].Message, "Waiting events: 2.") || !strings.Contains(found[0].Advice, log) {
		t.Errorf("an hour later: %+v", found)
	}
	fail := func(turn, state string, at time.Time) {
		err := storetest.Exec(db, `INSERT INTO turns (turn_id, event_id, merged, chat, thread_key, author, mode, state, seq, rank, ended_at, body)
			VALUES (?, '', '[]', '', '', '', '', ?, 0, 0, ?, 'the key is refused')`, turn, state, at.UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
	}
	fail("t1", "finished", testTime)
	fail("t2", "failed", testTime.Add(time.Second))
	fail("t3", "failed", testTime.Add(2*time.Second))
	if found := checkMailboxes(t.Context(), data, testTime); len(found) != 1 || found[0].Level != tg.LevelWarning ||
		!strings.HasSuffix(found[0].Message, "(2): the key is refused") || !strings.Contains(found[0].Advice, log) {
		t.Errorf("turns that fail: %+v", found)
	}
	fail("t4", "finished", testTime.Add(3*time.Second))
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if got := agentLog(data, "tg-5"); got != "journalctl --user --unit hubbub-agent-tg-5" {
		t.Errorf("the log of a user's unit: %s", got)
	}
	if got := agentLog(data, "lead"); !strings.HasPrefix(got, "journalctl --unit hubbub-agent-lead,") {
		t.Errorf("the log of the system's unit: %s", got)
	}
	if err := storetest.Exec(db, `UPDATE events SET state = 'ignored'`); err != nil {
		t.Fatal(err)
	}
	if found := checkMailboxes(t.Context(), data, testTime.Add(time.Hour)); len(found) != 0 {
		t.Errorf("once all is decided: %+v", found)
	}
}

func TestFileExists_InaccessibleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if program.FileExists(file) {
		t.Error("what is missing is there")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !program.FileExists(file) || !program.FileExists(filepath.Join(file, "below")) { // refused, even for root
		t.Error("what is there, or cannot be looked at, is missing")
	}
}

func TestCheckLog_ReportsSize(t *testing.T) {
	data := t.TempDir()
	if f := (&checks{}).checkLog(t.Context(), data); f.Level != tg.LevelSkipped {
		t.Errorf("without a log: %+v", f)
	}
	ctx, end := context.WithCancel(t.Context())
	w := write.NewWriter(filepath.Join(data, "activity.db"), nil)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.Append(activitylog.Row{At: time.Now().Add(-24 * time.Hour).UnixMicro(), Event: activitylog.SendStart, MessageID: "m1", Status: activitylog.StatusStart})
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for keep, want := range map[string]string{
		"": "is kept for 90 days. It takes ", "30d": "in 29 days.", "1GiB": "is kept up to 1 GiB. It takes ", "forever": "is kept forever. It takes ",
	} {
		if f := (&checks{keep: keep}).checkLog(t.Context(), data); f.Level != tg.LevelOK || !strings.Contains(f.Message, want) {
			t.Errorf("%q: %+v; want %q", keep, f, want)
		}
	}
	if f := (&checks{keep: "a while"}).checkLog(t.Context(), data); f.Level != tg.LevelProblem || !strings.Contains(f.Advice, "[bus]") {
		t.Errorf("of a setting that is none: %+v", f)
	}
	if f := (&checks{keep: "999999TiB"}).checkLog(t.Context(), data); f.Level != tg.LevelWarning || !strings.Contains(f.Message, "no space") {
		t.Errorf("of more than the disk holds: %+v", f)
	}
}

func TestCheckClock_TellsOfAJump(t *testing.T) {
	data := t.TempDir()
	for state, want := range map[string]string{
		`{"wall":"2026-01-01T00:00:00Z"}`:                                                                                        "",
		`{"ahead":1,"jump":{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z"}}`:                                         "until the bus has run for a day",
		`{"jump":{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z","believed":"2027-01-02T00:00:00Z"}}`:                 "",
		`{"jump":{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z","ended":"2026-01-01T00:00:03Z"}}`:                    "",
		`{"jump":{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z","ended":"` + time.Now().Format(time.RFC3339) + `"}}`: "have wrong times",
		"{": "reading the state of the clock",
	} {
		if err := os.WriteFile(filepath.Join(data, "activity.clock"), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		got := checkClock(data)
		if (want == "") != (len(got) == 0) || want != "" && (got[0].Level != tg.LevelWarning || !strings.Contains(got[0].Message, want)) {
			t.Errorf("%s: %+v; want %q", state, got, want)
		}
	}
}

// TestCheckModel checks that the endpoint answers, accepts the key and has the model.
func TestCheckModel(t *testing.T) {
	answer, code := `{"data":[{"id":"m1"}]}`, 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer sk-key" {
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		w.WriteHeader(code)
		io.WriteString(w, answer)
	}))
	x := checks{harness: "openai", model: "m1", baseURL: server.URL + "/v1/"}
	for _, c := range []struct {
		code   int
		answer string
		level  tg.Level
		says   string
	}{
		{200, answer, tg.LevelOK, "accepts the key"},
		{200, `{"data":[{"id":"m2"}]}`, tg.LevelWarning, `does not list the model "m1"; it lists m2`},
		{401, `{}`, tg.LevelProblem, "rejects the key (401)"},
		{404, `not found`, tg.LevelOK, "The first message will show"},
	} {
		code, answer = c.code, c.answer
		if f := x.checkModel(t.Context(), "sk-key"); f.Level != c.level || !strings.Contains(f.Message, c.says) {
			t.Errorf("%d %s: %+v", c.code, c.answer, f)
		}
	}
	code, answer = 200, `{"data":[{"id":"m2"}]}`
	if x.model = ""; x.checkModel(t.Context(), "sk-key").Level != tg.LevelWarning {
		t.Error("an endpoint without the default model is reported as ok")
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked with %v", r.Host, r.Header) }))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect))
	defer moved.Close()
	if f := (&checks{harness: "anthropic", baseURL: moved.URL}).checkModel(t.Context(), "sk-key"); f.Level != tg.LevelOK {
		t.Errorf("an address that leads elsewhere: %+v", f)
	}
	server.Close()
	if f := x.checkModel(t.Context(), "sk-key"); f.Level != tg.LevelProblem || !strings.Contains(f.Message, "cannot be reached") || strings.Contains(f.Message, "sk-key") {
		t.Errorf("a server that is gone: %+v", f)
	}
}
