package cmd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-telegram/bot/models"
)

// A slowModel is the endpoint of a streaming model. It writes the beginning of its answer and
// waits until the test lets it continue, or until the client has gone.
type slowModel struct {
	proceed chan struct{}
	left    chan struct{} // gets a value for each answer whose client has gone
}

const (
	dripBegins = "This is the beginning of an answer that is longer than forty bytes "
	dripEnds   = "and this is its end."
	dripTable  = "What you asked for, and how much of it there is:\n\n| what | how much |\n|---|---:|\n| milk | 2 |\n| tea "
	dripRest   = "| 1 |"
)

func (d *slowModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	piece := func(text, finish string) {
		choice := map[string]any{"delta": map[string]any{"content": text}}
		if finish != "" {
			choice["finish_reason"] = finish
		}
		raw, _ := json.Marshal(map[string]any{"choices": []any{choice}})    // strings only
		_, _ = w.Write(append(append([]byte("data: "), raw...), "\n\n"...)) // the agent may be gone
		w.(http.Flusher).Flush()
	}
	begins, ends := dripBegins, dripEnds
	if asked, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(asked), "in a table") {
		begins, ends = dripTable, dripRest
	}
	piece(begins, "")
	select {
	case <-d.proceed:
		piece(ends, "stop")
	case <-r.Context().Done():
		d.left <- struct{}{}
	}
}

// TestDrafts_StreamToTelegram checks that drafts show what a model has written so far, that the
// answer is sent once and no draft after it, and that the button of the draft cancels the
// request. A table is a rich draft and a rich message.
func TestDrafts_StreamToTelegram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &slowModel{proceed: make(chan struct{}, 1), left: make(chan struct{}, 16)}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=drip", "--base-url="+web.URL+"/v1")
	user := s.api.User("Will")
	chat := s.api.DM(user)
	whole := dripBegins + dripEnds
	drafts := func(asked *models.Message) (n int) {
		number, _ := json.Marshal(asked.ID) // an integer
		for _, c := range s.api.Calls("sendMessageDraft") {
			if string(c.Params["draft_id"]) != string(number) {
				continue
			}
			if n++; c.Text() != strings.TrimSpace(dripBegins) {
				t.Errorf("draft %q", c.Text())
			}
		}
		return n
	}

	first := s.api.Say(chat, user, "hello")
	model.proceed <- struct{}{}
	s.awaitTexts(chat, 1)

	second := s.api.Say(chat, user, "and at length")
	s.await("the draft", func() bool { return drafts(second) > 0 })
	model.proceed <- struct{}{}
	if got := s.awaitTexts(chat, 2); !slices.Equal(got, []string{whole, whole}) {
		t.Fatalf("said %q", got)
	}
	shown := drafts(second)

	third := s.api.Say(chat, user, "and once more")
	s.await("the draft that is stopped", func() bool { return drafts(third) > 0 })
	s.api.StopDraft(chat, third.ID)
	s.await("the end of the request", func() bool { return len(model.left) > 0 })
	s.awaitSettled(chat)
	if got := s.api.Texts(chat.ID); !slices.Equal(got[:2], []string{whole, whole}) || slices.Contains(got[2:], whole) {
		t.Errorf("after the stop: %q", got)
	}
	s.api.Say(chat, user, "and how much, in a table")
	s.await("the rich draft", func() bool { return len(s.api.Calls("sendRichMessageDraft")) > 0 })
	model.proceed <- struct{}{}
	s.await("the rich message", func() bool { return len(s.api.Calls("sendRichMessage")) > 0 })
	draft, said := s.api.Calls("sendRichMessageDraft")[0].Text(), s.api.Calls("sendRichMessage")[0].Text()
	if !strings.HasSuffix(draft, "\nwhat how much \nmilk 2 \ntea") || !strings.HasSuffix(said, "\nmilk 2 \ntea 1") {
		t.Errorf("rich draft %q, rich message %q", draft, said)
	}
	if drafts(first) != 0 || drafts(second) != shown {
		t.Errorf("drafts: %d of the first answer, whose model was not known, and %d of the second, %d before its end", drafts(first), drafts(second), shown)
	}
}
