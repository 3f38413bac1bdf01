package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
)

// TestOutbound_SaysVisibilityAndDirectedness covers posts, also into threads, and files.
func TestOutbound_SaysVisibilityAndDirectedness(t *testing.T) {
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind, tool                       string
		arguments                        map[string]any
		visibility, directedness, thread string
	}{
		"a post to a person":     {"dm", "chat.post", map[string]any{"text": "done"}, "dm", "ambient", ""},
		"a post to a channel":    {"channel", "chat.post", map[string]any{"text": "done"}, "channel", "ambient", ""},
		"a post to a thread":     {"channel", "chat.post", map[string]any{"text": "done", "threadId": "7"}, "thread", "ambient", "7"},
		"a post to an agent":     {"channel", "chat.post", map[string]any{"text": "@w3 look"}, "channel", "to_me", ""},
		"a file":                 {"dm", "chat.send_file", map[string]any{"path": "a.txt"}, "dm", "ambient", ""},
		"a file with words":      {"channel", "chat.send_file", map[string]any{"path": "a.txt", "caption": "@w3 look"}, "channel", "to_me", ""},
		"a post with no thread":  {"channel", "chat.post", map[string]any{"text": "done", "threadId": "a\nb"}, "refused", "", ""},
		"a post with a long one": {"channel", "chat.post", map[string]any{"text": "done", "threadId": string(make([]byte, 300))}, "refused", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			refused := false
			s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				arguments := map[string]any{"target": "tg:42", "reason": "test"}
				for k, v := range c.arguments {
					arguments[k] = v
				}
				_, r := call(tools, c.tool, arguments)
				refused = r.IsError
				return harness.Outcome{State: harness.Finished, FinalText: "ok"}, nil
			})
			withFixture(t, s, &agent.Options{Workspace: workspace}, func(t *testing.T, w *fixture) {
				m := dm("1", "@lead go on")
				m.Chat.Kind = c.kind
				w.say(m)
				w.sleep(5 * time.Second)
				if refused != (c.visibility == "refused") {
					t.Fatalf("refused: %v", refused)
				}
				if r := w.replies[0]; !refused && (r.Visibility != c.visibility || r.Directedness != c.directedness || r.ThreadID != c.thread) {
					t.Errorf("sent %+v", r)
				}
			})
		})
	}
}

// TestVisibility_OfAPrivateAnswerIsKept checks that an answer for one person is not shown to
// others, even if it is an interim message.
func TestVisibility_OfAPrivateAnswerIsKept(t *testing.T) {
	for _, interim := range []bool{false, true} {
		for _, kind := range []string{"dm", "channel", "thread"} {
			for _, visibility := range []string{"", "dm", "ephemeral", "thread", "channel"} {
				want := "sent"
				if kind != "dm" && (visibility == "dm" || visibility == "ephemeral") {
					want = "refused not_private"
				}
				got := ""
				s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
					r, _ := call(tools, "chat.send_message", map[string]any{"text": "secret", "visibility": visibility, "interim": interim})
					got = strings.TrimSuffix(fmt.Sprint(r["status"], " ", r["reason"]), " <nil>")
					return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
				})
				withFixture(t, s, nil, func(t *testing.T, w *fixture) {
					m := dm("1", "@lead what is my key?")
					m.Chat.Kind = kind
					w.say(m)
					w.sleep(5 * time.Second)
					if got != want {
						t.Errorf("%s in a %s, interim %t: %s; want %s", visibility, kind, interim, got, want)
					}
				})
			}
		}
	}
}

// TestOutbound_OfAnAgentElsewhere covers the answers of an agent that only posts texts.
func TestOutbound_OfAnAgentElsewhere(t *testing.T) {
	for name, c := range map[string]struct{ kind, thread, text, visibility, directedness string }{
		"to a person":   {"dm", "", "done", "dm", "ambient"},
		"to a channel":  {"channel", "", "done", "channel", "ambient"},
		"in a topic":    {"channel", "7", "done", "thread", "ambient"},
		"in a thread":   {"thread", "", "done", "thread", "ambient"},
		"to an agent":   {"channel", "", "@w3 look", "channel", "to_me"},
		"in a quote":    {"dm", "", "> @w3 look\n\ndone", "dm", "ambient"},
		"to a role too": {"channel", "7", "see this, @ops", "thread", "to_me"},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
				m := dm("1", "@lead go on")
				m.Chat.Kind, m.Chat.ThreadID = c.kind, c.thread
				w.say(m)
				w.sleep(3 * time.Second)
				if err := w.output(harness.Output{TurnID: w.stub.seen()[0].ID, Key: "k", Text: c.text}); err != nil {
					t.Fatal(err)
				}
				w.collect()
				if r := w.replies[len(w.replies)-1]; r.Text != c.text || r.Visibility != c.visibility || r.Directedness != c.directedness {
					t.Errorf("sent %+v", r)
				}
			})
		})
	}
}
