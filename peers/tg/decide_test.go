package tg_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/tg/tgtest"

	"github.com/go-telegram/bot/models"
)

// A careful harness asks people before it acts.
type careful struct{ reader }

func (*careful) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	said := "done"
	if err := t.Approver.Approve(ctx, "shell", json.RawMessage(`{"command":"make"}`)); err != nil {
		said = "not done"
	}
	if err := context.Cause(ctx); err != nil {
		return harness.Outcome{}, err
	}
	return harness.Outcome{State: harness.Finished, FinalText: said}, t.Attempted(t.Attempt)
}

// TestDecision_IsMadeByWhatPeopleDo runs decisions over bridge, bus and agent, each in a chat of its
// own. The question has buttons, except where Telegram refuses them.
func TestDecision_IsMadeByWhatPeopleDo(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		will := h.api.User("Will")
		h.startSpawner("agent:lead")
		h.startAgent(dir, &careful{})
		h.start()
		say := func(text string) func(q *models.Message) {
			return func(q *models.Message) { h.api.Say(q.Chat, will, text) }
		}
		answer := func(text string) func(q *models.Message) {
			return func(q *models.Message) { h.api.Reply(q, will, text) }
		}
		react := func(emoji string) func(q *models.Message) {
			return func(q *models.Message) { h.api.React(q.Chat, will, q.ID, nil, emoji) }
		}
		press := func(i int) func(q *models.Message) {
			return func(q *models.Message) {
				h.api.Press(q, will, q.ReplyMarkup.InlineKeyboard[0][i].CallbackData)
			}
		}
		const allowed, denied, open = "Decision: allowed by Will.", "Decision: denied by Will.", ""
		for i, c := range []struct {
			what        string
			private     bool
			act         func(q *models.Message)
			outcome     string
			want        string // the last message
			withoutKeys bool
		}{
			{"a natural yes", true, say("Yes, please!"), allowed, "done", false},
			{"a natural no", true, say("no thank you"), denied, "not done", false},
			{"a typed thumb", true, say("👍🏽"), allowed, "done", false},
			{"a reaction", true, react("👍"), allowed, "done", false},
			{"a doubtful answer", true, say("yes, but not yet"), open, "That decides nothing yet.", false},
			{"a reply in a group", false, answer("ok, go ahead"), allowed, "done", false},
			{"a typed thumb in a group", false, answer("👎"), denied, "not done", false},
			{"a reaction in a group", false, react("👎"), denied, "not done", false},
			{"a mention in a group", false, say("@hubbub_bot yes please"), allowed, "done", false},
			{"a doubtful reply in a group", false, answer("hm, maybe"), open, "That decides nothing yet.", false},
			{"a press in a group", false, press(1), denied, "not done", false},
			{"refused buttons", true, answer("Allow"), allowed, "done", true},
			{"refused buttons, for the session", true, answer("allow for this session."), "Decision: allowed by Will for this session.", "done", true},
			{"refused buttons, in a mention", false, say("@hubbub_bot “Always allow shell”"), "Decision: allowed by Will for this tool always.", "done", true},
			{"refused buttons in a group", false, answer("Deny"), denied, "not done", true},
			{"a stop", false, say("/stop"), "This chat was stopped, so nobody waits for an answer.", "Stopped. The agents", false},
		} {
			chat := h.api.Group(int64(-100-i), "House")
			if c.private {
				will = h.api.User("Will")
				chat = h.api.DM(will)
			}
			if c.withoutKeys {
				h.api.Fail(tgtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: BUTTON_DATA_INVALID", Times: 1})
			}
			h.api.Say(chat, will, "@hubbub_bot deploy")
			h.pass(20 * time.Second)
			shown := h.api.Messages(chat.ID)
			if len(shown) != 1 || (shown[0].ReplyMarkup == nil) != c.withoutKeys {
				t.Fatalf("%s: asked %q", c.what, h.shows(chat.ID))
			}
			c.act(shown[0])
			h.pass(time.Minute)
			got := h.shows(chat.ID)
			if (c.outcome != open) == strings.Contains(got[0], "[Allow]") || !strings.HasSuffix(strings.SplitN(got[0], " | [", 2)[0], c.outcome) || !strings.HasPrefix(got[len(got)-1], c.want) {
				t.Errorf("%s: shown %q", c.what, got)
			}
		}
	})
}
