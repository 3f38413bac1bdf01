package tg_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A writer is a harness whose model writes its answer word by word, one per second.
type writer struct {
	reader
	host harness.Host
	mu   sync.Mutex
	ends []string
}

func (w *writer) Run(ctx context.Context, host harness.Host) error {
	w.host = host
	<-ctx.Done()
	return nil
}

func (w *writer) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	said := t.Event.Content[len(t.Event.Content)-1].Text
	if strings.HasPrefix(said, "wait") {
		tools.Call(ctx, "chat.send_message", []byte(`{"text":"I am at it.","interim":true}`))
	}
	answer := strings.Repeat("one more word of it ", 20) + "."
	if text, ok := strings.CutPrefix(said, "say "); ok {
		answer = text
	}
	for _, word := range strings.SplitAfter(answer, " ") {
		w.host.Progress(harness.Progress{TurnID: t.ID, Kind: harness.ProgressText, Message: word})
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ends = append(w.ends, context.Cause(ctx).Error())
			return harness.Outcome{}, context.Cause(ctx)
		}
	}
	return harness.Outcome{State: harness.Finished, FinalText: answer}, t.Attempted(t.Attempt)
}

// ended returns why turns ended before their answer.
func (w *writer) ended() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ends)
}

const plainAnswer = "This is an answer of more than forty bytes, and it ends."

// written starts a bridge and an agent that has answered Will once.
func (h *fixture) written(dir string) (dm models.Chat, will models.User, w *writer) {
	w = &writer{}
	will, dm = h.dm("Will")
	h.startSpawner("agent:lead")
	h.startAgent(dir, w)
	h.start()
	h.api.Say(dm, will, "say "+plainAnswer)
	h.pass(time.Minute)
	h.expect("the first answer", h.api.Texts(dm.ID), plainAnswer)
	h.expect("before its model is known", h.drafts())
	return dm, will, w
}

// drafts returns the texts of the shown drafts, each state once.
func (h *fixture) drafts() (texts []string) {
	for _, c := range h.api.Calls("sendMessageDraft") {
		if n := len(texts); n == 0 || texts[n-1] != c.Text() {
			texts = append(texts, c.Text())
		}
	}
	return texts
}

// TestDraft_GrowsWithAnswer runs a draft over model, agent, bus and bridge. It grows in few
// steps, each a beginning of the answer with the button, and is renewed before Telegram drops it.
func TestDraft_GrowsWithAnswer(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, will, _ := h.written(dir)
		asked := h.api.Say(dm, will, "at length")
		h.pass(3 * time.Minute)
		texts := h.api.Texts(dm.ID)
		answer, drafts := texts[len(texts)-1], h.drafts()
		if len(texts) != 2 || len(drafts) < 4 || len(drafts) > 8 {
			t.Fatalf("texts %q, drafts %q", texts, drafts)
		}
		for i, d := range drafts {
			if !strings.HasPrefix(answer, d) || len(d) < 40 || i > 0 && len(d) < len(drafts[i-1])*3/2 {
				t.Errorf("draft %d: %q", i, d)
			}
		}
		var last time.Time
		for _, c := range h.api.Calls("sendMessageDraft") {
			if string(c.Params["draft_id"]) != itoa(int64(asked.ID)) || string(c.Params["can_stop"]) != "true" || c.ChatID != dm.ID {
				t.Errorf("draft %s", c.Params)
			}
			if pause := c.At.Sub(last); !last.IsZero() && (pause < time.Second || pause > 5*time.Second) {
				t.Errorf("drafts %s apart", pause)
			}
			last = c.At
		}
		h.pass(time.Minute)
		if n := len(h.api.Calls("sendMessageDraft")); h.api.Calls("sendMessageDraft")[n-1].At != last {
			t.Error("a draft was shown after the answer")
		}
	})
}

// TestDraft_IsReplacedByInterimMessage checks that an event with an interim message has no draft,
// and that the answer replaces the interim message.
func TestDraft_IsReplacedByInterimMessage(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, will, _ := h.written(dir)
		h.api.Say(dm, will, "wait")
		h.pass(30 * time.Second)
		h.expect("while it writes", h.api.Texts(dm.ID), plainAnswer, "I am at it.")
		h.pass(3 * time.Minute)
		edits := h.api.Calls("editMessageText")
		if len(edits) != 1 || !strings.HasPrefix(edits[0].Text(), "one more word") || len(h.api.Texts(dm.ID)) != 2 {
			t.Errorf("edits %v, texts %q", edits, h.api.Texts(dm.ID))
		}
		h.expect("drafts", h.drafts())
	})
}

// TestDraft_StopButtonEndsTurn checks that the button ends the turn, and that a second press, a
// press after the end, and a stranger's press do nothing.
func TestDraft_StopButtonEndsTurn(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.AllowAll, h.opts.AllowUsers = false, []int64{h.api.User("Eve").ID + 1}
		dm, will, w := h.written(dir)
		asked := h.api.Say(dm, will, "at length")
		h.pass(30 * time.Second)
		eve := h.api.DM(h.api.User("Eve2"))
		h.api.StopDraft(eve, asked.ID)
		h.api.StopDraft(dm, asked.ID+1)
		h.pass(10 * time.Second)
		if len(w.ended()) != 0 || !h.log.has("update rejected") {
			t.Fatalf("a stranger stopped it: %q", w.ended())
		}
		h.api.StopDraft(dm, asked.ID)
		h.pass(5 * time.Second)
		h.expect("ends", w.ended(), "stopped by human:"+itoa(will.ID))
		n := len(h.api.Calls("sendMessageDraft", "sendChatAction"))
		h.api.StopDraft(dm, asked.ID)
		h.pass(3 * time.Minute)
		if got := len(h.api.Calls("sendMessageDraft", "sendChatAction")); got != n {
			t.Errorf("%d signs after the stop", got-n)
		}
		h.api.Say(dm, will, "say "+plainAnswer+" Again.")
		h.pass(time.Minute)
		h.api.StopDraft(dm, asked.ID)
		h.pass(time.Minute)
		h.expect("answers", h.api.Texts(dm.ID), plainAnswer, plainAnswer+" Again.")
		h.expect("ends", w.ended(), "stopped by human:"+itoa(will.ID))
	})
}

// TestDraft_UnsupportedShowsTypingIndicator covers a server and a chat without drafts.
func TestDraft_UnsupportedShowsTypingIndicator(t *testing.T) {
	for _, status := range []int{404, 400, 500} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			dir := t.TempDir()
			withFixture(t, func(t *testing.T, h *fixture) {
				dm, will, _ := h.written(dir)
				h.api.Fail(tgtest.Fault{Method: "sendMessageDraft", Status: status, Times: -1})
				before := len(h.api.Calls("sendChatAction"))
				h.api.Say(dm, will, "at length")
				h.pass(3 * time.Minute)
				if status != 500 && len(h.api.Calls("sendChatAction"))-before < 15 {
					t.Error("the sign of typing was not shown")
				}
				if got := len(h.api.Texts(dm.ID)); got != 2 || len(h.drafts()) != 0 {
					t.Errorf("%d answers", got)
				}
			})
		})
	}
}

// TestDraft_ContinuesAfterRestart also checks that the draft can be stopped.
func TestDraft_ContinuesAfterRestart(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, will, w := h.written(dir)
		asked := h.api.Say(dm, will, "at length")
		h.pass(20 * time.Second)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		before := len(h.drafts())
		h.start()
		h.pass(30 * time.Second)
		if len(h.drafts()) <= before {
			t.Error("it does not grow on")
		}
		h.api.StopDraft(dm, asked.ID)
		h.pass(5 * time.Second)
		h.expect("ends", w.ended(), "stopped by human:"+itoa(will.ID))
	})
}

// TestDraft_EndsWhenAgentLeaves also checks that a draft that is too long is rejected, and that
// an indicator without a draft keeps the draft.
func TestDraft_EndsWhenAgentLeaves(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		h.pass(5 * time.Second)
		grows := func(text string) {
			reply(t, lead, dm.ID, protocol.ChatReply{Typing: true, Draft: text, InReplyTo: source})
			h.pass(3 * time.Second)
		}
		grows("**bold** words")
		grows("")
		h.expect("shown", h.drafts(), "bold words")
		if r := lead.Send(t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{Typing: true, Draft: strings.Repeat("x", protocol.MaxDraft+1), InReplyTo: source}); r.DeliveredTo != 0 {
			t.Errorf("too long: %+v", r)
		}
		grows(strings.Repeat("y", protocol.MaxDraft))
		if d := h.drafts(); len(d) != 2 || len(d[1]) != protocol.MaxDraft {
			t.Errorf("shown %q", d)
		}
		lead.Leave()
		h.pass(5 * time.Second)
		n := len(h.api.Calls("sendMessageDraft"))
		h.pass(time.Minute)
		if got := len(h.api.Calls("sendMessageDraft")); got != n || len(h.api.Texts(dm.ID)) != 0 {
			t.Errorf("the draft of who is gone is shown %d times", got-n)
		}
	})
}

// TestDraft_NeverFollowsAnswer checks that the answer waits for a draft that is being sent, but
// not for one that hangs.
func TestDraft_NeverFollowsAnswer(t *testing.T) {
	for _, slow := range []time.Duration{4 * time.Second, 20 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			dir := t.TempDir()
			withFixture(t, func(t *testing.T, h *fixture) {
				dm, will, _ := h.written(dir)
				h.api.Fail(tgtest.Fault{Method: "sendMessageDraft", Delay: slow, Times: -1})
				h.api.Say(dm, will, "tell me")
				begun := time.Now()
				h.pass(3 * time.Minute)
				calls := h.api.Calls("sendMessageDraft", "sendMessage")
				last := calls[len(calls)-1]
				answer := slices.IndexFunc(calls[1:], func(c tgtest.Call) bool { return c.Method == "sendMessage" }) + 1
				if slow < 5*time.Second && (last.Method != "sendMessage" || len(calls) < 5) {
					t.Errorf("the last of %d calls is %s", len(calls), last.Method)
				}
				if took := calls[answer].At.Sub(begun); took > 2*time.Minute {
					t.Errorf("the answer came after %s", took)
				}
			})
		})
	}
}
